/* Which rank of a job is worked for first, when there is more to do than can be done, and which gets what is ready. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/clock.h"
#include "tests/play/ranks.h"

enum { SAMPLES = 200, BATCH = 4, PREFETCH = 6, RANKS = 2 };

/* Both ranks are there. So many preparations may be under way, and each of them ends when the test says so. */
static struct ranks *begin(uint32_t at_once, bool ordered)
{
    struct ranks *ranks = ranks_new(SAMPLES, RANKS, BATCH, at_once);
    ranks->by_hand = true;
    ranks->desc.prefetch = PREFETCH;
    ranks->desc.hold = 0;
    ranks->desc.epochs = 1;
    ranks->desc.ordered = ordered;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ranks_attach(ranks, rank);
    return ranks;
}

static void end(struct ranks *ranks)
{
    assert_int_equal(ranks->play.refused + ranks->play.failed, 0);
    ranks_free(ranks);
}

static void ask(struct ranks *ranks, uint32_t rank, uint32_t batches)
{
    ranks_ask(ranks, rank, 0, batches);
}

static void pace(struct ranks *ranks, uint32_t rank, uint64_t ms)
{
    play_event(&ranks->play, (struct engine_event){.type = ENGINE_PACE,
                                                   .rank = rank,
                                                   .pace = {ranks->play.job, ms * (uint64_t)CLOCK_NS_PER_MS}});
}

/* Ends so many preparations; made[rank] counts whose they were. */
static void prepare(struct ranks *ranks, uint32_t count, uint32_t made[RANKS])
{
    memset(made, 0, RANKS * sizeof *made);
    while (count--) {
        assert_true(ranks->n_preparing > 0);
        made[ranks->preparing[0].rank]++;
        ranks_finish(ranks, 0);
    }
}

/* A rank that takes its batches is worked for before one that has some ahead, whoever's samples were planned first. */
static void test_least_ahead(void **state)
{
    (void)state;
    struct ranks *ranks = begin(1, false);
    uint32_t made[RANKS];
    ask(ranks, 1, 64);
    prepare(ranks, 5 * BATCH, made);
    assert_true(made[0] <= BATCH + 1); /* in planned order it would be half */
    assert_true(ranks->seats[1].batches >= 3);
    assert_true(ranks->seats[0].loads > 0 && ranks->seats[1].loads > 0);
    end(ranks);
}

/* Of two ranks with as much ahead the one that uses it up faster goes first; without a pace they go alike. */
static void test_pace(void **state)
{
    (void)state;
    for (int paced = 0; paced <= 1; paced++) {
        struct ranks *ranks = begin(1, false);
        uint32_t made[RANKS];
        for (uint32_t rank = 0; paced && rank < RANKS; rank++)
            pace(ranks, rank, rank ? 1000 : 50);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            ask(ranks, rank, 1);
        prepare(ranks, 2 * BATCH, made); /* the batches that were asked for */
        uint32_t slow = made[1];
        prepare(ranks, 3 * BATCH, made);
        slow += made[1];
        if (paced)
            assert_true(slow <= BATCH + 2);
        else
            assert_true(slow >= 2 * BATCH + 1 && slow <= 3 * BATCH - 1);
        end(ranks);
    }
}

/* A pace for a job or rank that is not there changes nothing. */
static void test_pace_of_nobody(void **state)
{
    (void)state;
    struct ranks *ranks = begin(1, false);
    pace(ranks, RANKS, 10);
    play_event(&ranks->play, (struct engine_event){.type = ENGINE_PACE, .rank = 0, .pace = {ranks->play.job + 1, 5}});
    uint32_t made[RANKS];
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ask(ranks, rank, 1);
    prepare(ranks, 2 * BATCH, made);
    assert_int_equal(ranks->seats[0].batches, 1);
    assert_int_equal(ranks->seats[1].batches, 1);
    end(ranks);
}

