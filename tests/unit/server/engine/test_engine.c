/* The engine by hand: small scenes whose every action is known. Random ones are the simulator's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "preprocess/prepare.h"
#include "tests/play/scene.h"

/* Three jobs of one pipeline on one dataset get every sample once, and each sample is prepared once for all three. */
static void test_three_jobs_share_every_sample(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    const char *names[] = {"a", "b", "c"};
    uint32_t jobs[3];
    for (int i = 0; i < 3; i++) {
        struct engine_job_desc desc = scene_job(names[i], view);
        scene_add(scene, &desc);
        jobs[i] = scene->play.job;
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
    assert_int_equal(totals.arena_pinned_bytes, 0);
    assert_int_equal(totals.samples_delivered, 300);
    idset_destroy(view);
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

/* While memory has room for all that jobs' views have, a sample is loaded once for all epochs. When a job comes whose view
 * does not fit beside, what nobody wants any more goes at once; when it leaves, what is read from then on stays. */
static void test_what_fits_is_loaded_once(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct engine_totals totals;
    struct idset *view, *large;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    assert_int_equal(idset_from_range(0, 1000, &large), 0);
    struct engine_job_desc small = scene_job("a", view), whole = scene_job("b", large);
    scene_add(scene, &small);
    uint32_t job = scene->play.job;
    play_epochs(scene, job, 0, 3);
    assert_int_equal(scene->loads, 100);
    assert_int_equal(scene->prepares, 300);
    scene_add(scene, &whole);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.encoded_used_bytes, 0);
    play_epochs(scene, job, 3, 4);
    assert_int_equal(scene->loads, 200);
    scene_gone(scene, scene->play.job);
    play_epochs(scene, job, 4, 7);
    assert_int_equal(scene->loads, 300);
    idset_destroy(view);
    idset_destroy(large);
    scene_free(scene);
}

/* A client that keeps its batches gets held_max of them and no more; what it keeps is pinned, and back when it leaves. */
static void test_a_client_that_keeps_batches_stops_at_its_quota(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = scene_job("a", view);
    scene_add(scene, &desc);
    scene->release = false;
    scene_next(scene, scene->play.job, 0, 10);
    assert_int_equal(scene->held_max, 2);
    assert_int_equal(scene->batches[scene->play.job], 2);
    struct engine_totals totals;
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena_pinned_bytes, 4 * 8 * 1024); /* two held, two ready behind them */
    scene_release(scene, scene->play.job, scene->last_batch[scene->play.job]);
    assert_int_equal(scene->batches[scene->play.job], 3);
    scene_release(scene, scene->play.job, 999);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.unknown_releases, 1);
    scene_step(scene, (struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {scene->play.job}});
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena_pinned_bytes, 0);
    assert_int_equal(totals.jobs, 0);
    idset_destroy(view);
    scene_free(scene);
}

/* A bad sample costs one sample under `skip`, nothing in number under `replace`, and the job under `error`. */
static void test_bad_samples_follow_the_policy(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 20, &view), 0);
    scene->bad[3] = scene->bad[11] = true;
    const enum bad_policy policies[] = {BAD_SKIP, BAD_REPLACE, BAD_ERROR};
    const char *names[] = {"s", "r", "e"};
    uint32_t jobs[3];
    for (int i = 0; i < 3; i++) {
        struct engine_job_desc desc = scene_job(names[i], view);
        desc.bad_policy = policies[i];
        scene_add(scene, &desc);
        jobs[i] = scene->play.job;
        scene_next(scene, jobs[i], 0, 10);
    }
    uint32_t total[3] = {0};
    for (int i = 0; i < 3; i++) {
        for (uint32_t id = 0; id < 20; id++)
            total[i] += scene->got[jobs[i]][id];
        assert_int_equal(scene->got[jobs[i]][3] + scene->got[jobs[i]][11], 0);
    }
    assert_int_equal(total[0], 18);
    assert_int_equal(scene->batches[jobs[0]], 3);
    assert_int_equal(total[1], 20);
    assert_true(scene->last[jobs[0]] && scene->last[jobs[1]]);
    assert_int_equal(scene->play.failed, LARDER_ESAMPLE);
    idset_destroy(view);
    scene_free(scene);
}

