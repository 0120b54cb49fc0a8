/* helpers.h: what the sampler's tests share: seeds, views, and tests of distributions.
 *
 * Every statistical check rejects a right sampler with a probability of at most 1e-6 (CHI_Z, SHARE_Z); there are about
 * a hundred and fifty of them, so a run with a fresh seed fails by chance once in six thousand. Seeds are fixed;
 * LARDER_TEST_SEED=n takes another. */
#ifndef LARDER_TESTS_SAMPLER_HELPERS_H
#define LARDER_TESTS_SAMPLER_HELPERS_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "sampler/sampler.h"

#define CHI_Z 4.76  /* one-sided 1e-6 */
#define SHARE_Z 4.9 /* two-sided 1e-6 */

static inline uint64_t test_seed(uint64_t fixed)
{
    const char *text = getenv("LARDER_TEST_SEED");
    uint64_t seed = text ? strtoull(text, NULL, 10) + fixed : fixed;
    print_message("seed %llu (of LARDER_TEST_SEED=%s)\n", (unsigned long long)seed, text ? text : "unset");
    return seed;
}

/* chi_square_z turns a chi-square statistic into a standard normal one (Wilson and Hilferty). */
static inline double chi_square_z(double statistic, double freedom)
{
    double shrink = 2 / (9 * freedom);
    return (cbrt(statistic / freedom) - (1 - shrink)) / sqrt(shrink);
}

/* uniform_z: how unlike a uniform distribution the counts are. Expected counts should be 5 or more. */
static inline double uniform_z(const uint32_t *counts, size_t n)
{
    double total = 0, statistic = 0;
    for (size_t i = 0; i < n; i++)
        total += counts[i];
    double expected = total / (double)n;
    for (size_t i = 0; i < n; i++)
        statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
    return chi_square_z(statistic, (double)n - 1);
}

static inline void add_view(struct sampler *sampler, unsigned job, const struct idset *view, enum shuffle_mode shuffle)
{
    struct error err;
    struct sampler_job desc = {.shuffle = shuffle, .seed = 7, .view = view};
    assert_int_equal(sampler_add_job(sampler, job, &desc, &err), 0);
}

/* A dependent job on [first, end), its epoch begun. */
static inline void start_range(struct sampler *sampler, unsigned job, sample_id first, sample_id end)
{
    struct idset *view;
    assert_int_equal(idset_from_range(first, end, &view), 0);
    add_view(sampler, job, view, SHUFFLE_DEPENDENT);
    idset_destroy(view);
    sampler_start_epoch(sampler, job, 0);
}

/* A round of the jobs of `need`; ids[job] is what each drew, SAMPLE_NONE for the rest. Returns the picks. */
static inline size_t round_of(struct sampler *sampler, const struct jobset *need, sample_id *ids, unsigned n_jobs)
{
    struct pick picks[JOBS_MAX];
    size_t n_picks = sampler_round(sampler, need, picks);
    for (unsigned job = 0; job < n_jobs; job++)
        ids[job] = SAMPLE_NONE;
    for (size_t i = 0; i < n_picks; i++)
        JOBSET_EACH(job, &picks[i].jobs)
            ids[job] = picks[i].id;
    return n_picks;
}

/* The same, undone afterwards: a first draw that can be repeated. */
static inline size_t peek_round(struct sampler *sampler, const struct jobset *need, sample_id *ids, unsigned n_jobs)
{
    size_t n_picks = round_of(sampler, need, ids, n_jobs);
    for (unsigned job = 0; job < n_jobs; job++)
        if (ids[job] != SAMPLE_NONE)
            sampler_put_back(sampler, job, ids[job], 1);
    return n_picks;
}

static inline struct jobset jobs_below(unsigned n)
{
    struct jobset set = {{0}};
    for (unsigned job = 0; job < n; job++)
        jobset_add(&set, job);
    return set;
}

#endif
