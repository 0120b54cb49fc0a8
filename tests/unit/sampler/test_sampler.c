/* test_sampler.c: the sampler's contract: coverage, fixed orders, taking and putting back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/random.h"
#include "sampler/sampler.h"

static void add_range(struct sampler *sampler, unsigned job, sample_id first, sample_id end, enum shuffle_mode shuffle)
{
    struct idset *view;
    struct error err;
    assert_int_equal(idset_from_range(first, end, &view), 0);
    struct sampler_job desc = {.shuffle = shuffle, .seed = 7, .view = view};
    static sample_id order[4096];
    assert_true(end - first <= 4096);
    if (shuffle == SHUFFLE_NONE) { /* descending, so that it is not the set's own order */
        for (sample_id i = 0; i < end - first; i++)
            order[i] = end - 1 - i;
        desc.order = order;
    }
    assert_int_equal(sampler_add_job(sampler, job, &desc, &err), 0);
    idset_destroy(view);
}

static sample_id draw_one(struct sampler *sampler, unsigned job)
{
    struct jobset need = {{0}};
    struct pick pick;
    jobset_add(&need, job);
    assert_int_equal(sampler_round(sampler, &need, &pick), 1);
    assert_true(jobset_has(&pick.jobs, job));
    assert_int_equal(jobset_count(&pick.jobs), 1);
    return pick.id;
}

/* Before its first epoch a job wants nothing; an epoch gives each sample once, in every mode; then nothing is left. */
static void test_one_epoch_each_mode(void **state)
{
    (void)state;
    for (int mode = SHUFFLE_DEPENDENT; mode <= SHUFFLE_NONE; mode++) {
        struct sampler *sampler = sampler_create(3);
        add_range(sampler, 9, 100, 230, (enum shuffle_mode)mode);
        assert_int_equal(sampler_remaining(sampler, 9), 0);
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
            unsigned char seen[230] = {0};
            sampler_start_epoch(sampler, 9, epoch);
            assert_int_equal(sampler_remaining(sampler, 9), 130);
            for (int i = 0; i < 130; i++) {
                sample_id id = draw_one(sampler, 9);
                assert_in_range(id, 100, 229);
                assert_false(seen[id]++);
                assert_false(sampler_wants(sampler, 9, id));
                if (mode == SHUFFLE_NONE)
                    assert_int_equal(id, 229 - i);
            }
            struct jobset need = {{0}};
            struct pick pick;
            jobset_add(&need, 9);
            assert_int_equal(sampler_round(sampler, &need, &pick), 0);
        }
        sampler_destroy(sampler);
    }
}

/* What is drawn outside of rounds comes in the same order, and rounds go on where it ended. */
static void test_drawn_outside_of_rounds(void **state)
{
    (void)state;
    for (int mode = SHUFFLE_STRICT; mode <= SHUFFLE_NONE; mode++) {
        struct sampler *sampler = sampler_create(3);
        for (unsigned job = 0; job < 2; job++) {
            add_range(sampler, job, 10, 190, (enum shuffle_mode)mode);
            sampler_start_epoch(sampler, job, 4);
        }
        static const int counts[] = {1, 0, 29, 64, 2};
        sample_id ids[SAMPLER_SOME];
        int drawn = 0;
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            sampler_draw_some(sampler, 1, ids, (size_t)counts[i]);
            drawn += counts[i];
            assert_int_equal(sampler_remaining(sampler, 1), 180 - drawn);
            for (int at = 0; at < counts[i]; at++) {
                assert_int_equal(ids[at], draw_one(sampler, 0));
                assert_false(sampler_wants(sampler, 1, ids[at]));
            }
        }
        for (; drawn < 180; drawn++)
            assert_int_equal(draw_one(sampler, 1), draw_one(sampler, 0));
        sampler_destroy(sampler);
    }
}

/* Draws come from what is left once samples were taken together. */
static void test_taken_together(void **state)
{
    (void)state;
    struct sampler *sampler = sampler_create(3);
    struct idset *taken;
    add_range(sampler, 0, 10, 90, SHUFFLE_DEPENDENT);
    sampler_start_epoch(sampler, 0, 0);
    assert_int_equal(idset_from_range(20, 85, &taken), 0);
    assert_int_equal(sampler_take_all(sampler, 0, taken), 0);
    for (int i = 14; i >= 0; i--) {
        assert_false(idset_contains(taken, draw_one(sampler, 0)));
        assert_int_equal(sampler_remaining(sampler, 0), i);
    }
    idset_destroy(taken);
    sampler_destroy(sampler);
}

