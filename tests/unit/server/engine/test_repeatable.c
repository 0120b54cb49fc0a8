/* test_repeatable.c: jobs whose pipeline draws nothing at random get instances again in each epoch, while there is
 * room. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/check.h"
#include "server/plan/play.h"

enum { CHUNK = 16, SAMPLES = 1024, BATCH = 16, SLOT = 64 };

static struct play play;

static void begin(uint32_t slots)
{
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = (uint64_t)slots * SLOT,
                                   .encoded_bytes = (uint64_t)SAMPLES / 10 * PLAY_SAMPLE_BYTES +
                                                    (uint64_t)slots * ENGINE_INSTANCE_BYTES,
                                   .inflight_loads = 64,
                                   .inflight_prepares = 64,
                                   .redirect_width = 8};
    assert_int_equal(play_create(config, &play, NULL), 0);
    play.check_every = 7;
}

static uint32_t add(const char *name, enum shuffle_mode shuffle, bool repeatable)
{
    struct idset *view;
    static sample_id order[SAMPLES];
    static struct chunk_slot places[SAMPLES];
    assert_int_equal(idset_from_range(0, SAMPLES, &view), 0);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        places[i] = (struct chunk_slot){i / CHUNK, i % CHUNK};
        order[i] = i;
    }
    struct engine_job_desc desc = {.client = (uint64_t)name[0],
                                   .name = name,
                                   .slot_bytes = SLOT,
                                   .batch_size = BATCH,
                                   .prefetch = 1,
                                   .pipeline = repeatable,
                                   .repeatable = repeatable,
                                   .sampled = {.view = view, .shuffle = shuffle, .order = order},
                                   .chunks = {.places = places, .count = SAMPLES / CHUNK, .samples = CHUNK}};
    uint32_t job = play_add(&play, &desc);
    assert_int_not_equal(job, UINT32_MAX);
    idset_destroy(view);
    return job;
}

static struct engine_counts run_epoch(uint32_t job, uint32_t epoch)
{
    struct engine_totals before, after;
    engine_totals(play.engine, &before);
    for (uint32_t batch = 0; batch < SAMPLES / BATCH; batch++)
        play_next(&play, job, 0, epoch, 1);
    engine_totals(play.engine, &after);
    assert_int_equal(after.counts.samples_delivered - before.counts.samples_delivered, SAMPLES);
    return (struct engine_counts){.samples_loaded = after.counts.samples_loaded - before.counts.samples_loaded,
                                  .instances_prepared = after.counts.instances_prepared -
                                                        before.counts.instances_prepared};
}

/* With room for all, only the first epoch loads and prepares, in any order. */
static void test_room_for_all(void **state)
{
    (void)state;
    static const enum shuffle_mode orders[] = {SHUFFLE_NONE, SHUFFLE_STRICT, SHUFFLE_DEPENDENT};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        begin(SAMPLES + 8 * BATCH);
        uint32_t job = add("again", orders[i], true);
        assert_int_equal(run_epoch(job, 0).instances_prepared, SAMPLES);
        for (uint32_t epoch = 1; epoch < 4; epoch++) {
            struct engine_counts counts = run_epoch(job, epoch);
            assert_int_equal(counts.instances_prepared, 0);
            assert_int_equal(counts.samples_loaded, 0);
        }
        play_end(&play);
    }
}

/* With room for half, about half is prepared in each epoch. */
static void test_room_for_half(void **state)
{
    (void)state;
    begin(SAMPLES / 2);
    uint32_t job = add("again", SHUFFLE_NONE, true);
    assert_int_equal(run_epoch(job, 0).instances_prepared, SAMPLES);
    for (uint32_t epoch = 1; epoch < 4; epoch++)
        assert_in_range(run_epoch(job, epoch).instances_prepared, SAMPLES / 2, SAMPLES * 6 / 10);
    play_end(&play);
}

/* A job whose pipeline draws at random gets new instances in each epoch. */
static void test_random(void **state)
{
    (void)state;
    begin(SAMPLES + 8 * BATCH);
    uint32_t job = add("random", SHUFFLE_NONE, false);
    for (uint32_t epoch = 0; epoch < 3; epoch++)
        assert_int_equal(run_epoch(job, epoch).instances_prepared, SAMPLES);
    play_end(&play);
}

/* What a training job has left behind goes before what a validation job will want again, and costs the training job
 * nothing. */
static void test_beside_training(void **state)
{
    (void)state;
    begin(SAMPLES + 16 * BATCH);
    uint32_t validation = add("validation", SHUFFLE_NONE, true), train = add("training", SHUFFLE_DEPENDENT, false);
    assert_int_equal(run_epoch(validation, 0).instances_prepared, SAMPLES);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        assert_int_equal(run_epoch(train, epoch).instances_prepared, SAMPLES);
        assert_in_range(run_epoch(validation, epoch + 1).instances_prepared, 0, 8 * BATCH);
    }
    play_gone(&play, validation, 0);
    engine_check(play.engine);
    play_gone(&play, train, 0);
    engine_check(play.engine);
    play_end(&play);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_room_for_all),
        cmocka_unit_test(test_room_for_half),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_beside_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
