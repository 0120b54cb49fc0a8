/* Each batch says whose turns its samples are, and in a fixed order how far the rank is through its part: with bad
 * samples too, and when batches are put back because their client went. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/play/restart.h"

#define MANY 64 /* batches: more than an epoch has */

enum { SAMPLES = 46, BATCH = 4, WORLD = 3, SHARE = 16 };

static const enum shuffle_mode orders[] = {SHUFFLE_DEPENDENT, SHUFFLE_STRICT, SHUFFLE_NONE};

static struct run *begin(enum shuffle_mode shuffle, enum bad_policy policy)
{
    struct run *run = run_new(shuffle, SAMPLES, WORLD, BATCH);
    run->desc.bad_policy = policy;
    for (sample_id id = 2; id < SAMPLES; id += 5)
        run->bad[id] = true;
    for (uint32_t rank = 0; rank < WORLD; rank++)
        run_come_without(run, rank);
    return run;
}

/* forget leaves of the rank's batches those that are named by bits of `kept`, by their places. */
static void forget(struct run_rank *rank, uint32_t kept)
{
    uint32_t n = 0;
    for (uint32_t at = 0; at < rank->n_batches; at++)
        if (kept >> at & 1)
            rank->batches[n++] = rank->batches[at];
    rank->n_batches = n;
}

/* The rank goes with three batches in its hands, of which it has released those of `released`, and comes back. */
static void go_and_come_back(struct run *run, uint32_t rank, uint32_t released)
{
    run->keep = true;
    run_ask(run, rank, 0, 3);
    assert_int_equal(run->ranks[rank].n_batches, 3);
    for (uint32_t at = 0; at < 3; at++)
        if (released >> at & 1)
            play_release(&run->play, run->play.job, rank, run->ranks[rank].numbers[at]);
    run_leave(run, rank);
    forget(&run->ranks[rank], released);
    run->keep = false;
    run_come_without(run, rank);
}

/* Whatever is put back: a sample has one turn, a replaced one too, and one that is skipped has none. The rest of what
 * ranks get are repeats. */
static void test_turns(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * 2 * 8; i++) {
        enum bad_policy policy = i / 3 % 2 ? BAD_REPLACE : BAD_SKIP;
        struct run *run = begin(orders[i % 3], policy);
        uint32_t times[RUN_IDS_MAX] = {0}, turns = 0;
        go_and_come_back(run, 1, i / 6);
        run_all(run, 0, MANY);
        uint32_t repeats = run_count(run, 0, MANY, times);
        for (sample_id id = 0; id < SAMPLES; id++) {
            assert_int_equal(times[id], policy == BAD_REPLACE || !run->bad[id]);
            turns += times[id];
        }
        assert_int_equal(turns + repeats, WORLD * SHARE);
        run_free(run);
    }
}

/* A repeat that is put back is a repeat still: a rank has its last batches twice, with the same turns. */
static void test_repeats_are_put_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        struct run *run = begin(orders[i], BAD_SKIP);
        for (uint32_t rank = 0; rank < 2; rank++)
            run_ask(run, rank, 0, MANY);
        run_ask(run, 2, 0, SHARE / BATCH - 1);
        run->keep = true;
        run_ask(run, 2, 0, 1);
        struct run_batch last = run->ranks[2].batches[SHARE / BATCH - 1];
        assert_true(last.last);
        assert_int_equal(last.turns[BATCH - 1], SAMPLE_NONE);
        run_leave(run, 2);
        run_come_without(run, 2);
        run_ask(run, 2, 0, 1);
        assert_memory_equal(&run->ranks[2].batches[SHARE / BATCH], &last, sizeof last);
        run_free(run);
    }
}

/* was_had tells whether the sample was delivered in one of the rank's first `end` batches. */
static bool was_had(const struct run_rank *rank, uint32_t end, sample_id id)
{
    for (uint32_t at = 0; at < end; at++)
        for (uint32_t i = 0; i < rank->batches[at].count; i++)
            if (rank->batches[at].turns[i] == id)
                return true;
    return false;
}

/* What `through` says is behind was delivered or bad, and the next one was not delivered, or the part is at its end.
 * Whoever goes with which batches in its hands. */
static void test_through(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * 8; i++) {
        enum bad_policy policy = i % 2 ? BAD_REPLACE : BAD_SKIP;
        struct run *run = begin(SHUFFLE_NONE, policy);
        go_and_come_back(run, 0, i / 2);
        uint32_t kept = run->ranks[0].n_batches;
        run_all(run, 0, MANY);
        for (uint32_t rank = 0; rank < WORLD; rank++) {
            const struct run_rank *seat = &run->ranks[rank];
            uint32_t length = (SAMPLES + WORLD - 1 - rank) / WORLD;
            for (uint32_t at = rank ? 0 : kept; at < seat->n_batches; at++) {
                uint32_t through = seat->batches[at].through;
                for (uint32_t number = 0; number < through; number++) {
                    sample_id id = run->order[number * WORLD + rank];
                    assert_true(was_had(seat, at + 1, id) || (policy == BAD_SKIP && run->bad[id]));
                }
                assert_true(through <= length);
                if (through < length)
                    assert_false(was_had(seat, at + 1, run->order[through * WORLD + rank]));
                if (through < length && policy == BAD_SKIP)
                    assert_false(run->bad[run->order[through * WORLD + rank]]); /* known as such: so it is behind */
            }
            assert_int_equal(seat->batches[seat->n_batches - 1].through, length);
            assert_true(seat->batches[seat->n_batches - 1].last);
        }
        run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_repeats_are_put_back),
        cmocka_unit_test(test_through),
    };
    return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
