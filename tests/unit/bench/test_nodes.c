/* The simulator of `larder_bench nodes`: its model is the printed equations, each policy does what its name says in
 * cases that can be worked out by hand, and no scenario file, however wrong, does more than fail. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/random.h"
#include "tests/bench/virtual/nodes_priv.h"

static const char scenario_text[] = "nodes: 4\n"
                                    "seed: 3\n"
                                    "compute: 100\n"
                                    "preprocess: 200\n"
                                    "network: 10000\n"
                                    "pfs: {network: 2000, read: {1: 66, 2: 86, 4: 146}}\n"
                                    "classes:\n"
                                    "  - {capacity: 8, threads: 2, read: {2: 20000}}\n"
                                    "  - {capacity: 100, threads: 2, read: {2: 20000}}\n"
                                    "  - {capacity: 200, threads: 2, read: {2: 86}, write: {2: 86}}\n"
                                    "dataset: {samples: 400, mean: 1, deviation: 0}\n"
                                    "epochs: 3\n"
                                    "batch: 40\n"
                                    "policies: [naive, hdmlp]\n";

static int parse(const char *text, size_t len_bytes, struct nodes_scenario *out, struct error *err)
{
    char path[] = "/tmp/larder-nodes-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len_bytes), (ssize_t)len_bytes);
    close(fd);
    int code = nodes_read(path, out, err);
    unlink(path);
    return code;
}

static struct nodes_scenario scenario(void)
{
    struct nodes_scenario out;
    struct error err;
    assert_int_equal(parse(scenario_text, sizeof scenario_text - 1, &out, &err), 0);
    return out;
}

static const struct nodes_policy *policy(const char *name)
{
    for (int i = 0; i < NODES_POLICIES; i++) {
        if (strcmp(nodes_policies[i].name, name) == 0)
            return &nodes_policies[i];
    }
    fail_msg("there is no policy %s", name);
    return NULL;
}

static struct nodes_result run(const struct nodes_scenario *in, const char *name)
{
    struct nodes_result result;
    double *sizes = nodes_sizes(in);
    nodes_run(in, sizes, policy(name), &result);
    free(sizes);
    return result;
}

static void assert_near(double value, double expected)
{
    if (!(fabs(value - expected) <= 1e-9 + 1e-6 * fabs(expected)))
        fail_msg("%.9f, and not %.9f", value, expected);
}

static double all_read(const struct nodes_result *result)
{
    double all = 0;
    for (int source = 0; source < NODES_SOURCES; source++)
        all += result->read[source];
    return all;
}

/* Curves are level outside of their points and straight between them (4.1). */
static void test_curve(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario();
    assert_near(nodes_speed(&in.pfs, 0.5), 66);
    assert_near(nodes_speed(&in.pfs, 2), 86);
    assert_near(nodes_speed(&in.pfs, 3), 116);
    assert_near(nodes_speed(&in.pfs, 4), 146);
    assert_near(nodes_speed(&in.pfs, 64), 146);
}

/* What one MB takes is what (3.4) to (3.7) say. */
static void test_costs(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario();
    struct nodes_costs costs;
    nodes_costs(&in, &costs);
    assert_near(costs.pfs[1], 1 / 66.0);
    assert_near(costs.pfs[4], 1 / 36.5);
    assert_near(costs.own[2], 1 / 43.0);
    assert_near(costs.own[1], 1 / 10000.0);
    in.network = 20;
    in.pfs_network = 30;
    nodes_costs(&in, &costs);
    assert_near(costs.others[1], 1 / 20.0);
    assert_near(costs.others[2], 1 / 20.0);
    assert_near(costs.pfs[1], 1 / 30.0);
    assert_near(nodes_read_cost(&costs, 0, 1 / 36.5), (1 / 36.5 + 1 / 200.0) / 2);
    assert_near(nodes_read_cost(&costs, 2, 0), 1 / 86.0); /* as slow as the class is written */
}