/* Ends the oldest preparation that was begun for the rank. */
static void finish_for(struct ranks *ranks, uint32_t rank)
{
    uint32_t at = 0;
    while (ranks->preparing[at].rank != rank)
        assert_true(++at < ranks->n_preparing);
    ranks_finish(ranks, at);
}

/* Both ranks ask for a batch, and only what was begun for one of them gets ready: each has half of it, and with the
 * last two samples both batches are there. An ordered job keeps its order, and the other rank waits. */
static void test_ready_goes_to_who_lacks_most(void **state)
{
    (void)state;
    for (int ordered = 0; ordered <= 1; ordered++) {
        struct ranks *ranks = begin(RANKS_AT_ONCE_MAX, ordered);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            ask(ranks, rank, 1);
        for (uint32_t i = 0; i < 2 * BATCH - 2; i++)
            finish_for(ranks, 0);
        assert_int_equal(ranks->seats[0].batches, ordered ? 1 : 0);
        finish_for(ranks, 0);
        finish_for(ranks, 0);
        assert_int_equal(ranks->seats[0].batches, 1);
        assert_int_equal(ranks->seats[1].batches, ordered ? 0 : 1);
        assert_int_equal(ranks->others, ordered ? 0 : BATCH);
        end(ranks);
    }
}

/* Ranks that are as far behind as each other keep what was prepared for them. */
static void test_equals_exchange_nothing(void **state)
{
    (void)state;
    struct ranks *ranks = begin(RANKS_AT_ONCE_MAX, false);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ask(ranks, rank, 3);
    for (uint32_t i = 0; i < 3 * RANKS * BATCH; i++)
        finish_for(ranks, i % RANKS);
    assert_int_equal(ranks->seats[0].batches, 3);
    assert_int_equal(ranks->seats[1].batches, 3);
    assert_int_equal(ranks->others, 0);
    end(ranks);
}

/* What is ready makes a batch wherever in line it was planned: the last of each rank's samples get ready first. */
static void test_the_last_make_a_batch(void **state)
{
    (void)state;
    struct ranks *ranks = begin(RANKS_AT_ONCE_MAX, false);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ask(ranks, rank, 1);
    for (uint32_t i = 0; i < RANKS * BATCH; i++)
        ranks_finish(ranks, ranks->n_preparing - 1);
    assert_int_equal(ranks->seats[0].batches, 1);
    assert_int_equal(ranks->seats[1].batches, 1);
    end(ranks);
}

/* A sample that takes for ever goes from rank to rank and is overtaken all the same by no more than a queue looks
 * ahead: then one rank waits for it, and the other does not. */
static void test_a_slow_sample_is_not_put_off_for_ever(void **state)
{
    (void)state;
    const uint32_t share = SAMPLES / RANKS / BATCH, ahead = PREFETCH + 2;
    struct ranks *ranks = begin(RANKS_AT_ONCE_MAX, false);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ask(ranks, rank, 64);
    while (ranks->n_preparing > 1)
        ranks_finish(ranks, 1); /* all but the first */
    uint32_t waits = ranks->seats[0].batches < ranks->seats[1].batches ? 0 : 1;
    assert_true(ranks->seats[waits].batches >= ahead - 1 && ranks->seats[waits].batches <= 2 * ahead);
    assert_int_equal(ranks->seats[1 - waits].batches, share);
    ranks_finish(ranks, 0);
    while (ranks->n_preparing)
        ranks_finish(ranks, 0);
    assert_int_equal(ranks->seats[waits].batches, share);
    end(ranks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_ahead),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_pace_of_nobody),
        cmocka_unit_test(test_ready_goes_to_who_lacks_most),
        cmocka_unit_test(test_equals_exchange_nothing),
        cmocka_unit_test(test_the_last_make_a_batch),
        cmocka_unit_test(test_a_slow_sample_is_not_put_off_for_ever),
    };
    return cmocka_run_group_tests_name("rank_order", tests, NULL, NULL);
}
