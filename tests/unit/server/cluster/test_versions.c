/* test_versions.c: proves what a home gives to other nodes' jobs when its dataset may be another version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/cluster/versions.h"

static const struct dataset_version here = {{1, 2}, {3, 4}}, copy = {{5, 6}, {3, 4}}, touched = {{7, 8}, {3, 4}},
                                    rewritten = {{9, 10}, {11, 12}}, unknown;

static struct guests_key key_of(uint8_t node, uint64_t boot, uint32_t job)
{
    return (struct guests_key){.anchor = {node}, .boot = boot, .job = job};
}

static void assert_gives(struct versions *versions, struct guests_key key, struct dataset_version wanted,
                         struct dataset_version home, const char *refusal)
{
    const char *why = versions_may_give(versions, &key, &wanted, &home);
    if (refusal ? !why || !strstr(why, refusal) : why != NULL)
        fail_msg("\"%s\" and not \"%s\"", why ? why : "given", refusal ? refusal : "given");
}

/* A copy gives what it gave before; files of other content are refused, at first and later. */
static void gives_one_version(void **state)
{
    (void)state;
    static struct versions versions;
    struct guests_key job = key_of(1, 1, 1);
    assert_gives(&versions, job, here, here, NULL);
    assert_gives(&versions, job, here, here, NULL);
    assert_gives(&versions, job, here, rewritten, "other content");
    assert_gives(&versions, job, here, here, NULL);
    assert_gives(&versions, key_of(1, 1, 2), here, rewritten, "other content");
    assert_gives(&versions, key_of(1, 1, 2), here, copy, NULL);
}

/* What the content does not show, the home's own times do: a job that was given files of other times is given none of
 * these; a job that comes then is. */
static void keeps_to_what_it_gave(void **state)
{
    (void)state;
    static struct versions versions;
    assert_gives(&versions, key_of(1, 1, 1), here, copy, NULL);
    assert_gives(&versions, key_of(1, 1, 1), here, touched, "written to");
    assert_gives(&versions, key_of(1, 1, 1), touched, touched, "written to");
    assert_gives(&versions, key_of(1, 1, 2), here, touched, NULL);
    assert_gives(&versions, key_of(1, 2, 1), here, touched, NULL);
    assert_gives(&versions, key_of(2, 1, 1), here, touched, NULL);
}

/* An anchor that tells no version is given one version all the same. */
static void an_old_anchor_is_given_one_version(void **state)
{
    (void)state;
    static struct versions versions;
    assert_gives(&versions, key_of(1, 1, 1), unknown, here, NULL);
    assert_gives(&versions, key_of(1, 1, 1), unknown, here, NULL);
    assert_gives(&versions, key_of(1, 1, 1), unknown, rewritten, "written to");
}

/* Of more jobs than there is room for, those are remembered that came last. */
static void forgets_the_oldest(void **state)
{
    (void)state;
    static struct versions versions;
    for (uint32_t job = 0; job < VERSIONS_MAX; job++)
        assert_gives(&versions, key_of(1, 1, job), here, here, NULL);
    assert_gives(&versions, key_of(1, 1, 0), here, here, NULL);
    assert_gives(&versions, key_of(1, 1, VERSIONS_MAX), here, here, NULL);
    assert_gives(&versions, key_of(1, 1, 0), here, touched, "written to");
    assert_gives(&versions, key_of(1, 1, 1), here, touched, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_one_version),
        cmocka_unit_test(keeps_to_what_it_gave),
        cmocka_unit_test(an_old_anchor_is_given_one_version),
        cmocka_unit_test(forgets_the_oldest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
