/* test_given.c: proves that the last two epochs of a job are known, and that a rank's batches are taken when it
 * releases them or asks for a later epoch, and not otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/driver/given.h"

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

/* Without memory nothing is known, and nothing is wrong. */
static void test_nothing_known(void **state)
{
    (void)state;
    uint32_t epoch;
    given_clear(&given);
    given_asked(&given, 0, 1);
    given_released(&given, 0, 1);
    given_gone(&given, 0);
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
        cmocka_unit_test_setup_teardown(test_nothing_known, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
