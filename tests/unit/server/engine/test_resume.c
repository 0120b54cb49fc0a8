/* A job that goes on in an epoch where another left it: what its ranks get of that epoch, and of later ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/play/restart.h"

#define MANY 64 /* batches: more than an epoch has */

static const enum shuffle_mode orders[] = {SHUFFLE_DEPENDENT, SHUFFLE_STRICT, SHUFFLE_NONE};

/* The ranks of a job that are through with the epoch have got so many batches and a LAST. */
static void assert_through(const struct run *run, uint32_t epoch)
{
    for (uint32_t rank = 0; rank < run->desc.world_size; rank++) {
        const struct run_rank *seat = &run->ranks[rank];
        assert_true(seat->n_batches > 0 && seat->batches[seat->n_batches - 1].last);
        assert_int_equal(seat->batches[seat->n_batches - 1].epoch, epoch);
        assert_int_equal(seat->failed, 0);
    }
}

/* Each sample had its turn once, in the first `batches` batches of the one run or in the other. */
static void assert_each_once(const struct run *before, uint32_t batches, const struct run *after, uint32_t epoch)
{
    uint32_t times[RUN_IDS_MAX] = {0};
    run_count(before, epoch, batches, times);
    run_count(after, epoch, MANY, times);
    for (sample_id id = 0; id < after->samples; id++)
        assert_int_equal(times[id], 1);
}

/* A job of one rank goes on after the batches that were taken, in each order, and then begins whole epochs. */
static void test_one_rank(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct run *before = run_new(orders[i], 41, 1, 4), *after = run_new(orders[i], 41, 1, 4);
        run_come_without(before, 0);
        run_ask(before, 0, 0, 5); /* more than is taken: the rest is forgotten */
        struct checkpoint at = run_checkpoint(before, 0, 3);
        run_go_on(after, &at);
        assert_int_equal(after->prepared, 0);
        run_ask(after, 0, 0, MANY);
        assert_each_once(before, 3, after, 0);
        assert_int_equal(after->ranks[0].n_batches, 8);
        assert_int_equal(after->ranks[0].batches[0].index, 3);
        assert_through(after, 0);
        uint32_t times[RUN_IDS_MAX] = {0};
        run_ask(after, 0, 1, MANY);
        assert_int_equal(run_count(after, 1, MANY, times), 0);
        assert_int_equal(run_find(after, 0, 1, 0)->index, 0);
        for (sample_id id = 0; id < 41; id++)
            assert_int_equal(times[id], 1);
        run_free(after);
        run_free(before);
    }
}

/* The last epoch that a job without an end may have is given whole, in each order; the number behind it is refused, and
 * nothing may have been taken of it. A job may come back there, to learn that nothing is left. */
static void test_the_last_epoch(void **state)
{
    (void)state;
    const uint32_t last = ENGINE_EPOCHS_MAX - 1;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        for (uint32_t world_size = 1; world_size <= 2; world_size++) {
            struct run *run = run_new(orders[i], 41, world_size, 4);
            for (uint32_t rank = 0; rank < world_size; rank++)
                run_come_without(run, rank);
            run_all(run, last, MANY);
            assert_through(run, last);
            run_ask(run, 0, last + 1, 1);
            assert_int_equal(run->ranks[0].failed, LARDER_EINVAL);
            run_free(run);

            struct luggage luggage = {.resume = {.epoch = last + 1, .presented = true}};
            run = run_new(orders[i], 41, world_size, 4);
            luggage.resume.delivered = luggage.resume.batches = 1;
            run_come_with(run, 0, &luggage);
            assert_int_equal(run->play.refused, LARDER_EINVAL);
            luggage.resume.delivered = luggage.resume.batches = 0;
            for (uint32_t rank = 0; rank < world_size; rank++)
                run_come_with(run, rank, &luggage);
            assert_int_equal(run->play.refused, 0);
            run_ask(run, 0, last + 1, 1);
            assert_int_equal(run->ranks[0].failed, LARDER_EINVAL);
            run_free(run);
        }
    }
}

static void assert_same_batches(const struct run *whole, uint32_t from, const struct run *rest)
{
    for (uint32_t rank = 0; rank < whole->desc.world_size; rank++) {
        uint32_t had = run_had(whole, rank, 0);
        assert_int_equal(run_had(rest, rank, 0), had - from);
        for (uint32_t at = from; at < had; at++)
            assert_memory_equal(run_find(whole, rank, 0, at), run_find(rest, rank, 0, at - from),
                                sizeof(struct run_batch));
    }
}

/* In a fixed order, with as many ranks as before, the batches are those that an uninterrupted job gives: their samples,
 * their numbers, their repeats, and how far they are through. In `dependent` they are as many, and as long. */
