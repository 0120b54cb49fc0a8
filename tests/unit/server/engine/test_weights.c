/* test_weights.c: under contention work is done for jobs in proportion to their weights; in virtual time, with
 * workers that are always too few. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "server/plan/play.h"

enum { SLOT = 1000, JOBS = 8, SAMPLES = 20000, AT_ONCE = 2, CHUNK = 50 };

#define MS UINT64_C(1000000)

/* `lanes` workers of each kind; clients that give each batch back at once and ask for the next. */
struct world {
    struct play play;
    uint32_t lanes;
    /* prepare_ns: by pipeline; each lane does one at a time, in order. All outputs of a task share one decode. */
    uint64_t load_ns, decode_ns, prepare_ns[JOBS];
    uint64_t load_free_ns[AT_ONCE], prepare_free_ns[AT_ONCE];
    uint32_t clients; /* so far */
    uint64_t delivered[JOBS], decodes;
    bool idle[JOBS]; /* asks for nothing more */
    uint32_t epoch[JOBS];
};

static uint64_t begin_work(struct world *world, uint64_t *free_ns, uint64_t cost_ns)
{
    uint32_t lane = 0;
    for (uint32_t i = 1; i < world->lanes; i++)
        lane = free_ns[i] < free_ns[lane] ? i : lane;
    free_ns[lane] = (free_ns[lane] > world->play.now_ns ? free_ns[lane] : world->play.now_ns) + cost_ns;
    return free_ns[lane];
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct world *world = ctx;
    struct engine_event event = {.type = ENGINE_PREPARED, .prepared = {.core_ns = world->decode_ns}};
    switch (action->type) {
    case ENGINE_LOAD:
        play_answer_at(&world->play, begin_work(world, world->load_free_ns, world->load_ns), action);
        return true;
    case ENGINE_PREPARE:
        event.prepared.task = action->prepare.task;
        for (uint32_t i = 0; i < action->prepare.n_outputs; i++) {
            event.prepared.own_ns[i] = (uint32_t)world->prepare_ns[action->prepare.outputs[i].pipeline];
            event.prepared.core_ns += event.prepared.own_ns[i];
        }
        world->decodes++;
        play_push_at(&world->play, begin_work(world, world->prepare_free_ns, event.prepared.core_ns), event);
        return true;
    case ENGINE_DELIVER:
        world->delivered[action->job] += action->deliver.count;
        play_answer_at(&world->play, world->play.now_ns, action);
        world->epoch[action->job] += action->deliver.last;
        if (!world->idle[action->job])
            play_push(&world->play, (struct engine_event){.type = ENGINE_NEXT,
                                                          .next = {action->job, world->epoch[action->job], 1, 0}});
        return true;
    default: return false;
    }
}

static void run_for(struct world *world, uint64_t ns)
{
    play_until(&world->play, world->play.now_ns + ns);
}

static struct world *world_new_with(uint32_t inflight_loads, uint32_t slots, uint32_t encoded)
{
    struct world *world = xcalloc(1, sizeof *world);
    struct engine_config config = {.seed = 7,
                                   .arena_bytes = slots * UINT64_C(1024),
                                   .encoded_bytes = encoded * PLAY_SAMPLE_BYTES,
                                   .inflight_loads = inflight_loads,
                                   .inflight_prepares = AT_ONCE,
                                   .redirect_width = 16};
    assert_int_equal(play_create(config, &world->play, NULL), 0);
    world->play.see = see;
    world->play.ctx = world;
    world->play.check_every = 4096; /* views of many samples make it dear; `simulate` has weights too */
    world->lanes = 1;
    world->load_ns = 1; /* so that all jobs are there before anything is */
    for (int i = 0; i < JOBS; i++)
        world->prepare_ns[i] = MS;
    return world;
}

static struct world *world_new(void)
{
    return world_new_with(64, 4096, 256);
}

static void world_free(struct world *world)
{
    play_end(&world->play);
    free(world);
}

