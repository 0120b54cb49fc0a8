/* test_governor_split.c: the governor's estimates, and what it makes of them, as functions of numbers. */
#include "server/governor/split.h"

#include "common/random.h"
#include "tests/unit/server/governor/governor_scene.h"

enum { WORKERS = 24 };

/* ── estimates ── */

/* One wild time moves the estimate no further than its bound, and a burst of slow ones does count. */
static void test_times(void **state)
{
    (void)state;
    struct governor_times times = {0};
    assert_true(governor_times_mean(&times) == 0);
    for (int i = 0; i < GOVERNOR_WINDOW - 1; i++)
        governor_times_add(&times, 0.010);
    governor_times_add(&times, 1000);
    assert_true(near(governor_times_mean(&times), (0.010 * (GOVERNOR_WINDOW - 1) + 0.080) / GOVERNOR_WINDOW, 0.001));
    for (int i = 0; i < GOVERNOR_WINDOW / 2; i++)
        governor_times_add(&times, 0.040);
    assert_true(governor_times_mean(&times) > 0.024);
}

static void note(struct governor_curve *curve, uint32_t threads, double rate, int tasks)
{
    for (int i = 0; i < tasks; i++)
        governor_curve_note(curve, threads, threads / rate);
}

/* Between two thread counts that were seen the rate lies on their line, below them on the line through nothing. */
static void test_curve_is_piecewise_linear(void **state)
{
    (void)state;
    struct governor_curve curve = {.age = {0}};
    assert_true(governor_curve_at(&curve, 5) == 0);
    note(&curve, 4, 400, 50);
    governor_curve_fold(&curve, true);
    assert_true(near(governor_curve_at(&curve, 2), 200, 1e-9) && near(governor_curve_at(&curve, 12), 1200, 1e-9));
    note(&curve, 12, 800, 50);
    governor_curve_fold(&curve, true);
    assert_true(near(governor_curve_at(&curve, 8), 600, 1e-9));
    assert_true(near(governor_curve_at(&curve, 16), 1000, 1e-9)); /* the last stretch goes on */
    assert_true(governor_curve_seen(&curve, 12) && !governor_curve_seen(&curve, 8));
}

/* When the tasks become other ones at one thread count, the shape known of the others stays, scaled and stale; the few
 * tasks left over from an old split change nothing. */
static void test_curve_keeps_its_shape(void **state)
{
    (void)state;
    struct governor_curve curve = {.age = {0}};
    note(&curve, 4, 400, 50);
    governor_curve_fold(&curve, true);
    note(&curve, 12, 800, 50);
    governor_curve_fold(&curve, true);
    note(&curve, 12, 80, 50);
    governor_curve_fold(&curve, true);
    assert_true(near(governor_curve_at(&curve, 4), 40, 0.01));
    assert_false(governor_curve_seen(&curve, 4));
    note(&curve, 12, 8, 10);
    note(&curve, 16, 90, 100);
    governor_curve_fold(&curve, true);
    assert_true(near(governor_curve_at(&curve, 12), 80, 0.01));
}

/* ── preparers ── */

static void fill(struct governor_curve *curve, uint32_t peak)
{
    for (uint32_t threads = 1; threads <= WORKERS; threads++) {
        note(curve, threads, true_rate(threads, peak), 50);
        governor_curve_fold(curve, true);
    }
}

static uint32_t preparers(const struct governor_curve *curve, double load_s, uint32_t loaders, uint32_t now)
{
    static const double all = 1;
    struct governor_balance balance = {
        .workers = WORKERS, .loaders = loaders, .load_s = load_s, .curves = curve, .parts = &all, .n_classes = 1};
    uint32_t probe;
    return governor_preparers(&balance, now, 0.02, &probe);
}

/* The fewest preparers that reach the peak; no more than prepare what is read; and no move for a gain that is not worth
 * it. */