/* What one job's pipeline can make nothing of costs that job what its policy says, and another that shares the decode
 * nothing; it counts as one bad sample, whoever else waits. */
static void test_outputs_fail_apart(void **state)
{
    (void)state;
    for (int policy = BAD_SKIP; policy <= BAD_ERROR; policy++) {
        struct scene *scene = scene_new(600);
        struct idset *view;
        assert_int_equal(idset_from_range(0, 20, &view), 0);
        scene->unfit[3] = scene->unfit[11] = true;
        uint32_t jobs[3];
        struct engine_event next[3];
        for (uint32_t i = 0; i < 3; i++) { /* a has a pipeline that fits, b and c one that does not; c is private */
            struct engine_job_desc desc = scene_job(i == 0 ? "a" : i == 1 ? "b" : "c", view);
            desc.pipeline = i > 0;
            desc.variant = i / 2;
            desc.bad_policy = i > 0 ? (enum bad_policy)policy : BAD_ERROR;
            scene_add(scene, &desc);
            jobs[i] = scene->play.job;
            next[i] = (struct engine_event){.type = ENGINE_NEXT, .next = {jobs[i], 0, 10}};
        }
        scene_step_all(scene, next, 3); /* all plan together, and share what is decoded */
        uint32_t total[3] = {0};
        for (uint32_t i = 0; i < 3; i++) {
            for (uint32_t id = 0; id < 20; id++)
                total[i] += scene->got[jobs[i]][id];
        }
        assert_true(scene->in_part > 0);
        assert_int_equal(total[0], 20);
        assert_true(scene->last[jobs[0]]);
        struct engine_totals totals;
        struct engine_job_status rows[3];
        engine_totals(scene->play.engine, &totals);
        assert_int_equal(engine_job_statuses(scene->play.engine, scene->play.now_ns, rows, 3), 3);
        assert_int_equal(rows[0].bad_samples, 0);
        assert_int_equal(scene->play.failed, policy == BAD_ERROR ? LARDER_ESAMPLE : 0);
        if (policy == BAD_SKIP) {
            assert_int_equal(total[1], 18);
            assert_int_equal(total[2], 18);
            assert_int_equal(rows[1].bad_samples + rows[2].bad_samples, 4);
            assert_int_equal(totals.instances_prepared, 20 + 18 + 18);
            assert_int_equal(totals.samples_decoded, 20);
            assert_int_equal(totals.bad_samples[BAD_TOO_SMALL], 2);
        } else if (policy == BAD_REPLACE) {
            assert_int_equal(total[1], 20);
            assert_int_equal(total[2], 20);
        }
        idset_destroy(view);
        scene_free(scene);
    }
}

/* Under `skip` too a job is told when bad samples leave nothing of an epoch, or less than a batch under drop_last. */
static void test_nothing_left(void **state)
{
    (void)state;
    static const struct {
        uint32_t bad, batch;
        bool drop_last, fails;
    } cases[] = {{20, 4, false, true}, {19, 4, false, false}, {17, 4, true, true}, {16, 4, true, false}, {0, 21, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct scene *scene = scene_new(600);
        struct idset *view;
        assert_int_equal(idset_from_range(0, 20, &view), 0);
        for (uint32_t id = 0; id < cases[i].bad; id++)
            scene->bad[id] = true;
        struct engine_job_desc desc = scene_job("s", view);
        desc.batch_size = cases[i].batch;
        desc.drop_last = cases[i].drop_last;
        scene_add(scene, &desc);
        scene_next(scene, scene->play.job, 0, 10);
        assert_int_equal(scene->play.failed, cases[i].fails ? LARDER_ESAMPLE : 0);
        assert_int_equal(scene->last[scene->play.job], !cases[i].fails);
        idset_destroy(view);
        scene_free(scene);
    }
}

/* What cannot be served is refused, each with its own code. */
static void test_refusals(void **state)
{
    (void)state;
    struct scene *scene = scene_new(64);
    struct idset *view, *empty;
    assert_int_equal(idset_from_range(0, 500, &view), 0);
    assert_int_equal(idset_create(&empty), 0);
    struct engine_job_desc desc = scene_job("a", view);
    desc.batch_size = 65; /* the arena has 64 slots */
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EQUOTA);
    desc.batch_size = 33; /* two batches do not fit */
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EQUOTA);
    desc.batch_size = 0;
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EINVAL);
    desc = scene_job("a", empty);
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EINVAL);
    desc = scene_job("a", view);
    desc.batch_size = 32; /* just fits, with no batch ahead */
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, 0);
    assert_int_equal(scene->held_max, 2);
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EBUSY);
    desc.name = "b";
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EQUOTA); /* all is promised */
    scene_step(scene, (struct engine_event){.type = ENGINE_DRAIN});
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EGONE);
    idset_destroy(view);
    idset_destroy(empty);
    scene_free(scene);
}

