/* Slots of several sizes in one arena: what each job keeps has room, wherever clients hold theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/play/scene.h"

enum { TICK_NS = 100000000 };

static void wait_s(struct scene *scene, uint64_t seconds)
{
    for (uint64_t end = scene->play.now_ns + seconds * SECOND; scene->play.now_ns < end; scene->play.now_ns += TICK_NS)
        scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
}

/* Two jobs of one-slot batches plan in turns, and one of them leaves: 16 slots stay held, with one free between
 * them. */
static uint32_t scatter(struct scene *scene, const char *stays)
{
    struct engine_event both[2] = {{.type = ENGINE_NEXT, .next = {.credits = 16}},
                                   {.type = ENGINE_NEXT, .next = {.credits = 16}}};
    struct engine_job_desc desc = scene_job(scene, stays);
    bool release = scene->release;
    scene->release = false;
    desc.batch_size = 1;
    desc.prefetch = 14;
    desc.hold = 16;
    desc.pipeline = 2;
    scene_add(scene, &desc);
    both[0].next.job = scene->play.job;
    desc.name = "goes";
    desc.pipeline = 3;
    scene_add(scene, &desc);
    both[1].next.job = scene->play.job;
    scene_step_all(scene, both, 2);
    assert_int_equal(scene->batches[both[0].next.job], 16);
    assert_int_equal(scene->batches[both[1].next.job], 16);
    scene_gone(scene, both[1].next.job);
    scene->batches[both[1].next.job] = 0;
    memset(scene->got[both[1].next.job], 0, sizeof scene->got[0]);
    scene->release = release;
    return both[0].next.job;
}

static struct engine_job_desc large_job(const struct scene *scene, const char *name)
{
    struct engine_job_desc desc = scene_job(scene, name);
    desc.batch_size = 1;
    desc.slot_bytes = 2 * 1024;
    return desc;
}

static void train(struct scene *scene, uint32_t job, uint32_t batches)
{
    for (uint32_t batch = scene->batches[job]; batch < batches; batch++) {
        scene_next(scene, job, 0, 1);
        assert_int_equal(scene->batches[job], batch + 1);
    }
}

/* A job has its least rows though a stopped client has been given more than its own of the only slots that are long
 * enough. */
static void test_what_is_planned_ahead_makes_way(void **state)
{
    (void)state;
    struct scene *scene = scene_new(40, 100);
    scatter(scene, "small");
    scene->release = false;
    struct engine_job_desc desc = large_job(scene, "stops");
    uint32_t stops = scene_add(scene, &desc);
    scene_next(scene, stops, 0, 1); /* holds a sample, and three are ready: all that free space has room for */
    scene->release = true;
    desc = large_job(scene, "trains");
    scene_add(scene, &desc);
    train(scene, scene->play.job, 100);
    scene_release(scene, stops, scene->last_batch[stops]);
    train(scene, stops, 100); /* and it is none the worse */
    for (sample_id id = 0; id < 100; id++)
        assert_int_equal(scene->got[stops][id], 1);
    scene_free(scene);
}

/* Slots of one size are not lost to another: a client gives its batches back, others fill what it had with smaller
 * samples and hold them, and it still gets its next ones. */
static void test_others_stay_out_of_a_zone(void **state)
{
    (void)state;
    struct scene *scene = scene_new(32, 100);
    struct engine_job_desc desc = large_job(scene, "large");
    desc.batch_size = 4; /* two rows: 16 KiB */
    desc.prefetch = 1;
    uint32_t large = scene_add(scene, &desc);
    scene_next(scene, large, 0, 1);
    scene->release = false;
    desc = scene_job(scene, "small");
    desc.pipeline = 1;
    desc.prefetch = 16;
    scene_add(scene, &desc); /* two rows: 16 KiB */
    scene_next(scene, scene->play.job, 0, 16);
    assert_int_equal(scene->batches[scene->play.job], 2);
    scene->release = true;
    for (uint32_t batch = 1; batch < 25; batch++)
        scene_next(scene, large, 0, 1);
    assert_true(scene->last[large]);
    scene_free(scene);
}

