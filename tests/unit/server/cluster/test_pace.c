/* A home is slow when a job stands still for it alone again and again, and not by chance, whatever the times are. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/random.h"
#include "server/cluster/pace.h"

enum { RUNS = 4000, TIMES = 400 };

static uint64_t seed = 1;

/* Times alike that speak against it prove it, and no single one does. */
static void test_alike(void **state)
{
    (void)state;
    struct pace pace = {0};
    uint32_t times = 1;
    while (!pace_saw(&pace, 0.1))
        times++;
    assert_in_range(times, PACE_DEVIATIONS * PACE_DEVIATIONS, PACE_DEVIATIONS * PACE_DEVIATIONS + 1);
    pace = (struct pace){0};
    assert_false(pace_saw(&pace, 1e6));
    for (times = 0; times < PACE_DEVIATIONS * PACE_DEVIATIONS; times++)
        assert_false(pace_saw(&pace, 0.1));
    pace = (struct pace){0};
    for (times = 0; times < TIMES; times++)
        assert_false(pace_saw(&pace, -0.1) || pace_saw(&pace, 0.1));
}

/* heavy draws a time without a mean: hold-ups of a busy machine are like that. */
static double heavy(struct rng *rng)
{
    double u = (double)(random_below(rng, 1000000) + 1) / 1e6;
    return .001 / (u * u);
}

static double alike(struct rng *rng)
{
    (void)rng;
    return .1;
}

/* found returns in how many of RUNS runs the home is slow at some time, if one time in `of` speaks against it and all
 * others for it. */
static uint32_t found(struct rng *rng, double (*draw)(struct rng *rng), uint32_t of)
{
    uint32_t runs = 0;
    for (uint32_t run = 0; run < RUNS; run++) {
        struct pace pace = {0};
        bool slow = false;
        for (uint32_t i = 0; i < TIMES && !slow; i++)
            slow = pace_saw(&pace, random_below(rng, of) ? -draw(rng) : draw(rng));
        runs += slow;
    }
    return runs;
}

/* Of homes that are as late as others hardly any is found slow at some time of 400: with one other node 1 in 40 at
 * most, with more of them 1 in 1,000. 1 in 47 and 1 in 10,000 were found in 20,000 runs. The seed is fixed, so this
 * does not fail by chance. */
static void test_chance(void **state)
{
    (void)state;
    struct rng rng;
    random_seed_keys(&rng, seed, 1, 2, 3);
    uint32_t one = found(&rng, alike, 2), two = found(&rng, alike, 3);
    uint32_t one_heavy = found(&rng, heavy, 2), two_heavy = found(&rng, heavy, 3);
    printf("of %d runs found slow by chance: %u, %u; %u, %u\n", RUNS, one, two, one_heavy, two_heavy);
    assert_true(one <= RUNS / 40 && one_heavy <= RUNS / 40);
    assert_true(two <= RUNS / 1000 && two_heavy <= RUNS / 1000);
}

/* A home that is slow is left for an epoch, then for two, until it was asked in a whole epoch. */
static void test_pauses(void **state)
{
    (void)state;
    struct pace pace = {.sum_s = 1, .squares = .01};
    pace_leave(&pace, 3);
    assert_true(pace.left);
    pace_begin(&pace, 4);
    assert_true(pace.left);
    pace_begin(&pace, 5);
    assert_false(pace.left);
    assert_true(pace_saw(&pace, .01)); /* what is known of it still holds */
    pace_leave(&pace, 5);
    assert_int_equal(pace.pause, 2);
    for (uint64_t epoch = 6; epoch <= 8; epoch++) {
        pace_begin(&pace, epoch);
        assert_int_equal(pace.left, epoch < 8);
    }
    pace_begin(&pace, 9); /* it was asked in a whole epoch */
    assert_int_equal(pace.pause, 0);
    assert_false(pace_saw(&pace, .01));
}

/* What speaks for a home in an epoch does not excuse it in the next; what speaks against it is kept. */
static void test_epochs(void **state)
{
    (void)state;
    struct pace pace = {.sum_s = -1, .squares = 1};
    pace_begin(&pace, 1);
    assert_true(pace.sum_s == 0 && pace.squares == 0);
    pace = (struct pace){.sum_s = 1, .squares = 1};
    pace_begin(&pace, 2);
    assert_true(pace.sum_s == 1 && pace.squares == 1);
}

int main(int argc, char **argv)
{
    seed = argc > 1 ? strtoull(argv[1], NULL, 10) : seed;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_alike), cmocka_unit_test(test_chance),
                                       cmocka_unit_test(test_pauses), cmocka_unit_test(test_epochs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