/* Sizes have the mean and the deviation asked for, and none is below 0. */
static void test_sizes(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario();
    double sum = 0, square = 0;
    in.samples = 200000;
    in.mean = 2;
    in.deviation = 0.5;
    double *sizes = nodes_sizes(&in);
    for (uint64_t id = 0; id < in.samples; id++) {
        assert_true(sizes[id] >= 0);
        sum += sizes[id];
        square += (sizes[id] - 2) * (sizes[id] - 2);
    }
    free(sizes);
    assert_true(fabs(sum / 200000 - 2) < 0.01);
    assert_true(fabs(sqrt(square / 200000) - 0.5) < 0.01);
}

/* With samples of one size, the bounds can be worked out: nothing but computing, and one read after another. */
static void test_bounds(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario();
    struct nodes_result free_of_reads = run(&in, "lower-bound");
    assert_near(free_of_reads.runtime, 300 * 0.01);
    assert_near(free_of_reads.stall, 0);
    assert_near(all_read(&free_of_reads), 0);
    assert_int_equal(free_of_reads.batches, 30);

    struct nodes_result naive = run(&in, "naive"); /* four that go in step: each read meets three others */
    assert_near(naive.runtime, 300 * (1 / 36.5 + 0.005 + 0.01));
    assert_near(naive.stall, 300 * (1 / 36.5 + 0.005));
    assert_near(naive.read[NODES_PFS], 1200);

    in.nodes = 1;
    naive = run(&in, "naive");
    assert_near(naive.runtime, 1200 * (1 / 66.0 + 0.005 + 0.01));
}

/* Reads ahead are a stream of two threads. The last sample is computed when it has come (3.2). */
static void test_staging(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario();
    struct nodes_result result = run(&in, "staging-pool");
    assert_near(result.runtime, 300 * (1 / 36.5 + 0.005) / 2 + 0.01);
    assert_near(result.stall, result.runtime - 3);
    assert_near(result.read[NODES_PFS], 1200);
    in.preprocess = 1e9;
    in.pfs = (struct nodes_curve){.count = 1, .points = {{1, 1e6}}};
    in.pfs_network = 1e6;
    result = run(&in, "staging-pool"); /* much faster than computing: only the first sample is waited for */
    assert_true(result.runtime >= 3 && result.runtime < 3.0001);
}

/* A sample larger than the staging buffer goes through it alone: one is read, then computed, then the next. */
static void test_small_buffer(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario();
    in.classes[0].capacity = 0.5;
    struct nodes_result result = run(&in, "staging-pool");
    assert_near(result.runtime, 300 * ((1 / 36.5 + 0.005) / 2 + 0.01));
}

/* What is loaded before training is each node's part, at the speed of four readers. After that nothing is waited for,
 * and each byte has come from the file system once. */
static void test_loading(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario();
    const char *const names[] = {"lbann-preloading", "deepio-ordered", "deepio-opportunistic", "locality-aware"};
    for (int i = 0; i < 4; i++) {
        struct nodes_result result = run(&in, names[i]);
        assert_null(result.refused);
        assert_near(result.loading, 100 * (1 / 36.5 + 0.005) / 2);
        assert_near(result.read[NODES_PFS], 400);
        assert_near(all_read(&result), 400 + 1200);
        assert_true(result.stall < 0.001 * result.runtime + 0.01);
    }
    struct nodes_result local = run(&in, "parallel-staging"); /* 100 MB to memory, 200 of the others' to class 2 */
    assert_near(local.loading, 200 / 86.0);
    assert_near(local.read[NODES_PFS], 400);
    assert_near(local.read[NODES_OTHERS], 800);
    assert_near(local.read[NODES_OWN + 1] + local.read[NODES_OWN + 2], 1200);
}

/* Batches with locality come from a node's own memory as far as parts of equal size allow. */
static void test_locality(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario();
    struct nodes_result drawn = run(&in, "lbann-preloading"), near = run(&in, "locality-aware");
    assert_true(near.read[NODES_OWN + 1] > 2.5 * drawn.read[NODES_OWN + 1]);
    assert_true(drawn.read[NODES_OWN + 1] > 0.15 * 1200 && drawn.read[NODES_OWN + 1] < 0.35 * 1200);
}

