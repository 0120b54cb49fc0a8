/* Room moves between instances and encoded samples, to what saves more of what clients wait for; in virtual time, with
 * one medium and one worker. The budget holds at each step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/check.h"
#include "server/plan/play.h"

enum { SAMPLES = 1024, CHUNK = 32, BATCH = 16, SLOT = 128, JOBS = 2, ROWS = 4 };

#define ARENA (SAMPLES / 2 * (uint64_t)SLOT)
#define ENCODED (SAMPLES / 8 * (uint64_t)PLAY_SAMPLE_BYTES)
#define LOOK_AHEAD (BATCH * ROWS * (uint64_t)SLOT)

/* Clients that give each batch back at once, and ask for the next when they have trained on it. */
struct world {
    struct play play;
    uint64_t load_ns, prepare_ns, train_ns, load_free_ns, work_free_ns;
    uint32_t epoch[JOBS], epochs, left;
};

static uint64_t serve(const struct world *world, uint64_t *free_ns, uint64_t takes_ns)
{
    *free_ns = (*free_ns > world->play.now_ns ? *free_ns : world->play.now_ns) + takes_ns;
    return *free_ns;
}

static uint64_t encoded_budget(const struct world *world)
{
    struct engine_totals totals;
    engine_totals(world->play.engine, &totals);
    assert_true(totals.arena.reserved_bytes + totals.encoded.used_bytes <= ARENA + ENCODED);
    return totals.encoded.budget_bytes;
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct world *world = ctx;
    struct play *play = &world->play;
    encoded_budget(world);
    switch (action->type) {
    case ENGINE_LOAD: play_answer_at(play, serve(world, &world->load_free_ns, world->load_ns), action); return true;
    case ENGINE_PREPARE:
        play_answer_at(play, serve(world, &world->work_free_ns, world->prepare_ns), action);
        return true;
    case ENGINE_DELIVER:
        world->epoch[action->job] += action->deliver.last;
        world->left -= action->deliver.last && world->epoch[action->job] == world->epochs;
        if (world->epoch[action->job] < world->epochs)
            play_push_at(play, play->now_ns + world->train_ns,
                         (struct engine_event){.type = ENGINE_NEXT,
                                               .next = {action->job, world->epoch[action->job], 1, 0}});
        return false;
    default: return false;
    }
}

static void begin(struct world *world, uint32_t jobs)
{
    struct chunk_slot places[SAMPLES];
    struct idset *view;
    *world = (struct world){.load_ns = 0};
    assert_int_equal(play_create((struct engine_config){.seed = 1,
                                                        .arena_bytes = ARENA,
                                                        .reserve_bytes = SLOT,
                                                        .lent_bytes = ARENA,
                                                        .encoded_bytes = ENCODED,
                                                        .inflight_loads = 2 * CHUNK,
                                                        .inflight_prepares = 2,
                                                        .redirect_width = ENGINE_REDIRECT_HALF},
                                 &world->play, NULL),
                     0);
    world->play.see = see;
    world->play.ctx = world;
    world->play.check_every = 16;
    for (uint32_t i = 0; i < SAMPLES; i++)
        places[i] = (struct chunk_slot){i / CHUNK, i % CHUNK};
    assert_int_equal(idset_from_range(0, SAMPLES, &view), 0);
    for (uint32_t job = 0; job < jobs; job++) {
        struct engine_job_desc desc = {.client = job + 1,
                                       .name = job ? "second" : "first",
                                       .slot_bytes = SLOT,
                                       .batch_size = BATCH,
                                       .prefetch = ROWS - 2,
                                       .sampled = {.view = view},
                                       .chunks = {.places = places, .count = SAMPLES / CHUNK, .samples = CHUNK}};
        assert_int_equal(play_add(&world->play, &desc), job);
    }
    idset_destroy(view);
}

/* train has the jobs train for so many epochs more, where reading, preparing and training on a batch take so long. */
static void train(struct world *world, uint32_t jobs, uint32_t epochs, uint64_t load_ns, uint64_t prepare_ns,
                  uint64_t train_ns)
{
    world->load_ns = load_ns;
    world->prepare_ns = prepare_ns;
    world->train_ns = train_ns;
    world->epochs += epochs;
    world->left = jobs;
    for (uint32_t job = 0; job < jobs; job++)
        play_push(&world->play, (struct engine_event){.type = ENGINE_NEXT, .next = {job, world->epoch[job], 1, 0}});
    while (world->left > 0)
        play_until(&world->play, world->play.now_ns + 1000);
}

/* While jobs wait for reads, encoded samples get all but the look-ahead; while the same jobs wait for the worker,
 * instances get back what they had. */
static void test_to_what_is_waited_for(void **state)
{
    (void)state;
    struct world world;
    begin(&world, JOBS);
    assert_int_equal(encoded_budget(&world), ENCODED);
    train(&world, JOBS, 8, 1000, 10, 100);
    assert_true(encoded_budget(&world) > ENCODED + (ARENA - JOBS * LOOK_AHEAD) * 9 / 10);
    assert_true(encoded_budget(&world) <= ENCODED + ARENA - JOBS * LOOK_AHEAD);
    train(&world, JOBS, 12, 1, 1000, 100);
    assert_true(encoded_budget(&world) < ENCODED + ARENA / 10);
    play_end(&world.play);
}

/* Where nobody waits, nothing moves. */
static void test_nobody_waits(void **state)
{
    (void)state;
    struct world world;
    begin(&world, JOBS);
    train(&world, JOBS, 4, 0, 0, 100000);
    assert_int_equal(encoded_budget(&world), ENCODED);
    play_end(&world.play);
}

/* A job alone has no use for instances beyond its look-ahead, whatever it waits for. */
static void test_alone(void **state)
{
    (void)state;
    for (int work = 0; work < 2; work++) {
        struct world world;
        begin(&world, 1);
        train(&world, 1, 8, work ? 1 : 1000, work ? 1000 : 1, 100);
        assert_true(encoded_budget(&world) > ENCODED + (ARENA - LOOK_AHEAD) * 9 / 10);
        play_end(&world.play);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_to_what_is_waited_for),
        cmocka_unit_test(test_nobody_waits),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
