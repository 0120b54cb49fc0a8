/* Copies of remaining sets, and the sizes of the tree that they make: the example of the architecture, and random sets
 * against counting every sample. LARDER_TEST_SEED chooses the sets. */
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

enum { JOBS = 5, IDS = 20000 };

static void add(struct sampler *sampler, unsigned job, const sample_id *ids, size_t n, enum shuffle_mode shuffle)
{
    struct idset *view;
    assert_int_equal(idset_create(&view), 0);
    for (size_t i = 0; i < n; i++)
        idset_add(view, ids[i]);
    assert_int_equal(sampler_add_job(sampler, job, &(struct sampler_job){.shuffle = shuffle, .view = view}, NULL), 0);
    sampler_start_epoch(sampler, job, 0);
    idset_destroy(view);
}

static void gives_the_example(void **state)
{
    (void)state;
    static const sample_id ids[][5] = {{1, 2, 3}, {2, 3, 4, 5}, {3, 4, 5, 6, 7}};
    struct sampler *sampler = sampler_create(1);
    struct sampler_left lefts[3];
    uint64_t shared[3], own[3];
    for (unsigned job = 0; job < 3; job++) {
        add(sampler, job, ids[job], 3 + job, SHUFFLE_DEPENDENT);
        assert_int_equal(sampler_copy_left(sampler, job, &lefts[job]), 0);
        assert_int_equal(lefts[job].count, 3 + job);
    }
    add(sampler, 3, ids[0], 3, SHUFFLE_STRICT);
    struct sampler_left none;
    assert_int_equal(sampler_copy_left(sampler, 3, &none), LARDER_EINVAL);
    assert_int_equal(sampler_tree(lefts, 3, shared, own), 0);
    assert_true(shared[0] == 1 && shared[1] == 2 && shared[2] == 0);
    assert_true(own[0] == 2 && own[1] == 1 && own[2] == 2);
    assert_int_equal(sampler_tree(lefts, 1, shared, own), 0);
    assert_true(shared[0] == 0 && own[0] == 3);
    for (unsigned job = 0; job < 3; job++)
        sampler_left_clear(&lefts[job]);
    sampler_destroy(sampler);
}

static bool has(const struct sampler_left *left, sample_id id)
{
    return id >= left->first_id && (id - left->first_id) / 64 < left->n_words &&
           left->words[(id - left->first_id) / 64] >> (id % 64) & 1;
}

static int ascending(const void *a, const void *b)
{
    const struct sampler_left *left = a, *right = b;
    return (left->count > right->count) - (left->count < right->count);
}

/* expect counts sample by sample: it belongs to the first job from which on all have it, and to the leaves of those
 * before that have it. */
static void expect(const struct sampler_left *lefts, uint64_t shared[JOBS], uint64_t own[JOBS])
{
    memset(shared, 0, JOBS * sizeof *shared);
    memset(own, 0, JOBS * sizeof *own);
    for (sample_id id = 0; id < IDS; id++) {
        int first = JOBS;
        while (first > 0 && has(&lefts[first - 1], id))
            first--;
        if (first < JOBS - 1)
            shared[first]++;
        else if (first == JOBS - 1)
            own[first]++;
        for (int job = 0; job < first; job++)
            own[job] += has(&lefts[job], id);
    }
}

static void counts_as_by_hand(void **state)
{
    (void)state;
    const char *given = getenv("LARDER_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    printf("LARDER_TEST_SEED=%llu\n", (unsigned long long)seed);
    for (int round = 0; round < 20; round++) {
        struct sampler *sampler = sampler_create(seed);
        struct rng rng;
        struct sampler_left lefts[JOBS];
        uint64_t shared[JOBS], own[JOBS], wanted_shared[JOBS], wanted_own[JOBS];
        random_seed(&rng, seed * 100 + (uint64_t)round);
        for (unsigned job = 0; job < JOBS; job++) {
            static sample_id ids[IDS];
            size_t n = 0;
            uint64_t part = 1 + random_below(&rng, 100), from = random_below(&rng, IDS / 2);
            for (sample_id id = (sample_id)from; id < IDS; id++) {
                if (random_below(&rng, 100) < part || n == 0)
                    ids[n++] = id;
            }
            add(sampler, job, ids, n, SHUFFLE_DEPENDENT);
            for (size_t i = 0; i < n; i += 1 + random_below(&rng, 3))
                sampler_take(sampler, job, ids[i]);
            assert_int_equal(sampler_copy_left(sampler, job, &lefts[job]), 0);
        }
        qsort(lefts, JOBS, sizeof *lefts, ascending);
        expect(lefts, wanted_shared, wanted_own);
        assert_int_equal(sampler_tree(lefts, JOBS, shared, own), 0);
        assert_memory_equal(shared, wanted_shared, sizeof shared);
        assert_memory_equal(own, wanted_own, sizeof own);
        for (unsigned job = 0; job < JOBS; job++)
            sampler_left_clear(&lefts[job]);
        sampler_destroy(sampler);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_the_example),
        cmocka_unit_test(counts_as_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
