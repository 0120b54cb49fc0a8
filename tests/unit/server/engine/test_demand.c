/* test_demand.c: how fast an engine takes a job to be, of which other nodes give a part. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/engine/demand.h"

/* Two jobs get samples at one speed. Of one of them a quarter comes from this engine: it draws a quarter as fast. */
static void test_draw_rate(void **state)
{
    (void)state;
    struct engine_env env = {.now_ns = 9999};
    struct jobs jobs = {.env = &env};
    struct job guest = {.shape.view_samples = 400, .tallies.samples_delivered = 100};
    struct job anchored = guest;
    assert_int_equal(idset_from_range(0, 100, &anchored.progress.here), 0);
    assert_true(demand_draw_rate(&jobs, &guest) == .01);
    assert_true(demand_job_rate(&jobs, &anchored) == .01);
    assert_true(demand_draw_rate(&jobs, &anchored) == .0025);
    idset_destroy(anchored.progress.here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_draw_rate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