static void test_batches_are_those_that_were_left(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 4 * 2 * 3; i++) {
        uint32_t world_size = i % 4 + 1;
        enum shuffle_mode shuffle = orders[i / 8];
        bool drop_last = i / 4 % 2;
        struct run *whole = run_new(shuffle, 45, world_size, 4);
        whole->desc.drop_last = drop_last;
        for (uint32_t rank = 0; rank < world_size; rank++)
            run_come_without(whole, rank);
        run_all(whole, 0, MANY);
        for (uint32_t n = 0; n <= run_had(whole, 0, 0); n++) {
            struct run *rest = run_new(shuffle, 45, world_size, 4);
            struct checkpoint at = run_checkpoint(whole, 0, n);
            rest->desc.drop_last = drop_last;
            run_go_on(rest, &at);
            run_all(rest, 0, MANY);
            assert_through(rest, 0);
            if (shuffle != SHUFFLE_DEPENDENT)
                assert_same_batches(whole, n, rest);
            for (uint32_t rank = 0; rank < world_size; rank++) {
                assert_int_equal(run_had(rest, rank, 0), run_had(whole, rank, 0) - n);
                for (uint32_t b = n; b < run_had(whole, rank, 0); b++)
                    assert_int_equal(run_find(rest, rank, 0, b - n)->count, run_find(whole, rank, 0, b)->count);
            }
            if (!drop_last)
                assert_each_once(whole, n, rest, 0);
            run_free(rest);
        }
        run_free(whole);
    }
}

/* What fills up the shares of an epoch that is dealt anew are the first samples that are dealt. */
static void test_repeats_are_of_the_rest(void **state)
{
    (void)state;
    struct run *before = run_new(SHUFFLE_NONE, 20, 2, 2), *after = run_new(SHUFFLE_NONE, 20, 3, 2);
    run_come_without(before, 0);
    run_come_without(before, 1);
    run_all(before, 0, 1);
    struct checkpoint at = run_checkpoint(before, 0, 1);
    run_go_on(after, &at);
    run_all(after, 0, MANY);
    const sample_id *rest = after->order + 4;
    for (uint32_t rank = 0; rank < 3; rank++) {
        assert_int_equal(run_had(after, rank, 0), 3);
        for (uint32_t number = 0; number < 6; number++) {
            const struct run_batch *batch = run_find(after, rank, 0, number / 2);
            uint32_t position = number * 3 + rank;
            assert_int_equal(batch->ids[number % 2], rest[position % 16]);
            assert_int_equal(batch->turns[number % 2], position < 16 ? rest[position] : SAMPLE_NONE);
        }
    }
    run_free(after);
    run_free(before);
}

/* An epoch of which nothing is left gives an empty LAST, and the next one is whole. */
static void test_nothing_is_left(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * 2; i++) {
        uint32_t world_size = i / 3 * 2 + 1;
        struct run *before = run_new(orders[i % 3], 30, world_size, 5);
        for (uint32_t rank = 0; rank < world_size; rank++)
            run_come_without(before, rank);
        run_all(before, 0, MANY);
        for (uint32_t later = 1; later <= 4; later++) { /* with any number of ranks */
            struct run *after = run_new(orders[i % 3], 30, later, 5);
            struct checkpoint at = run_checkpoint(before, 0, run_had(before, 0, 0));
            run_go_on(after, &at);
            run_all(after, 0, 1);
            assert_through(after, 0);
            for (uint32_t rank = 0; rank < later; rank++) {
                assert_int_equal(after->ranks[rank].n_batches, 1);
                assert_int_equal(after->ranks[rank].batches[0].count, 0);
            }
            assert_int_equal(after->prepared, 0);
            run_all(after, 1, MANY);
            uint32_t times[RUN_IDS_MAX] = {0};
            run_count(after, 1, MANY, times);
            for (sample_id id = 0; id < 30; id++)
                assert_int_equal(times[id], 1);
            run_free(after);
        }
        run_free(before);
    }
}

/* Who asks for a later epoch first leaves the rest of the one that was begun. */
static void test_a_later_epoch(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * 2; i++) {
        uint32_t world_size = i / 3 + 1;
        struct run *run = run_new(orders[i % 3], 30, world_size, 5);
        struct checkpoint at = {.epoch = 2, .batches = 1};
        for (uint32_t n = 0; n < 5 * world_size; n++)
            at.turns[n] = true;
        at.n_segments = 1;
        at.world_size[0] = world_size;
        at.through[0][0] = at.through[0][1] = 5;
        run_go_on(run, &at);
        run_all(run, 3, MANY);
        uint32_t times[RUN_IDS_MAX] = {0};
        assert_int_equal(run_count(run, 3, MANY, times), 0);
        for (sample_id id = 0; id < 30; id++)
            assert_int_equal(times[id], 1);
        assert_int_equal(run_had(run, 0, 2), 0);
        assert_int_equal(run_find(run, 0, 3, 0)->index, 0);
        run_free(run);
    }
}