/* The first epoch of a store in memory is read from the file system, and later ones from the nodes. */
static void test_keeping(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario();
    in.classes[1].capacity = 150;
    struct nodes_result result = run(&in, "lbann-dynamic");
    assert_null(result.refused);
    assert_true(result.read[NODES_PFS] >= 400 && result.read[NODES_PFS] < 420); /* reads ahead run into epoch two */
    in.classes[1].capacity = 99;
    assert_non_null(run(&in, "lbann-dynamic").refused);
    assert_non_null(run(&in, "lbann-preloading").refused);
}

/* HDMLP keeps what a node reads most often in its fastest class, and orders each class by first use. */
static void test_frequent(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario();
    struct nodes_places places;
    struct nodes_deal deal;
    struct nodes_list lists[NODES_CLASSES_MAX];
    double *sizes = nodes_sizes(&in);
    uint32_t times[400] = {0}, order[400], least = UINT32_MAX, most = 0;
    nodes_places_create(&places, &in, sizes);
    assert_true(nodes_deal_create(&deal, policy("hdmlp"), &places));
    for (uint64_t at = nodes_picks(&deal, 1); at-- > 0;) {
        uint32_t id = nodes_pick(&deal, 1, at);
        times[id]++;
        order[id] = (uint32_t)at;
    }
    nodes_frequent(&in, sizes, &deal, 1, lists);
    assert_int_equal(lists[1].count, 100);
    for (uint32_t i = 0; i < lists[1].count; i++) {
        least = times[lists[1].ids[i]] < least ? times[lists[1].ids[i]] : least;
        assert_true(i == 0 || order[lists[1].ids[i - 1]] < order[lists[1].ids[i]]);
    }
    for (uint32_t i = 0; i < lists[2].count; i++) {
        most = times[lists[2].ids[i]] > most ? times[lists[2].ids[i]] : most;
        assert_true(i == 0 || order[lists[2].ids[i - 1]] < order[lists[2].ids[i]]);
    }
    assert_true(least >= most && most > 0);
    free(lists[1].ids);
    free(lists[2].ids);
    nodes_deal_free(&deal);
    nodes_places_free(&places);
    free(sizes);
}

/* Of batches that are drawn, whoever holds what, every sample comes once an epoch. */
static void test_once(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario();
    const char *const names[] = {"naive", "locality-aware"};
    double *sizes = nodes_sizes(&in);
    in.nodes = 3; /* parts of a batch of 40 that are not equal */
    for (int i = 0; i < 2; i++) {
        struct nodes_places places;
        struct nodes_deal deal;
        uint8_t times[400] = {0};
        nodes_places_create(&places, &in, sizes);
        for (uint32_t id = 0; id < 200; id++)
            nodes_put(&places, id % 2, 1, id);
        assert_true(nodes_deal_create(&deal, policy(names[i]), &places));
        for (uint32_t node = 0; node < 3; node++) {
            for (uint64_t at = 0; at < nodes_picks(&deal, node) / 3; at++)
                times[nodes_pick(&deal, node, at)]++;
        }
        for (uint32_t id = 0; id < 400; id++)
            assert_int_equal(times[id], 1);
        nodes_deal_free(&deal);
        nodes_places_free(&places);
    }
    free(sizes);
}

static struct nodes_scenario odd(struct rng *rng)
{
    struct nodes_scenario in = scenario();
    in.seed = random_u64(rng);
    in.nodes = 1 + random_below(rng, 9);
    in.batch = in.nodes + random_below(rng, 50);
    in.samples = in.batch + random_below(rng, 300);
    in.epochs = 1 + random_below(rng, 4);
    in.mean = random_unit(rng);
    in.deviation = 2 * random_unit(rng); /* many are 0 MB */
    in.compute = 1 + 1000 * random_unit(rng);
    in.n_classes = (uint32_t)(1 + random_below(rng, 3));
    for (uint32_t i = 0; i < in.n_classes; i++)
        in.classes[i].capacity = random_below(rng, 3) ? 200 * random_unit(rng) : 0;
    return in;
}

