/* The arena grows by need: what a job needs comes first, leftovers do not fill the budget, what is refused is asked for
 * again, and what nobody wants goes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/play/scene.h"

enum { SLOT_KIB = 1024, UNIT = 8 * SLOT_KIB, ARENA_SLOTS = 10000, SAMPLES = 100, LINGER_S = 60 };

static struct {
    bool (*see)(void *ctx, const struct engine_action *action);
    bool there[ARENA_SLOTS];
    uint64_t reserved, most, from, asks, returns, piece;
    bool refuse;
} world;

/* set has the slots between these bytes be there, or not. */
static void set(uint64_t from, uint64_t to, bool there)
{
    for (uint64_t slot = from / SLOT_KIB; slot < to / SLOT_KIB; slot++) {
        world.reserved += there && !world.there[slot] ? SLOT_KIB : 0;
        world.reserved -= !there && world.there[slot] ? SLOT_KIB : 0;
        world.there[slot] = there;
    }
    world.most = world.reserved > world.most ? world.reserved : world.most;
}

/* reserved answers a RESERVE of so many bytes. */
static void reserved(struct scene *scene, uint64_t bytes)
{
    assert_true(bytes > 0 && bytes % UNIT == 0);
    uint64_t least = bytes < world.from ? bytes : world.from, most = bytes;
    if (world.piece && bytes > world.from + world.piece)
        most = world.from + world.piece;
    bytes = world.refuse ? least : most;
    set(world.from, bytes, true);
    world.from = bytes > world.from ? bytes : world.from;
    world.asks++;
    play_push(&scene->play,
              (struct engine_event){.type = ENGINE_RESERVED, .reserved = {.bytes = bytes, .refused = world.refuse}});
}

/* The machine: it has memory, or refuses. */
static bool see(void *ctx, const struct engine_action *action)
{
    struct scene *scene = ctx;
    if (action->type == ENGINE_RETURN) {
        assert_true(action->give_back.from < action->give_back.to);
        set(action->give_back.from, action->give_back.to, false);
        world.from = action->give_back.from < world.from ? action->give_back.from : world.from;
        world.returns++;
    } else if (action->type == ENGINE_RESERVE) {
        reserved(scene, action->reserve.bytes);
        return true;
    } else if (action->type == ENGINE_DELIVER) {
        for (uint32_t i = 0; i < action->deliver.count; i++)
            assert_true(world.there[action->deliver.entries[i].offset / SLOT_KIB]);
    }
    return world.see(ctx, action);
}

static struct scene *make_with(struct engine_config config, uint32_t samples)
{
    struct scene *scene = scene_new_with(config, samples);
    memset(&world, 0, sizeof world);
    world.see = scene->play.see;
    scene->play.see = see;
    return scene;
}

static struct scene *make(void)
{
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = ARENA_SLOTS * SLOT_KIB,
                                   .reserve_bytes = UNIT,
                                   .linger_ns = LINGER_S * (uint64_t)SECOND,
                                   .room_timeout_ns = UINT64_C(1000000000) * ROOM_TIMEOUT_S,
                                   .encoded_bytes = 1 << 20,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 8,
                                   .sample_bytes = scene_sample_bytes};
    return make_with(config, SAMPLES);
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
    assert_true(totals.arena.used_bytes <= world.reserved);
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

/* pass has so much time go by. It steps when the engine asks for it. */
static void pass(struct scene *scene, uint64_t ns)
{
    uint64_t end_ns = scene->play.now_ns + ns;
    while (engine_wakes_ns(scene->play.engine) < end_ns) {
        uint64_t wakes_ns = engine_wakes_ns(scene->play.engine);
        tick(scene, wakes_ns > scene->play.now_ns ? wakes_ns - scene->play.now_ns : 0);
    }
    tick(scene, end_ns - scene->play.now_ns);
}