static void test_preparers(void **state)
{
    (void)state;
    struct governor_curve curve = {.age = {0}}, straight = {.age = {0}};
    fill(&curve, 14);
    fill(&straight, WORKERS);
    assert_int_equal(preparers(&curve, 0.001, 24, 20), 14);
    assert_int_equal(preparers(&curve, 0, 0, 20), 14);
    assert_int_equal(preparers(&straight, 0.010, 12, 3), 12); /* 12 reads bring 1200, 12 prepare 1200 */
    assert_int_equal(preparers(&straight, 0.010, 12, 20), 20);
    assert_int_equal(preparers(&straight, 0.001, 32, 3), WORKERS);
    assert_int_equal(preparers(&straight, 0.010, 12, 12), 12);
    assert_int_equal(preparers(&curve, 0.001, 24, 14), 14);
}

/* Threads that idle may prepare up to where more are slower, and all of them where none ever was. */
static void test_preparers_most(void **state)
{
    (void)state;
    static const double all = 1;
    struct governor_curve curve = {.age = {0}}, straight = {.age = {0}};
    struct governor_balance balance = {.workers = WORKERS, .curves = &curve, .parts = &all, .n_classes = 1};
    assert_int_equal(governor_preparers_most(&balance, 6), WORKERS); /* nothing known */
    fill(&curve, 14);
    assert_in_range(governor_preparers_most(&balance, 14), 15, 19);
    assert_int_equal(governor_preparers_most(&balance, 22), 24); /* no slower than there */
    balance.curves = &straight;
    note(&straight, 6, 600, 50);
    governor_curve_fold(&straight, true);
    assert_int_equal(governor_preparers_most(&balance, 6), WORKERS);
}

/* With nothing known but where it stands, trying a count a window finds the peak in few windows, and then stays. */
static void test_preparers_are_found(void **state)
{
    (void)state;
    static const double all = 1;
    for (uint32_t peak = 2; peak < WORKERS; peak++) {
        struct governor_curve curve = {.age = {0}};
        struct governor_balance balance = {
            .workers = WORKERS, .loaders = WORKERS, .load_s = 1e-5, .curves = &curve, .parts = &all, .n_classes = 1};
        uint32_t at = 12, settled = 12, probe = 0;
        for (int window = 0; window < 16; window++) {
            note(&curve, at, true_rate(at, peak), 50);
            governor_curve_fold(&curve, true);
            settled = governor_preparers(&balance, settled, 0.02, &probe);
            at = probe ? probe : settled;
        }
        assert_int_equal(probe, 0);
        assert_true(true_rate(settled, peak) >= true_rate(peak, peak) * 0.95);
    }
}

/* Of fewer preparers than anybody saw no more than a quarter less are tried at a time: they may do as much less. */
static void test_fewer_are_tried_in_small_steps(void **state)
{
    (void)state;
    for (uint32_t seen = 2; seen < WORKERS; seen++) {
        static const double all = 1;
        struct governor_curve curve = {.age = {0}};
        struct governor_balance balance = {
            .workers = seen, .loaders = WORKERS, .load_s = 1e-5, .curves = &curve, .parts = &all, .n_classes = 1};
        uint32_t probe;
        note(&curve, seen, 100.0 * seen, 50);
        governor_curve_fold(&curve, true);
        assert_int_equal(governor_preparers(&balance, seen, 0.02, &probe), seen);
        assert_true(probe > 0 && probe < seen && (probe >= seen * 3 / 4 || probe == seen - 1));
    }
}

/* So they are beside tasks of other kinds that are rare, or that nobody has done for long. */
static void test_preparers_are_found_beside_rare_tasks(void **state)
{
    (void)state;
    static const double parts[] = {0.97, 0.02, 0.01};
    for (uint32_t peak = 2; peak < WORKERS; peak++) {
        struct governor_curve curves[] = {{.age = {0}}, {.age = {0}}, {.age = {0}}}; /* the last: never seen */
        struct governor_balance balance = {
            .workers = WORKERS, .loaders = WORKERS, .load_s = 1e-5, .curves = curves, .parts = parts, .n_classes = 3};
        uint32_t at = 12, settled = 12, probe = 0;
        note(&curves[1], at, true_rate(at, peak), 50);
        for (int window = 0; window < 200; window++)
            governor_curve_fold(&curves[1], true);
        for (int window = 0; window < 16; window++) {
            note(&curves[0], at, true_rate(at, peak), 50);
            governor_curve_fold(&curves[0], true);
            settled = governor_preparers(&balance, settled, 0.02, &probe);
            at = probe ? probe : settled;
        }
        assert_int_equal(probe, 0);
        assert_true(true_rate(settled, peak) >= true_rate(peak, peak) * 0.85); /* what the others cost is guessed */
    }
}