/* A job on samples first … first + SAMPLES - 1, and its first request. */
static uint32_t add(struct world *world, sample_id first, double weight, struct engine_job_desc desc)
{
    struct idset *view;
    char name[8] = {(char)('a' + world->clients++)};
    assert_int_equal(idset_create(&view), 0);
    for (sample_id id = 0; id < SAMPLES; id++)
        idset_add(view, first + id);
    desc.name = desc.name ? desc.name : name;
    desc.client = world->clients;
    desc.slot_bytes = SLOT;
    desc.batch_size = 16;
    desc.prefetch = 2;
    desc.sampled.view = view;
    desc.weight = weight;
    struct chunk_slot *places = xcalloc(SAMPLES, sizeof *places);
    for (uint32_t i = 0; i < SAMPLES; i++)
        places[i] = (struct chunk_slot){(first + i) / CHUNK, (first + i) % CHUNK};
    desc.chunks.places = places;
    desc.chunks.count = 4 * SAMPLES / CHUNK; /* subsets of one dataset */
    desc.chunks.samples = CHUNK;
    uint32_t job = play_add(&world->play, &desc);
    free(places);
    idset_destroy(view);
    if (job != UINT32_MAX)
        play_next(&world->play, job, desc.rank, 0, 2);
    return job;
}

static double ratio(const struct world *world, uint32_t a, uint32_t b)
{
    return (double)world->delivered[b] / (double)world->delivered[a];
}

static void forget(struct world *world)
{
    memset(world->delivered, 0, sizeof world->delivered);
    world->decodes = 0;
}

static void set_weight(struct world *world, uint32_t job, double weight)
{
    play_event(&world->play, (struct engine_event){.type = ENGINE_WEIGHT, .weight = {job, weight}});
}

/* Of two jobs with nothing in common each gets the workers' time in proportion to its weight, within 3 %, whether one
 * worker prepares or two, and a weight given while they run holds from then on. */
static void test_proportion(void **state)
{
    (void)state;
    static const double weights[][2] = {{1, 1}, {1, 3}, {3, 1}, {0.05, 0.1}, {100, 100}, {0, 2}};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        struct world *world = world_new();
        world->lanes = 1 + i % 2;
        uint32_t a = add(world, 0, weights[i][0], (struct engine_job_desc){0});
        uint32_t b = add(world, SAMPLES, weights[i][1], (struct engine_job_desc){0});
        run_for(world, 10000 * MS);
        double expected = weights[i][1] / (weights[i][0] == 0 ? 1 : weights[i][0]);
        assert_true(fabs(ratio(world, a, b) / expected - 1) < 0.03);
        uint64_t both = world->delivered[a] + world->delivered[b];
        assert_in_range(both, 9900 * world->lanes, 10000 * world->lanes); /* nobody idled */
        set_weight(world, a, 4);
        set_weight(world, b, 2);
        run_for(world, 200 * MS); /* what was planned before */
        forget(world);
        run_for(world, 5000 * MS);
        assert_true(fabs(ratio(world, a, b) / 0.5 - 1) < 0.03);
        world_free(world);
    }
}

/* However light, a job gets a tenth of an equal share. */
static void test_floor(void **state)
{
    (void)state;
    struct world *world = world_new();
    uint32_t light = add(world, 0, JOB_WEIGHT_MIN, (struct engine_job_desc){0});
    uint32_t heavy = add(world, SAMPLES, JOB_WEIGHT_MAX, (struct engine_job_desc){0});
    run_for(world, 10000 * MS);
    double all = (double)(world->delivered[light] + world->delivered[heavy]);
    assert_true((double)world->delivered[light] / all > 0.049 && (double)world->delivered[light] / all < 0.052);
    uint32_t third = add(world, 2 * SAMPLES, JOB_WEIGHT_MAX, (struct engine_job_desc){0});
    forget(world);
    run_for(world, 10000 * MS);
    all = (double)(world->delivered[light] + world->delivered[heavy] + world->delivered[third]);
    assert_true((double)world->delivered[light] / all > 0.032 && (double)world->delivered[light] / all < 0.037);
    assert_true(fabs(ratio(world, heavy, third) - 1) < 0.03);
    world_free(world);
}

/* A job alone gets all the time there is, whatever its weight, and one whose neighbour asks for nothing too. */
static void test_uncontended(void **state)
{
    (void)state;
    static const double weights[] = {JOB_WEIGHT_MIN, 1, JOB_WEIGHT_MAX};
    for (size_t i = 0; i < 3; i++) {
        struct world *world = world_new();
        uint32_t other = add(world, SAMPLES, 1, (struct engine_job_desc){0});
        world->idle[other] = true;
        uint32_t job = add(world, 0, weights[i], (struct engine_job_desc){0});
        run_for(world, 1000 * MS); /* the other has had what it asked for, and its look-ahead */
        forget(world);
        run_for(world, 10000 * MS);
        assert_in_range(world->delivered[job], 9800, 10100); /* but for a few batches under way */
        assert_int_equal(world->delivered[other], 0);
        world_free(world);
    }
}