/* A rank that goes on to the next epoch, because it has had its share, leaves the others theirs. */
static void test_a_later_epoch_waits_for_the_rest(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct run *before = run_new(orders[i], 40, 2, 5), *after = run_new(orders[i], 40, 2, 5);
        run_come_without(before, 0);
        run_come_without(before, 1);
        run_all(before, 0, MANY);
        run_come(after, 0, true, before, 4);
        run_come(after, 1, true, before, 2);
        run_ask(after, 0, 1, MANY);
        assert_int_equal(run_had(after, 0, 1), 0);
        run_ask(after, 1, 0, MANY);
        assert_int_equal(run_had(after, 1, 0), 2);
        run_ask(after, 1, 1, MANY);
        assert_int_equal(run_had(after, 0, 1), 4);
        assert_int_equal(run_had(after, 1, 1), 4);
        run_free(after);
        run_free(before);
    }
}

/* ── bad samples ── */

/* In the first part of the epoch and in the second some samples are bad. */
static struct run *new_with_bad(enum shuffle_mode shuffle, uint32_t world_size, enum bad_policy policy)
{
    struct run *run = run_new(shuffle, 60, world_size, 4);
    run->desc.bad_policy = policy;
    for (sample_id id = 3; id < 60; id += 7)
        run->bad[id] = true;
    return run;
}

/* Around a new start bad samples are skipped or replaced as ever: each good sample has its one turn. A bad one has one
 * if it was replaced, and none if it was skipped. In a fixed order, `through` counts it either way. */
static void test_bad_samples(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * 2 * 4 * 4; i++) {
        enum bad_policy policy = i / 3 % 2 ? BAD_REPLACE : BAD_SKIP;
        uint32_t world_size = i / 6 % 4 + 1, later = i / 24 + 1, times[RUN_IDS_MAX] = {0};
        struct run *before = new_with_bad(orders[i % 3], world_size, policy);
        for (uint32_t rank = 0; rank < world_size; rank++)
            run_come_without(before, rank);
        run_all(before, 0, 2);
        struct checkpoint at = run_checkpoint(before, 0, 2);
        struct run *after = new_with_bad(orders[i % 3], later, policy);
        run_go_on(after, &at);
        run_all(after, 0, MANY);
        assert_through(after, 0);
        run_count(before, 0, 2, times);
        uint32_t repeats = run_count(after, 0, MANY, times);
        for (sample_id id = 0; id < 60; id++)
            assert_int_equal(times[id], !before->bad[id] || policy == BAD_REPLACE);
        if (later > 1 && policy == BAD_REPLACE) {
            uint32_t left = 60 - 8 * world_size;
            assert_int_equal(repeats, (later - left % later) % later);
        }
        if (later == 1)
            assert_int_equal(repeats, 0);
        for (uint32_t rank = 1; rank < later; rank++)
            assert_int_equal(run_had(after, rank, 0), run_had(after, 0, 0));
        run_free(after);
        run_free(before);
    }
}

/* An epoch of which only bad samples are left is over; a whole epoch of bad samples is an error. */
static void test_only_bad_samples_are_left(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct run *run = run_new(orders[i], 12, 1, 4);
        struct checkpoint at = {.batches = 2, .n_segments = 1, .world_size = {1}, .through = {{8}}};
        memset(run->bad, true, sizeof run->bad);
        for (sample_id id = 0; id < 8; id++)
            at.turns[id] = true;
        run_go_on(run, &at);
        run_ask(run, 0, 0, MANY);
        assert_through(run, 0);
        assert_int_equal(run_had(run, 0, 0), 0);
        assert_int_equal(run->ranks[0].batches[0].lost, 4);
        run_ask(run, 0, 1, MANY);
        assert_int_equal(run->ranks[0].failed, LARDER_ESAMPLE);
        run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_the_last_epoch),
        cmocka_unit_test(test_batches_are_those_that_were_left),
        cmocka_unit_test(test_repeats_are_of_the_rest),
        cmocka_unit_test(test_nothing_is_left),
        cmocka_unit_test(test_a_later_epoch),
        cmocka_unit_test(test_a_later_epoch_waits_for_the_rest),
        cmocka_unit_test(test_bad_samples),
        cmocka_unit_test(test_only_bad_samples_are_left),
    };
    return cmocka_run_group_tests_name("resume", tests, NULL, NULL);
}
