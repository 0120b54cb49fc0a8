/* test_drain.c: proves that the driver takes jobs until it is told to drain or to halt, and says at once when it is
 * drained, or has left where there is no cluster to leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/driver/driver.h"

static atomic_uint times_drained, times_left;

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset, (void)id;
    return 100;
}

static void drained(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&times_drained, 1);
}

static void left(void *ctx)
{
    (void)ctx;
    atomic_fetch_add(&times_left, 1);
}

struct fixture {
    struct mailbox *inbox;
    struct driver *driver;
};

static int begin(void **state)
{
    static struct fixture fixture;
    struct error err;
    atomic_store(&times_drained, 0);
    atomic_store(&times_left, 0);
    assert_int_equal(mailbox_create(INBOX_MESSAGES, sizeof(struct inbox_message), &fixture.inbox), 0);
    struct driver_config config = {.engine = {.seed = 1,
                                              .arena_bytes = 1 << 20,
                                              .encoded_bytes = 1 << 20,
                                              .instance_bytes = ENGINE_INSTANCE_BYTES,
                                              .slot_least = engine_slot_least(1 << 20, 1 << 20),
                                              .inflight_loads = 1,
                                              .inflight_prepares = 1,
                                              .sample_bytes = sample_bytes},
                                   .jobs_max = 1,
                                   .workers = 1,
                                   .reads = 1,
                                   .inbox = fixture.inbox,
                                   .drained = drained,
                                   .left = left};
    if (driver_create(&config, &fixture.driver, &err) || driver_start(fixture.driver, NULL, NULL, NULL, &err))
        fail_msg("%s", err.text);
    *state = &fixture;
    return 0;
}

static int end(void **state)
{
    struct fixture *fixture = *state;
    driver_destroy(fixture->driver);
    mailbox_destroy(fixture->inbox);
    return 0;
}

/* It takes jobs until it drains; drained it is once, however often it is asked. */
static void test_drain(void **state)
{
    struct fixture *fixture = *state;
    driver_settle(fixture->driver);
    assert_true(driver_takes_jobs(fixture->driver));
    assert_int_equal(atomic_load(&times_drained), 0);
    driver_drain(fixture->driver);
    assert_false(driver_takes_jobs(fixture->driver));
    driver_drain(fixture->driver);
    assert_false(driver_takes_jobs(fixture->driver));
    driver_stop(fixture->driver);
    assert_int_equal(atomic_load(&times_drained), 1);
}

/* A driver that halts takes no jobs either. */
static void test_halt(void **state)
{
    struct fixture *fixture = *state;
    driver_halt(fixture->driver);
    assert_false(driver_takes_jobs(fixture->driver));
}

/* A driver of no cluster has left at once, and once. It takes jobs all the same: only its owner ends it. */
static void test_leave(void **state)
{
    struct fixture *fixture = *state;
    driver_settle(fixture->driver);
    assert_int_equal(atomic_load(&times_left), 0);
    driver_leave_then(fixture->driver);
    driver_leave_then(fixture->driver);
    assert_true(driver_takes_jobs(fixture->driver));
    driver_stop(fixture->driver);
    assert_int_equal(atomic_load(&times_left), 1);
    assert_int_equal(atomic_load(&times_drained), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_drain, begin, end),
        cmocka_unit_test_setup_teardown(test_halt, begin, end),
        cmocka_unit_test_setup_teardown(test_leave, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
