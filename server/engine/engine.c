/* engine.c: one event in, its actions out; see engine.h. */
#include <stdlib.h>

#include "preprocess/prepare.h"
#include "server/engine/chunks.h"
#include "server/engine/jobs.h"
#include "server/engine/outbox.h"
#include "server/engine/plan.h"
#include "server/engine/prepared.h"
#include "server/engine/residents.h"
#include "server/engine/tasks.h"

_Static_assert(sizeof(struct instance) + sizeof(struct entry) <= ENGINE_INSTANCE_BYTES - 56,
               "56 bytes are the arena's block and the residency's place");

int engine_create(const struct engine_config *config, struct engine **out, struct error *err)
{
    if (config->inflight_loads < 1 || config->inflight_prepares < 1 || !config->sample_bytes || !config->encoded_bytes)
        return error_set(err, LARDER_EINVAL, "engine: a limit is zero");
    struct engine *engine = xcalloc(1, sizeof *engine);
    engine->magic = ENGINE_MAGIC;
    engine->config = *config;
    engine->config.arena_bytes = config->arena_bytes / EXTENT_ALIGN * EXTENT_ALIGN;
    engine->queues.next_batch = engine->plan.room_changes = 1;
    engine->prepared.slab.spare = engine->encoded.slab.spare = ENGINE_NONE;
    engine->tasks.slab.spare = engine->queues.slab.spare = ENGINE_NONE;
    random_seed_keys(&engine->rng, config->seed, 1, 0, 0);
    int code = extents_create(engine->config.arena_bytes, &engine->prepared.extents);
    if (!code)
        code = sampler_create(config->seed, &engine->sampler);
    if (code) {
        engine_destroy(engine);
        return error_set(err, code, "engine: an arena of %llu bytes cannot be divided, or memory is short",
                         (unsigned long long)config->arena_bytes);
    }
    engine->prepared.residency = residency_create();
    engine->encoded.residency = residency_create();
    engine->jobs.all = xcalloc(JOBS_MAX, sizeof *engine->jobs.all);
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        engine->sources.all[i].probe = SAMPLE_NONE;
    *out = engine;
    return 0;
}

void engine_destroy(struct engine *engine)
{
    if (!engine)
        return;
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    for (uint32_t place = 0; place < engine->jobs.end; place++) {
        if (engine->jobs.all[place].state != JOB_FREE)
            job_free(&engine->jobs.all[place]);
    }
    engine->magic = 0;
    chunks_destroy(engine);
    idset_destroy(engine->encoded.kept);
    sampler_destroy(engine->sampler);
    extents_destroy(engine->prepared.extents);
    prepared_zones_destroy(engine);
    residency_destroy(engine->prepared.residency);
    residency_destroy(engine->encoded.residency);
    free(engine->jobs.all);
    free(engine->samples.all);
    free(engine->prepared.instances);
    free(engine->encoded.encodeds);
    free(engine->tasks.tasks);
    free(engine->queues.entries);
    free(engine->outbox.actions);
    free(engine->outbox.outputs);
    free(engine->outbox.delivered);
    free(engine->prepared.window);
    free(engine->encoded.slots);
    free(engine);
}

static void handle(struct engine *engine, const struct engine_event *event)
{
    switch (event->type) {
    case ENGINE_TICK:
        break;
    case ENGINE_JOB_ADD:
        jobs_on_add(engine, event->job_add);
        break;
    case ENGINE_JOB_GONE:
        CHECK(event->job_gone.job < JOBS_MAX);
        jobs_on_gone(engine, event->job_gone.job, event->rank);
        break;
    case ENGINE_JOB_CANCEL:
        CHECK(event->job_cancel.job < JOBS_MAX);
        jobs_on_cancel(engine, event->job_cancel.job);
        break;
    case ENGINE_WEIGHT:
        CHECK(event->weight.job < JOBS_MAX);
        jobs_on_weight(engine, event->weight.job, event->weight.weight);
        break;
    case ENGINE_PACE:
        CHECK(event->pace.job < JOBS_MAX);
        tasks_on_pace(engine, event);
        break;
    case ENGINE_NEXT:
        CHECK(event->next.job < JOBS_MAX);
        jobs_on_next(engine, event);
        break;
    case ENGINE_RELEASE:
        CHECK(event->release.job < JOBS_MAX);
        jobs_on_release(engine, event);
        break;
    case ENGINE_LOADED:
        jobs_on_loaded(engine, event);
        break;
    case ENGINE_PREPARED:
        jobs_on_prepared(engine, event);
        break;
    case ENGINE_PIPELINE_GONE:
        prepared_forget_pipeline(engine, event->pipeline_gone.pipeline);
        break;
    case ENGINE_SAMPLES_GONE:
        residents_forget(engine, event->samples_gone.ids, event->samples_gone.count, event->samples_gone.kept);
        break;
    case ENGINE_DRAIN:
        engine->draining = true;
        break;
    case ENGINE_HALT:
        engine->halted = true;
        break;
    }
}

/* All that there is room for is planned, begun and delivered. */
static void advance(struct engine *engine)
{
    if (engine->quota.divide)
        plan_divide_arena(engine);
    do { /* a sample that turns out too large leaves room for another pick; so does an epoch's end */
        engine->plan.again = false;
        plan_round(engine);
        for (uint32_t unfit; (unfit = tasks_dispatch(engine)) != ENGINE_NONE;)
            jobs_task_failed(engine, unfit, BAD_TOO_LARGE);
        if (!engine->plan.again)
            jobs_deliver(engine);
    } while (engine->plan.again);
}

size_t engine_step_all(struct engine *engine, uint64_t now_ns, const struct engine_event *events, size_t count,
                       const struct engine_action **actions)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    CHECK(now_ns >= engine->now_ns);
    engine->now_ns = now_ns;
    engine->outbox.n_actions = engine->outbox.n_outputs = engine->outbox.n_delivered = 0;
    for (size_t i = 0; i < count; i++)
        handle(engine, &events[i]);
    if (!engine->halted) {
        jobs_watch_ranks(engine);
        jobs_watch_room(engine);
        jobs_watch_sources(engine);
        advance(engine);
    }
    outbox_seal(engine);
    *actions = engine->outbox.actions;
    return engine->outbox.n_actions;
}

size_t engine_step(struct engine *engine, uint64_t now_ns, const struct engine_event *event, const struct engine_action **actions)
{
    return engine_step_all(engine, now_ns, event, 1, actions);
}
