/* Repeats that fill a rank's share up under `skip`, when many of them are bad: bad ones are known at once, and good
 * ones take their time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/plan/play.h"

enum { SAMPLES = 120, RANKS = 2, BATCH = 60, SLOT = 1000, HELD_MAX = 256, MANY = 600 };

static struct {
    struct play play;
    struct idset *view;
    uint32_t bad_below; /* samples with lower ids are bad */
    uint32_t held[HELD_MAX], n_held;
    uint32_t loads, got[RANKS], last[RANKS];
} world;

/* Bad samples fail when they are loaded. Preparations go on until the test ends them. */
static bool see(void *ctx, const struct engine_action *action)
{
    (void)ctx;
    if (action->type == ENGINE_LOAD) {
        world.loads++;
        if (action->load.id >= world.bad_below)
            return false;
        play_push(&world.play, (struct engine_event){.type = ENGINE_LOADED,
                                                     .loaded = {.id = action->load.id, .reason = BAD_CORRUPT}});
        return true;
    }
    if (action->type == ENGINE_PREPARE) {
        assert_true(world.n_held < HELD_MAX);
        world.held[world.n_held++] = action->prepare.task;
        return true;
    }
    if (action->type == ENGINE_DELIVER) {
        world.got[action->rank] += action->deliver.count;
        world.last[action->rank] += action->deliver.last;
    }
    return false;
}

static uint32_t begin(uint32_t bad_below)
{
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 1 << 20,
                                   .encoded_bytes = 1 << 20,
                                   .inflight_loads = 64,
                                   .inflight_prepares = HELD_MAX};
    struct engine_job_desc desc = {.name = "ddp",
                                   .dataset = &world,
                                   .slot_bytes = SLOT,
                                   .batch_size = BATCH,
                                   .prefetch = 2,
                                   .world_size = RANKS,
                                   .bad_policy = BAD_SKIP};
    world.bad_below = bad_below;
    world.n_held = world.loads = 0;
    assert_int_equal(play_create(config, &world.play, NULL), 0);
    assert_int_equal(idset_from_range(0, SAMPLES, &world.view), 0);
    world.play.see = see;
    world.play.check_every = 1;
    desc.sampled.view = world.view;
    for (desc.rank = 0; desc.rank < RANKS; desc.rank++) {
        world.got[desc.rank] = world.last[desc.rank] = 0;
        desc.client = 100 + desc.rank;
        play_add(&world.play, &desc);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        play_next(&world.play, world.play.job, rank, 0, 4);
    return world.play.job;
}

/* finish ends all preparations, the last that began first, until none is out. */
static void finish(void)
{
    while (world.n_held > 0)
        play_event(&world.play,
                   (struct engine_event){.type = ENGINE_PREPARED, .prepared = {.task = world.held[--world.n_held]}});
}

static void end(uint32_t job)
{
    finish();
    for (uint32_t rank = 0; rank < RANKS; rank++)
        play_gone(&world.play, job, rank);
    finish();
    play_end(&world.play);
    idset_destroy(world.view);
}

/* More repeats are known to be bad than may be in a row, while good ones are still being prepared: the job goes on, and
 * each rank gets its whole share. */
static void test_good_ones_take_longer(void **state)
{
    (void)state;
    for (uint32_t bad = 36; bad <= 72; bad += 12) { /* up to six of ten */
        uint32_t job = begin(bad);
        finish();
        assert_int_equal(world.play.failed, 0);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            assert_int_equal(world.got[rank], SAMPLES / RANKS);
            assert_int_equal(world.last[rank], 1);
        }
        end(job);
    }
}

/* A share that cannot be filled up fails the job, after no more reads than there are samples and repeats in a row. */
static void test_none_is_good(void **state)
{
    (void)state;
    uint32_t job = begin(SAMPLES);
    assert_int_equal(world.play.failed, LARDER_ESAMPLE);
    assert_in_range(world.loads, SAMPLES, 2 * SAMPLES);
    world.play.failed = 0;
    end(job);
}

/* bytes_of says that bad samples are larger than all of encoded memory: they are known to be bad as soon as they are
 * planned. */
static uint64_t bytes_of(const void *dataset, sample_id id)
{
    (void)dataset;
    return id < world.bad_below ? 2 << 20 : SLOT;
}

/* All good samples are there, ten times, as another job had them prepared in ten epochs, and bad ones are known at
 * once. So all repeats are planned together, and the good ones among them are known before the bad ones. The job goes
 * on. */
static void test_good_ones_are_there(void **state)
{
    (void)state;
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 32 << 20,
                                   .encoded_bytes = 1 << 20,
                                   .inflight_loads = 64,
                                   .inflight_prepares = 64,
                                   .sample_bytes = bytes_of};
    struct engine_job_desc ddp = {.name = "ddp",
                                  .dataset = &world,
                                  .slot_bytes = SLOT,
                                  .batch_size = MANY / RANKS,
                                  .prefetch = 2,
                                  .world_size = RANKS,
                                  .bad_policy = BAD_SKIP};
    world.bad_below = MANY * 36 / 100;
    assert_int_equal(play_create(config, &world.play, NULL), 0);
    assert_int_equal(idset_from_range(0, MANY, &world.view), 0);
    world.play.check_every = 1;
    ddp.sampled.view = world.view;
    for (ddp.rank = 0; ddp.rank < RANKS; ddp.rank++) {
        ddp.client = 100 + ddp.rank;
        play_add(&world.play, &ddp);
    }
    uint32_t job = world.play.job;
    struct engine_job_desc alone = ddp;
    alone.name = "alone";
    alone.client = 200;
    alone.rank = 0;
    alone.world_size = 1;
    alone.batch_size = BATCH;
    uint32_t other = play_add(&world.play, &alone);
    for (uint32_t epoch = 0; epoch < 10; epoch++)
        play_next(&world.play, other, 0, epoch, MANY / BATCH);
    world.play.see = see;
    world.got[0] = world.got[1] = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        play_next(&world.play, job, rank, 0, 4);
    assert_int_equal(world.play.failed, 0);
    assert_int_equal(world.got[0], MANY / RANKS);
    assert_int_equal(world.got[1], MANY / RANKS);
    end(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_ones_take_longer),
        cmocka_unit_test(test_good_ones_are_there),
        cmocka_unit_test(test_none_is_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
