/* engine.c: an event goes in and its actions come out; engine.h has the contract. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/chunks.h"
#include "server/engine/engine_priv.h"
#include "server/engine/jobs.h"
#include "server/engine/outbox.h"
#include "server/engine/plan.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/residents.h"
#include "server/engine/split.h"
#include "server/engine/tasks.h"

_Static_assert(sizeof(struct instance) + sizeof(struct entry) <= ENGINE_INSTANCE_BYTES - 56,
               "56 bytes are the arena's block and the residency's place");

/* A module knows only those that stand before it in struct engine. */
static void wire(struct engine *engine)
{
    engine->jobs = (struct jobs){.env = &engine->env};
    engine->chunks = (struct chunks){.env = &engine->env};
    engine->prepared = (struct prepared){.env = &engine->env,
                                         .outbox = &engine->outbox,
                                         .jobs = &engine->jobs,
                                         .chunks = &engine->chunks,
                                         .changes = &engine->residents.changes};
    engine->sources = (struct sources){.jobs = &engine->jobs};
    engine->encoded = (struct encoded_store){.env = &engine->env,
                                             .outbox = &engine->outbox,
                                             .jobs = &engine->jobs,
                                             .chunks = &engine->chunks,
                                             .prepared = &engine->prepared,
                                             .sources = &engine->sources,
                                             .changes = &engine->residents.changes,
                                             .rank_planned = queue_rank_planned};
    engine->residents = (struct residents){.env = &engine->env,
                                           .jobs = &engine->jobs,
                                           .chunks = &engine->chunks,
                                           .prepared = &engine->prepared,
                                           .encoded = &engine->encoded};
    engine->quota = (struct quota){.env = &engine->env, .jobs = &engine->jobs};
    engine->queues = (struct queues){
        .env = &engine->env, .jobs = &engine->jobs, .prepared = &engine->prepared, .quota = &engine->quota};
    engine->tasks = (struct tasks){.env = &engine->env,
                                   .outbox = &engine->outbox,
                                   .jobs = &engine->jobs,
                                   .chunks = &engine->chunks,
                                   .prepared = &engine->prepared,
                                   .sources = &engine->sources,
                                   .encoded = &engine->encoded,
                                   .queues = &engine->queues};
    engine->split = (struct split){.env = &engine->env,
                                   .jobs = &engine->jobs,
                                   .prepared = &engine->prepared,
                                   .encoded = &engine->encoded,
                                   .residents = &engine->residents,
                                   .quota = &engine->quota,
                                   .tasks = &engine->tasks};
    engine->plan = (struct plan){.env = &engine->env,
                                 .outbox = &engine->outbox,
                                 .jobs = &engine->jobs,
                                 .chunks = &engine->chunks,
                                 .prepared = &engine->prepared,
                                 .encoded = &engine->encoded,
                                 .residents = &engine->residents,
                                 .quota = &engine->quota,
                                 .queues = &engine->queues,
                                 .tasks = &engine->tasks};
}

int engine_create(const struct engine_config *config, struct engine **out, struct error *err)
{
    if (config->inflight_loads < 1 || config->inflight_prepares < 1 || !config->sample_bytes || !config->encoded_bytes)
        return error_set(err, LARDER_EINVAL, "engine: a limit is zero");
    struct engine *engine = xcalloc(1, sizeof *engine);
    engine->magic = ENGINE_MAGIC;
    wire(engine);
    engine->env.config = *config;
    engine->env.config.arena_bytes = config->arena_bytes / EXTENT_ALIGN * EXTENT_ALIGN;
    if (engine->env.config.lent_bytes > engine->env.config.arena_bytes)
        engine->env.config.lent_bytes = engine->env.config.arena_bytes;
    if (config->evicted_at_once == 0)
        engine->env.config.evicted_at_once = ENGINE_EVICTED_AT_ONCE;
    engine->queues.next_batch = engine->prepared.room_changes = engine->chunks.arranged = 1;
    engine->prepared.slab.spare = engine->encoded.slab.spare = ENGINE_NONE;
    engine->tasks.slab.spare = engine->queues.slab.spare = ENGINE_NONE;
    random_seed_keys(&engine->env.rng, config->seed, 1, 0, 0);
    int code = extents_create(engine->env.config.arena_bytes, &engine->prepared.extents);
    code = code ? code : idset_create(&engine->chunks.placed);
    if (code) {
        engine_destroy(engine, NULL);
        return error_set(err, code, "engine: an arena of %llu bytes cannot be divided, or memory is short",
                         (unsigned long long)config->arena_bytes);
    }
    engine->encoded.forms.line = LINE_EMPTY;
    prepared_growth_begin(&engine->prepared);
    engine->env.sampler = sampler_create(config->seed);
    engine->env.elsewhere = sampler_create(~config->seed);
    engine->prepared.residency = residency_create();
    engine->encoded.residency = residency_create();
    engine->jobs.all = xcalloc(JOBS_MAX, sizeof *engine->jobs.all);
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        engine->sources.all[i].probe = SAMPLE_NONE;
    *out = engine;
    return 0;
}

