/* test_dataset_version.c: proves which two versions of a dataset count as one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/dataset_version.h"

static const struct dataset_version unknown, here = {{1, 2}, {3, 4}}, same = {{1, 2}, {3, 4}}, copy = {{5, 2}, {3, 4}},
                                             rewritten = {{5, 2}, {3, 9}}, set_back = {{1, 2}, {3, 9}},
                                             unread = {{1, 2}, {0, 0}}, unread_copy = {{1, 7}, {0, 0}};

static void assert_agree(const struct dataset_version *a, const struct dataset_version *b, bool agree)
{
    assert_int_equal(dataset_version_agrees(a, b), agree);
    assert_int_equal(dataset_version_agrees(b, a), agree);
}

/* Where both contents are known they decide, whatever the times are; otherwise the times do. */
static void content_decides_where_it_is_known(void **state)
{
    (void)state;
    assert_agree(&here, &same, true);
    assert_agree(&here, &copy, true);
    assert_agree(&here, &rewritten, false);
    assert_agree(&here, &set_back, false);
    assert_agree(&here, &unread, true);
    assert_agree(&here, &unread_copy, false);
    assert_agree(&unread, &unread, true);
    assert_agree(&unread, &unread_copy, false);
    assert_agree(&copy, &unread, false);
}

/* What is not known agrees with everything, as it did before there were versions. */
static void unknown_agrees_with_all(void **state)
{
    (void)state;
    assert_agree(&unknown, &here, true);
    assert_agree(&unknown, &unread, true);
    assert_agree(&unknown, &unknown, true);
    assert_false(dataset_version_is_known(&unknown));
    assert_true(dataset_version_is_known(&unread));
    assert_false(dataset_version_has_content(&unread));
    assert_true(dataset_version_same_times(&here, &unread));
    assert_false(dataset_version_same_times(&here, &copy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_decides_where_it_is_known),
        cmocka_unit_test(unknown_agrees_with_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