/* A job that asked for nothing for a long time has saved up no more than a few samples. */
static void test_no_credit(void **state)
{
    (void)state;
    struct world *world = world_new();
    uint32_t a = add(world, 0, 1, (struct engine_job_desc){0});
    uint32_t b = add(world, SAMPLES, 1, (struct engine_job_desc){0});
    run_for(world, 1000 * MS);
    world->idle[b] = true;
    run_for(world, 5000 * MS);
    forget(world);
    world->idle[b] = false;
    play_next(&world->play, b, 0, world->epoch[b], 2);
    run_for(world, 200 * MS);
    assert_in_range(world->delivered[b], 100, 100 + 8 + 4 * 16); /* half, the slack, and what it had ahead */
    assert_in_range(world->delivered[a], 100 - 8 - 16, 100 + 16);
    world_free(world);
}

/* Worker time is what is dealt: of two jobs of one weight, one with samples four times as dear, the other gets four
 * times as many. */
static void test_cost(void **state)
{
    (void)state;
    struct world *world = world_new();
    world->prepare_ns[1] = 4 * MS;
    uint32_t cheap = add(world, 0, 1, (struct engine_job_desc){.pipeline = 0});
    uint32_t dear = add(world, SAMPLES, 1, (struct engine_job_desc){.pipeline = 1});
    run_for(world, 500 * MS); /* until costs are known */
    forget(world);
    run_for(world, 20000 * MS);
    assert_true(fabs(ratio(world, dear, cheap) / 4 - 1) < 0.05);
    world_free(world);
}

/* beside runs a job of pipeline 0 beside one of pipeline 1, both on the same samples or each on its own, and leaves in
 * the world what they were delivered. */
static struct world *beside(uint64_t cheap_ns, uint64_t dear_ns, double weight, bool same)
{
    struct world *world = world_new_with(256, 400, SAMPLES);
    world->decode_ns = MS;
    world->prepare_ns[0] = cheap_ns;
    world->prepare_ns[1] = dear_ns;
    add(world, 0, weight, (struct engine_job_desc){.pipeline = 0});
    add(world, same ? 0 : SAMPLES, 1, (struct engine_job_desc){.pipeline = 1});
    run_for(world, 2000 * MS); /* until costs are known */
    forget(world);
    run_for(world, 2000 * (dear_ns > 10 * MS ? dear_ns : 10 * MS));
    return world;
}

/* A job whose samples are cheap does not wait for one whose samples are dear, though each decode serves both: it gets
 * hardly less than beside a job with samples of its own. What the dear job misses lies in the arena for its later
 * picks. Memory has just room for all samples. */
static void test_dear_neighbour(void **state)
{
    (void)state;
    static const uint64_t dear_ns[] = {10 * MS, 40 * MS};
    for (size_t i = 0; i < 4; i++) {
        double weight = i % 2 ? 4 : 1;
        struct world *own = beside(MS / 2, dear_ns[i / 2], weight, false);
        struct world *same = beside(MS / 2, dear_ns[i / 2], weight, true);
        assert_true((double)same->delivered[0] > 0.75 * (double)own->delivered[0]);
        assert_true((double)same->delivered[1] > 0.6 * (double)own->delivered[1]);
        world_free(own);
        world_free(same);
    }
}

/* Where neither is dearer than the other, one decode is enough for both. */
static void test_like_neighbours(void **state)
{
    (void)state;
    static const uint64_t second_ns[] = {MS / 2, MS / 2 + MS / 20, MS};
    for (size_t i = 0; i < 3; i++) {
        struct world *world = beside(MS / 2, second_ns[i], 1, true);
        assert_true((double)world->decodes < 1.05 * (double)world->delivered[0]);
        world_free(world);
    }
}

/* A job that paused does not pay for what was made for it meanwhile: when it goes on, its neighbour's decodes serve it
 * as they did before. */
static void test_after_pause(void **state)
{
    (void)state;
    struct world *world = world_new_with(256, 6000, SAMPLES);
    world->decode_ns = MS;
    world->prepare_ns[0] = world->prepare_ns[1] = MS / 2;
    add(world, 0, 1, (struct engine_job_desc){.pipeline = 0});
    uint32_t paused = add(world, 0, 1, (struct engine_job_desc){.pipeline = 1});
    run_for(world, 2000 * MS); /* until costs are known */
    world->idle[paused] = true;
    run_for(world, 10000 * MS);
    world->idle[paused] = false;
    play_next(&world->play, paused, 0, world->epoch[paused], 2);
    run_for(world, 1000 * MS); /* it takes what was made for it */
    forget(world);
    run_for(world, 4000 * MS);
    for (uint32_t job = 0; job < 2; job++)
        assert_true((double)world->decodes < 1.1 * (double)world->delivered[job]);
    world_free(world);
}