/* The places that samples are said to have are those at which they are drawn, in a running epoch and in a later one. */
static void test_places(void **state)
{
    (void)state;
    static const enum shuffle_mode modes[] = {SHUFFLE_STRICT, SHUFFLE_NONE};
    static uint32_t now[3000], next[3000];
    for (int mode = 0; mode < 2; mode++) {
        struct sampler *sampler = sampler_create(3);
        add_range(sampler, 0, 500, 3000, modes[mode]);
        memset(next, 0xff, sizeof next);
        for (uint32_t epoch = 0; epoch < 3; epoch++) {
            sampler_start_epoch(sampler, 0, epoch);
            memset(now, 0xff, sizeof now);
            assert_int_equal(sampler_places(sampler, 0, epoch, now), 0);
            if (epoch)
                assert_memory_equal(now, next, sizeof now);
            for (uint32_t place = 0; place < 2500; place++) {
                if (place == 1000)
                    assert_int_equal(sampler_places(sampler, 0, epoch + 1, next), 0);
                assert_int_equal(now[draw_one(sampler, 0)], place);
            }
            assert_int_equal(now[499], UINT32_MAX);
        }
        sampler_destroy(sampler);
    }
}

/* A strict order depends on (seed, epoch) alone: the same in another sampler, with other jobs drawing, coming and
 * going; another in the next epoch; begun anew when the epoch is. */
static void test_strict_is_reproducible(void **state)
{
    (void)state;
    sample_id order[2][100];
    for (int run = 0; run < 2; run++) {
        struct sampler *sampler = sampler_create(run ? 5 : 6);
        add_range(sampler, run ? 0 : 200, 0, 100, SHUFFLE_STRICT);
        if (run) { /* alone the first time */
            add_range(sampler, 100, 50, 150, SHUFFLE_DEPENDENT);
            sampler_start_epoch(sampler, 100, 0);
        }
        sampler_start_epoch(sampler, run ? 0 : 200, 4);
        if (run == 1) {
            for (int i = 0; i < 30; i++)
                draw_one(sampler, 0);
            sampler_start_epoch(sampler, 0, 4);
        }
        for (int i = 0; i < 100; i++) {
            order[run][i] = draw_one(sampler, run ? 0 : 200);
            if (run && i < 40)
                draw_one(sampler, 100);
            if (run && i == 60)
                sampler_remove_job(sampler, 100);
        }
        sampler_destroy(sampler);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);

    struct sampler *sampler = sampler_create(5);
    add_range(sampler, 0, 0, 100, SHUFFLE_STRICT);
    sampler_start_epoch(sampler, 0, 5);
    int same = 0;
    for (int i = 0; i < 100; i++)
        same += draw_one(sampler, 0) == order[0][i];
    assert_in_range(same, 0, 10);
    sampler_destroy(sampler);
}

/* A strict order is one of positions in the given order: other ids for the same samples change nothing, and an epoch
 * begun again is the same again. */
static void test_strict_permutes_the_given_order(void **state)
{
    (void)state;
    sample_id order[2][100];
    for (int run = 0; run < 2; run++) {
        struct sampler *sampler = sampler_create(1);
        struct idset *view;
        struct error err;
        sample_id ids[100], position_of[100];
        for (unsigned i = 0; i < 100; i++) {
            ids[i] = run ? i * 37 % 100 : i;
            position_of[ids[i]] = i;
        }
        assert_int_equal(idset_from_range(0, 100, &view), 0);
        struct sampler_job desc = {.shuffle = SHUFFLE_STRICT, .seed = 7, .view = view, .order = ids};
        assert_int_equal(sampler_add_job(sampler, 0, &desc, &err), 0);
        idset_destroy(view);
        for (int times = 0; times < 2; times++) {
            sampler_start_epoch(sampler, 0, 3);
            for (unsigned i = 0; i < 100; i++)
                order[run][i] = position_of[draw_one(sampler, 0)];
        }
        sampler_destroy(sampler);
    }
    assert_memory_equal(order[0], order[1], sizeof order[0]);
}

/* A taken sample is drawn no more, for that job alone; one that was put back is. */
static void test_take_and_put_back(void **state)
{
    (void)state;
    struct sampler *sampler = sampler_create(8);
    add_range(sampler, 1, 0, 10, SHUFFLE_DEPENDENT);
    add_range(sampler, 2, 0, 10, SHUFFLE_DEPENDENT);
    sampler_start_epoch(sampler, 1, 0);
    sampler_start_epoch(sampler, 2, 0);
    sampler_take(sampler, 1, 4);
    assert_false(sampler_wants(sampler, 1, 4));
    assert_true(sampler_wants(sampler, 2, 4));
    for (int i = 0; i < 9; i++)
        assert_int_not_equal(draw_one(sampler, 1), 4);
    assert_int_equal(sampler_remaining(sampler, 1), 0);
    sampler_put_back(sampler, 1, 4, 1);
    assert_int_equal(draw_one(sampler, 1), 4);
    sampler_destroy(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_epoch_each_mode),    cmocka_unit_test(test_drawn_outside_of_rounds),
        cmocka_unit_test(test_taken_together),         cmocka_unit_test(test_places),
        cmocka_unit_test(test_strict_is_reproducible), cmocka_unit_test(test_strict_permutes_the_given_order),
        cmocka_unit_test(test_take_and_put_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
