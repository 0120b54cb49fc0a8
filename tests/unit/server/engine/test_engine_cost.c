/* test_engine_cost.c: what one asks of the engine takes it no longer for what others have in memory. Times are of the
 * thread, of the quickest of several rounds, and compared with those beside a sixteenth as much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/engine/engine.h"

enum { FEW = 8192, MANY = 16 * FEW, SLOT = 64, ROUNDS = 10, TIMES = 60, FACTOR_MAX = 5, SLACK_NS = 1000000 };

struct world {
    struct engine *engine;
    uint64_t now_ns, prepared;
    uint32_t job; /* of the last JOB_ADDED */
    struct engine_event *due;
    size_t first, end, cap;
};

static uint64_t sample_bytes(const void *dataset, sample_id id)
{
    (void)dataset, (void)id;
    return 16;
}

static void later(struct world *world, struct engine_event event)
{
    if (world->end == world->cap) {
        world->cap = world->cap ? world->cap * 2 : 1024;
        world->due = xrealloc(world->due, world->cap, sizeof *world->due);
    }
    world->due[world->end++] = event;
}

static void take(struct world *world, const struct engine_event *event)
{
    const struct engine_action *actions;
    size_t count = engine_step(world->engine, ++world->now_ns, event, &actions);
    for (size_t i = 0; i < count; i++) {
        const struct engine_action *action = &actions[i];
        CHECK(action->type != ENGINE_JOB_REFUSED && action->type != ENGINE_JOB_ERROR);
        if (action->type == ENGINE_JOB_ADDED)
            world->job = action->job;
        else if (action->type == ENGINE_LOAD)
            later(world, (struct engine_event){
                             .type = ENGINE_LOADED,
                             .loaded = {.id = action->load.id, .encoded = world, .bytes = action->load.bytes}});
        else if (action->type == ENGINE_PREPARE)
            later(world,
                  (struct engine_event){.type = ENGINE_PREPARED, .prepared = {.task = action->prepare.task}});
        else if (action->type == ENGINE_DELIVER)
            later(world, (struct engine_event){.type = ENGINE_RELEASE,
                                               .release = {action->job, action->deliver.batch}});
    }
}

/* Takes the event, and all that follows from it. */
static void play(struct world *world, struct engine_event event)
{
    take(world, &event);
    while (world->first < world->end) {
        struct engine_event next = world->due[world->first++];
        take(world, &next);
    }
    world->first = world->end = 0;
}

static uint32_t add(struct world *world, const char *name, uint32_t samples)
{
    struct idset *view;
    CHECK(idset_from_range(0, samples, &view) == 0);
    struct engine_job_desc desc = {.client = (uint64_t)name[0], .name = name, .slot_bytes = SLOT, .batch_size = 64,
                                   .prefetch = 2, .view = view};
    play(world, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = &desc});
    idset_destroy(view);
    return world->job;
}

static void next(struct world *world, uint32_t job, uint32_t epoch)
{
    play(world, (struct engine_event){.type = ENGINE_NEXT, .next = {job, epoch, 1}});
}

/* An engine in which a job has left an instance and the encoded bytes of each of so many samples. */
static struct world *world_new(uint32_t samples)
{
    struct world *world = xcalloc(1, sizeof *world);
    struct engine_config config = {.seed = 1, .arena_bytes = (uint64_t)(samples + 1024) * SLOT,
                                   .encoded_bytes = (uint64_t)samples * 32, .inflight_loads = 64,
                                   .inflight_prepares = 64, .redirect_width = 0, .sample_bytes = sample_bytes};
    struct engine_totals totals;
    assert_int_equal(engine_create(&config, &world->engine, NULL), 0);
    uint32_t job = add(world, "all", samples);
    for (uint32_t batch = 0; batch < samples / 64; batch++)
        next(world, job, 0);
    engine_totals(world->engine, &totals);
    assert_int_equal(totals.samples_delivered, samples);
    assert_true(totals.arena_used_bytes >= (uint64_t)samples * SLOT && totals.encoded_used_bytes == samples * 16);
    return world;
}

static void world_free(struct world *world)
{
    engine_destroy(world->engine);
    free(world->due);
    free(world);
}

/* ── what is asked ── */

static void ask_epoch(struct world *world, uint32_t job, uint32_t time)
{
    next(world, job, time);
}

static void ask_totals(struct world *world, uint32_t job, uint32_t time)
{
    struct engine_totals totals;
    struct engine_job_status rows[2];
    (void)job, (void)time;
    engine_totals(world->engine, &totals);
    assert_int_equal(engine_job_statuses(world->engine, world->now_ns, rows, 2), 2);
}

static void ask_job(struct world *world, uint32_t job, uint32_t time)
{
    (void)job, (void)time;
    uint32_t another = add(world, "more", 1);
    next(world, another, 0);
    play(world, (struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {another}});
}

/* Nanoseconds of the quickest round of a job of one sample beside as many in memory. */
static uint64_t quickest_ns(uint32_t samples, void (*ask)(struct world *world, uint32_t job, uint32_t time))
{
    struct world *world = world_new(samples);
    uint32_t job = add(world, "one", 1);
    uint64_t best_ns = UINT64_MAX;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t began_ns = clock_thread_ns();
        for (uint32_t time = 0; time < TIMES; time++)
            ask(world, job, round * TIMES + time);
        uint64_t took_ns = clock_thread_ns() - began_ns;
        best_ns = took_ns < best_ns ? took_ns : best_ns;
    }
    engine_check(world->engine);
    world_free(world);
    return best_ns;
}

static void compare(const char *what, void (*ask)(struct world *world, uint32_t job, uint32_t time))
{
    uint64_t few_ns = quickest_ns(FEW, ask), many_ns = quickest_ns(MANY, ask);
    print_message("%s: %.2f us beside %d samples, %.2f us beside %d\n", what, (double)few_ns / TIMES / 1e3, FEW,
                  (double)many_ns / TIMES / 1e3, MANY);
    assert_true(many_ns < FACTOR_MAX * few_ns + SLACK_NS);
}

/* An epoch of a job of one sample. */
static void test_epochs(void **state)
{
    (void)state;
    compare("an epoch", ask_epoch);
}

/* The figures that each status and each scrape takes. */
static void test_totals(void **state)
{
    (void)state;
    compare("totals", ask_totals);
}

/* A job of one sample that comes, asks for it and goes. */
static void test_jobs(void **state)
{
    (void)state;
    compare("a job", ask_job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_jobs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
