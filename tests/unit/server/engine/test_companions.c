/* test_companions.c: one decode for jobs of different pipelines, and instances as long as their samples. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/check.h"
#include "server/plan/play.h"

#define SAMPLES 64
#define SLOT 1000

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset;
    return 100 + id;
}

struct world {
    struct play play;
    struct idset *view;
    struct chunk_slot places[SAMPLES];
    sample_id order[SAMPLES];
    uint32_t tasks, outputs[2]; /* PREPAREs; their outputs by pipeline */
    bool consumed;              /* batches are released */
    bool raw;                   /* pipeline 1 is encoded bytes */
    uint64_t variant;           /* of the last output */
};

static bool see(void *ctx, const struct engine_action *action)
{
    struct world *world = ctx;
    if (action->type == ENGINE_DELIVER)
        return !world->consumed;
    if (action->type != ENGINE_PREPARE)
        return false;
    world->tasks++;
    for (uint32_t k = 0; k < action->prepare.n_outputs; k++) {
        const struct engine_output *output = &action->prepare.outputs[k];
        world->outputs[output->pipeline]++;
        world->variant = output->variant;
        assert_int_equal(output->bytes, world->raw && output->pipeline ? 100 + action->prepare.id : SLOT);
        assert_ptr_equal(output->dataset, world);
    }
    return false;
}

static struct world *world_new(uint64_t arena_bytes)
{
    struct world *world = xcalloc(1, sizeof *world);
    struct engine_config config = {.seed = 3,
                                   .arena_bytes = arena_bytes,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 4,
                                   .redirect_width = 8,
                                   .sample_bytes = sample_bytes};
    assert_int_equal(play_create(config, &world->play, NULL), 0);
    world->play.see = see;
    world->play.ctx = world;
    world->play.check_every = 1;
    assert_int_equal(idset_create(&world->view), 0);
    for (sample_id id = 0; id < SAMPLES; id++) {
        idset_add(world->view, id);
        world->places[id] = (struct chunk_slot){id / 16, id % 16};
        world->order[id] = id;
    }
    return world;
}

static void world_free(struct world *world)
{
    idset_destroy(world->view);
    play_end(&world->play);
    free(world);
}

static uint32_t add(struct world *world, const char *name, struct engine_job_desc desc)
{
    desc.name = name;
    desc.client = (uint64_t)name[0];
    desc.dataset = world;
    desc.batch_size = 4;
    desc.prefetch = 1;
    desc.sampled.view = world->view;
    desc.sampled.order = world->order;
    desc.chunks = (struct engine_chunks){.places = world->places, .count = SAMPLES / 16, .samples = 16};
    return play_add(&world->play, &desc);
}

static void ask(struct world *world, uint32_t job)
{
    play_next(&world->play, job, 0, 0, 1);
}

/* A job whose queue is full still gets an instance of what another decodes, when there is room that nobody wants;
 * not when there is none. Variants count as pipelines do. */
static void test_companions(void **state)
{
    (void)state;
    for (int roomy = 0; roomy <= 1; roomy++) {
        struct world *world = world_new(roomy ? UINT64_C(1) << 20 : 24 * 1024);
        uint32_t a = add(world, "a", (struct engine_job_desc){.slot_bytes = SLOT, .variant = 1});
        uint32_t b = add(world, "b", (struct engine_job_desc){.slot_bytes = SLOT, .variant = 2});
        ask(world, a);
        assert_int_equal(world->outputs[0], world->tasks); /* b has not begun, and wants nothing yet */
        ask(world, b);
        uint32_t both = world->outputs[0] - world->tasks;
        assert_true(roomy ? both > 0 : both == 0);
        struct engine_totals totals;
        engine_totals(world->play.engine, &totals);
        assert_int_equal(totals.counts.samples_decoded, world->tasks);
        assert_int_equal(totals.counts.instances_prepared, world->outputs[0]);
        assert_true(totals.arena.pinned_bytes <= totals.arena.quota_bytes); /* companions are cache */
        world_free(world);
    }
}

/* The last samples of an epoch leave room in their queue that the next epoch fills: what another job would be given
 * there would go before it is taken. */
