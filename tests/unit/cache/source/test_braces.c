/* test_braces.c: proves that braces expand as Python's braceexpand expands them, and that no text expands without
 * end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cache/source/braces.h"
#include "common/larder_err.h"

static char all[8192];
static unsigned count;

static int take(void *context, const char *text)
{
    (void)context;
    size_t len = strlen(all);
    if (len + strlen(text) + 2 < sizeof all)
        snprintf(all + len, sizeof all - len, "%s%s", all[0] ? " " : "", text);
    return 0;
}

static void test_expand(void **state)
{
    static const char *const rows[][2] = {
        {"a", "a"},
        {"x{1..3}y", "x1y x2y x3y"},
        {"{08..11}", "08 09 10 11"},
        {"{8..010}", "008 009 010"},
        {"{3..1}", "3 2 1"},
        {"{1..7..3}", "1 4 7"},
        {"{a..d..2}", "a c"},
        {"{-1..1}", "-1 0 1"},
        {"{train,val}-{0..1}.tar", "train-0.tar train-1.tar val-0.tar val-1.tar"},
        {"{a,{b,c}x,d}", "a bx cx d"},
        {"{a{1..2},b}", "a1 a2 b"},
        {"{}{a}{1..}{..2}", "{}{a}{1..}{..2}"},
        {"{a", "{a"},
        {"a}", "a}"},
        {"{,x}y", "y xy"},
        {"{{1..2}}", "{1} {2}"},
        {"{-01..1}", "-01 000 001"},
        {"{00..-1}", "00 -1"},
        {"{1..3..-1}", "1 2 3"},
        {"{1..2..0}", "1 2"},
        {"{a..3}", "{a..3}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        all[0] = '\0';
        assert_int_equal(braces_expand(rows[i][0], take, NULL), 0);
        assert_string_equal(all, rows[i][1]);
    }
}

static int count_one(void *context, const char *text)
{
    (void)context;
    (void)text;
    count++;
    return 0;
}

static int stop(void *context, const char *text)
{
    (void)text;
    return ++*(int *)context == 3 ? LARDER_EINVAL : 0;
}

static void test_bounds(void **state)
{
    char deep[200] = "", longest[BRACES_TEXT_MAX + 2];
    int calls = 0;
    (void)state;
    assert_int_equal(braces_expand("{1..1000000000}", count_one, NULL), LARDER_ELIMIT);
    assert_int_equal(braces_expand("{1..2000}{1..2000}{1..2000}", count_one, NULL), LARDER_ELIMIT);
    for (int i = 0; i < 30; i++)
        strcat(deep, "{0,1}");
    assert_int_equal(braces_expand(deep, count_one, NULL), LARDER_ELIMIT);
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_int_equal(braces_expand(longest, count_one, NULL), LARDER_ELIMIT);
    assert_int_equal(braces_expand("{1..9}", stop, &calls), LARDER_EINVAL);
    assert_int_equal(calls, 3);
    count = 0;
    assert_int_equal(braces_expand("train-{000000..001023}.tar", count_one, NULL), 0);
    assert_int_equal(count, 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_expand), cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests_name("braces", tests, NULL, NULL);
}