/* Where what clients hold leaves no slot long enough a job is taken all the same, and begins when somebody gives
 * back. */
static void test_a_job_waits_for_room(void **state)
{
    (void)state;
    struct scene *scene = scene_new(34, 100);
    uint32_t small = scatter(scene, "small");
    struct engine_job_desc desc = large_job(scene, "large");
    scene_add(scene, &desc);
    assert_int_equal(scene->play.refused, 0);
    uint32_t large = scene->play.job;
    scene_next(scene, large, 0, 1);
    assert_int_equal(scene->batches[large], 0);
    assert_true(engine_waits_for_room(scene->play.engine));
    wait_s(scene, ROOM_TIMEOUT_S / 2);
    assert_int_equal(scene->batches[large], 0);
    for (uint64_t batch = 1; batch <= 32; batch++) /* those of the job that has gone are nobody's */
        scene_release(scene, small, batch);
    wait_s(scene, 1);
    assert_int_equal(scene->batches[large], 1);
    assert_false(engine_waits_for_room(scene->play.engine));
    train(scene, large, 100);
    assert_int_equal(scene->play.failed, 0);
    scene_free(scene);
}

/* Jobs that wait take turns: one whose slots are too long does not keep others from the room that there is for
 * theirs. */
static void test_jobs_that_wait_take_turns(void **state)
{
    (void)state;
    struct scene *scene = scene_new(34, 100);
    uint32_t small = scatter(scene, "small"), large[2];
    struct engine_job_desc desc = large_job(scene, "longer");
    desc.slot_bytes = 4 * 1024;
    desc.pipeline = 4;
    uint32_t longer = scene_add(scene, &desc);
    scene_next(scene, longer, 0, 1);
    for (uint32_t i = 0; i < 2; i++) {
        desc = large_job(scene, i ? "large" : "as large");
        large[i] = scene_add(scene, &desc);
        scene_next(scene, large[i], 0, 1);
    }
    for (uint64_t batch = 2; batch <= 32; batch += 2) /* every second one: three slots lie together, not four */
        scene_release(scene, small, batch);
    wait_s(scene, 1);
    assert_int_equal(scene->batches[longer], 0);
    for (uint32_t i = 0; i < 2; i++)
        train(scene, large[i], 100);
    assert_int_equal(scene->play.refused + scene->play.failed, 0);
    scene_free(scene);
}

/* Nobody gives back: the job fails after the time that it is to wait, in words that say who holds what, and how
 * large an arena would do. It does. */
static void test_a_job_does_not_wait_for_ever(void **state)
{
    (void)state;
    struct scene *scene = scene_new(34, 100);
    scatter(scene, "small");
    struct engine_job_desc desc = large_job(scene, "large");
    scene_add(scene, &desc);
    wait_s(scene, 2 * ROOM_TIMEOUT_S); /* nobody has asked for a batch yet */
    assert_int_equal(scene->play.failed, 0);
    scene_next(scene, scene->play.job, 0, 1);
    wait_s(scene, ROOM_TIMEOUT_S - 1);
    assert_int_equal(scene->play.failed, 0);
    wait_s(scene, 2);
    assert_int_equal(scene->play.failed, LARDER_EQUOTA);
    assert_non_null(strstr(scene->play.text, "small holds 16"));
    const char *enough = strstr(scene->play.text, "memory.arena to ");
    assert_non_null(enough);
    uint64_t bytes = strtoull(enough + strlen("memory.arena to "), NULL, 10);
    scene_free(scene);

    scene = scene_new((bytes + 1023) / 1024, 100);
    scatter(scene, "small");
    desc = large_job(scene, "large");
    scene_add(scene, &desc);
    train(scene, scene->play.job, 100);
    scene_free(scene);
}