/* ── loaders ── */

/* Loaders go by pressure; nobody gets more than it can use; each that wants any gets one, and its guaranteed part. */
static void test_deal(void **state)
{
    (void)state;
    uint32_t out[4];
    const struct governor_claim even[] = {{3, 1, 99, 0}, {1, 1, 99, 0}, {0, 1, 99, 0}, {2, 1, 99, 0}};
    governor_deal(even, 4, 12, 0, out);
    assert_int_equal(out[0], 6);
    assert_int_equal(out[1], 2);
    assert_int_equal(out[2], 0);
    assert_int_equal(out[3], 4);
    const struct governor_claim greedy[] = {{1000, 1, 99, 0}, {1, 1, 99, 0}, {1, 2, 2, 0}};
    governor_deal(greedy, 3, 16, 0.5, out);
    assert_int_equal(out[1], 2); /* half of a quarter of 16 */
    assert_int_equal(out[2], 2); /* all it can use, of four it would keep */
    assert_int_equal(out[0], 12);
    governor_deal(greedy, 3, 1, 0.5, out);
    assert_int_equal(out[0] + out[1] + out[2], 1);
    const struct governor_claim skipped[] = {{1000, 1, 99, 0}, {1, 1, 99, 3}};
    governor_deal(skipped, 2, 1, 0.5, out);
    assert_int_equal(out[1], 1);
}

/* The bisection gives what trying every count gives, and its upper end where no count is enough. */
static void test_bisection(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, seed());
    for (int round = 0; round < 2000; round++) {
        struct governor_forecast forecast = {random_unit(&rng), random_unit(&rng) - 0.9};
        double tau = random_unit(&rng) * 0.1;
        uint32_t low = 1 + (uint32_t)random_below(&rng, 5), high = low + (uint32_t)random_below(&rng, 60), fewest = low;
        while (fewest < high && governor_late(&forecast, fewest) > tau)
            fewest++;
        assert_int_equal(governor_bisect(&forecast, tau, low, high), fewest);
    }
}

/* Helping a straggler makes no loaders, takes none below a floor, and makes nobody late who was not. */
static void test_relief(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, seed());
    struct governor_forecast two[] = {{0.200, -0.050}, {0.020, -0.050}};
    uint32_t deal[] = {2, 10}, one_each[] = {1, 1};
    governor_relieve(two, 2, 0.010, one_each, deal);
    assert_int_equal(deal[0], 4); /* 50 ms late by load, 50 ms early by training: 4 loaders are enough, not 11 */
    assert_int_equal(deal[1], 8);
    for (int round = 0; round < 500; round++) {
        struct governor_forecast forecasts[8];
        uint32_t before[8], loaders[8], floor[8], sum = 0, sum_after = 0;
        for (int i = 0; i < 8; i++) {
            forecasts[i] = (struct governor_forecast){random_unit(&rng) * 0.2, -random_unit(&rng) * 0.1};
            floor[i] = 1;
            before[i] = loaders[i] = 1 + (uint32_t)random_below(&rng, 6);
            sum += before[i];
        }
        governor_relieve(forecasts, 8, 0.010, floor, loaders);
        for (int i = 0; i < 8; i++) {
            sum_after += loaders[i];
            assert_true(loaders[i] >= floor[i]);
            if (loaders[i] < before[i])
                assert_true(governor_late(&forecasts[i], loaders[i]) <= 0.010);
        }
        assert_int_equal(sum, sum_after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_curve_is_piecewise_linear),
        cmocka_unit_test(test_curve_keeps_its_shape),
        cmocka_unit_test(test_preparers),
        cmocka_unit_test(test_preparers_most),
        cmocka_unit_test(test_preparers_are_found),
        cmocka_unit_test(test_fewer_are_tried_in_small_steps),
        cmocka_unit_test(test_preparers_are_found_beside_rare_tasks),
        cmocka_unit_test(test_deal),
        cmocka_unit_test(test_bisection),
        cmocka_unit_test(test_relief),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