/* What nobody needs lingers for its time, and goes. Then nothing wakes the engine any more. */
static void test_lingers(void **state)
{
    (void)state;
    struct scene *scene = make();
    struct engine_job_desc desc = scene_job(scene, "one");
    uint32_t job = scene_add(scene, &desc);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        pass(scene, LINGER_S * (uint64_t)SECOND);
        train(scene, job, epoch);
    }
    assert_int_equal(world.returns, 0); /* a job that runs keeps what it had */
    uint64_t here = world.reserved;
    scene_gone(scene, job);
    pass(scene, (LINGER_S - 1) * (uint64_t)SECOND);
    assert_int_equal(world.reserved, here);
    pass(scene, LINGER_S / 4 * (uint64_t)SECOND);
    assert_int_equal(world.reserved, 0);
    assert_int_equal(engine_wakes_ns(scene->play.engine), UINT64_MAX);
    scene_free(scene);
}

/* When a large job goes and a small one stays, most of the memory goes, however the small one's batches lie. What it
 * holds stays until it gives it back. */
static void test_a_small_job_stays(void **state)
{
    (void)state;
    struct scene *scene = make();
    struct idset *few;
    assert_int_equal(idset_from_range(0, 8, &few), 0);
    struct engine_job_desc large = scene_job(scene, "large"), small = scene_job(scene, "small");
    large.pipeline = 1;
    small.sampled.view = few;
    uint32_t big = scene_add(scene, &large);
    for (uint32_t epoch = 0; epoch < 20; epoch++)
        train(scene, big, epoch);
    uint32_t little = scene_add(scene, &small);
    scene->release = false;
    scene_next(scene, little, 0, 1);
    scene->release = true;
    train(scene, big, 20);
    scene_gone(scene, big);
    pass(scene, 2 * LINGER_S * (uint64_t)SECOND);
    uint64_t held = in_use(scene);
    assert_true(held >= 8 * SLOT_KIB);
    assert_in_range(world.reserved, held, held + 8 * UNIT);
    assert_true(world.most > 2 * world.reserved);
    scene_release(scene, little, scene->last_batch[little]);
    for (uint32_t epoch = 1; epoch < 50; epoch++)
        train(scene, little, epoch);
    scene_gone(scene, little);
    pass(scene, 2 * LINGER_S * (uint64_t)SECOND);
    assert_int_equal(world.reserved, 0);
    scene_free(scene);
    idset_destroy(few);
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

/* A client holds one batch and waits for the next, whose sample has no room beside it in all of the arena. The memory
 * that it waits for is not given back as unneeded and reserved again, which would begin its time to wait anew: it is
 * told when the time is over. Then the memory goes. */
static void test_waits_longer_than_memory_lingers(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1000, 15500};
    static const sample_id order[] = {0, 1};
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 16 * SLOT_KIB,
                                   .reserve_bytes = UNIT,
                                   .linger_ns = SECOND,
                                   .room_timeout_ns = UINT64_C(1000000000) * ROOM_TIMEOUT_S,
                                   .encoded_bytes = 1 << 20,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 8};
    struct scene *scene = make_with(config, 2);
    struct engine_job_desc desc = scene_job(scene, "raw");
    desc.raw = true;
    desc.batch_size = 1;
    desc.dataset = sizes;
    desc.sampled.shuffle = SHUFFLE_NONE;
    desc.sampled.order = order;
    uint32_t job = scene_add(scene, &desc), waited = 0;
    scene->release = false;
    scene_next(scene, job, 0, 2);
    assert_int_equal(scene->batches[job], 1);
    for (; waited <= 2 * ROOM_TIMEOUT_S && !scene->play.failed; waited++)
        tick(scene, SECOND);
    assert_int_equal(scene->play.failed, LARDER_EQUOTA);
    assert_in_range(waited, ROOM_TIMEOUT_S, ROOM_TIMEOUT_S + 2);
    assert_int_equal(world.returns, 0);
    scene_gone(scene, job);
    for (uint32_t second = 0; second < 10; second++)
        tick(scene, SECOND);
    assert_int_equal(world.reserved, 0);
    scene_free(scene);
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
        cmocka_unit_test(test_lingers),
        cmocka_unit_test(test_a_small_job_stays),
        cmocka_unit_test(test_refused_for_leftovers),
        cmocka_unit_test(test_waits_longer_than_memory_lingers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