/* Room for a job that comes is made in small pieces, one a step, and the engine says that it has not done. */
static void test_room_is_made_step_by_step(void **state)
{
    (void)state;
    struct engine_totals before, after;
    struct scene *scene = scene_new_with((struct engine_config){.seed = 1,
                                                                .arena_bytes = 64 * 1024,
                                                                .encoded_bytes = 100000,
                                                                .inflight_loads = 8,
                                                                .inflight_prepares = 4,
                                                                .evicted_at_once = 1},
                                         100);
    struct engine_job_desc desc = scene_job(scene, "small");
    uint32_t small = scene_add(scene, &desc), steps = 0;
    scene_next(scene, small, 0, 13);
    assert_true(scene->last[small]);
    scene_gone(scene, small); /* 64 samples of its are in memory */
    scene->batches[small] = 0;
    scene->last[small] = false;
    memset(scene->got[small], 0, sizeof scene->got[0]);
    desc = large_job(scene, "large");
    desc.batch_size = 2;
    desc.pipeline = 1;
    uint32_t large = scene_add(scene, &desc);
    scene_next(scene, large, 0, 1);
    for (; scene->batches[large] == 0; steps++) {
        assert_true(engine_wakes_ns(scene->play.engine) <= scene->play.now_ns + 1);
        engine_totals(scene->play.engine, &before);
        scene_step(scene, (struct engine_event){.type = ENGINE_TICK});
        engine_totals(scene->play.engine, &after);
        if (scene->batches[large] == 0)
            assert_true(after.counts.evicted_prepared <= before.counts.evicted_prepared + 2); /* one slot */
    }
    assert_int_equal(engine_wakes_ns(scene->play.engine), UINT64_MAX);
    assert_true(steps > 1);
    train(scene, large, 50);
    scene_free(scene);
}

/* Files as they are have no slots of one size: where a long one finds no room between those that the job's own client
 * holds, the job fails after a time, and does not when the client gives one back in time. */
static void test_files_wait_for_room(void **state)
{
    (void)state;
    static uint32_t sizes[100];
    for (int gives_back = 0; gives_back <= 1; gives_back++) {
        struct scene *scene = scene_new(19, 100);
        sample_id order[100];
        for (sample_id id = 0; id < 100; id++) { /* three short ones lie in a row before the long one */
            order[id] = id;
            sizes[id] = id == 3 ? 16 * 1024 : 2 * 1024;
        }
        struct engine_job_desc desc = scene_job(scene, "files");
        desc.raw = true;
        desc.slot_bytes = 6 * 1024;
        desc.dataset = sizes;
        desc.batch_size = 1;
        desc.hold = 3;
        desc.sampled.shuffle = SHUFFLE_NONE;
        desc.sampled.order = order;
        scene->release = false;
        scene_add(scene, &desc);
        assert_int_equal(scene->held_max, 3);
        scene_next(scene, scene->play.job, 0, 3);
        assert_int_equal(scene->batches[scene->play.job], 3);
        for (uint64_t batch = 1; batch <= 3; batch += 2)
            scene_release(scene, scene->play.job, batch);
        scene_next(scene, scene->play.job, 0, 1);
        wait_s(scene, ROOM_TIMEOUT_S - 1);
        uint32_t before = scene->batches[scene->play.job];
        if (gives_back)
            scene_release(scene, scene->play.job, 2);
        wait_s(scene, 2);
        assert_int_equal(before, 3);
        assert_int_equal(scene->play.failed, gives_back ? 0 : LARDER_EQUOTA);
        assert_int_equal(scene->batches[scene->play.job], gives_back ? 4 : 3);
        scene_free(scene);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_planned_ahead_makes_way),
        cmocka_unit_test(test_others_stay_out_of_a_zone),
        cmocka_unit_test(test_a_job_waits_for_room),
        cmocka_unit_test(test_jobs_that_wait_take_turns),
        cmocka_unit_test(test_a_job_does_not_wait_for_ever),
        cmocka_unit_test(test_room_is_made_step_by_step),
        cmocka_unit_test(test_files_wait_for_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
