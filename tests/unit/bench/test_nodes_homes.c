/* Larder's row of `larder_bench nodes`: a home keeps as much as docs/internals/sharing.md says, memory and disks hold
 * no more than they have room for, and each sample that nodes hold is read from the file system once. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "tests/bench/virtual/nodes_priv.h"

enum { SAMPLES = 6400, NODES = 4 };

static struct nodes_scenario scenario(double memory)
{
    struct nodes_scenario out = {.nodes = NODES,
                                 .seed = 3,
                                 .epochs = 3,
                                 .batch = 40,
                                 .samples = SAMPLES,
                                 .mean = 1,
                                 .compute = 100,
                                 .preprocess = 200,
                                 .network = 10000,
                                 .pfs_network = 2000,
                                 .n_classes = 3};
    out.pfs = (struct nodes_curve){.count = 2, .points = {{1, 66}, {4, 146}}};
    for (int i = 0; i < 3; i++) {
        out.classes[i].threads = 2;
        out.classes[i].read = (struct nodes_curve){.count = 1, .points = {{2, i < 2 ? 20000 : 86}}};
    }
    out.classes[2].write = out.classes[2].read;
    out.classes[0].capacity = 50;
    out.classes[1].capacity = memory;
    out.classes[2].capacity = 1000;
    return out;
}

struct world {
    struct nodes_scenario scenario;
    struct nodes_costs costs;
    struct nodes_places places;
    struct nodes_homes homes;
    double *sizes;
};

static struct world *world_create(double memory)
{
    struct world *world = xcalloc(1, sizeof *world);
    world->scenario = scenario(memory);
    world->sizes = nodes_sizes(&world->scenario);
    nodes_costs(&world->scenario, &world->costs);
    nodes_places_create(&world->places, &world->scenario, world->sizes);
    nodes_homes_create(&world->homes, &world->scenario, world->sizes);
    return world;
}

static void world_destroy(struct world *world)
{
    nodes_homes_free(&world->homes);
    nodes_places_free(&world->places);
    free(world->sizes);
    free(world);
}

static double kept_of(const struct world *world, uint32_t node)
{
    double kept = 0;
    for (uint32_t id = 0; id < SAMPLES; id++)
        kept += world->homes.home[id] == node && world->homes.kept[id] ? world->sizes[id] : 0;
    return kept;
}

static uint32_t first_of(const struct world *world, bool kept)
{
    uint32_t id = 0;
    while (world->homes.kept[id] != kept)
        id++;
    return id;
}

static struct nodes_result run(const struct nodes_scenario *in)
{
    struct nodes_result result;
    double *sizes = nodes_sizes(in);
    nodes_run(in, sizes, &nodes_policies[NODES_POLICIES - 1], &result);
    free(sizes);
    return result;
}

/* Each chunk has one home, and no home has more than 1.05 of the mean. */
static void test_homes(void **state)
{
    (void)state;
    struct world *world = world_create(100);
    uint32_t has[NODES] = {0};
    for (uint32_t id = 0; id < SAMPLES; id++) {
        assert_int_equal(world->homes.home[id], world->homes.home[id - id % 64]);
        has[world->homes.home[id]]++;
    }
    for (int node = 0; node < NODES; node++)
        assert_in_range(has[node], 1, 27 * 64); /* 25 chunks are the mean */
    world_destroy(world);
}

/* Whole chunks stay, beside the memory that the others need: a twelfth of them and eight chunks. */
static void test_kept(void **state)
{
    (void)state;
    static const double memories[] = {0, 500, 620, 1000, 1500, 2000};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) {
        struct world *world = world_create(memories[i]);
        for (uint32_t node = 0; node < NODES; node++) {
            double kept = kept_of(world, node), share = 0;
            for (uint32_t id = 0; id < SAMPLES; id++)
                share += world->homes.home[id] == node ? world->sizes[id] : 0;
            if (memories[i] >= share)
                assert_true(fabs(kept - share) < 1e-6);
            else
                assert_true(kept == 0 || (kept <= memories[i] - 8 * 64 && kept > memories[i] - 10 * 64));
            assert_true(kept + world->homes.stock[node] <= memories[i] * (1 + 1e-6));
        }
        for (uint32_t id = 0; id < SAMPLES; id++)
            assert_int_equal(world->homes.kept[id], world->homes.kept[id - id % 64]);
        world_destroy(world);
    }
}

