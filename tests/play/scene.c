#include "tests/play/scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/check.h"

uint64_t scene_sample_bytes(const void *dataset, sample_id id)
{
    const uint32_t *bytes_of = dataset;
    return bytes_of ? bytes_of[id] : ENCODED + id % 7;
}

/* Gives true when the load has another answer than its sample. */
static bool see_load(struct scene *scene, const struct engine_action *action)
{
    scene->loads++;
    if (scene->away && action->load.dataset == scene->away) {
        scene->unanswered++;
        play_push_at(&scene->play, scene->play.now_ns + scene->away_ns,
                     (struct engine_event){
                         .type = ENGINE_LOADED,
                         .loaded = {.id = action->load.id, .reason = BAD_UNREADABLE, .fate = ENGINE_FATE_SOURCE}});
        return true;
    }
    if (scene->slow) {
        scene->slow = false;
        scene->slow_id = action->load.id;
        return true;
    }
    return scene->hold;
}

static void see_prepare(struct scene *scene, const struct engine_action *action)
{
    struct engine_event event = {.type = ENGINE_PREPARED, .prepared = {.task = action->prepare.task}};
    uint32_t failed = 0, count = action->prepare.n_outputs;
    for (uint32_t i = 0; i < count; i++) {
        bool unfit = scene->unfit[action->prepare.id] && action->prepare.outputs[i].pipeline == 1;
        event.prepared.reasons[i] = scene->bad[action->prepare.id] ? BAD_CORRUPT : unfit ? BAD_TOO_SMALL : BAD_NONE;
        failed += event.prepared.reasons[i] != BAD_NONE;
    }
    scene->prepares += count;
    scene->in_part += failed > 0 && failed < count;
    play_push(&scene->play, event);
}

static void see_deliver(struct scene *scene, const struct engine_action *action)
{
    scene->batches[action->job]++;
    if (action->deliver.last) {
        assert_false(scene->last[action->job]);
        scene->last[action->job] = true;
        scene->last_count[action->job] = action->deliver.count;
    }
    scene->last_batch[action->job] = action->deliver.batch;
    for (uint32_t i = 0; i < action->deliver.count; i++)
        scene->got[action->job][action->deliver.entries[i].id]++;
}

static bool see(void *ctx, const struct engine_action *action)
{
    struct scene *scene = ctx;
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        scene->held_max = action->job_added.held_max;
        scene->ahead[action->job] = action->job_added.ahead;
        return false;
    case ENGINE_LOAD: return see_load(scene, action);
    case ENGINE_PREPARE: see_prepare(scene, action); return true;
    case ENGINE_DELIVER: see_deliver(scene, action); return !scene->release;
    case ENGINE_AHEAD:
        assert_int_equal(scene->ahead[action->job], action->ahead.from);
        scene->ahead[action->job] = action->ahead.to;
        scene->changes++;
        return false;
    default: return false;
    }
}

struct scene *scene_new_with(struct engine_config config, uint32_t samples)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    config.sample_bytes = scene_sample_bytes;
    assert_int_equal(play_create(config, &scene->play, NULL), 0);
    assert_int_equal(idset_from_range(0, samples, &scene->view), 0);
    scene->play.see = see;
    scene->play.ctx = scene;
    scene->play.check_every = PLAY_CHECK_EVERY;
    scene->release = true;
    return scene;
}

struct scene *scene_new(uint64_t arena_slots, uint32_t samples)
{
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = arena_slots * 1024,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 4,
                                   .ahead_window_ns = SECOND,
                                   .source_wait_ns = UINT64_C(60) * SECOND,
                                   .room_timeout_ns = UINT64_C(1) * ROOM_TIMEOUT_S * SECOND};
    return scene_new_with(config, samples);
}

void scene_free(struct scene *scene)
{
    struct engine_job_status rows[JOBS_MAX];
    for (size_t count = engine_job_statuses(scene->play.engine, scene->play.now_ns, rows, JOBS_MAX); count > 0; count--)
        scene_gone(scene, rows[count - 1].job);
    play_end(&scene->play);
    idset_destroy(scene->view);
    free(scene);
}

struct engine_job_desc scene_job(const struct scene *scene, const char *name)
{
    return (struct engine_job_desc){.client = (uint64_t)(unsigned char)name[0],
                                    .name = name,
                                    .slot_bytes = SLOT,
                                    .batch_size = 8,
                                    .prefetch = 2,
                                    .sampled.view = scene->view};
}

void scene_step_all(struct scene *scene, const struct engine_event *events, size_t n_events)
{
    scene->play.now_ns++;
    for (size_t i = 0; i < n_events; i++)
        play_push(&scene->play, events[i]);
    play_settle(&scene->play);
}

void scene_step(struct scene *scene, struct engine_event event)
{
    scene_step_all(scene, &event, 1);
}

uint32_t scene_add(struct scene *scene, const struct engine_job_desc *desc)
{
    scene->play.now_ns++;
    return play_add(&scene->play, desc);
}

void scene_next(struct scene *scene, uint32_t job, uint32_t epoch, uint32_t credits)
{
    scene->play.now_ns++;
    play_next(&scene->play, job, 0, epoch, credits);
}

void scene_release(struct scene *scene, uint32_t job, uint64_t batch)
{
    scene->play.now_ns++;
    play_release(&scene->play, job, 0, batch);
}

void scene_gone(struct scene *scene, uint32_t job)
{
    scene->play.now_ns++;
    play_gone(&scene->play, job, 0);
}
