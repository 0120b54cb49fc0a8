/* bench_tree_priv.h: what the two forms of `larder_bench tree` share: times, and the sets that jobs draw from. */
#ifndef LARDER_TESTS_BENCH_VIRTUAL_SAMPLER_BENCH_TREE_PRIV_H
#define LARDER_TESTS_BENCH_VIRTUAL_SAMPLER_BENCH_TREE_PRIV_H

#include "common/random.h"
#include "sampler/sampler.h"

#define IMAGENET_SAMPLES 1281167u
#define SLOW_ROUND_NS 50000
#define STAGGER_ROUNDS 1000 /* between one job's start and the next one's */

/* How the sets of the jobs in a bench of draws overlap. Staggered jobs, each a little ahead of the next, cost most:
 * draws from the small differences between them must be counted out. */
enum sets { SETS_EQUAL, SETS_RANDOM, SETS_STAGGERED, SETS_KINDS };
extern const char *const bench_set_names[SETS_KINDS];

/* The numbers of jobs that draws are measured for, ascending. */
#define BENCH_JOBS_KINDS 7
extern const unsigned bench_jobs[BENCH_JOBS_KINDS];

/* One run's arguments and its random numbers. */
struct bench {
    uint64_t datasets, min, max, universe, seed, rounds;
    sample_id *ids; /* room for the largest set */
    struct rng rng;
};

/* Times measured so far, in nanoseconds. */
struct times {
    uint64_t *ns; /* owned by the caller, with room for all that is measured */
    size_t count;
};

/* times_mean_ns returns the mean; 0 when there is no time. */
double times_mean_ns(const struct times *times);
/* times_quantile_ns returns the time that the given share (0 … 1) of all stays at or below; 0 when
 * there is none. It sorts them. */
double times_quantile_ns(struct times *times, double share);
/* times_print prints how many there are, their mean, their median and the longest, as members of a JSON object. */
void times_print(struct times *times);

/* bench_interrupted says whether this thread lost its processor since the last call with the same `switches`. */
bool bench_interrupted(long *switches);

/* bench_random_subset returns a set of count ids of [0, universe), each such set with the same probability. The caller
 * destroys it. */
struct idset *bench_random_subset(struct bench *bench, uint64_t universe, uint64_t count);

/* bench_insert puts a dependent job into the sampler and begins its epoch. */
void bench_insert(struct sampler *sampler, unsigned job, const struct idset *view);

/* bench_materialised measures the sampler and the materialised tree by turns and prints JSON. */
void bench_materialised(struct bench *bench);

#endif