/* Jobs that share what is prepared pay for it together: against a third with samples of its own they are as one job
 * with both weights, and a heavy one does not wait in a light one's line. */
static void test_shared(void **state)
{
    (void)state;
    struct world *world = world_new();
    uint32_t light = add(world, 0, 0.5, (struct engine_job_desc){0});
    uint32_t heavy = add(world, 0, 1.5, (struct engine_job_desc){0});
    uint32_t alone = add(world, SAMPLES, 1, (struct engine_job_desc){0});
    run_for(world, 10000 * MS);
    assert_true(fabs(ratio(world, alone, heavy) / 2 - 1) < 0.1);
    assert_true(fabs(ratio(world, alone, light) / 2 - 1) < 0.1);
    world_free(world);

    /* half of what the heavy one wants, the light one wants too; it must get on at least as if it were by itself */
    world = world_new();
    add(world, 0, 0.5, (struct engine_job_desc){0});
    heavy = add(world, SAMPLES / 2, 5, (struct engine_job_desc){0});
    alone = add(world, 2 * SAMPLES, 1, (struct engine_job_desc){0});
    run_for(world, 4000 * MS);
    assert_true(ratio(world, alone, heavy) > 0.97 * 5);
    world_free(world);
}

/* Loading is dealt in the same way where it is what is short. */
static void test_loads(void **state)
{
    (void)state;
    struct world *world = world_new_with(2, 4096, 256);
    world->load_ns = MS;
    for (int i = 0; i < JOBS; i++)
        world->prepare_ns[i] = MS / 100;
    uint32_t a = add(world, 0, 1, (struct engine_job_desc){0});
    uint32_t b = add(world, SAMPLES, 3, (struct engine_job_desc){0});
    run_for(world, 10000 * MS);
    assert_true(fabs(ratio(world, a, b) / 3 - 1) < 0.03);
    world_free(world);
}

/* The ranks of a job have its weight together, and must give the same one. */
static void test_ranks(void **state)
{
    (void)state;
    struct world *world = world_new();
    uint32_t alone = add(world, 0, 1, (struct engine_job_desc){0});
    uint32_t job = add(world, SAMPLES, 3, (struct engine_job_desc){.name = "ranks", .world_size = 2});
    assert_int_equal(add(world, SAMPLES, 2, (struct engine_job_desc){.name = "ranks", .world_size = 2, .rank = 1}),
                     UINT32_MAX);
    assert_int_equal(world->play.refused, LARDER_EINVAL);
    set_weight(world, job, 1); /* one that comes later gives what the first one gave */
    assert_int_equal(add(world, SAMPLES, 3, (struct engine_job_desc){.name = "ranks", .world_size = 2, .rank = 1}),
                     job);
    struct engine_job_status rows[2];
    assert_int_equal(engine_job_statuses(world->play.engine, world->play.now_ns, rows, 2), 2);
    assert_true(rows[0].weight == 1 && rows[1].weight == 1 && rows[1].attached == 2);
    (void)alone;
    world_free(world);
}

/* A weight that is out of bounds, or no number, is refused. */
static void test_bounds(void **state)
{
    (void)state;
    static const double wrong[] = {-1, 0.0099, 100.001, 1e300, -0.01};
    struct world *world = world_new();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(add(world, 0, wrong[i], (struct engine_job_desc){0}), UINT32_MAX);
    assert_int_equal(add(world, 0, NAN, (struct engine_job_desc){0}), UINT32_MAX);
    assert_int_equal(add(world, 0, INFINITY, (struct engine_job_desc){0}), UINT32_MAX);
    assert_int_equal(world->play.refused, LARDER_EINVAL);
    assert_int_not_equal(add(world, 0, JOB_WEIGHT_MIN, (struct engine_job_desc){0}), UINT32_MAX);
    world_free(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proportion),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_uncontended),
        cmocka_unit_test(test_no_credit),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_shared),
        cmocka_unit_test(test_loads),
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_dear_neighbour),
        cmocka_unit_test(test_like_neighbours),
        cmocka_unit_test(test_after_pause),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
