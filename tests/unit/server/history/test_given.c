/* test_given.c: proves that the last two epochs of a job are known, and that a rank's batches are taken when it
 * releases them or asks for a later epoch, and not otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/history/given.h"

enum { RANKS = 2, SAMPLES = 16 };

static struct given given;
static uint64_t numbers;

static int set_up(void **state)
{
    (void)state;
    struct record job = {.shuffle = SHUFFLE_DEPENDENT, .samples = SAMPLES};
    return given_begin(&given, RANKS, &job);
}

static int tear_down(void **state)
{
    (void)state;
    given_clear(&given);
    return 0;
}

/* Gives the batch's number. */
static uint64_t deliver(uint32_t epoch, uint32_t rank, uint32_t turn)
{
    struct history *history = given_turn(&given, epoch);
    struct history_batch batch = {.number = ++numbers, .turns = &turn, .n_turns = 1};
    assert_non_null(history);
    assert_int_equal(history_delivered(history, rank, &batch), 0);
    return batch.number;
}

static void expect(uint32_t epoch, uint32_t first, uint32_t second)
{
    const struct history *history = given_find(&given, epoch);
    assert_non_null(history);
    assert_int_equal(history_has(history, 0), first);
    assert_int_equal(history_has(history, 1), second);
}

static void test_released_or_not(void **state)
{
    (void)state;
    given_released(&given, 1, deliver(0, 1, 3));
    deliver(0, 1, 4);
    deliver(0, 0, 5);
    expect(0, 1, 2);
    given_asked(&given, 1, 0); /* more of the same epoch: that says nothing */
    given_gone(&given, 1);
    expect(0, 1, 1);
}

static void test_asked_for_the_next(void **state)
{
    (void)state;
    deliver(0, 0, 1);
    deliver(0, 1, 2);
    given_asked(&given, 1, 1);
    given_gone(&given, 1);
    expect(0, 1, 1);
    given_gone(&given, 0);
    expect(0, 0, 1);
}

/* What a rank still holds of the epoch before is taken. */
static void test_the_epoch_before(void **state)
{
    struct record token;
    struct error err;
    (void)state;
    deliver(0, 0, 1);
    deliver(0, 1, 2);
    deliver(3, 0, 7);
    deliver(3, 1, 8);
    given_gone(&given, 0);
    given_gone(&given, 1);
    expect(0, 1, 1);
    expect(3, 0, 0);
    assert_int_equal(history_token(given_find(&given, 0), 1, &token, &err), 0);
    assert_true(record_turn_over(&token, 1) && record_turn_over(&token, 2));
    assert_false(record_turn_over(&token, 7));
    assert_null(given_turn(&given, 2));
    deliver(4, 0, 1);
    assert_null(given_find(&given, 0));
    expect(3, 0, 0);
    expect(4, 1, 0);
}

/* A record of a rank that has had one batch with this turn. */
struct presented {
    struct record record;
    uint8_t history[RECORD_BATCH_BYTES], turns[RECORD_TURN_BYTES];
};

static void come(uint32_t epoch, uint32_t rank, uint32_t turn)
{
    struct presented *told = calloc(1, sizeof *told);
    uint32_t view[3] = {1, 2, 9};
    assert_non_null(told);
    told->record = (struct record){.shuffle = SHUFFLE_DEPENDENT,
                                   .samples = SAMPLES,
                                   .epoch = epoch,
                                   .world_size = RANKS,
                                   .rank = rank,
                                   .n_batches = 1,
                                   .n_turns = 1,
                                   .history = told->history,
                                   .turns = told->turns};
    record_batch_put(told->history, 0, &(struct record_batch){.delivered = 1, .n_turns = 1});
    put_u32(told->turns, turn);
    given_presented(&given, &told->record, view, 3);
    free(told);
}

static void expect_over(uint32_t epoch, uint32_t batches, uint32_t expected)
{
    struct record token;
    struct error err;
    uint32_t over = 0;
    assert_int_equal(history_token(given_find(&given, epoch), batches, &token, &err), 0);
    assert_int_equal(token.epoch, epoch);
    assert_int_equal(token.batches, batches);
    for (uint32_t index = 0; index < SAMPLES; index++)
        over |= record_turn_over(&token, index) ? UINT32_C(1) << index : 0;
    assert_int_equal(over, expected);
}

/* Ranks come from one daemon to the next when some of them have begun an epoch and some not, in either order. */
static void test_between_epochs(void **state)
{
    uint32_t running;
    (void)state;
    for (uint32_t first = 0; first < RANKS; first++) {
        tear_down(state);
        assert_int_equal(set_up(state), 0);
        come(first ? 5 : 4, first, first ? 9 : 1);
        come(first ? 4 : 5, 1 - first, first ? 1 : 9);
        assert_true(given_running(&given, &running) && running == 5);
        expect(4, 1, 1);
        expect(5, 0, 1);
        expect_over(4, 1, 1 << 1 | 1 << 2 | 1 << 9);
        expect_over(5, 0, 0);
        come(4, 0, 1); /* its connection had broken again */
        come(3, 0, 1); /* too old to be of use */
        expect(4, 1, 1);
        expect_over(4, 1, 1 << 1 | 1 << 2 | 1 << 9);
        deliver(5, 0, 2);
        expect_over(5, 1, 1 << 2 | 1 << 9);
        assert_null(given_find(&given, 3));
    }
}

/* A job begins anew without a checkpoint while it waits for its ranks: what the rank of the life before had counts no
 * more, whether its state was asked for before or not. */
static void test_a_rank_begins_anew(void **state)
{
    (void)state;
    for (uint32_t asked = 0; asked <= 1; asked++) {
        tear_down(state);
        assert_int_equal(set_up(state), 0);
        come(0, 0, 1);
        come(0, 1, 9);
        if (asked)
            expect_over(0, 1, 1 << 1 | 1 << 9);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            given_gone(&given, rank);
            given_forgotten(&given, rank);
        }
        expect(0, 0, 0);
        deliver(0, 0, 3);
        deliver(0, 1, 4);
        expect_over(0, 1, 1 << 3 | 1 << 4);
    }
}

/* Without memory nothing is known, and nothing is wrong. */
static void test_nothing_known(void **state)
{
    (void)state;
    uint32_t epoch;
    given_clear(&given);
    given_asked(&given, 0, 1);
    given_released(&given, 0, 1);
    given_gone(&given, 0);
    come(0, 0, 1);
    assert_null(given_turn(&given, 0));
    assert_null(given_find(&given, 0));
    assert_false(given_running(&given, &epoch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_released_or_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_asked_for_the_next, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_epoch_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_between_epochs, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_rank_begins_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_known, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
