/* test_alarms.c: of many times the earliest is found, whatever was set and taken before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/random.h"
#include "server/cluster/alarms.h"

enum { PLACES = 37, STEPS = 20000 };

static uint64_t least(const uint64_t *times)
{
    uint64_t first = ALARMS_NEVER;
    for (uint32_t i = 0; i < PLACES; i++)
        first = times[i] < first ? times[i] : first;
    return first;
}

/* The heap answers as a look at all places does, for random changes. */
static void test_as_a_look_at_all(void **state)
{
    (void)state;
    uint64_t times[PLACES], seed = 1;
    struct alarms alarms;
    assert_true(alarms_init(&alarms, PLACES));
    assert_int_equal(alarms.next_ns, ALARMS_NEVER);
    assert_int_equal(alarms_take(&alarms, ALARMS_NEVER), ALARMS_NONE);
    for (uint32_t i = 0; i < PLACES; i++)
        times[i] = ALARMS_NEVER;
    for (uint32_t step = 0; step < STEPS; step++) {
        uint64_t drawn = random_mix64(seed++);
        uint32_t place = (uint32_t)(drawn % PLACES);
        uint64_t time_ns = drawn >> 32 & 3 ? drawn >> 40 & 63 : ALARMS_NEVER, now_ns = drawn >> 48 & 63;
        times[place] = time_ns;
        alarms_set(&alarms, place, time_ns);
        assert_int_equal(alarms.next_ns, least(times));
        if (drawn >> 56 & 1)
            continue;
        uint32_t taken = alarms_take(&alarms, now_ns);
        if (least(times) > now_ns) {
            assert_int_equal(taken, ALARMS_NONE);
        } else {
            assert_int_equal(times[taken], least(times));
            times[taken] = ALARMS_NEVER;
        }
    }
    alarms_free(&alarms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_as_a_look_at_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
