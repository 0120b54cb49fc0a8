/* test_quota.c: how much of the arena each job may have, who gives back when it gets short, and who is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/play/scene.h"

/* What cannot be served is refused, each with its own code. */
static void test_refusals(void **state)
{
    (void)state;
    struct scene *scene = scene_new(64, 500);
    struct idset *empty;
    assert_int_equal(idset_create(&empty), 0);
    struct engine_job_desc desc = scene_job(scene, "a");
    desc.batch_size = 65; /* the arena has 64 slots */
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EQUOTA);
    desc.batch_size = 33; /* two batches do not fit */
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EQUOTA);
    desc.batch_size = 0;
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EINVAL);
    desc = scene_job(scene, "a");
    desc.sampled.view = empty;
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EINVAL);
    desc = scene_job(scene, "a");
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
    idset_destroy(empty);
    scene_free(scene);
}

/* A job that comes gets room that another was ahead with, at once and whatever that one's client does; each sample
 * still comes once, and who stays gets the room back. */
static void test_look_ahead_is_given_back(void **state)
{
    (void)state;
    struct scene *scene = scene_new(80, 100); /* ten batches */
    struct engine_job_desc desc = scene_job(scene, "a");
    desc.prefetch = 8;
    uint32_t first = scene_add(scene, &desc);
    assert_int_equal(scene->ahead[first], 8);
    scene->release = false;
    scene_next(scene, first, 0, 64);
    struct engine_totals totals;
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena.pinned_bytes, 80 * 1024); /* two batches held, eight ready */
    desc = scene_job(scene, "b");
    desc.pipeline = 1; /* no instance of the first job's */
    desc.prefetch = 8;
    uint32_t second = scene_add(scene, &desc);
    assert_int_equal(scene->ahead[first], 3);
    assert_int_equal(scene->ahead[second], 3);
    assert_int_equal(scene->changes, 1);
    scene->release = true;
    scene_next(scene, second, 0, 64);
    assert_true(scene->last[second]); /* all of it, beside one that holds what it has */
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.counts.ahead_shortened, 1);
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
    scene_free(scene);
}

/* Jobs come until two batches of each fill the arena; the next is refused, in words that say how much it would take. */
static void test_only_the_least_refuses(void **state)
{
    (void)state;
    struct scene *scene = scene_new(81, 100);
    const char *names[] = {"a", "b", "c", "d", "e"};
    uint32_t jobs[5];
    for (uint32_t i = 0; i < 5; i++) {
        struct engine_job_desc desc = scene_job(scene, names[i]);
        desc.prefetch = 16;
        desc.pipeline = i;
        desc.sampled.shuffle = i % 2 ? SHUFFLE_STRICT : SHUFFLE_DEPENDENT;
        scene_add(scene, &desc);
        assert_int_equal(scene->play.refused, 0);
        jobs[i] = scene->play.job;
        scene_next(scene, jobs[i], 0, 1);
    }
    struct engine_job_desc desc = scene_job(scene, "f");
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
    scene_free(scene);
}

/* What a client was promised that it may hold is not taken back, and no more than that. */
static void test_what_may_be_held_stays(void **state)
{
    (void)state;
    struct scene *scene = scene_new(80, 100);
    struct engine_job_desc desc = scene_job(scene, "a");
    desc.hold = 6;
    uint32_t first = scene_add(scene, &desc);
    assert_int_equal(scene->held_max, 6);
    desc = scene_job(scene, "b");
    desc.pipeline = 1;
    desc.hold = 9;
    scene_add(scene, &desc);
    assert_int_equal(scene->held_max, 4); /* what remains */
    uint32_t second = scene->play.job;
    desc = scene_job(scene, "c");
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, LARDER_EQUOTA);
    scene->release = false;
    scene_next(scene, first, 0, 64);
    scene_next(scene, second, 0, 64);
    assert_int_equal(scene->batches[first], 6);
    assert_int_equal(scene->batches[second], 4);
    scene_free(scene);
}

static uint32_t look_ahead(struct scene *scene)
{
    struct engine_job_status row;
    assert_int_equal(engine_job_statuses(scene->play.engine, scene->play.now_ns, &row, 1), 1);
    return row.ahead.needed;
}

/* A queue looks no farther ahead than its client's pace and the longest preparation ask for, once that has been
 * measured for long enough; and as far as it may as soon as the client had to wait. */
static void test_look_ahead_by_need(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600, 1000);
    struct engine_job_desc desc = scene_job(scene, "a");
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
    assert_int_equal(totals.arena.pinned_bytes, 2 * 8 * 1024);
    scene->hold = true; /* no load comes back from now on */
    for (uint32_t batch = 0; batch < 3; batch++) {
        scene_next(scene, scene->play.job, 0, 1);
        scene->play.now_ns += SECOND / 10;
    }
    assert_int_equal(scene->batches[scene->play.job], 102);
    assert_int_equal(look_ahead(scene), 16);
    scene_free(scene);
}

