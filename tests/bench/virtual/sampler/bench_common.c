/* bench_common.c: see bench_tree_priv.h. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "common/check.h"
#include "tests/bench/virtual/sampler/bench_tree_priv.h"

const char *const bench_set_names[SETS_KINDS] = {"equal", "random 60 %", "staggered"};
const unsigned bench_jobs[BENCH_JOBS_KINDS] = {1, 2, 4, 8, 16, 64, 128};

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

double times_mean_ns(const struct times *times)
{
    double sum = 0;
    for (size_t i = 0; i < times->count; i++)
        sum += (double)times->ns[i];
    return times->count ? sum / (double)times->count : 0;
}

double times_quantile_ns(struct times *times, double share)
{
    if (times->count == 0)
        return 0;
    qsort(times->ns, times->count, sizeof *times->ns, by_value);
    return (double)times->ns[(size_t)(share * (double)(times->count - 1))];
}

void times_print(struct times *times)
{
    printf("\"count\": %zu, \"mean_ms\": %.4f, \"median_ms\": %.4f, \"max_ms\": %.4f", times->count,
           times_mean_ns(times) / 1e6, times_quantile_ns(times, 0.5) / 1e6, times_quantile_ns(times, 1) / 1e6);
}

bool bench_interrupted(long *switches)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    bool interrupted = usage.ru_nivcsw != *switches;
    *switches = usage.ru_nivcsw;
    return interrupted;
}

/* Selection in one pass. */
struct idset *bench_random_subset(struct bench *bench, uint64_t universe, uint64_t count)
{
    size_t taken = 0;
    for (uint64_t id = 0; id < universe && taken < count; id++)
        if (random_below(&bench->rng, universe - id) < count - taken)
            bench->ids[taken++] = (sample_id)id;
    struct idset *set = NULL;
    CHECK(idset_from_sorted(bench->ids, taken, &set) == 0);
    return set;
}

void bench_insert(struct sampler *sampler, unsigned job, const struct idset *view)
{
    struct sampler_job desc = {.shuffle = SHUFFLE_DEPENDENT, .view = view};
    struct error err;
    CHECK(sampler_add_job(sampler, job, &desc, &err) == 0);
    sampler_start_epoch(sampler, job, 0);
}
