/* Which rank of a job is worked for first, when there is more to do than can be done: one preparation at a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/engine.h"

enum { SLOT = 1000, ENCODED = 100, SAMPLES = 200, BATCH = 4, PREFETCH = 6, RANKS = 2, NONE = -1 };

/* Loads come back at once, preparations when asked for; a batch that was delivered is released at once. */
struct scene {
    struct engine *engine;
    struct idset *view;
    sample_id order[SAMPLES];
    uint32_t job;
    uint32_t loads[RANKS];
    int preparing_rank; /* NONE: nothing is under way */
    uint32_t task;
    uint32_t batches[RANKS];
};

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset;
    (void)id;
    return ENCODED;
}

static void step(struct scene *scene, struct engine_event event);

static void react(struct scene *scene, const struct engine_action *action)
{
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        scene->job = action->job;
        break;
    case ENGINE_LOAD:
        assert_true(action->rank < RANKS);
        scene->loads[action->rank]++;
        step(scene, (struct engine_event){.type = ENGINE_LOADED,
                                          .loaded = {action->load.id, xmalloc(1), action->load.bytes, 0}});
        break;
    case ENGINE_PREPARE:
        assert_true(scene->preparing_rank == NONE && action->rank < RANKS);
        scene->preparing_rank = (int)action->rank;
        scene->task = action->prepare.task;
        break;
    case ENGINE_DROP_ENCODED:
        free(action->drop.encoded);
        break;
    case ENGINE_DELIVER:
        scene->batches[action->rank]++;
        step(scene, (struct engine_event){
                        .type = ENGINE_RELEASE, .rank = action->rank, .release = {action->job, action->deliver.batch}});
        break;
    default:
        assert_true(action->type != ENGINE_JOB_REFUSED && action->type != ENGINE_JOB_ERROR);
    }
}

static void step(struct scene *scene, struct engine_event event)
{
    const struct engine_action *actions;
    size_t count = engine_step(scene->engine, CLOCK_NS_PER_S, &event, &actions);
    struct engine_action *copy = xcalloc(count, sizeof *copy); /* reactions take further steps */
    memcpy(copy, actions, count * sizeof *copy);
    engine_check(scene->engine);
    for (size_t i = 0; i < count; i++)
        react(scene, &copy[i]);
    free(copy);
}

static struct scene *scene_new(void)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 128 * 1024,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = 64,
                                   .inflight_prepares = 1,
                                   .sample_bytes = sample_bytes};
    struct error err;
    assert_int_equal(engine_create(&config, &scene->engine, &err), 0);
    assert_int_equal(idset_from_range(0, SAMPLES, &scene->view), 0);
    for (uint32_t i = 0; i < SAMPLES; i++)
        scene->order[i] = i;
    scene->preparing_rank = NONE;
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct engine_job_desc desc = {.client = 1 + rank,
                                       .name = "ddp",
                                       .dataset = scene,
                                       .slot_bytes = SLOT,
                                       .batch_size = BATCH,
                                       .prefetch = PREFETCH,
                                       .epochs = 1,
                                       .view = scene->view,
                                       .order = scene->order,
                                       .rank = rank,
                                       .world_size = RANKS};
        step(scene, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = &desc});
    }
    return scene;
}

static void scene_end(struct scene *scene)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        step(scene, (struct engine_event){.type = ENGINE_JOB_GONE, .rank = rank, .job_gone = {scene->job}});
    if (scene->preparing_rank != NONE)
        step(scene, (struct engine_event){.type = ENGINE_PREPARED, .prepared = {.task = scene->task}});
    engine_destroy(scene->engine);
    idset_destroy(scene->view);
    free(scene);
}

static void ask(struct scene *scene, uint32_t rank, uint32_t batches)
{
    step(scene, (struct engine_event){.type = ENGINE_NEXT, .rank = rank, .next = {scene->job, 0, batches}});
}

static void pace(struct scene *scene, uint32_t rank, uint64_t ms)
{
    step(scene, (struct engine_event){
                    .type = ENGINE_PACE, .rank = rank, .pace = {scene->job, ms * (uint64_t)CLOCK_NS_PER_MS}});
}

/* Ends so many preparations; made[rank] counts whose they were. */
static void prepare(struct scene *scene, uint32_t count, uint32_t made[RANKS])
{
    memset(made, 0, RANKS * sizeof *made);
    while (count--) {
        assert_true(scene->preparing_rank != NONE);
        made[scene->preparing_rank]++;
        scene->preparing_rank = NONE;
        step(scene, (struct engine_event){.type = ENGINE_PREPARED, .prepared = {.task = scene->task}});
    }
}

/* A rank that takes its batches is worked for before one that has some ahead, whoever's samples were planned first. */
static void test_least_ahead(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    uint32_t made[RANKS];
    ask(scene, 1, 64);
    prepare(scene, 5 * BATCH, made);
    assert_true(made[0] <= BATCH + 1); /* in planned order it would be half */
    assert_true(scene->batches[1] >= 3);
    assert_true(scene->loads[0] > 0 && scene->loads[1] > 0);
    scene_end(scene);
}

/* Of two ranks with as much ahead the one that uses it up faster goes first; without a pace they go alike. */
static void test_pace(void **state)
{
    (void)state;
    for (int paced = 0; paced <= 1; paced++) {
        struct scene *scene = scene_new();
        uint32_t made[RANKS];
        for (uint32_t rank = 0; paced && rank < RANKS; rank++)
            pace(scene, rank, rank ? 1000 : 50);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            ask(scene, rank, 1);
        prepare(scene, 2 * BATCH, made); /* the batches that were asked for */
        uint32_t slow = made[1];
        prepare(scene, 3 * BATCH, made);
        slow += made[1];
        if (paced)
            assert_true(slow <= BATCH + 2);
        else
            assert_true(slow >= 2 * BATCH + 1 && slow <= 3 * BATCH - 1);
        scene_end(scene);
    }
}

/* A pace for a job or rank that is not there changes nothing. */
static void test_pace_of_nobody(void **state)
{
    (void)state;
    struct scene *scene = scene_new();
    pace(scene, RANKS, 10);
    step(scene, (struct engine_event){.type = ENGINE_PACE, .rank = 0, .pace = {scene->job + 1, 5}});
    uint32_t made[RANKS];
    ask(scene, 0, 1);
    prepare(scene, 2 * BATCH, made);
    assert_int_equal(made[0], made[1]);
    scene_end(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_ahead),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_pace_of_nobody),
    };
    return cmocka_run_group_tests_name("rank_order", tests, NULL, NULL);
}
