/* Which rank of a job is worked for first, when there is more to do than can be done, and which gets what is ready. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/engine/engine.h"

enum { SLOT = 1000, ENCODED = 100, SAMPLES = 200, BATCH = 4, PREFETCH = 6, RANKS = 2, AT_ONCE_MAX = 64 };

struct preparation {
    uint32_t rank, task;
    sample_id id;
};

/* Loads come back at once, preparations when asked for; a batch that was delivered is released at once. */
struct scene {
    struct engine *engine;
    struct idset *view;
    sample_id order[SAMPLES];
    uint32_t job;
    uint32_t loads[RANKS];
    struct preparation preparing[AT_ONCE_MAX]; /* by age */
    uint32_t n_preparing;
    uint32_t rank_of[SAMPLES]; /* that a sample was prepared for */
    uint32_t batches[RANKS];
    uint32_t others; /* samples delivered to another rank than they were prepared for */
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
        assert_true(scene->n_preparing < AT_ONCE_MAX && action->rank < RANKS);
        scene->preparing[scene->n_preparing++] =
            (struct preparation){action->rank, action->prepare.task, action->prepare.id};
        scene->rank_of[action->prepare.id] = action->rank;
        break;
    case ENGINE_DROP_ENCODED:
        free(action->drop.encoded);
        break;
    case ENGINE_DELIVER:
        for (uint32_t i = 0; i < action->deliver.count; i++)
            scene->others += scene->rank_of[action->deliver.entries[i].id] != action->rank;
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

/* So many preparations may be under way. */
static struct scene *scene_new(uint32_t at_once, bool ordered)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 128 * 1024,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = 64,
                                   .inflight_prepares = at_once,
                                   .sample_bytes = sample_bytes};
    struct error err;
    assert_int_equal(engine_create(&config, &scene->engine, &err), 0);
    assert_int_equal(idset_from_range(0, SAMPLES, &scene->view), 0);
    for (uint32_t i = 0; i < SAMPLES; i++)
        scene->order[i] = i;
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
                                       .world_size = RANKS,
                                       .ordered = ordered};
        step(scene, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = &desc});
    }
    return scene;
}

static void finish(struct scene *scene, uint32_t at)
{
    uint32_t task = scene->preparing[at].task;
    scene->n_preparing--;
    memmove(&scene->preparing[at], &scene->preparing[at + 1], (scene->n_preparing - at) * sizeof *scene->preparing);
    step(scene, (struct engine_event){.type = ENGINE_PREPARED, .prepared = {.task = task}});
}

static void scene_end(struct scene *scene)
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        step(scene, (struct engine_event){.type = ENGINE_JOB_GONE, .rank = rank, .job_gone = {scene->job}});
    while (scene->n_preparing)
        finish(scene, 0);
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
        assert_true(scene->n_preparing > 0);
        made[scene->preparing[0].rank]++;
        finish(scene, 0);
    }
}

/* A rank that takes its batches is worked for before one that has some ahead, whoever's samples were planned first. */
static void test_least_ahead(void **state)
{
    (void)state;
    struct scene *scene = scene_new(1, false);
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
        struct scene *scene = scene_new(1, false);
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
    struct scene *scene = scene_new(1, false);
    pace(scene, RANKS, 10);
    step(scene, (struct engine_event){.type = ENGINE_PACE, .rank = 0, .pace = {scene->job + 1, 5}});
    uint32_t made[RANKS];
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ask(scene, rank, 1);
    prepare(scene, 2 * BATCH, made);
    assert_int_equal(scene->batches[0], 1);
    assert_int_equal(scene->batches[1], 1);
    scene_end(scene);
}

/* Ends the oldest preparation that was begun for the rank. */
static void finish_for(struct scene *scene, uint32_t rank)
{
    uint32_t at = 0;
    while (scene->preparing[at].rank != rank)
        assert_true(++at < scene->n_preparing);
    finish(scene, at);
}

/* Both ranks ask for a batch, and only what was begun for one of them gets ready: each has half of it, and with the last
 * two samples both batches are there. An ordered job keeps its order, and the other rank waits. */
static void test_ready_goes_to_who_lacks_most(void **state)
{
    (void)state;
    for (int ordered = 0; ordered <= 1; ordered++) {
        struct scene *scene = scene_new(AT_ONCE_MAX, ordered);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            ask(scene, rank, 1);
        for (uint32_t i = 0; i < 2 * BATCH - 2; i++)
            finish_for(scene, 0);
        assert_int_equal(scene->batches[0], ordered ? 1 : 0);
        finish_for(scene, 0);
        finish_for(scene, 0);
        assert_int_equal(scene->batches[0], 1);
        assert_int_equal(scene->batches[1], ordered ? 0 : 1);
        assert_int_equal(scene->others, ordered ? 0 : BATCH);
        scene_end(scene);
    }
}

/* Ranks that are as far behind as each other keep what was prepared for them. */
static void test_equals_exchange_nothing(void **state)
{
    (void)state;
    struct scene *scene = scene_new(AT_ONCE_MAX, false);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ask(scene, rank, 3);
    for (uint32_t i = 0; i < 3 * RANKS * BATCH; i++)
        finish_for(scene, i % RANKS);
    assert_int_equal(scene->batches[0], 3);
    assert_int_equal(scene->batches[1], 3);
    assert_int_equal(scene->others, 0);
    scene_end(scene);
}

/* What is ready makes a batch wherever in line it was planned: the last of each rank's samples get ready first. */
static void test_the_last_make_a_batch(void **state)
{
    (void)state;
    struct scene *scene = scene_new(AT_ONCE_MAX, false);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ask(scene, rank, 1);
    for (uint32_t i = 0; i < RANKS * BATCH; i++)
        finish(scene, scene->n_preparing - 1);
    assert_int_equal(scene->batches[0], 1);
    assert_int_equal(scene->batches[1], 1);
    scene_end(scene);
}

/* A sample that takes for ever goes from rank to rank and is overtaken all the same by no more than a queue looks ahead:
 * then one rank waits for it, and the other does not. */
static void test_a_slow_sample_is_not_put_off_for_ever(void **state)
{
    (void)state;
    const uint32_t share = SAMPLES / RANKS / BATCH, ahead = PREFETCH + 2;
    struct scene *scene = scene_new(AT_ONCE_MAX, false);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        ask(scene, rank, 64);
    while (scene->n_preparing > 1)
        finish(scene, 1); /* all but the first */
    uint32_t waits = scene->batches[0] < scene->batches[1] ? 0 : 1;
    assert_true(scene->batches[waits] >= ahead - 1 && scene->batches[waits] <= 2 * ahead);
    assert_int_equal(scene->batches[1 - waits], share);
    finish(scene, 0);
    while (scene->n_preparing)
        finish(scene, 0);
    assert_int_equal(scene->batches[waits], share);
    scene_end(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_ahead),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_pace_of_nobody),
        cmocka_unit_test(test_ready_goes_to_who_lacks_most),
        cmocka_unit_test(test_equals_exchange_nothing),
        cmocka_unit_test(test_the_last_make_a_batch),
        cmocka_unit_test(test_a_slow_sample_is_not_put_off_for_ever),
    };
    return cmocka_run_group_tests_name("rank_order", tests, NULL, NULL);
}
