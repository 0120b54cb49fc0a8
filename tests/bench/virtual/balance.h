/* balance.h: `larder_bench balance SCENARIO.yaml`: the real engine and the real governor in virtual time, with a finite
 * set of threads, sources with latencies, and pipelines with costs.
 *
 * Ranks of one job go in lock-step: an iteration begins when each of them has its batch. They are ranks of one job of
 * the engine's; they draw from one view and exchange what is ready. In the even split each of them has its own view
 * instead. Latencies and bursts depend only on the seed, the queue and the time, so that all splits meet the same
 * storage. A read brings one sample, or those of a chunk one after the other, in pieces as the daemon's. A source may
 * stop: what is being read there then waits, for a time or for ever. By the governor each source is read by threads of
 * its own, and `workers` prepare; a fixed split deals all threads. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_BALANCE_H
#define LARDER_TESTS_BENCH_VIRTUAL_BALANCE_H

#include "server/governor/governor.h"
#include "tests/bench/virtual/read.h"

#define BALANCE_QUEUES_MAX 64
#define BALANCE_WORKERS_MAX 256
#define BALANCE_PHASES_MAX 8
#define BALANCE_TRACE_MAX 200
#define BALANCE_SAMPLES_MAX 20000000u

/* A source's latency. A read takes ms, times up to 1 ± spread, times the burst's factor while a burst lasts. Bursts of
 * `burst_for_ms` come on average every `burst_every_ms`, to each queue at its own times. More than `parallel` reads at
 * once share the speed of so many, less `loss` of one read's speed for each further read. parallel 0: no limit.
 *
 * A storage class in front of it has a part of the samples. It brings each in class_ms, without bursts or limits. */
struct balance_source {
    double ms, spread, loss;
    double burst_factor, burst_every_ms, burst_for_ms;
    uint64_t parallel;
    uint64_t chunk; /* samples of a chunk; 1: a read brings one sample */
    bool stops;
    double stop_at_ms, stop_for_ms; /* stop_for_ms 0: for ever */
    double class_ms, class_part;
};

/* Preparing one sample takes ms, times up to 1 ± spread, on one of up to `peak` threads. Each thread more costs `loss`
 * of one thread's rate. */
struct balance_preparing {
    double ms, spread, loss;
    uint64_t peak;
};

/* What `--compare` must find. 0: nothing is expected. `beside`: what the first job's time beside the others may be,
 * over its time alone. Then a run ends with the first job. */
struct balance_expectation {
    double stall, imbalance, ahead, held, tiers, beside;
};

struct balance_job {
    double step_ms, weight;
    uint64_t batch, prefetch;
    uint32_t first_queue, ranks;
};

/* A phase of a run, in which reads and preparations cost so many times as much, and classes have so many times as many
 * of the samples. */
struct balance_phase {
    uint64_t iterations;
    double load, prepare, class;
};

struct balance_scenario {
    uint64_t workers, seed, iterations;
    uint64_t extra_loaders; /* a source may have as many reads at once as there are workers and these together */
    double tau_ms, decide_ms, share;
    double ahead_ms; /* engine_config.ahead_window_ns; 0: look-ahead is whole */
    struct balance_source sources[BENCH_NAMES_MAX];
    struct balance_preparing preparing;
    struct balance_job jobs[BALANCE_QUEUES_MAX];
    uint32_t n_jobs;
    uint32_t source_of[BALANCE_QUEUES_MAX]; /* by queue */
    uint32_t n_queues;
    struct balance_phase phases[BALANCE_PHASES_MAX];
    uint32_t n_phases;
    struct balance_expectation expect;
};

/* balance_read reads a scenario file, strictly, with file:line:column in errors. */
int balance_read(const char *path, struct balance_scenario *out, struct error *err);

/* balance_samples returns how many samples each queue has. */
uint64_t balance_samples(const struct balance_scenario *scenario);

enum balance_mode {
    BALANCE_EVEN,   /* each queue has its own loaders, evenly dealt, and its own samples: the paper's even split */
    BALANCE_DEALT,  /* each queue has its own loaders, but ranks of one job have their samples in common */
    BALANCE_SHARED, /* samples in common, and each loader serves the oldest read of all queues */
    BALANCE_AUTO,   /* samples in common, and the governor decides */
};

struct balance_trace {
    double at_s;
    uint32_t preparers;
    uint32_t queue_loaders[BALANCE_QUEUES_MAX];
};

struct balance_result {
    double time_s;                     /* until the last job ended */
    double first_s;                    /* until the first one of the scenario did */
    double stall_s;                    /* sum over all queues: from asking for a batch until the iteration began */
    double wait_s[BALANCE_QUEUES_MAX]; /* from asking for a batch until the queue's own batch came */
    uint64_t iterations, imbalanced;
    double held; /* samples that the queues had planned, ready or out, on average over all decisions */
    uint64_t decisions;
    uint32_t n_trace;
    struct balance_trace trace[BALANCE_TRACE_MAX]; /* changes of the split */
    bool stuck;
    bool gave_up;
};

struct balance_split {
    enum balance_mode mode;
    uint32_t loaders, preparers; /* threads of a fixed split */
    double give_up_s;            /* a run that has stalled for longer ends; 0: never */
    bool one_tier;               /* the governor is not told what comes from where */
    bool alone;                  /* only the first job comes */
};

/* balance_run drives one run to its end. Gives 0, or fills err. */
int balance_run(const struct balance_scenario *scenario, const struct balance_split *split, struct balance_result *out,
                struct error *err);

/* balance_bench_main is the command. argv[0] is its own name. */
int balance_bench_main(int argc, char **argv);

#endif
