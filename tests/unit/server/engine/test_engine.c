/* test_engine.c: the engine by hand: small scenes whose every action is known. Random ones are the simulator's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/play/scene.h"

/* Three jobs of one pipeline on one dataset get every sample once, and each sample is prepared once for all three. */
static void test_three_jobs_share_every_sample(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600, 100);
    const char *names[] = {"a", "b", "c"};
    uint32_t jobs[3];
    for (int i = 0; i < 3; i++) {
        struct engine_job_desc desc = scene_job(scene, names[i]);
        jobs[i] = scene_add(scene, &desc);
    }
    for (int batch = 0; batch < 13; batch++) {
        for (int i = 0; i < 3; i++)
            scene_next(scene, jobs[i], 0, 1);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(scene->batches[jobs[i]], 13);
        assert_int_equal(scene->last_count[jobs[i]], 4); /* 100 = 12 · 8 + 4 */
        assert_true(scene->last[jobs[i]]);
        for (uint32_t id = 0; id < 100; id++)
            assert_int_equal(scene->got[jobs[i]][id], 1);
    }
    assert_int_equal(scene->prepares, 100);
    struct engine_totals totals;
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena.pinned_bytes, 0);
    assert_int_equal(totals.counts.samples_delivered, 300);
    scene_free(scene);
}

static void play_epochs(struct scene *scene, uint32_t job, uint32_t first, uint32_t end)
{
    for (uint32_t epoch = first; epoch < end; epoch++) {
        scene->last[job] = false;
        scene_next(scene, job, epoch, 13);
        assert_true(scene->last[job]);
    }
}

/* While memory has room for all that jobs' views have, a sample is loaded once for all epochs. When a job comes
 * whose view does not fit beside, what nobody wants any more goes at once; when it leaves, what is read from then on
 * stays. */
static void test_what_fits_is_loaded_once(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600, 100);
    struct engine_totals totals;
    struct idset *large;
    assert_int_equal(idset_from_range(0, 1000, &large), 0);
    struct engine_job_desc small = scene_job(scene, "a"), whole = scene_job(scene, "b");
    whole.sampled.view = large;
    uint32_t job = scene_add(scene, &small);
    play_epochs(scene, job, 0, 3);
    assert_int_equal(scene->loads, 100);
    assert_int_equal(scene->prepares, 300);
    scene_add(scene, &whole);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.encoded.used_bytes, 0);
    play_epochs(scene, job, 3, 4);
    assert_int_equal(scene->loads, 200);
    scene_gone(scene, scene->play.job);
    play_epochs(scene, job, 4, 7);
    assert_int_equal(scene->loads, 300);
    idset_destroy(large);
    scene_free(scene);
}

/* Breaking an epoch off drops what is left of it; the next one brings the whole view again. */
static void test_a_broken_off_epoch_is_dropped(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600, 100);
    struct engine_job_desc desc = scene_job(scene, "a");
    desc.drop_last = true;
    scene_add(scene, &desc);
    scene_next(scene, scene->play.job, 0, 3);
    memset(scene->got, 0, sizeof scene->got);
    scene->batches[scene->play.job] = 0;
    scene_next(scene, scene->play.job, 1, 30);
    scene_next(scene, scene->play.job, 0, 30); /* an old one: ignored */
    uint32_t total = 0;
    for (uint32_t id = 0; id < 100; id++) {
        assert_true(scene->got[scene->play.job][id] <= 1);
        total += scene->got[scene->play.job][id];
    }
    assert_int_equal(total, 96); /* drop_last */
    assert_int_equal(scene->batches[scene->play.job], 12);
    assert_true(scene->last[scene->play.job]);
    scene_free(scene);
}

/* A slow sample delays itself and not the batches behind it, until as many samples have overtaken it as the queue looks
 * ahead; then the queue waits for it, and it is in the next batch. */
static void test_a_slow_sample_is_overtaken_within_bounds(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600, 1000);
    struct engine_job_desc desc = scene_job(scene, "a");
    desc.prefetch = 5;
    scene->slow = true;
    scene_add(scene, &desc);
    scene_next(scene, scene->play.job, 0, 60);
    static char slow_bytes;
    sample_id slow_id = scene->slow_id;
    uint32_t job = scene->play.job, ahead = (desc.prefetch + 2) * desc.batch_size, batches = scene->batches[job];
    assert_in_range(batches * desc.batch_size, ahead - desc.batch_size, ahead);
    assert_int_equal(scene->got[job][slow_id], 0);
    scene_step(scene,
               (struct engine_event){
                   .type = ENGINE_LOADED,
                   .loaded = {.id = slow_id, .encoded = &slow_bytes, .bytes = scene_sample_bytes(NULL, slow_id)}});
    assert_int_equal(scene->got[job][slow_id], 1);
    assert_int_equal(scene->batches[job], 60);
    scene_free(scene);
}

/* Nothing stays under ids that mean no sample any more: no prepared form, no bytes. One that is still being read
 * keeps its id, and can be forgotten when it has come. */
