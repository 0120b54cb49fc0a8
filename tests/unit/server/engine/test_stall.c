/* test_stall.c: how long clients stand still, why, and whose preparations they get. Loads take three seconds here,
 * preparations two, and clients train as long as the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/plan/play.h"

enum { SAMPLES = 64, BATCH = 4, LOAD_S = 3, PREPARE_S = 2 };
#define SECOND UINT64_C(1000000000)

struct scene {
    struct play play;
    struct idset *view;
    uint64_t stall_ns; /* of the last batch */
    uint32_t delivered;
    bool keep;               /* the batches */
    uint64_t asked_bytes;    /* of the RESERVE that has not been answered */
    sample_id came[SAMPLES]; /* those of all batches, in order; n_came of them */
    uint32_t n_came;
};

static bool see(void *ctx, const struct engine_action *action)
{
    struct scene *scene = ctx;
    uint64_t now_ns = scene->play.now_ns;
    switch (action->type) {
    case ENGINE_LOAD: play_answer_at(&scene->play, now_ns + LOAD_S * SECOND, action); return true;
    case ENGINE_PREPARE: play_answer_at(&scene->play, now_ns + PREPARE_S * SECOND, action); return true;
    case ENGINE_DELIVER:
        scene->stall_ns = action->deliver.stall_ns;
        scene->delivered++;
        for (uint32_t i = 0; i < action->deliver.count && scene->n_came < SAMPLES; i++)
            scene->came[scene->n_came++] = action->deliver.entries[i].id;
        return scene->keep;
    case ENGINE_RESERVE: scene->asked_bytes = action->reserve.bytes; return true;
    default: return false;
    }
}

static void begin_with(struct scene *scene, uint32_t loads, uint64_t reserve_bytes)
{
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = 64 * 1024,
                                   .reserve_bytes = reserve_bytes,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = loads,
                                   .inflight_prepares = 64,
                                   .rank_timeout_ns = 1000 * SECOND};
    memset(scene, 0, sizeof *scene);
    assert_int_equal(play_create(config, &scene->play, NULL), 0);
    assert_int_equal(idset_from_range(0, SAMPLES, &scene->view), 0);
    scene->play.see = see;
    scene->play.ctx = scene;
    scene->play.check_every = 1;
}

static void begin(struct scene *scene)
{
    begin_with(scene, 64, 0);
}

static void end(struct scene *scene)
{
    play_end(&scene->play);
    idset_destroy(scene->view);
}

static uint32_t add(struct scene *scene, const char *name, uint32_t rank, uint32_t world_size)
{
    uint32_t job = play_add(&scene->play, &(struct engine_job_desc){.client = (uint64_t)(unsigned char)name[0] + rank,
                                                                    .name = name,
                                                                    .slot_bytes = 1000,
                                                                    .batch_size = BATCH,
                                                                    .prefetch = 2,
                                                                    .rank = rank,
                                                                    .world_size = world_size,
                                                                    .sampled.view = scene->view});
    assert_int_equal(scene->play.refused, 0);
    return job;
}

static void wait_s(struct scene *scene, uint64_t seconds)
{
    play_until(&scene->play, scene->play.now_ns + seconds * SECOND);
}

static void assert_stall(const struct scene *scene, uint32_t job, uint32_t rank, double load_s, double prepare_s,
                         double rank_s)
{
    struct engine_queue_status rows[2];
    assert_true(engine_queue_statuses(scene->play.engine, job, scene->play.now_ns, rows, 2) > rank);
    const double *stall_s = rows[rank].delivery.stall_s;
    assert_true(stall_s[ENGINE_STALL_LOAD] == load_s);
    assert_true(stall_s[ENGINE_STALL_PREPARE] == prepare_s);
    assert_true(stall_s[ENGINE_STALL_ROOM] == 0);
    assert_true(stall_s[ENGINE_STALL_RANK] == rank_s);
}

/* The first batch is waited for as long as its loads and then its preparations take, also while that goes on. Training
 * is no standing still, though the client has asked ahead; nor is a batch that is ready. */
static void counts_by_cause(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    uint32_t job = add(&scene, "a", 0, 1);
    wait_s(&scene, 10);
    assert_stall(&scene, job, 0, 0, 0, 0); /* nobody has asked */
    play_next(&scene.play, job, 0, 0, 1);
    wait_s(&scene, 2);
    assert_stall(&scene, job, 0, 2, 0, 0);
    wait_s(&scene, 2);
    assert_stall(&scene, job, 0, LOAD_S, 1, 0);
    wait_s(&scene, 1);
    assert_int_equal(scene.delivered, 1);
    assert_true(scene.stall_ns == (LOAD_S + PREPARE_S) * SECOND);
    wait_s(&scene, 100);
    assert_stall(&scene, job, 0, LOAD_S, PREPARE_S, 0);
    play_next(&scene.play, job, 0, 0, 1);
    assert_int_equal(scene.delivered, 2);
    assert_true(scene.stall_ns == 0);
    assert_stall(&scene, job, 0, LOAD_S, PREPARE_S, 0);
    play_gone(&scene.play, job, 0);
    end(&scene);
}