static void test_room_of_queues(void **state)
{
    (void)state;
    struct world *world = world_new(24 * 1024); /* two queues of three batches */
    idset_remove(world->view, SAMPLES - 1);
    idset_remove(world->view, SAMPLES - 2);
    uint32_t a = add(world, "a", (struct engine_job_desc){.slot_bytes = SLOT, .variant = 1});
    uint32_t b = add(world, "b", (struct engine_job_desc){.slot_bytes = SLOT, .variant = 2});
    ask(world, a);
    ask(world, b);
    uint32_t both = world->outputs[0] - world->tasks; /* what both asked for */
    world->consumed = true;
    for (uint32_t batch = 0; batch < SAMPLES / 4; batch++)
        ask(world, a);
    assert_int_equal(world->outputs[0] - world->tasks, both);
    world_free(world);
}

/* Of two jobs with different pipelines that take the same order, the one behind is given what the one ahead decodes; a
 * strict job of another seed is not. */
static void test_same_order(void **state)
{
    (void)state;
    const struct engine_job_desc ahead = {.slot_bytes = SLOT, .variant = 1, .sampled.seed = 1};
    for (int i = 0; i < 3; i++) {
        enum shuffle_mode shuffle = i < 2 ? SHUFFLE_STRICT : SHUFFLE_NONE;
        bool same = i != 1;
        struct world *world = world_new(UINT64_C(1) << 20);
        struct engine_job_desc first = ahead, second = ahead;
        first.sampled.shuffle = shuffle;
        second = first;
        second.pipeline = 1;
        second.sampled.seed = same ? 1 : 2;
        uint32_t a = add(world, "a", first), b = add(world, "b", second);
        ask(world, b);
        world->consumed = true;
        for (uint32_t batch = 0; batch < SAMPLES / 4; batch++)
            ask(world, a);
        uint32_t made = world->outputs[1], decoded = world->tasks;
        assert_true(same ? made == SAMPLES : made < SAMPLES / 2);
        for (uint32_t batch = 0; batch < SAMPLES / 4; batch++)
            ask(world, b);
        assert_int_equal(world->outputs[1], SAMPLES);
        assert_true(same ? world->tasks == decoded : world->tasks > decoded);
        world_free(world);
    }
}

/* A strict job's variant is another in each epoch, and its neighbour's of no epoch. */
static void test_variant_of_epoch(void **state)
{
    (void)state;
    uint64_t seen[4];
    for (uint32_t i = 0; i < 4; i++) {
        struct world *world = world_new(UINT64_C(1) << 20);
        const struct engine_job_desc desc = {
            .slot_bytes = SLOT, .variant = 5 + i / 2, .sampled.shuffle = SHUFFLE_STRICT};
        uint32_t job = add(world, "s", desc);
        play_next(&world->play, job, 0, i % 2, 1);
        seen[i] = world->variant;
        for (uint32_t before = 0; before < i; before++)
            assert_true(seen[i] != seen[before]);
        assert_true(seen[i] != 0);
        world_free(world);
    }
}

/* Instances of a job by size are as long as their samples; copying them is no decode, and brings no companions. */
static void test_raw(void **state)
{
    (void)state;
    struct world *world = world_new(UINT64_C(1) << 20);
    world->raw = true;
    uint32_t pixels = add(world, "p", (struct engine_job_desc){.slot_bytes = SLOT, .variant = 1});
    uint32_t files = add(world, "f", (struct engine_job_desc){.slot_bytes = 192, .pipeline = 1, .raw = true});
    ask(world, pixels);
    uint32_t decoded = world->tasks;
    ask(world, files);
    struct engine_totals totals;
    engine_totals(world->play.engine, &totals);
    assert_true(world->outputs[1] > 0);
    assert_int_equal(world->outputs[0], decoded);
    assert_int_equal(totals.counts.samples_decoded, decoded);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_companions), cmocka_unit_test(test_room_of_queues),
                                       cmocka_unit_test(test_same_order), cmocka_unit_test(test_variant_of_epoch),
                                       cmocka_unit_test(test_raw)};
    return cmocka_run_group_tests_name("companions", tests, NULL, NULL);
}