/* Breaking an epoch off drops what is left of it; the next one brings the whole view again. */
static void test_a_broken_off_epoch_is_dropped(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = scene_job("a", view);
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
    idset_destroy(view);
    scene_free(scene);
}

/* A job that comes gets room that another was ahead with, at once and whatever that one's client does; each sample still
 * comes once, and who stays gets the room back. */
static void test_look_ahead_is_given_back(void **state)
{
    (void)state;
    struct scene *scene = scene_new(80); /* ten batches */
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = scene_job("a", view);
    desc.prefetch = 8;
    scene_add(scene, &desc);
    uint32_t first = scene->play.job;
    assert_int_equal(scene->ahead[first], 8);
    scene->release = false;
    scene_next(scene, first, 0, 64);
    struct engine_totals totals;
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena_pinned_bytes, 80 * 1024); /* two batches held, eight ready */
    desc = scene_job("b", view);
    desc.pipeline = 1; /* no instance of the first job's */
    desc.prefetch = 8;
    scene_add(scene, &desc);
    uint32_t second = scene->play.job;
    assert_int_equal(scene->ahead[first], 3);
    assert_int_equal(scene->ahead[second], 3);
    assert_int_equal(scene->changes, 1);
    scene->release = true;
    scene_next(scene, second, 0, 64);
    assert_true(scene->last[second]); /* all of it, beside one that holds what it has */
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.ahead_shortened, 1);
    scene_gone(scene, second);
    assert_int_equal(scene->ahead[first], 8);
    scene_release(scene, first, scene->last_batch[first]);
    scene_release(scene, first, 1);
    scene_next(scene, first, 0, 64);
    assert_true(scene->last[first]);
    for (uint32_t id = 0; id < 100; id++) {
        assert_int_equal(scene->got[first][id], 1);
        assert_int_equal(scene->got[second][id], 1);
    }
    scene_leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* Jobs come until two batches of each fill the arena; the next is refused, in words that say how much it would take. */
static void test_only_the_least_refuses(void **state)
{
    (void)state;
    struct scene *scene = scene_new(81);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    const char *names[] = {"a", "b", "c", "d", "e"};
    uint32_t jobs[5];
    for (uint32_t i = 0; i < 5; i++) {
        struct engine_job_desc desc = scene_job(names[i], view);
        desc.prefetch = 16;
        desc.pipeline = i;
        desc.shuffle = i % 2 ? SHUFFLE_STRICT : SHUFFLE_DEPENDENT;
        scene_add(scene, &desc);
        assert_int_equal(scene->play.refused, 0);
        jobs[i] = scene->play.job;
        scene_next(scene, jobs[i], 0, 1);
    }
    struct engine_job_desc desc = scene_job("f", view);
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EQUOTA);
    assert_non_null(strstr(scene->play.text, "at least 98304")); /* 12 batches of 8 slots of 1 KiB */
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(scene->ahead[jobs[i]], 0);
    for (uint32_t i = 0; i < 5; i++)
        scene_next(scene, jobs[i], 0, 64);
    for (uint32_t i = 0; i < 5; i++) {
        assert_true(scene->last[jobs[i]]);
        for (uint32_t id = 0; id < 100; id++)
            assert_int_equal(scene->got[jobs[i]][id], 1);
    }
    scene_leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* A slow sample delays itself and not the batches behind it, until as many samples have overtaken it as the queue looks
 * ahead; then the queue waits for it, and it is in the next batch. */