/* Memory that is just being reserved counts as preparing, and not as room that is lacking. */
static void reserving_is_preparing(void **state)
{
    (void)state;
    struct scene scene;
    begin_with(&scene, 64, 4096);
    uint32_t job = add(&scene, "a", 0, 1);
    play_next(&scene.play, job, 0, 0, 1);
    wait_s(&scene, 4);
    assert_true(scene.asked_bytes > 0);
    play_event(&scene.play, (struct engine_event){.type = ENGINE_RESERVED, .reserved = {.bytes = scene.asked_bytes}});
    assert_stall(&scene, job, 0, 0, 4, 0);
    wait_s(&scene, LOAD_S + PREPARE_S);
    assert_int_equal(scene.delivered, 1);
    assert_stall(&scene, job, 0, LOAD_S, 4 + PREPARE_S, 0);
    play_gone(&scene.play, job, 0);
    end(&scene);
}

/* A client that has a batch which it has not given back asks ahead, and does not stand still; the age of what it holds
 * is told. */
static void asking_ahead_is_no_stall(void **state)
{
    (void)state;
    struct scene scene;
    struct engine_queue_status row;
    begin(&scene);
    scene.keep = true;
    uint32_t job = add(&scene, "a", 0, 1);
    play_next(&scene.play, job, 0, 0, 1);
    wait_s(&scene, LOAD_S + PREPARE_S);
    assert_int_equal(scene.delivered, 1);
    wait_s(&scene, 7);
    engine_queue_statuses(scene.play.engine, job, scene.play.now_ns, &row, 1);
    assert_true(row.delivery.lease_s == 7);
    play_next(&scene.play, job, 0, 0, 1);
    wait_s(&scene, 50);
    assert_stall(&scene, job, 0, LOAD_S, PREPARE_S, 0);
    play_release(&scene.play, job, 0, 1);
    play_release(&scene.play, job, 0, 2);
    engine_queue_statuses(scene.play.engine, job, scene.play.now_ns, &row, 1);
    assert_true(row.delivery.lease_s == 0);
    play_gone(&scene.play, job, 0);
    end(&scene);
}

static void say(struct scene *scene, uint32_t job, uint32_t credits, uint32_t awaited)
{
    play_event(&scene->play, (struct engine_event){.type = ENGINE_NEXT, .next = {job, 0, credits, awaited}});
}

/* A client stands still from when it says so, with no credit to give even, until it gets a batch. One that asks ahead
 * does not, though it has asked for all that it may. One that is owed fewer batches than it says has one on its way,
 * and goes on with that. */
static void says_when_it_stands(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    scene.keep = true;
    uint32_t job = add(&scene, "a", 0, 1);
    say(&scene, job, 2, ENGINE_ASKS_AHEAD);
    wait_s(&scene, 1);
    assert_stall(&scene, job, 0, 0, 0, 0);
    say(&scene, job, 0, 2);
    wait_s(&scene, 50);
    assert_int_equal(scene.delivered, 2);
    assert_stall(&scene, job, 0, LOAD_S - 1, PREPARE_S, 0);
    assert_int_equal(scene.delivered, 2);
    wait_s(&scene, 50);
    play_release(&scene.play, job, 0, 1);
    scene.stall_ns = 1;
    say(&scene, job, 1, 1); /* it stands still, but a batch is ready */
    assert_int_equal(scene.delivered, 3);
    assert_true(scene.stall_ns == 0);
    say(&scene, job, 0, 1); /* it has not read that one */
    wait_s(&scene, 50);
    assert_stall(&scene, job, 0, LOAD_S - 1, PREPARE_S, 0);
    play_gone(&scene.play, job, 0);
    end(&scene);
}

/* So does a client that holds a batch, and is owed less than its look-ahead. Samples are read a batch at a time: the
 * second batch is there LOAD_S after the first. */
