#include "tests/unit/server/engine/engine_scene.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "preprocess/prepare.h"
#include "tests/unit/server/engine/engine_play.h"

uint64_t scene_sample_bytes(const void *dataset, sample_id id)
{
    const uint32_t *bytes_of = dataset;
    return bytes_of ? bytes_of[id] : ENCODED + id % 7;
}

static char bytes; /* of every encoded sample: the engine never looks at them */

static void answer_prepare(struct scene *scene, const struct engine_action *action)
{
    struct engine_event event = {.type = ENGINE_PREPARED, .prepared = {.task = action->prepare.task}};
    uint32_t failed = 0, count = action->prepare.n_outputs;
    for (uint32_t i = 0; i < count; i++) {
        bool unfit = scene->unfit[action->prepare.id] && action->prepare.outputs[i].pipeline == 1;
        event.prepared.reasons[i] = scene->bad[action->prepare.id] ? BAD_CORRUPT : unfit ? BAD_TOO_SMALL : BAD_NONE;
        failed += event.prepared.reasons[i] != BAD_NONE;
    }
    scene->in_part += failed > 0 && failed < count;
    scene_step(scene, event);
}

static void react(void *ctx, const struct engine_action *action)
{
    struct scene *scene = ctx;
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        scene->job = action->job;
        scene->held_max = action->job_added.held_max;
        scene->ahead[action->job] = action->job_added.ahead;
        break;
    case ENGINE_JOB_REFUSED:
        scene->refused = action->error.error.code;
        strcpy(scene->text, action->error.error.text);
        break;
    case ENGINE_JOB_ERROR:
        scene->failed = action->error.error.code;
        strcpy(scene->text, action->error.error.text);
        break;
    case ENGINE_LOAD:
        scene->loads++;
        if (scene->away && action->load.dataset == scene->away) {
            scene->unanswered++;
            scene_step(scene, (struct engine_event){
                                  .type = ENGINE_LOADED,
                                  .loaded = {.id = action->load.id, .reason = BAD_UNREADABLE, .fate = ENGINE_FATE_SOURCE}});
        } else if (scene->slow) {
            scene->slow = false;
            scene->slow_id = action->load.id;
        } else if (!scene->hold) {
            scene_step(scene, (struct engine_event){.type = ENGINE_LOADED,
                                              .loaded = {.id = action->load.id, .encoded = &bytes, .bytes = action->load.bytes}});
        }
        break;
    case ENGINE_PREPARE:
        scene->prepares += action->prepare.n_outputs;
        answer_prepare(scene, action);
        break;
    case ENGINE_DROP_ENCODED:
        scene->drops++;
        break;
    case ENGINE_DELIVER:
        scene->batches[action->job]++;
        if (action->deliver.last) { /* reactions nest: batches may be seen out of order */
            assert_false(scene->last[action->job]);
            scene->last[action->job] = true;
            scene->last_count[action->job] = action->deliver.count;
        }
        scene->last_batch[action->job] = action->deliver.batch;
        for (uint32_t i = 0; i < action->deliver.count; i++)
            scene->got[action->job][action->deliver.entries[i].id]++;
        if (scene->release)
            scene_step(scene, (struct engine_event){.type = ENGINE_RELEASE, .release = {action->job, action->deliver.batch}});
        break;
    case ENGINE_AHEAD:
        assert_int_equal(scene->ahead[action->job], action->ahead.from);
        scene->ahead[action->job] = action->ahead.to;
        scene->changes++;
        break;
    case ENGINE_SOURCE:
    case ENGINE_JOB_ENDED:
        break;
    }
}

void scene_step_all(struct scene *scene, const struct engine_event *events, size_t n_events)
{
    engine_play(scene->engine, ++scene->now, events, n_events, react, scene);
}

void scene_step(struct scene *scene, struct engine_event event)
{
    scene_step_all(scene, &event, 1);
}

struct scene *scene_new(uint64_t arena_slots)
{
    struct scene *scene = xcalloc(1, sizeof *scene);
    struct engine_config config = {.seed = 1,
                                   .arena_bytes = arena_slots * 1024,
                                   .encoded_bytes = 100000,
                                   .inflight_loads = 8,
                                   .inflight_prepares = 4,
                                   .ahead_window_ns = SECOND,
                                   .source_wait_ns = UINT64_C(60) * SECOND,
                                   .room_timeout_ns = UINT64_C(1) * ROOM_TIMEOUT_S * SECOND,
                                   .sample_bytes = scene_sample_bytes};
    assert_int_equal(engine_create(&config, &scene->engine, NULL), 0);
    scene->release = true;
    return scene;
}

void scene_free(struct scene *scene)
{
    engine_destroy(scene->engine);
    free(scene);
}

struct engine_job_desc scene_job(const char *name, const struct idset *view)
{
    return (struct engine_job_desc){
        .client = (uint64_t)(unsigned char)name[0], .name = name, .slot_bytes = SLOT, .batch_size = 8, .prefetch = 2, .view = view};
}

void scene_add(struct scene *scene, const struct engine_job_desc *desc)
{
    scene->refused = 0;
    scene_step(scene, (struct engine_event){.type = ENGINE_JOB_ADD, .job_add = desc});
}

void scene_next(struct scene *scene, uint32_t job, uint32_t epoch, uint32_t credits)
{
    scene_step(scene, (struct engine_event){.type = ENGINE_NEXT, .next = {job, epoch, credits}});
}

void scene_gone(struct scene *scene, uint32_t job)
{
    scene_step(scene, (struct engine_event){.type = ENGINE_JOB_GONE, .job_gone = {job}});
}

void scene_leave_all(struct scene *scene)
{
    struct engine_job_status rows[JOBS_MAX];
    for (size_t count = engine_job_statuses(scene->engine, scene->now, rows, JOBS_MAX); count > 0; count--)
        scene_gone(scene, rows[count - 1].job);
}

