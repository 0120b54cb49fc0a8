/* Loading times by tier: what waits is predicted by where it comes from, and reads of a class say nothing of a source
 * and are not limited by it. */
#include <string.h>

#include "governor_scene.h"

static void test_mix(void **state)
{
    (void)state;
    double parts[GOVERNOR_TIERS_MAX] = {0};
    const uint64_t none[GOVERNOR_TIERS_MAX] = {0}, half[GOVERNOR_TIERS_MAX] = {5, 0, 5},
                   all[GOVERNOR_TIERS_MAX] = {0, 0, 9};
    governor_tiers_mix(parts, none, 0.5);
    assert_true(parts[0] == 0 && parts[2] == 0);
    governor_tiers_mix(parts, half, 0.5); /* the first window counts wholly */
    assert_true(parts[0] == 0.5 && parts[1] == 0 && parts[2] == 0.5);
    governor_tiers_mix(parts, none, 0.5);
    assert_true(parts[0] == 0.5);
    governor_tiers_mix(parts, all, 0.5);
    assert_true(parts[0] == 0.25 && parts[2] == 0.75);
}

/* Equation 1: the sum over tiers. A tier whose time is not known counts as usual. */
static void test_seconds(void **state)
{
    (void)state;
    const double sample_s[GOVERNOR_TIERS_MAX] = {0.032, 0.001}, samples[GOVERNOR_TIERS_MAX] = {2, 10, 3};
    assert_true(near(governor_tiers_seconds(samples, sample_s, 0.5), 0.064 + 0.010 + 1.5, 1e-9));
}

/* While the source is read by as many as it can use, classes are read by others. */
static void test_enough(void **state)
{
    (void)state;
    assert_int_equal(governor_tiers_enough(4, 1, 24), 4);
    assert_int_equal(governor_tiers_enough(4, 0.5, 24), 8);
    assert_int_equal(governor_tiers_enough(4, 0.3, 24), 14);
    assert_int_equal(governor_tiers_enough(4, 0.01, 24), 24);
    assert_int_equal(governor_tiers_enough(4, 0, 24), 24);
}

static void measure(struct governor *governor, uint32_t queues)
{
    for (uint32_t queue = 0; queue < queues; queue++) {
        for (int i = 0; i < 16; i++) {
            governor_loaded(governor, queue, &(struct governor_read){0.040, 1, 1, 0});
            governor_loaded(governor, queue, &(struct governor_read){0.002, 2, 1, 3});
        }
        for (int i = 0; i < 32; i++)
            prepare(governor, queue, 4, 0.002);
        governor_trained(governor, queue, 0.050);
    }
}

/* Two queues have loaded the same, and as much waits for both. What waits for the one comes from a class, so that one
 * is in time and needs few loaders; the other is late and gets the others. */
static void test_forecast(void **state)
{
    (void)state;
    struct governor *governor = make(12, 12);
    const struct governor_backlog backlogs[] = {{0, 32, 64, 64, 1, {0}}, {1, 32, 64, 64, 1, {[3] = 64}}};
    const struct governor_decision *decision = NULL;
    begin(governor, 0, 0, 1);
    begin(governor, 1, 0, 1);
    for (int window = 0; window < 12; window++) {
        measure(governor, 2);
        decision = governor_decide(governor, backlogs, 2);
    }
    assert_true(
        near(decision->views[0].load_s, 0.040 / 3 + 0.001 * 2 / 3, 0.01)); /* of three samples two by the class */
    assert_true(near(decision->views[1].load_s, decision->views[0].load_s, 0.01));
    assert_true(decision->views[0].late_s > 0.010 && decision->views[1].late_s < 0.010);
    assert_true(decision->queue_loaders[0] >= 2 * decision->queue_loaders[1]);
    governor_destroy(governor);
}

/* Without storage classes nothing differs: what is said of the tiers is that all comes from the source. */
static void test_source_alone(void **state)
{
    (void)state;
    struct governor *governor = make(12, 12);
    const struct governor_backlog backlog = {0, 32, 64, 64, 0, {0}};
    begin(governor, 0, 0, 1);
    for (int i = 0; i < 32; i++)
        load(governor, 0, 0.012, 3);
    const struct governor_decision *decision = governor_decide(governor, &backlog, 1);
    assert_true(near(decision->views[0].load_s, 0.004, 1e-6));
    governor_destroy(governor);
}

/* A saturated source allows few reads at once. Where a class brings four fifths of the samples, more threads may load
 * all the same, since they do not read from the source. */
static void test_saturated(void **state)
{
    (void)state;
    uint32_t loaders[2];
    for (uint32_t with = 0; with <= 1; with++) {
        struct governor *governor = make(8, 40);
        begin(governor, 0, 0, 1);
        struct governor_backlog backlog = {0, 64, 900, 900, 0, {0}};
        backlog.pending_tiers[1] = with ? 720 : 0;
        const struct governor_decision *decision = governor_decide(governor, &backlog, 1);
        for (int window = 0; window < 60; window++) {
            uint32_t reads = decision->source_most[0] < decision->loaders ? decision->source_most[0]
                                                                          : decision->loaders;
            double read_s = reads > 6 ? 0.010 * reads / 6 : 0.010;
            for (int k = 0; k < 40; k++) {
                governor_loaded(governor, 0, &(struct governor_read){read_s, 1, reads, 0});
                for (uint32_t class = 0; class < 4 * with; ++class)
                    governor_loaded(governor, 0, &(struct governor_read){0.010, 1, reads, 1});
                for (uint32_t i = 0; i <= 4 * with; i++)
                    prepare(governor, 0, decision->preparers, 0.001);
            }
            decision = governor_decide(governor, &backlog, 1);
        }
        assert_true(decision->source_most[0] >= 5 && decision->source_most[0] <= 8);
        loaders[with] = decision->loaders;
        governor_destroy(governor);
    }
    assert_true(loaders[0] <= 8 && loaders[1] >= 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mix),      cmocka_unit_test(test_seconds),      cmocka_unit_test(test_enough),
        cmocka_unit_test(test_forecast), cmocka_unit_test(test_source_alone), cmocka_unit_test(test_saturated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
