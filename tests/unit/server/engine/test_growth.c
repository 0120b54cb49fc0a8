/* The arena grows by need: what a job needs comes first, leftovers do not fill the budget, what is refused is asked for
 * again, and what nobody wants goes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/play/scene.h"

enum { SLOT_KIB = 1024, UNIT = 8 * SLOT_KIB, ARENA_SLOTS = 10000, SAMPLES = 100 };

static struct {
    bool (*see)(void *ctx, const struct engine_action *action);
    uint64_t reserved, most, asks, returns, piece;
    bool refuse;
} world;

/* The machine: it has memory, or refuses. */
static bool see(void *ctx, const struct engine_action *action)
{
    struct scene *scene = ctx;
    if (action->type == ENGINE_RETURN) {
        assert_true(action->reserve.bytes < world.reserved);
        world.reserved = action->reserve.bytes;
        world.returns++;
    } else if (action->type == ENGINE_RESERVE) {
        assert_true(action->reserve.bytes > world.reserved && action->reserve.bytes % UNIT == 0);
        uint64_t bytes = action->reserve.bytes;
        if (world.piece && bytes > world.reserved + world.piece)
            bytes = world.reserved + world.piece;
        world.reserved = world.refuse ? world.reserved : bytes;
        world.most = world.reserved > world.most ? world.reserved : world.most;
        world.asks++;
        play_push(&scene->play, (struct engine_event){.type = ENGINE_RESERVED,
                                                      .reserved = {.bytes = world.reserved, .refused = world.refuse}});
    } else if (action->type == ENGINE_DELIVER) {
        for (uint32_t i = 0; i < action->deliver.count; i++)
            assert_true(action->deliver.entries[i].offset + action->deliver.entries[i].bytes <= world.reserved);
    }
    return world.see(ctx, action);
}

static struct scene *make(void)
{
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = ARENA_SLOTS * SLOT_KIB,
                                   .reserve_bytes = UNIT,
                                   .room_timeout_ns = UINT64_C(1000000000) * ROOM_TIMEOUT_S,
                                   .encoded_bytes = 1 << 20,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 8,
                                   .sample_bytes = scene_sample_bytes};
    struct scene *scene = scene_new_with(config, SAMPLES);
    world.see = scene->play.see;
    world.reserved = world.most = world.asks = world.returns = world.piece = 0;
    world.refuse = false;
    scene->play.see = see;
    return scene;
}

static void train(struct scene *scene, uint32_t job, uint32_t epoch)
{
    scene->last[job] = false;
    while (!scene->last[job] && !scene->play.failed)
        scene_next(scene, job, epoch, 1);
    assert_int_equal(scene->play.failed, 0);
}

static void tick(struct scene *scene, uint64_t after_ns)
{
    scene->play.now_ns += after_ns;
    scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
}

static uint64_t in_use(const struct scene *scene)
{
    struct engine_totals totals;
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena.reserved_bytes, world.reserved);
    return totals.arena.used_bytes;
}

/* Nothing is reserved for nobody. A job's first step asks for its look-ahead, and hundreds of epochs with an instance
 * of their own for each sample take no more than one epoch and the look-ahead do. */
static void test_epochs_take_no_more(void **state)
{
    (void)state;
    struct scene *scene = make();
    tick(scene, 1);
    assert_int_equal(world.asks, 0);
    struct engine_job_desc desc = scene_job(scene, "one");
    uint32_t job = scene_add(scene, &desc);
    assert_in_range(world.reserved, 4 * 8 * SLOT_KIB, 6 * 8 * SLOT_KIB); /* four rows of eight */
    for (uint32_t epoch = 0; epoch < 200; epoch++)
        train(scene, job, epoch);
    assert_in_range(world.most, SAMPLES * SLOT_KIB, 2 * SAMPLES * SLOT_KIB);
    for (sample_id id = 0; id < SAMPLES; id++)
        assert_int_equal(scene->got[job][id], 200);
    scene_gone(scene, job);
    scene_free(scene);
}

/* What jobs want is worth more memory: a job that stands still keeps what others have left for it. */
static void test_wants_grow_it(void **state)
{
    (void)state;
    struct scene *scene = make();
    struct engine_job_desc desc = scene_job(scene, "fast");
    uint32_t fast = scene_add(scene, &desc);
    desc.name = "slow";
    uint32_t slow = scene_add(scene, &desc);
    scene_next(scene, slow, 0, 1);
    train(scene, fast, 0);
    train(scene, fast, 1);
    uint32_t prepares = scene->prepares;
    train(scene, slow, 0);
    assert_int_equal(scene->prepares, prepares); /* all that it wanted was there */
    scene_gone(scene, fast);
    scene_gone(scene, slow);
    scene_free(scene);
}