static void stands_with_a_batch(void **state)
{
    (void)state;
    struct scene scene;
    begin_with(&scene, 2 * BATCH, 0); /* a source leaves half of what may be in flight to others */
    scene.keep = true;
    uint32_t job = add(&scene, "a", 0, 1);
    say(&scene, job, 2, ENGINE_ASKS_AHEAD);
    wait_s(&scene, LOAD_S + PREPARE_S);
    assert_int_equal(scene.delivered, 1);
    wait_s(&scene, 1);
    say(&scene, job, 0, 1);
    wait_s(&scene, 50);
    assert_int_equal(scene.delivered, 2);
    assert_true(scene.stall_ns == (LOAD_S - 1) * SECOND);
    assert_stall(&scene, job, 0, 0, LOAD_S - 1, 0);
    play_gone(&scene.play, job, 0);
    end(&scene);
}

/* A rank that is through with the epoch and asks for the next one waits for the other rank. */
static void waits_for_ranks(void **state)
{
    (void)state;
    struct scene scene;
    begin(&scene);
    uint32_t job = add(&scene, "a", 0, 2);
    add(&scene, "a", 1, 2);
    play_next(&scene.play, job, 0, 0, 64);
    wait_s(&scene, 100);
    assert_int_equal(scene.delivered, SAMPLES / BATCH / 2);
    play_next(&scene.play, job, 0, 1, 2);
    wait_s(&scene, 9);
    struct engine_queue_status rows[2];
    engine_queue_statuses(scene.play.engine, job, scene.play.now_ns, rows, 2);
    assert_true(rows[0].delivery.stall_s[ENGINE_STALL_RANK] == 9);
    play_gone(&scene.play, job, 0);
    wait_s(&scene, 9);
    engine_queue_statuses(scene.play.engine, job, scene.play.now_ns, rows, 2);
    assert_true(rows[0].delivery.stall_s[ENGINE_STALL_RANK] == 9); /* nobody is there who waits */
    play_gone(&scene.play, job, 1);
    end(&scene);
}

/* What was prepared is counted for the job that wanted it first, and for no other. */
static void counts_for_whom(void **state)
{
    (void)state;
    struct scene scene;
    struct engine_job_status rows[2];
    struct engine_totals totals;
    begin(&scene);
    uint32_t first = add(&scene, "a", 0, 1), second = add(&scene, "b", 0, 1);
    play_next(&scene.play, first, 0, 0, 64);
    wait_s(&scene, 1000);
    play_next(&scene.play, second, 0, 0, 64);
    wait_s(&scene, 1000);
    engine_totals(scene.play.engine, &totals);
    assert_int_equal(engine_job_statuses(scene.play.engine, scene.play.now_ns, rows, 2), 2);
    assert_int_equal(rows[0].instances_prepared + rows[1].instances_prepared, totals.counts.instances_prepared);
    assert_true(rows[0].instances_prepared >= SAMPLES);
    assert_int_equal(rows[1].delivery.samples, SAMPLES);
    assert_true(rows[1].samples_shared > 0);
    assert_int_equal(rows[1].delivery.samples - rows[1].samples_shared, rows[1].instances_prepared);
    play_gone(&scene.play, first, 0);
    play_gone(&scene.play, second, 0);
    end(&scene);
}

/* While samples are loaded, the engine says how many are delivered before each that is planned. */
static void says_how_soon_samples_are_needed(void **state)
{
    (void)state;
    struct scene scene;
    sample_id planned[SAMPLES];
    uint32_t n_planned = 0;
    begin(&scene);
    uint32_t job = add(&scene, "a", 0, 1);
    assert_int_equal(engine_needed(scene.play.engine, SAMPLES + 1), UINT64_MAX);
    play_next(&scene.play, job, 0, 0, 64);
    for (sample_id id = 0; id < SAMPLES; id++) {
        uint64_t needed = engine_needed(scene.play.engine, id);
        if (needed == UINT64_MAX)
            continue;
        assert_true(needed < SAMPLES);
        planned[needed] = id;
        n_planned++;
    }
    assert_true(n_planned >= BATCH && n_planned < SAMPLES);
    wait_s(&scene, 1000);
    assert_int_equal(scene.n_came, SAMPLES);
    for (uint32_t i = 0; i < n_planned; i++) {
        assert_int_equal(scene.came[i], planned[i]);
        assert_int_equal(engine_needed(scene.play.engine, planned[i]), UINT64_MAX);
    }
    play_gone(&scene.play, job, 0);
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_by_cause),          cmocka_unit_test(reserving_is_preparing),
        cmocka_unit_test(asking_ahead_is_no_stall), cmocka_unit_test(says_when_it_stands),
        cmocka_unit_test(stands_with_a_batch),      cmocka_unit_test(waits_for_ranks),
        cmocka_unit_test(counts_for_whom),          cmocka_unit_test(says_how_soon_samples_are_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