static void test_a_slow_sample_is_overtaken_within_bounds(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 1000, &view), 0);
    struct engine_job_desc desc = scene_job("a", view);
    desc.prefetch = 5;
    scene->slow = true;
    scene_add(scene, &desc);
    scene_next(scene, scene->play.job, 0, 60);
    static char slow_bytes;
    sample_id slow_id = scene->slow_id;
    uint32_t job = scene->play.job, ahead = (desc.prefetch + 2) * desc.batch_size, batches = scene->batches[job];
    assert_in_range(batches * desc.batch_size, ahead - desc.batch_size, ahead);
    assert_int_equal(scene->got[job][slow_id], 0);
    scene_step(scene, (struct engine_event){
                    .type = ENGINE_LOADED,
                    .loaded = {.id = slow_id, .encoded = &slow_bytes, .bytes = scene_sample_bytes(NULL, slow_id)}});
    assert_int_equal(scene->got[job][slow_id], 1);
    assert_int_equal(scene->batches[job], 60);
    scene_leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* Nothing stays under ids that mean no sample any more: no prepared form, no bytes. One that is still being read keeps its
 * id, and can be forgotten when it has come. */
static void test_samples_gone(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    sample_id ids[100];
    uint32_t kept = 0;
    struct engine_totals totals;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = scene_job("a", view);
    scene->slow = true;
    scene_add(scene, &desc);
    scene_next(scene, scene->play.job, 0, 5);
    scene_gone(scene, scene->play.job);
    engine_totals(scene->play.engine, &totals);
    assert_true(totals.arena_used_bytes > 0);
    for (uint32_t i = 0; i < 100; i++)
        ids[i] = i;
    struct engine_event gone = {.type = ENGINE_SAMPLES_GONE, .samples_gone = {.ids = ids, .count = 100, .kept = &kept}};
    scene_step(scene, gone);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(kept, 1);
    assert_int_equal(ids[0], scene->slow_id);
    assert_int_equal(totals.encoded_used_bytes, scene_sample_bytes(NULL, scene->slow_id));
    static char slow_bytes;
    scene_step(scene, (struct engine_event){
                   .type = ENGINE_LOADED,
                   .loaded = {.id = ids[0], .encoded = &slow_bytes, .bytes = scene_sample_bytes(NULL, ids[0])}});
    gone.samples_gone.count = 1;
    scene_step(scene, gone);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(kept, 0);
    assert_true(totals.arena_used_bytes == 0 && totals.encoded_used_bytes == 0);
    scene_leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* What a client was promised that it may hold is not taken back, and no more than that. */
static void test_what_may_be_held_stays(void **state)
{
    (void)state;
    struct scene *scene = scene_new(80);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = scene_job("a", view);
    desc.hold = 6;
    scene_add(scene, &desc);
    uint32_t first = scene->play.job;
    assert_int_equal(scene->held_max, 6);
    desc = scene_job("b", view);
    desc.pipeline = 1;
    desc.hold = 9;
    scene_add(scene, &desc);
    assert_int_equal(scene->held_max, 4); /* what remains */
    uint32_t second = scene->play.job;
    desc = scene_job("c", view);
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EQUOTA);
    scene->release = false;
    scene_next(scene, first, 0, 64);
    scene_next(scene, second, 0, 64);
    assert_int_equal(scene->batches[first], 6);
    assert_int_equal(scene->batches[second], 4);
    scene_leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* A cancelled job keeps what its client holds, and the room for what it may hold, until the client has given it back or
 * is gone; the rest of its quota is the others', who fill the arena beside it. */
static void test_a_cancelled_job_keeps_what_is_held(void **state)
{
    (void)state;
    struct scene *scene = scene_new(80);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = scene_job("a", view);
    desc.prefetch = 8;
    scene_add(scene, &desc);
    uint32_t first = scene->play.job;
    scene->release = false;
    scene_next(scene, first, 0, 64);
    assert_int_equal(scene->batches[first], 2);
    scene_step(scene, (struct engine_event){.type = ENGINE_JOB_CANCEL, .job_cancel = {first}});
    assert_int_equal(scene->play.failed, LARDER_EGONE);
    assert_non_null(strstr(scene->play.text, "cancelled"));
    assert_int_equal(scene->ahead[first], 0);
    struct engine_totals totals;
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena_pinned_bytes, 16 * 1024); /* the two batches that are held */
    assert_int_equal(totals.arena_quota_bytes, 16 * 1024);
    scene_release(scene, first, scene->last_batch[first]);
    desc = scene_job("b", view);
    desc.pipeline = 1;
    desc.prefetch = 8;
    scene_add(scene, &desc);
    uint32_t second = scene->play.job;
    assert_int_equal(scene->ahead[second], 6); /* all but what the first may hold */
    scene->release = true;
    scene_next(scene, second, 0, 64);
    assert_true(scene->last[second]);
    scene_next(scene, first, 0, 64); /* asks in vain */
    scene_step(scene, (struct engine_event){.type = ENGINE_JOB_CANCEL, .job_cancel = {first}}); /* nothing more to do */
    assert_int_equal(scene->batches[first], 2);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena_pinned_bytes, 8 * 1024);
    scene_gone(scene, first);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.jobs, 1);
    scene_leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* From ENGINE_HALT on nothing is loaded, prepared or delivered, though jobs ask and clients go and leave room. */