/* What is refused is asked for again, not at once. A job that could begin goes on with what there is. */
static void test_refused(void **state)
{
    (void)state;
    struct scene *scene = make();
    struct engine_job_desc desc = scene_job(scene, "one");
    uint32_t job = scene_add(scene, &desc);
    world.refuse = true;
    train(scene, job, 0);
    assert_int_equal(world.asks, 2); /* no time has passed */
    assert_true(engine_wakes_ns(scene->play.engine) < UINT64_MAX);
    world.refuse = false;
    tick(scene, engine_wakes_ns(scene->play.engine) - scene->play.now_ns);
    assert_int_equal(world.asks, 3);
    train(scene, job, 1);
    scene_gone(scene, job);
    scene_free(scene);
}

/* What comes in pieces is used piece by piece, and the rest is asked for at once. */
static void test_in_pieces(void **state)
{
    (void)state;
    struct scene *scene = make();
    world.piece = UNIT;
    struct engine_job_desc desc = scene_job(scene, "one");
    uint32_t job = scene_add(scene, &desc);
    assert_int_equal(world.asks, 4); /* four rows of a unit */
    train(scene, job, 0);
    scene_gone(scene, job);
    scene_free(scene);
}

/* A job for which there is no memory at all waits, and then fails with a text that says so; one that comes when there
 * is some begins. */
static void test_refused_from_the_start(void **state)
{
    (void)state;
    struct scene *scene = make();
    world.refuse = true;
    struct engine_job_desc desc = scene_job(scene, "one");
    uint32_t job = scene_add(scene, &desc);
    scene_next(scene, job, 0, 1);
    for (int i = 0; i < ROOM_TIMEOUT_S + 2; i++)
        tick(scene, SECOND);
    assert_int_equal(scene->play.failed, LARDER_EQUOTA);
    assert_non_null(strstr(scene->play.text, "no memory"));
    scene_gone(scene, job);
    scene->play.failed = 0;
    world.refuse = false;
    desc.name = "two";
    job = scene_add(scene, &desc);
    scene_next(scene, job, 0, 1);
    for (int i = 0; i < 2; i++)
        tick(scene, SECOND);
    assert_int_equal(scene->batches[job], 1);
    scene_gone(scene, job);
    scene_free(scene);
}

/* SHRINK gives back what no job wants, but never what a client holds; without jobs, everything. What goes comes again
 * by need. */
static void test_shrink(void **state)
{
    (void)state;
    struct scene *scene = make();
    struct engine_job_desc desc = scene_job(scene, "one");
    uint32_t job = scene_add(scene, &desc);
    train(scene, job, 0);
    scene->release = false;
    scene_next(scene, job, 1, 1);
    struct engine_event shrink = {.type = ENGINE_SHRINK};
    scene_step(scene, shrink);
    assert_true(in_use(scene) > 0 && world.reserved > 0);
    scene->release = true;
    scene_release(scene, job, scene->last_batch[job]);
    train(scene, job, 1);
    scene_gone(scene, job);
    scene_step(scene, shrink);
    assert_int_equal(world.reserved, 0);
    assert_int_equal(in_use(scene), 0);
    desc.name = "two";
    job = scene_add(scene, &desc);
    train(scene, job, 0);
    scene_gone(scene, job);
    scene_free(scene);
}

/* A job whose first request for memory brings nothing takes the place of leftovers of a job that has gone, which would
 * have stayed while memory was to come. */
static void refused_for_leftovers(bool raw)
{
    struct scene *scene = make();
    struct idset *few;
    assert_int_equal(idset_from_range(0, 20, &few), 0);
    struct engine_job_desc first = scene_job(scene, "a"), second = scene_job(scene, "b");
    first.pipeline = 1;
    first.sampled.view = few;
    uint32_t job = scene_add(scene, &first);
    for (uint32_t epoch = 0; epoch < 40; epoch++)
        train(scene, job, epoch);
    scene_gone(scene, job);
    second.pipeline = 2;
    second.raw = raw;
    world.refuse = true;
    job = scene_add(scene, &second);
    uint32_t had = scene->batches[job];
    scene_next(scene, job, 0, 1);
    tick(scene, SECOND);
    assert_int_equal(scene->batches[job] - had, 1);
    scene_gone(scene, job);
    scene_free(scene);
    idset_destroy(few);
}

static void test_refused_for_leftovers(void **state)
{
    (void)state;
    refused_for_leftovers(false);
    refused_for_leftovers(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs_take_no_more),
        cmocka_unit_test(test_wants_grow_it),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_from_the_start),
        cmocka_unit_test(test_in_pieces),
        cmocka_unit_test(test_shrink),
        cmocka_unit_test(test_refused_for_leftovers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