/* Where the arena is short, what each job needs comes before what it only asked for. */
static void test_needs_come_first(void **state)
{
    (void)state;
    struct scene *scene = scene_new(160, 1000); /* twenty batches */
    struct engine_job_desc desc = scene_job(scene, "a");
    desc.prefetch = 16;
    uint32_t calm = scene_add(scene, &desc);
    desc = scene_job(scene, "b");
    desc.pipeline = 1;
    desc.prefetch = 16;
    uint32_t unknown = scene_add(scene, &desc);
    assert_int_equal(scene->ahead[calm], 8);
    assert_int_equal(scene->ahead[unknown], 8);
    for (uint32_t batch = 0; batch < 100; batch++) {
        scene_next(scene, calm, 0, 1);
        scene->play.now_ns += SECOND / 10;
    }
    assert_int_equal(scene->ahead[calm], 0);
    assert_int_equal(scene->ahead[unknown], 16);
    assert_int_equal(scene->batches[calm], 100);
    scene_free(scene);
}

/* A client that keeps its batches gets held_max of them and no more; what it keeps is pinned, and back when it
 * leaves. */
static void test_a_client_that_keeps_batches_stops_at_its_quota(void **state)
{
    (void)state;
    struct scene *scene = scene_new(600, 100);
    struct engine_job_desc desc = scene_job(scene, "a");
    scene_add(scene, &desc);
    scene->release = false;
    scene_next(scene, scene->play.job, 0, 10);
    assert_int_equal(scene->held_max, 2);
    assert_int_equal(scene->batches[scene->play.job], 2);
    struct engine_totals totals;
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena.pinned_bytes, 4 * 8 * 1024); /* two held, two ready behind them */
    scene_release(scene, scene->play.job, scene->last_batch[scene->play.job]);
    assert_int_equal(scene->batches[scene->play.job], 3);
    scene_release(scene, scene->play.job, 999);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.counts.unknown_releases, 1);
    scene_step(scene, (struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {.job = scene->play.job}});
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena.pinned_bytes, 0);
    assert_int_equal(totals.jobs, 0);
    scene_free(scene);
}

/* A cancelled job keeps what its client holds, and the room for what it may hold, until the client has given it back or
 * is gone; the rest of its quota is the others', who fill the arena beside it. */
static void test_a_cancelled_job_keeps_what_is_held(void **state)
{
    (void)state;
    struct scene *scene = scene_new(80, 100);
    struct engine_job_desc desc = scene_job(scene, "a");
    desc.prefetch = 8;
    uint32_t first = scene_add(scene, &desc);
    scene->release = false;
    scene_next(scene, first, 0, 64);
    assert_int_equal(scene->batches[first], 2);
    scene_step(scene, (struct engine_event){.type = ENGINE_JOB_CANCEL, .job_cancel = {first}});
    assert_int_equal(scene->play.failed, LARDER_EGONE);
    assert_non_null(strstr(scene->play.text, "cancelled"));
    assert_int_equal(scene->ahead[first], 0);
    struct engine_totals totals;
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena.pinned_bytes, 16 * 1024); /* the two batches that are held */
    assert_int_equal(totals.arena.quota_bytes, 16 * 1024);
    scene_release(scene, first, scene->last_batch[first]);
    desc = scene_job(scene, "b");
    desc.pipeline = 1;
    desc.prefetch = 8;
    uint32_t second = scene_add(scene, &desc);
    assert_int_equal(scene->ahead[second], 6); /* all but what the first may hold */
    scene->release = true;
    scene_next(scene, second, 0, 64);
    assert_true(scene->last[second]);
    scene_next(scene, first, 0, 64);                                                            /* asks in vain */
    scene_step(scene, (struct engine_event){.type = ENGINE_JOB_CANCEL, .job_cancel = {first}}); /* nothing more to do */
    assert_int_equal(scene->batches[first], 2);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.arena.pinned_bytes, 8 * 1024);
    scene_gone(scene, first);
    engine_totals(scene->play.engine, &totals);
    assert_int_equal(totals.jobs, 1);
    scene_free(scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_look_ahead_is_given_back),
        cmocka_unit_test(test_only_the_least_refuses),
        cmocka_unit_test(test_what_may_be_held_stays),
        cmocka_unit_test(test_look_ahead_by_need),
        cmocka_unit_test(test_needs_come_first),
        cmocka_unit_test(test_a_client_that_keeps_batches_stops_at_its_quota),
        cmocka_unit_test(test_a_cancelled_job_keeps_what_is_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
