/* sharing.h: `larder_bench sharing SCENARIO.yaml`: the real engine in virtual time, without decoding.
 *
 * In each step of virtual time every running job consumes `rate` samples. Loads and preparations take no time. The
 * bench counts what the engine asked for, preparations and loads, and looks at the order in which each job got its
 * samples. In a scenario with costs they take their times, and a job consumes as fast as it gets samples and trains
 * (sharing_timed.c). */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_SHARING_H
#define LARDER_TESTS_BENCH_VIRTUAL_SHARING_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/types.h"
#include "server/engine/engine.h"
#include "tests/bench/virtual/costs.h"

#define SHARING_JOBS_MAX 256
#define SHARING_TRAININGS_MAX 64
#define SHARING_NODES_MAX 64
#define SHARING_SAMPLES_MAX 20000000u

enum sharing_view { SHARING_ALL, SHARING_FRACTION, SHARING_RANGE, SHARING_DEALT };

struct sharing_job {
    double start;   /* when it starts, in epochs of a rate-1 job on all samples; with costs in seconds */
    double rate;    /* samples in a step; without costs */
    double train_s; /* seconds that it trains on a sample; with costs */
    uint32_t epochs;
    enum sharing_view view;
    double fraction;
    uint64_t view_seed;
    uint32_t first, end; /* SHARING_RANGE */
    /* SHARING_DEALT: what this rank of a job on several nodes gets in its first epoch (deal.h) */
    uint32_t rank, world_size;
    uint32_t node; /* `larder_bench cluster`: where it trains */
    /* A training whose `ranks` are at as many nodes, and are dealt the samples anew in each epoch, is as many jobs in a
     * row. Each has the training's number, its own rank, and its part of the training's rate. ranks 1: all are here. */
    uint32_t training, ranks, of_rank;
    double
        mix; /* its epochs are dealt at home, but for this part of the chunks; below 0: each is dealt anew (deal.h) */
    uint32_t pipeline; /* its number; equal names have equal numbers */
    bool own_shuffle;  /* `shuffle` is the job's own; else the scenario's holds */
    enum shuffle_mode shuffle;
};

/* What makes a chunk: the samples of a store's, which a shuffle of all dealt; or a run of a tar shard's, which were
 * shuffled when they were written, or are sorted by class. */
enum sharing_chunks { SHARING_STORE, SHARING_SHARDS, SHARING_SORTED_SHARDS };

/* `larder_bench cluster`: what preparing takes of a node, which prepares one sample after the other. */
struct sharing_takes {
    double prepare; /* steps for a sample; 0: none */
    uint32_t slow;  /* this node takes `times` as long */
    double times;
    double jitter; /* of it, the part that is exponentially distributed */
};

struct sharing_scenario {
    uint32_t samples, chunk;
    enum sharing_chunks chunks;
    uint32_t nodes;           /* `larder_bench cluster`; else 1 */
    bool apart;               /* the nodes do not know of each other */
    double prepared, encoded; /* parts of the samples that fit into a node's memory */
    uint64_t seed;
    enum shuffle_mode shuffle;
    bool redirect;
    uint32_t width;
    uint32_t batch, prefetch; /* of every job */
    bool decoded;             /* with costs: samples may stand in memory in decoded forms */
    bool shared;              /* with costs: room moves between instances and samples */
    struct costs costs;
    struct sharing_takes takes;
    struct sharing_job jobs[SHARING_JOBS_MAX];
    uint32_t n_jobs, n_trainings;
};

/* sharing_read reads a scenario file, strictly, with file:line:column in errors. cluster: one of `larder_bench
 * cluster`. */
int sharing_read(const char *path, bool cluster, struct sharing_scenario *out, struct error *err);

/* A sample that a job gets. position counts from 0 in each epoch. */
struct sharing_given {
    uint32_t job, epoch;
    sample_id id;
    uint32_t chunk;
    uint64_t position;
    bool kept; /* its bytes have been in memory since before the epoch */
};

typedef void (*sharing_got)(void *ctx, const struct sharing_given *given); /* in the job's order */

/* sharing_run runs a scenario and gives a report, which is the caller's. `got` may be NULL. It returns 0, or 1 after it
 * has said on stderr why it cannot. */
int sharing_run(const struct sharing_scenario *scenario, sharing_got got, void *got_ctx, json_t **out);
int sharing_print(json_t *json); /* writes json, which it takes over, to stdout; gives an exit status */

/* sharing_bench_main is the command. argv[0] is its own name. */
int sharing_bench_main(int argc, char **argv);

#endif