static void test_nothing_begins_after_a_halt(void **state)
{
    (void)state;
    struct scene *scene = scene_new(80);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = scene_job("a", view);
    scene_add(scene, &desc);
    uint32_t first = scene->play.job;
    desc = scene_job("b", view);
    desc.pipeline = 1;
    scene_add(scene, &desc);
    uint32_t second = scene->play.job;
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
    assert_int_equal(totals.arena_pinned_bytes, 0);
    scene_leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

static uint32_t look_ahead(struct scene *scene)
{
    struct engine_job_status row;
    assert_int_equal(engine_job_statuses(scene->play.engine, scene->play.now_ns, &row, 1), 1);
    return row.look_ahead;
}

/* A queue looks no farther ahead than its client's pace and the longest preparation ask for, once that has been measured
 * for long enough; and as far as it may as soon as the client had to wait. */
static void test_look_ahead_by_need(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600);
    struct idset *view;
    assert_int_equal(idset_from_range(0, 1000, &view), 0);
    struct engine_job_desc desc = scene_job("a", view);
    desc.prefetch = 16;
    scene_add(scene, &desc);
    struct engine_totals totals;
    for (uint32_t batch = 0; batch < 100; batch++) {
        scene_next(scene, scene->play.job, 0, 1);
        if (batch == ENGINE_AHEAD_WINDOWS * 8)
            assert_int_equal(look_ahead(scene), 16);
        scene->play.now_ns += SECOND / 10;
    }
    assert_int_equal(scene->batches[scene->play.job], 100);
    assert_int_equal(look_ahead(scene), 0);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena_pinned_bytes, 2 * 8 * 1024);
    scene->hold = true; /* no load comes back from now on */
    for (uint32_t batch = 0; batch < 3; batch++) {
        scene_next(scene, scene->play.job, 0, 1);
        scene->play.now_ns += SECOND / 10;
    }
    assert_int_equal(scene->batches[scene->play.job], 102);
    assert_int_equal(look_ahead(scene), 16);
    scene_leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* Where the arena is short, what each job needs comes before what it only asked for. */
static void test_needs_come_first(void **state)
{
    (void)state;
    struct scene *scene = scene_new(160); /* twenty batches */
    struct idset *view;
    assert_int_equal(idset_from_range(0, 1000, &view), 0);
    struct engine_job_desc desc = scene_job("a", view);
    desc.prefetch = 16;
    scene_add(scene, &desc);
    uint32_t calm = scene->play.job;
    desc = scene_job("b", view);
    desc.pipeline = 1;
    desc.prefetch = 16;
    scene_add(scene, &desc);
    uint32_t unknown = scene->play.job;
    assert_int_equal(scene->ahead[calm], 8);
    assert_int_equal(scene->ahead[unknown], 8);
    for (uint32_t batch = 0; batch < 100; batch++) {
        scene_next(scene, calm, 0, 1);
        scene->play.now_ns += SECOND / 10;
    }
    assert_int_equal(scene->ahead[calm], 0);
    assert_int_equal(scene->ahead[unknown], 16);
    assert_int_equal(scene->batches[calm], 100);
    scene_leave_all(scene);
    idset_destroy(view);
    scene_free(scene);
}

