/* balance_priv.h: a run of `larder_bench balance`: what happens when, what waits, and the ranks (balance_*.c only). */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_BALANCE_PRIV_H
#define LARDER_TESTS_BENCH_VIRTUAL_BALANCE_PRIV_H

#include "common/clock.h"
#include "common/random.h"
#include "server/plan/agenda.h"
#include "server/plan/play.h"
#include "tests/bench/virtual/balance.h"

#define BALANCE_KEY_BURST 3 /* the key of a rank's random bursts; balance_work.c has further keys */

enum happening { READ_DONE, PREPARE_DONE, STEP_DONE, DECIDE };

/* A read or a preparation that no thread has taken. */
struct waiting {
    uint64_t order;
    sample_id id;   /* of a preparation */
    uint32_t task;  /* of a preparation */
    bool classed;   /* a storage class brings it */
    sample_id *ids; /* of a read: `count` of them; the row owns the array */
    uint32_t count;
    uint64_t read; /* the engine's number of the read */
};

struct timed {
    struct due due;
    enum happening what;
    uint32_t queue, job, task;
    uint32_t busy; /* preparers at work, or reads of its source under way, this one included */
    uint64_t began_ns;
    struct waiting work;
    uint32_t samples; /* of a read: how many of its samples this piece brings */
};

/* What waits, oldest first, in a ring that grows. It is zeroed to begin with; its owner frees rows. */
struct line {
    struct waiting *rows;
    uint32_t head, length, cap;
};

void line_put(struct line *line, struct waiting row);
void line_put_first(struct line *line, struct waiting row);
struct waiting line_take(struct line *line); /* length > 0 */

struct rank {
    bool there;
    uint32_t job;
    uint32_t place, number; /* the engine's job, and which rank of it */
    struct line reads, prepares;
    uint32_t reading, preparing;
    uint32_t samples;                  /* of reads that wait and of those under way */
    uint32_t classed, classed_reading; /* reads of a class: those that wait and those under way, and the latter alone */
    uint64_t begun;                    /* samples of reads that have begun */
    uint64_t batch;                    /* held */
    uint64_t asked_ns, came_ns;
    bool came;
    double wait_s;
    struct rng burst;
    uint64_t burst_from_ns, burst_until_ns;
};

struct group {
    uint64_t iteration;
    uint32_t missing; /* ranks without their batch */
    bool done;
};

struct balance_bench {
    const struct balance_scenario *scenario;
    enum balance_mode mode;
    bool one_tier;
    uint32_t n_jobs; /* of the scenario's, those that come */
    struct play play;
    struct governor *governor;
    const struct governor_decision *decision;
    uint32_t loaders, preparers; /* fixed splits */
    struct balance_result *result;
    uint64_t order; /* of what waits */
    struct agenda agenda;
    struct rank ranks[BALANCE_QUEUES_MAX];
    struct group groups[BALANCE_QUEUES_MAX];
    uint32_t first_at[JOBS_MAX]; /* by the engine's place: the queue of its first rank */
    uint32_t adding, running;
    uint32_t reading, preparing;
};

static inline double balance_seconds(uint64_t ns)
{
    return (double)ns / (double)CLOCK_NS_PER_S;
}

static inline uint64_t balance_from_ms(double ms)
{
    return (uint64_t)(ms * (double)CLOCK_NS_PER_MS);
}

/* balance_work.c: whether a storage class has the sample that is asked for now. */
bool balance_classed(const struct balance_bench *bench, uint32_t queue, sample_id id);
/* balance_work.c: begins reads and preparations for as many threads as the split allows. By the governor's rule a
 * thread without work of its kind takes the other. */
void balance_start_threads(struct balance_bench *bench);
/* balance_source_full says whether the queue's first read, which there is, has to wait for others of its source. */
bool balance_source_full(const struct balance_bench *bench, uint32_t queue);

#endif
