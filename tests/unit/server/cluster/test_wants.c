/* What trainings of the cluster want, and when homes pay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/cluster/wants.h"

enum { CROPS = 7, FLIPS = 8 };

static void test_count(void **state)
{
    (void)state;
    static struct wants wants;
    assert_int_equal(wants_count(&wants, 1, CROPS, 1), 1);
    assert_true(wants_hear(&wants, 1, CROPS, 1));
    assert_int_equal(wants_count(&wants, 1, CROPS, 1), 1);
    assert_true(wants_hear(&wants, 2, CROPS, 2));
    assert_true(wants_hear(&wants, 3, FLIPS, 2));
    assert_int_equal(wants_count(&wants, 1, CROPS, 2), 2);
    assert_int_equal(wants_count(&wants, 3, FLIPS, 2), 1);
    assert_false(wants_hear(&wants, 2, CROPS, WANTS_NS)); /* told again: nothing new */
    assert_int_equal(wants_count(&wants, 1, CROPS, WANTS_NS + 2), 2);
    assert_int_equal(wants_count(&wants, 1, CROPS, 2 * WANTS_NS + 1), 1);
    assert_true(wants_hear(&wants, 2, CROPS, 2 * WANTS_NS + 1)); /* it was forgotten */
    wants_end(&wants, 2);
    assert_int_equal(wants_count(&wants, 1, CROPS, 2 * WANTS_NS + 1), 1);
}

/* Whoever tells of more than there is room for makes nothing grow: the oldest are forgotten. */
static void test_full(void **state)
{
    (void)state;
    static struct wants wants;
    for (uint64_t i = 1; i <= WANTS_MAX + 10; i++)
        assert_true(wants_hear(&wants, i, CROPS, i));
    assert_int_equal(wants_count(&wants, WANTS_MAX + 10, CROPS, WANTS_MAX + 10), WANTS_MAX);
    assert_true(wants_hear(&wants, 1, CROPS, WANTS_MAX + 11));
    assert_false(wants_hear(&wants, WANTS_MAX, CROPS, WANTS_MAX + 12));
}

static void test_pays(void **state)
{
    (void)state;
    assert_false(wants_pays(1, .001, 0));
    assert_true(wants_pays(2, 0, 1)); /* not measured yet */
    assert_true(wants_pays(2, .0009, .00013));
    assert_false(wants_pays(2, .0002, .00013)); /* half of .2 ms is saved, and .13 paid */
    assert_true(wants_pays(4, .0002, .00013));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_count), cmocka_unit_test(test_full),
                                       cmocka_unit_test(test_pays)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
