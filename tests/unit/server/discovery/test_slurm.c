/* test_slurm.c: Slurm's lists of hosts, as its documentation and `scontrol show hostnames` have them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "server/discovery/slurm.h"

static void check(const char *list, const char *wanted)
{
    struct slurm_hosts hosts;
    struct error err = {.text = ""};
    char all[4096] = "";
    if (slurm_expand(list, &hosts, &err))
        fail_msg("%s: %s", list, err.text);
    for (uint32_t i = 0; i < hosts.count; i++)
        sprintf(all + strlen(all), "%s%s", i ? " " : "", hosts.names[i]);
    assert_string_equal(all, wanted);
    slurm_free(&hosts);
}

static void test_lists(void **state)
{
    (void)state;
    check("n1", "n1");
    check("n[01-03,7],m1", "n01 n02 n03 n7 m1");
    check("n[9-11]", "n9 n10 n11");
    check("n[098-101]", "n098 n099 n100 n101");
    check("rack[1-2]n[1-2,5]", "rack1n1 rack1n2 rack1n5 rack2n1 rack2n2 rack2n5");
    check("n[1-2]-ib0.example.org,x", "n1-ib0.example.org n2-ib0.example.org x");
    check("gpu-a100-[3]", "gpu-a100-3");
    check("n[0-0],n[0]", "n0 n0");
}

static void test_bad(void **state)
{
    (void)state;
    const char *const lists[] = {"",      ",",   "n1,",     "n[1-2",   "n[]",     "n[1-]",   "n[-1]",         "n[2-1]",
                                 "n[a]",  "n]1", "n[1,,2]", "n[[1]]",  "n 1",     "n1\n",    "n[1-2-3]",      "n[1 ]",
                                 "n[1]]", "a/b", "ä",       "n[1-2],", ",n[1-2]", "[1-2]m[", "n[9999999999]", "n[1,]"};
    struct slurm_hosts hosts;
    struct error err;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (slurm_expand(lists[i], &hosts, &err) != LARDER_EINVAL || err.text[0] == 0)
            fail_msg("'%s' was taken", lists[i]);
}

/* However few bytes promise however many hosts, there is an end. */
static void test_bounds(void **state)
{
    (void)state;
    struct slurm_hosts hosts;
    struct error err;
    char name[2 * SLURM_HOST_MAX];
    assert_int_equal(slurm_expand("n[1-4096]", &hosts, &err), 0);
    assert_int_equal(hosts.count, SLURM_HOSTS_MAX);
    slurm_free(&hosts);
    assert_int_equal(slurm_expand("n[1-4097]", &hosts, &err), LARDER_ELIMIT);
    assert_int_equal(slurm_expand("n[0-999999999][0-999999999][0-999999999]", &hosts, &err), LARDER_ELIMIT);
    memset(name, 'a', sizeof name);
    name[SLURM_HOST_MAX] = 0;
    assert_int_equal(slurm_expand(name, &hosts, &err), LARDER_ELIMIT);
    memcpy(name + SLURM_HOST_MAX - 2, "[1-20]", sizeof "[1-20]");
    assert_int_equal(slurm_expand(name, &hosts, &err), LARDER_ELIMIT);
    name[SLURM_HOST_MAX - 1] = 0;
    name[SLURM_HOST_MAX - 2] = 'a';
    assert_int_equal(slurm_expand(name, &hosts, &err), 0);
    slurm_free(&hosts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