/* What is read ahead takes room until it is used, and goes back to the disk that has it. What is kept stays. */
static void test_stock(void **state)
{
    (void)state;
    struct world *world = world_create(1000);
    uint32_t id = first_of(world, false), kept = first_of(world, true), home = world->homes.home[id];
    assert_true(nodes_homes_room(&world->homes, &world->places, id));
    nodes_homes_reserve(&world->homes, &world->places, id);
    assert_true(world->homes.until[id] > 0 && world->homes.stocked[home] == world->sizes[id]);
    nodes_homes_in_memory(&world->homes, &world->places, id);
    nodes_homes_write_behind(&world->homes, &world->places, &world->costs, id, 0);
    assert_int_equal(nodes_own(&world->places, home, id), 1);
    nodes_homes_used(&world->homes, &world->places, id);
    assert_int_equal(nodes_own(&world->places, home, id), 2);
    assert_int_equal(world->places.lowest[id], 2);
    assert_true(world->homes.stocked[home] == 0);
    nodes_homes_used(&world->homes, &world->places, kept); /* read into the staging buffer directly */
    assert_int_equal(world->places.lowest[kept], 1);
    world->homes.stocked[home] = world->homes.stock[home];
    assert_false(nodes_homes_room(&world->homes, &world->places, id));
    assert_true(nodes_homes_room(&world->homes, &world->places, kept));
    world_destroy(world);
}

/* No more waits to be written than there is room for; a class holds no more than its capacity; and one that is slower
 * than the file system is left alone. */
static void test_behind(void **state)
{
    (void)state;
    struct world *world = world_create(1000);
    double written[2] = {0};
    for (uint32_t pass = 0; pass < 2; pass++) { /* all at one moment, and then much later again */
        for (uint32_t id = 0; id < SAMPLES; id++)
            nodes_homes_write_behind(&world->homes, &world->places, &world->costs, id, pass * 1000.0);
        for (uint32_t id = 0; id < SAMPLES; id++)
            written[pass] += world->homes.disk[id] == 2 && world->homes.home[id] == 0 ? world->sizes[id] : 0;
        assert_true(fabs(written[pass] - 64 * (pass + 1.0)) < 2);
    }
    for (uint32_t id = 0; id < SAMPLES; id++)
        nodes_homes_write_behind(&world->homes, &world->places, &world->costs, id, 2000.0 + id);
    assert_true(world->places.used[0][2] <= 1000 && world->places.used[0][2] > 998);
    world_destroy(world);

    world = world_create(1000);
    world->costs.own[2] = 1.01 * world->costs.pfs[NODES];
    nodes_homes_write_behind(&world->homes, &world->places, &world->costs, 0, 0);
    assert_int_equal(world->homes.disk[0], 0);
    world_destroy(world);
}

/* When memories hold all, each byte comes from the file system once, and all others from memories. */
static void test_all_in_memory(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario(2000);
    struct nodes_result result = run(&in);
    assert_true(result.read[NODES_OWN + 2] == 0);
    assert_true(fabs(result.read[NODES_PFS] - SAMPLES) < 1e-6);
    assert_true(result.stall < 0.02 * result.runtime);
}

/* When memories and disks hold a part, later epochs read no more than the rest from the file system; and without any of
 * them, this is staging alone. */
static void test_part(void **state)
{
    (void)state;
    struct nodes_scenario in = scenario(1000);
    struct nodes_result result = run(&in), staging;
    double *sizes = nodes_sizes(&in);
    double rest = SAMPLES - 4 * 1000.0; /* at least what the disks have */
    assert_true(result.read[NODES_PFS] >= SAMPLES);
    assert_true(result.read[NODES_PFS] <= SAMPLES + 2 * rest + 600); /* a disk is not full after one epoch */
    in.n_classes = 1;
    result = run(&in);
    nodes_run(&in, sizes, &nodes_policies[3], &staging);
    assert_string_equal(nodes_policies[3].name, "staging-pool");
    assert_true(fabs(result.runtime / staging.runtime - 1) < 0.01); /* but for the way over the network */
    assert_true(fabs(result.read[NODES_PFS] - 3.0 * SAMPLES) < 1e-6);
    free(sizes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_homes),  cmocka_unit_test(test_kept),          cmocka_unit_test(test_stock),
        cmocka_unit_test(test_behind), cmocka_unit_test(test_all_in_memory), cmocka_unit_test(test_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