/* In scenarios of any kind every policy ends or says why it cannot run, the same each time; time is computing, loading
 * and stalls; and all samples but those read for free have come from somewhere. */
static void test_odd(void **state)
{
    (void)state;
    const char *given = getenv("LARDER_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    struct rng rng;
    random_seed(&rng, seed);
    printf("LARDER_SEED=%llu\n", (unsigned long long)seed);
    for (int round = 0; round < 150; round++) {
        struct nodes_scenario in = odd(&rng);
        for (int i = 0; i < NODES_POLICIES; i++) {
            struct nodes_result result = run(&in, nodes_policies[i].name), again = run(&in, nodes_policies[i].name);
            if (result.refused)
                continue;
            assert_memory_equal(&result, &again, sizeof result);
            assert_int_equal(result.batches, in.samples / in.batch * in.epochs);
            assert_true(result.stall >= 0 && result.loading >= 0 && isfinite(result.runtime));
            assert_true(result.stall + result.loading <= result.runtime * (1 + 1e-9));
            assert_true(nodes_policies[i].reads != NODES_FREE || all_read(&result) == 0);
        }
    }
}

/* Errors name the place, and say what to do. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"nodes: 0\n", ":1:8: nodes: must be a number from 1 to 64, and is 0"},
        {"nodes: 4\nspeed: 3\n", ":2:1: speed: is no key of a scenario here"},
        {"pfs: {read: {2: 5, 1: 6}}\n", ":1:23: 1: must be more than the point before"},
        {"pfs: {read: {x: 5}}\n", ":1:17: x: must be how many read"},
        {"pfs: {read: {1: -5}}\n", ":1:17: 1: must be a number from 1e-06"},
        {"pfs: {read: {}}\n", ":1:13: read: needs a point"},
        {"classes: []\n", ":1:10: classes: must be a list"},
        {"classes: [{capacity: 3}]\n", ":1:11: classes: a class needs `read`"},
        {"policies: [nave]\n", ":1:12: policies: is no policy"},
        {"policies: [[naive]]\n", ":1:12: policies: is no policy"},
        {"nodes: 2\n", ":1:1: needs `pfs`"},
        {"nodes: [\n", ":2:1: not YAML"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nodes_scenario out;
        struct error err;
        assert_true(parse(cases[i].text, strlen(cases[i].text), &out, &err) < 0);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s: does not say \"%s\"", err.text, cases[i].says);
    }
}

/* Whatever bytes a file has, it is read or refused with a reason; and what is read is within its bounds. */
static void test_garbage(void **state)
{
    (void)state;
    struct rng rng;
    random_seed(&rng, 5);
    for (int round = 0; round < 3000; round++) {
        char text[sizeof scenario_text];
        size_t len_bytes = sizeof text - 1 - random_below(&rng, 2) * random_below(&rng, sizeof text - 1);
        struct nodes_scenario out;
        struct error err = {.text = ""};
        memcpy(text, scenario_text, sizeof text);
        for (uint64_t i = 1 + random_below(&rng, 4); i-- > 0;)
            text[random_below(&rng, sizeof text - 1)] = random_below(&rng, 2)
                                                            ? (char)random_below(&rng, 256)
                                                            : "0123456789{}[]:,-\n "[random_below(&rng, 19)];
        if (parse(text, len_bytes, &out, &err)) {
            assert_true(err.text[0]);
            continue;
        }
        assert_in_range(out.nodes, 1, NODES_MAX);
        assert_in_range(out.n_classes, 1, NODES_CLASSES_MAX);
        assert_in_range(out.batch, out.nodes, out.samples);
        assert_in_range(out.samples * out.epochs, 1, NODES_PICKS_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_curve),    cmocka_unit_test(test_costs),    cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_bounds),   cmocka_unit_test(test_staging),  cmocka_unit_test(test_small_buffer),
        cmocka_unit_test(test_loading),  cmocka_unit_test(test_locality), cmocka_unit_test(test_keeping),
        cmocka_unit_test(test_frequent), cmocka_unit_test(test_once),     cmocka_unit_test(test_odd),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