void engine_destroy(struct engine *engine, void (*drop)(void *encoded))
{
    if (!engine)
        return;
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    if (drop)
        encoded_drop_handles(&engine->encoded, drop);
    for (uint32_t no = 0; no < engine->jobs.end; no++) {
        if (job_at(&engine->jobs, no)->state != JOB_FREE)
            jobs_free(job_at(&engine->jobs, no));
    }
    engine->magic = 0;
    chunks_destroy(&engine->chunks);
    encoded_keep_destroy(&engine->encoded);
    encoded_next_destroy(&engine->encoded);
    sampler_destroy(engine->env.sampler);
    sampler_destroy(engine->env.elsewhere);
    extents_destroy(engine->prepared.extents);
    prepared_zones_destroy(&engine->prepared);
    residency_destroy(engine->prepared.residency);
    residency_destroy(engine->encoded.residency);
    free(engine->jobs.all);
    samples_destroy(&engine->env.samples);
    free(engine->encoded.shortage.left);
    SLAB_FREE(&engine->prepared, instances);
    SLAB_FREE(&engine->encoded, encodeds);
    SLAB_FREE(&engine->tasks, tasks);
    free(engine->tasks.results);
    SLAB_FREE(&engine->queues, entries);
    free(engine->outbox.actions);
    free(engine->outbox.outputs);
    free(engine->outbox.delivered);
    free(engine->prepared.window);
    free(engine->encoded.slots);
    free(engine->residents.changes.lines);
    free(engine->encoded.flights);
    free(engine);
}

/* handle lets the module that an event concerns take it. */
static void handle(struct engine *engine, const struct engine_event *event)
{
    switch (event->type) {
    case ENGINE_TICK: break;
    case ENGINE_JOB_ADD: jobs_on_add(engine, event->job_add); break;
    case ENGINE_JOB_GONE:
        CHECK(event->job_gone.job < JOBS_MAX);
        jobs_on_gone(engine, event->job_gone.job, event->rank, event->job_gone.died);
        break;
    case ENGINE_JOB_CANCEL:
        CHECK(event->job_cancel.job < JOBS_MAX);
        jobs_on_cancel(engine, event->job_cancel.job);
        break;
    case ENGINE_WEIGHT:
        CHECK(event->weight.job < JOBS_MAX);
        jobs_on_weight(&engine->jobs, event->weight.job, event->weight.weight);
        break;
    case ENGINE_PACE:
        CHECK(event->pace.job < JOBS_MAX);
        tasks_on_pace(&engine->tasks, event);
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
        tasks_on_loaded(&engine->tasks, event);
        jobs_judge(engine);
        break;
    case ENGINE_PREPARED:
        tasks_on_prepared(&engine->tasks, event);
        jobs_judge(engine);
        break;
    case ENGINE_ARRIVED:
        plan_on_arrived(&engine->plan, event);
        jobs_judge(engine);
        break;
    case ENGINE_BACK:
        CHECK(event->back.job < JOBS_MAX);
        if (plan_on_back(&engine->plan, event))
            jobs_fail(engine, event->back.job, FAILURE_OTHER, LARDER_ENOMEM,
                      "no memory to draw here what another node does not give: free memory, or lower the budgets");
        break;
    case ENGINE_AWAY:
        CHECK(event->away.job < JOBS_MAX);
        if (plan_on_away(&engine->plan, event))
            split_keep(&engine->split);
        break;
    case ENGINE_PIPELINE_GONE: residents_forget_pipeline(&engine->residents, event->pipeline_gone.pipeline); break;
    case ENGINE_PLACE: residents_place_some(&engine->residents, event->place); break;
    case ENGINE_SAMPLES_GONE:
        residents_forget(&engine->residents, event->samples_gone.ids, event->samples_gone.count,
                         event->samples_gone.kept);
        break;
    case ENGINE_RESERVED:
        prepared_on_reserved(&engine->prepared, event->reserved.bytes, event->reserved.refused);
        engine->plan.zone_again_ns = 0; /* Zones that found no room may find it now. */
        break;
    case ENGINE_SHRINK: prepared_press(&engine->prepared); break;
    case ENGINE_DRAIN: engine->draining = true; break;
    case ENGINE_HALT: engine->halted = true; break;
    }
}

/* advance plans, begins and delivers everything that there is room for. */
static void advance(struct engine *engine)
{
    if (engine->quota.divide) {
        plan_divide_arena(&engine->plan);
        split_divided(&engine->split);
    }
    do { /* a sample that is too large, or an epoch's end, leaves room for another pick */
        engine->plan.again = false;
        plan_round(&engine->plan);
        while (!tasks_dispatch(&engine->tasks))
            jobs_judge(engine);
        if (!engine->plan.again)
            jobs_deliver(engine);
    } while (engine->plan.again);
}

/* arena_room returns how much of the arena may be there: what encoded samples have of its budget may not. */
static uint64_t arena_room(const struct engine *engine)
{
    const struct engine_config *config = &engine->env.config;
    uint64_t all = config->arena_bytes + config->encoded_bytes, used = encoded_taken(&engine->encoded);
    return config->lent_bytes == 0 ? UINT64_MAX : all > used ? all - used : 0;
}

size_t engine_step(struct engine *engine, uint64_t now_ns, const struct engine_event *events, size_t count,
                   const struct engine_action **actions)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    CHECK(now_ns >= engine->env.now_ns);
    engine->env.now_ns = now_ns;
    engine->outbox.n_actions = engine->outbox.n_outputs = engine->outbox.n_delivered = 0;
    residents_step(&engine->residents);
    plan_step(&engine->plan);
    for (size_t i = 0; i < count; i++)
        handle(engine, &events[i]);
    if (!engine->halted) {
        jobs_watch_ranks(engine);
        jobs_watch_room(engine);
        jobs_watch_sources(engine);
        advance(engine);
        residents_sweep(&engine->residents);
        prepared_tend(&engine->prepared);
        encoded_shed(&engine->encoded); /* what the arena needs more room for */
        prepared_ask(&engine->prepared, arena_room(engine));
        split_step_ends(&engine->split);
    }
    outbox_seal(&engine->outbox);
    *actions = engine->outbox.actions;
    return engine->outbox.n_actions;
}