/* Asks for all of an epoch of 100 samples. */
static void expect_each_once(const struct scene *scene, uint32_t job, uint32_t times)
{
    for (uint32_t id = 0; id < 100; id++)
        assert_int_equal(scene->got[job][id], times);
}

/* A source that does not answer holds up its own jobs alone, with one load after each pause; a sample that two datasets have
 * comes from the other one. When it answers again every sample comes once, and none is bad. */
static void test_a_source_that_does_not_answer(void **state)
{
    (void)state;
    enum { PAUSE_NS = 50000000 };
    static uint32_t sizes[2][100];
    struct scene *scene = scene_new(600);
    struct engine_totals totals;
    struct idset *view;
    for (uint32_t i = 0; i < 200; i++)
        sizes[i / 100][i % 100] = ENCODED;
    assert_int_equal(idset_from_range(0, 100, &view), 0);
    struct engine_job_desc desc = scene_job("a", view);
    desc.dataset = sizes[0];
    desc.variant = 1; /* no instance of the other job's */
    scene->away = sizes[0];
    scene_add(scene, &desc);
    uint32_t a = scene->play.job;
    scene_next(scene, a, 0, 13);
    uint32_t burst = scene->unanswered;
    assert_true(burst > 0 && burst <= 8);
    assert_int_equal(engine_wakes_ns(scene->play.engine) > scene->play.now_ns, 1);
    scene->play.now_ns += PAUSE_NS;
    scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
    scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
    assert_int_equal(scene->unanswered, burst + 1);
    scene->play.now_ns += PAUSE_NS; /* the second pause is twice as long */
    scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
    assert_int_equal(scene->unanswered, burst + 1);
    expect_each_once(scene, a, 0);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.source_waits, 1);
    assert_int_equal(totals.loads_inflight, 0);
    assert_int_equal(totals.encoded_used_bytes, 0);

    struct engine_job_desc other = scene_job("b", view);
    other.dataset = sizes[1];
    scene_add(scene, &other);
    uint32_t b = scene->play.job;
    scene_next(scene, b, 0, 13);
    expect_each_once(scene, b, 1);
    assert_int_equal(scene->unanswered, burst + 1);

    scene->away = NULL;
    scene->play.now_ns += 2 * PAUSE_NS;
    scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
    expect_each_once(scene, a, 1);
    assert_int_equal(scene->play.failed, 0);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.source_waits, 0);
    assert_int_equal(totals.bad_samples[BAD_UNREADABLE], 0);
    idset_destroy(view);
    scene_leave_all(scene);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_three_jobs_share_every_sample),
        cmocka_unit_test(test_what_fits_is_loaded_once), cmocka_unit_test(test_a_client_that_keeps_batches_stops_at_its_quota),
        cmocka_unit_test(test_bad_samples_follow_the_policy),
        cmocka_unit_test(test_a_source_that_does_not_answer),
        cmocka_unit_test(test_outputs_fail_apart),
        cmocka_unit_test(test_nothing_left), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_a_broken_off_epoch_is_dropped), cmocka_unit_test(test_look_ahead_is_given_back),
        cmocka_unit_test(test_only_the_least_refuses), cmocka_unit_test(test_what_may_be_held_stays),
        cmocka_unit_test(test_a_slow_sample_is_overtaken_within_bounds),
        cmocka_unit_test(test_a_cancelled_job_keeps_what_is_held), cmocka_unit_test(test_nothing_begins_after_a_halt),
        cmocka_unit_test(test_samples_gone),
        cmocka_unit_test(test_look_ahead_by_need), cmocka_unit_test(test_needs_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