static void test_samples_gone(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600, 100);
    sample_id ids[100];
    uint32_t kept = 0;
    struct engine_totals totals;
    struct engine_job_desc desc = scene_job(scene, "a");
    scene->slow = true;
    scene_add(scene, &desc);
    scene_next(scene, scene->play.job, 0, 5);
    scene_gone(scene, scene->play.job);
    engine_totals(scene->play.engine, &totals);
    assert_true(totals.arena.used_bytes > 0);
    for (uint32_t i = 0; i < 100; i++)
        ids[i] = i;
    struct engine_event gone = {.type = ENGINE_SAMPLES_GONE, .samples_gone = {.ids = ids, .count = 100, .kept = &kept}};
    scene_step(scene, gone);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(kept, 1);
    assert_int_equal(ids[0], scene->slow_id);
    assert_int_equal(totals.encoded.used_bytes, scene_sample_bytes(NULL, scene->slow_id));
    static char slow_bytes;
    scene_step(scene, (struct engine_event){
                          .type = ENGINE_LOADED,
                          .loaded = {.id = ids[0], .encoded = &slow_bytes, .bytes = scene_sample_bytes(NULL, ids[0])}});
    gone.samples_gone.count = 1;
    scene_step(scene, gone);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(kept, 0);
    assert_true(totals.arena.used_bytes == 0 && totals.encoded.used_bytes == 0);
    scene_free(scene);
}

/* From ENGINE_HALT on nothing is loaded, prepared or delivered, though jobs ask and clients go and leave room. */
static void test_nothing_begins_after_a_halt(void **state)
{
    (void)state;
    struct scene *scene = scene_new(80, 100);
    struct engine_job_desc desc = scene_job(scene, "a");
    uint32_t first = scene_add(scene, &desc);
    desc = scene_job(scene, "b");
    desc.pipeline = 1;
    uint32_t second = scene_add(scene, &desc);
    scene->release = false;
    scene_next(scene, first, 0, 1);
    scene_next(scene, second, 0, 1);
    uint32_t loads = scene->loads, prepares = scene->prepares;
    scene_step(scene, (struct engine_event){.type = ENGINE_HALT});
    scene_release(scene, second, scene->last_batch[second]);
    scene_next(scene, second, 0, 64);
    scene_gone(scene, first);
    scene_next(scene, second, 1, 64);
    assert_int_equal(scene->loads, loads);
    assert_int_equal(scene->prepares, prepares);
    assert_int_equal(scene->batches[second], 1);
    scene_gone(scene, second);
    struct engine_totals totals;
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.jobs, 0);
    assert_int_equal(totals.arena.pinned_bytes, 0);
    scene_free(scene);
}

/* What the engine holds, by what went in and came out. */
static struct {
    bool (*see)(void *ctx, const struct engine_action *action);
    bool keep_prepares;
    uint32_t held, dropped;
} bytes;

static bool see_bytes(void *ctx, const struct engine_action *action)
{
    bool kept = (action->type == ENGINE_PREPARE && bytes.keep_prepares) || bytes.see(ctx, action);
    bytes.held += action->type == ENGINE_LOAD && !kept;
    bytes.held -= action->type == ENGINE_DROP_ENCODED;
    return kept;
}

static void drop_bytes(void *encoded)
{
    bytes.dropped++;
    free(encoded);
}

enum moment { RANKS_TO_COME, BATCHES_HELD, RANK_LEFT, PREPARING, HALTED, FAILED, MOMENTS };

/* play_until_moment leaves bytes in the engine: those that another job, which is at that moment, may yet want. */
static void play_until_moment(struct scene *scene, enum moment moment)
{
    struct engine_job_desc desc = scene_job(scene, "x"), other = scene_job(scene, "y");
    desc.world_size = moment == RANKS_TO_COME || moment == RANK_LEFT ? 3 : 1;
    other.pipeline = 1;
    uint32_t first = scene_add(scene, &desc), second = scene_add(scene, &other);
    scene->release = moment != BATCHES_HELD;
    bytes.keep_prepares = moment == PREPARING;
    scene_next(scene, first, 0, moment == FAILED ? 1 : 3);
    scene_next(scene, second, 0, 20);
    if (moment == RANK_LEFT)
        scene_gone(scene, first);
    if (moment == FAILED)
        scene_step(scene, (struct engine_event){.type = ENGINE_JOB_CANCEL, .job_cancel = {first}});
    if (moment == HALTED)
        scene_step(scene, (struct engine_event){.type = ENGINE_HALT});
}

/* Whatever jobs wait for when the engine ends, all bytes that it holds come back, each once. */
static void test_an_end_gives_all_bytes_back(void **state)
{
    (void)state;
    for (enum moment moment = 0; moment < MOMENTS; moment++) {
        struct scene *scene = scene_new(600, 100);
        memset(&bytes, 0, sizeof bytes);
        bytes.see = scene->play.see;
        scene->play.see = see_bytes;
        scene->play.own_bytes = true;
        play_until_moment(scene, moment);
        assert_true(bytes.held > 0);
        engine_destroy(scene->play.engine, drop_bytes);
        assert_int_equal(bytes.dropped, bytes.held);
        scene->play.engine = NULL;
        play_end(&scene->play);
        idset_destroy(scene->view);
        free(scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_jobs_share_every_sample),
        cmocka_unit_test(test_what_fits_is_loaded_once),
        cmocka_unit_test(test_a_broken_off_epoch_is_dropped),
        cmocka_unit_test(test_a_slow_sample_is_overtaken_within_bounds),
        cmocka_unit_test(test_samples_gone),
        cmocka_unit_test(test_nothing_begins_after_a_halt),
        cmocka_unit_test(test_an_end_gives_all_bytes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
