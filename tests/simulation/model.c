/* model.c: the model's front: events and actions to their books, and what the engine says of itself against them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "tests/simulation/model_priv.h"

const char *rule_name(enum rule rule)
{
    static const char *const names[RULES] = {"none", "exactly-once", "batch",    "order",   "credit", "held",
                                             "slot", "bytes",        "instance", "encoded", "task",   "job",
                                             "bad",  "state",        "status",   "stuck"};
    return names[rule];
}

struct model *model_create(struct scenario *scenario)
{
    struct model *model = xcalloc(1, sizeof *model);
    model->scenario = scenario;
    model->compare_totals = true;
    model->failed_step = xcalloc((size_t)scenario->n_pipelines * scenario->n_samples, sizeof *model->failed_step);
    model_memory_create(model);
    model_sources_create(model);
    for (uint32_t i = 0; i < scenario->n_datasets; i++)
        scenario->datasets[i].users = scenario->datasets[i].dead_calls = 0;
    return model;
}

void model_destroy(struct model *model)
{
    for (unsigned place = 0; place < JOBS_MAX; place++)
        if (model->jobs[place])
            model_job_free(model->jobs[place]);
    model_memory_destroy(model);
    model_sources_destroy(model);
    table_free(&model->batches);
    free(model->failed_step);
    free(model);
}

enum rule model_broken(const struct model *model, const char **text)
{
    *text = model->text;
    return model->broken;
}

void model_break(struct model *model, enum rule rule, const char *fmt, ...)
{
    if (model->broken != RULE_NONE)
        return; /* the first one tells most */
    model->broken = rule;
    va_list args;
    va_start(args, fmt);
    vsnprintf(model->text, sizeof model->text, fmt, args);
    va_end(args);
}

uint64_t model_step(const struct model *model)
{
    return model->step;
}

uint32_t model_resumed(const struct model *model)
{
    return model->resumed;
}

uint32_t model_jobs(const struct model *model)
{
    return model->n_jobs;
}

void model_compare_totals(struct model *model, bool compare)
{
    model->compare_totals = compare;
}

void model_event(struct model *model, uint64_t now_ns, const struct engine_event *event, const struct client_plan *plan)
{
    model->step++;
    model->now_ns = now_ns;
    switch (event->type) {
    case ENGINE_JOB_ADD:
        model->adding = plan;
        model->adding_resume = model_restore_brought(model, plan, event->job_add->resume);
        model->adding_number = event->job_add->pipeline;
        model->adding_client = event->job_add->client;
        model->scenario->datasets[plan->dataset].users++; /* until it is refused, or has ended */
        break;
    case ENGINE_JOB_GONE: model_on_gone(model, event->job_gone.job, event->rank); break;
    case ENGINE_NEXT: model_on_next(model, event); break;
    case ENGINE_RELEASE: model_on_release(model, event); break;
    case ENGINE_LOADED: model_on_loaded(model, event); break;
    case ENGINE_PREPARED: model_on_prepared(model, event); break;
    case ENGINE_DRAIN: model->draining = true; break;
    case ENGINE_PIPELINE_GONE:
        CHECK(model->number_users[event->pipeline_gone.pipeline] == 0);
        model->number_meaning[event->pipeline_gone.pipeline] = 0;
        break;
    case ENGINE_WEIGHT:
        if (model->jobs[event->weight.job])
            model->jobs[event->weight.job]->weight = event->weight.weight;
        break;
    case ENGINE_JOB_CANCEL:
        if (model->jobs[event->job_cancel.job])
            model->jobs[event->job_cancel.job]->cancelled = true;
        break;
    case ENGINE_RESERVED: model_on_reserved(model, event); break;
    case ENGINE_ARRIVED: /* no job has homes */
    case ENGINE_BACK:
    case ENGINE_AWAY:
    case ENGINE_SHRINK:
    case ENGINE_PLACE:
    case ENGINE_HALT:
    case ENGINE_SAMPLES_GONE: /* model_forgotten */
    case ENGINE_PACE:         /* changes the order of work alone */
    case ENGINE_TICK: break;
    }
}

void model_action(struct model *model, const struct engine_action *action)
{
    switch (action->type) {
    case ENGINE_JOB_ADDED:
    case ENGINE_JOB_REFUSED: model_on_answer(model, action); break;
    case ENGINE_LOAD: model_on_load(model, action); break;
    case ENGINE_PREPARE: model_on_prepare(model, action); break;
    case ENGINE_DROP_ENCODED: model_on_drop(model, action); break;
    case ENGINE_DELIVER: model_on_deliver(model, action); break;
    case ENGINE_JOB_ERROR: model_on_error(model, action); break;
    case ENGINE_AHEAD: model_on_ahead(model, action); break;
    case ENGINE_SOURCE: model_on_source(model, action); break;
    case ENGINE_JOB_ENDED: model_on_ended(model, action); break;
    case ENGINE_RESERVE: model_on_reserve(model, action); break;
    case ENGINE_RETURN: model_on_return(model, action); break;
    default: model_break(model, RULE_TASK, "action of unknown type %d", (int)action->type);
    }
}

static void expect(struct model *model, const char *what, uint64_t engine_says, uint64_t books_say)
{
    if (engine_says != books_say)
        model_break(model, RULE_STATUS, "%s: the engine says %llu, the books %llu", what,
                    (unsigned long long)engine_says, (unsigned long long)books_say);
}

static void compare_totals(struct model *model, const struct engine *engine)
{
    struct engine_totals totals;
    engine_totals(engine, &totals);
    uint64_t quota = 0;
    for (uint32_t place = 0, left = model->n_jobs; left > 0; place++) {
        quota += model->jobs[place] ? model->jobs[place]->quota_bytes : 0;
        left -= model->jobs[place] != NULL;
    }
    const struct engine_config *config = &model->scenario->config;
    if (quota > config->arena_bytes)
        model_break(model, RULE_JOB, "quotas of %llu bytes promised, the arena has %llu", (unsigned long long)quota,
                    (unsigned long long)config->arena_bytes);
    uint64_t there = config->arena_bytes / EXTENT_ALIGN * EXTENT_ALIGN - away_bytes(&model->away);
    if (!model->reserving_bytes || totals.arena.reserved_bytes > there) /* else what goes is returned afterwards */
        expect(model, "arena_reserved_bytes", totals.arena.reserved_bytes, there);
    expect(model, "jobs", totals.jobs, model->n_jobs);
    expect(model, "arena_quota_bytes", totals.arena.quota_bytes, quota);
    expect(model, "loads_inflight", totals.loads_inflight, model->n_loading);
    expect(model, "prepares_inflight", totals.prepares_inflight, model->n_tasks);
    expect(model, "encoded_used_bytes", totals.encoded.used_bytes, model->encoded_bytes);
    expect(model, "samples_loaded", totals.counts.samples_loaded, model->loaded);
    expect(model, "loaded_bytes", totals.counts.loaded_bytes, model->loaded_bytes);
    expect(model, "instances_prepared", totals.counts.instances_prepared, model->prepared);
    expect(model, "samples_delivered", totals.counts.samples_delivered, model->delivered);
    expect(model, "unknown_releases", totals.counts.unknown_releases, model->unknown_releases);
    expect(model, "reads", totals.counts.reads, model->n_reads);
    if (totals.arena.used_bytes > config->arena_bytes || totals.arena.pinned_bytes > totals.arena.used_bytes)
        model_break(model, RULE_STATUS, "%llu bytes of the arena pinned, %llu used, %llu there",
                    (unsigned long long)totals.arena.pinned_bytes, (unsigned long long)totals.arena.used_bytes,
                    (unsigned long long)config->arena_bytes);
}

/* What nobody pins was made, and takes no more than it is long. */
static void compare_idle(struct model *model, const struct engine *engine)
{
    struct engine_totals totals;
    engine_totals(engine, &totals);
    uint64_t idle = totals.arena.used_bytes - totals.arena.pinned_bytes, needed = model_idle_bytes(model);
    if (idle > needed)
        model_break(model, RULE_STATUS, "what nobody pins takes %llu bytes of the arena, and needs %llu at the most",
                    (unsigned long long)idle, (unsigned long long)needed);
}

static void compare_rank(struct model *model, const struct rank_book *rank, const struct engine_queue_status *status)
{
    expect(model, "queue.attached", status->attached, rank->there);
    expect(model, "queue.leased_batches", status->delivery.leased_batches, rank->n_held);
    expect(model, "queue.epoch_delivered", status->delivery.epoch_samples, rank->kept);
    expect(model, "queue.done", status->done, rank->through);
    if (rank->there)
        expect(model, "queue.client", status->client, rank->client);
    if (status->delivery.credits > rank->credits)
        expect(model, "queue.credits", status->delivery.credits, rank->credits);
}

static void compare_ranks(struct model *model, const struct engine *engine, const struct job_book *job,
                          const struct engine_job_status *status)
{
    static struct engine_queue_status rows[ENGINE_RANKS_MAX];
    uint32_t there = 0, held = 0;
    expect(model, "queues", engine_queue_statuses(engine, status->job, model->now_ns, rows, ENGINE_RANKS_MAX),
           job->plan->world_size);
    for (uint32_t rank = 0; rank < job->plan->world_size; rank++) {
        there += job->ranks[rank].there;
        held += job->ranks[rank].n_held;
        if (!job->failed)
            compare_rank(model, &job->ranks[rank], &rows[rank]);
    }
    if (job->started && !job->failed)
        expect(model, "status.epoch", status->progress.epoch, job->epoch);
    if (job->restore)
        expect(model, "status.held_slots of a job that waits for its ranks", status->delivery.held_slots, 0);
    expect(model, "status.world_size", status->world_size, job->plan->world_size);
    expect(model, "status.attached", status->attached, there);
    expect(model, "status.leased_batches", status->delivery.leased_batches, held);
    expect(model, "status.quota_bytes", status->quota_bytes, job->quota_bytes);
    expect(model, "status.samples_delivered", status->delivery.samples, job->delivered);
    expect(model, "status.batches_delivered", status->delivery.batches, job->batches);
}

static void compare_status(struct model *model, const struct engine *engine, const struct engine_job_status *status,
                           uint64_t now_ns)
{
    const struct job_book *job = status->job < JOBS_MAX ? model->jobs[status->job] : NULL;
    if (job == NULL) {
        model_break(model, RULE_STATUS, "status of job %u, which does not exist", status->job);
        return;
    }
    const struct client_plan *plan = job->plan;
    uint64_t slots_held = 0;
    if (job->failed && job->failed_step <= model->before_step && status->quota_bytes != job->least_bytes)
        model_break(model, RULE_STATUS, "job %u has failed and has a quota of %llu bytes, %llu are its least",
                    status->job, (unsigned long long)status->quota_bytes, (unsigned long long)job->least_bytes);
    if (status->weight != job->weight)
        model_break(model, RULE_STATUS, "job %u has weight %g, it was given %g", status->job, status->weight,
                    job->weight);
    for (uint32_t i = 0; i < job->n_held; i++)
        slots_held += job->held[i].count;
    if (job->ranks) {
        compare_ranks(model, engine, job, status);
        return;
    }
    expect(model, "status.client", status->client, job->client);
    expect(model, "status.view_samples", status->view_samples, plan->n_view);
    expect(model, "status.quota_bytes", status->quota_bytes, job->quota_bytes);
    expect(model, "status.samples_delivered", status->delivery.samples, job->delivered);
    expect(model, "status.batches_delivered", status->delivery.batches, job->batches);
    expect(model, "status.leased_batches", status->delivery.leased_batches, job->n_held);
    expect(model, "status.started", status->progress.started, job->started);
    if (job->started && !job->failed) {
        expect(model, "status.epoch", status->progress.epoch, job->epoch);
        expect(model, "status.epoch_delivered", status->delivery.epoch_samples, job->book.delivered);
        if (status->delivery.credits > job->credits)
            expect(model, "status.credits", status->delivery.credits, job->credits);
        if (job->book.last && !plan->drop_last)
            expect(model, "status.remaining", status->progress.remaining, 0);
    }
    if (strcmp(status->name, plan->name) != 0 || status->batch_size != plan->batch_size ||
        status->epochs != plan->epochs)
        model_break(model, RULE_STATUS, "status of job %u is another job's", status->job);
    if (status->progress.remaining > plan->n_draws || status->delivery.held_slots < slots_held ||
        status->delivery.held_slots * scenario_mean_slot(model->scenario, plan) > status->quota_bytes)
        model_break(
            model, RULE_STATUS,
            "job %u: %llu of %u samples remaining, %llu slots held, %llu of them by the client, quota %llu bytes",
            status->job, (unsigned long long)status->progress.remaining, plan->n_draws,
            (unsigned long long)status->delivery.held_slots, (unsigned long long)slots_held,
            (unsigned long long)status->quota_bytes);
    if (!(status->delivery.wait_s >= 0 && status->delivery.wait_s <= (double)now_ns * 1e-9 + 1e-6))
        model_break(model, RULE_STATUS, "job %u has waited %g s at %g s", status->job, status->delivery.wait_s,
                    (double)now_ns * 1e-9);
    /* A whole epoch's bad samples are known from what is missing; a substitute that failed too is counted beside it. */
    bool exact = plan->bad_policy == BAD_SKIP && !plan->drop_last && job->abandoned == 0 &&
                 (job->book.last || !job->started);
    if (status->bad_samples < job->missing || (exact && status->bad_samples != job->missing))
        expect(model, "status.bad_samples", status->bad_samples, job->missing);
}

static void compare_statuses(struct model *model, const struct engine *engine, uint64_t now_ns)
{
    static struct engine_job_status rows[JOBS_MAX];
    size_t count = engine_job_statuses(engine, now_ns, rows, JOBS_MAX);
    expect(model, "statuses", count, model->n_jobs);
    for (size_t i = 0; i < count && model->broken == RULE_NONE; i++)
        compare_status(model, engine, &rows[i], now_ns);
}

/* Nothing that a job was due in this step is open, and one that has no reason to wait for its ranks has ended. */
static void settle_job(struct model *model, const struct job_book *job, uint32_t place)
{
    if (job->ranks)
        model_ranks_settle(model, job, place);
    if (job->cancelled && !job->failed && !job->gone)
        model_break(model, RULE_JOB, "job %u was cancelled, and its client was not told", place);
    if (!job->failed && job->beyond_end)
        model_break(model, RULE_JOB, "job %u got no answer to a NEXT of an epoch that it does not have", place);
    if (job->gone && !(job->ranks && model_ranks_linger(job)))
        model_break(model, RULE_JOB, "job %u ('%s') has not ended, and nobody is left", place, job->plan->name);
}

void model_settle(struct model *model, const struct engine *engine, uint64_t now_ns, bool statuses)
{
    model->before_step = model->settled_step;
    model->settled_step = model->step;
    for (uint32_t place = 0, left = model->n_jobs; left > 0; place++) {
        if (model->jobs[place]) {
            settle_job(model, model->jobs[place], place);
            left--;
        }
    }
    model->adding_resume = NULL;
    model_forms_settle(model);
    if (model->adding)
        model_break(model, RULE_JOB, "JOB_ADD of '%s' was not answered", model->adding->name);
    for (uint32_t i = 0; i < model->scenario->n_datasets; i++)
        if (model->scenario->datasets[i].dead_calls)
            model_break(model, RULE_JOB, "dataset %u was asked for a sample's size when no job used it any more", i);
    if (!model->compare_totals)
        return;
    compare_totals(model, engine);
    if (!statuses)
        return;
    compare_idle(model, engine);
    compare_statuses(model, engine, now_ns);
}

void model_finish(struct model *model, const struct engine *engine)
{
    for (unsigned place = 0; place < JOBS_MAX; place++)
        if (model->jobs[place])
            model_break(model, RULE_JOB, "job %u ('%s') never ended", place, model->jobs[place]->plan->name);
    if (model->n_tasks || model->n_loading)
        model_break(model, RULE_TASK, "%u loads and %u prepares are still out", model->n_loading, model->n_tasks);
    for (sample_id id = 0; id < model->scenario->n_samples; id++)
        if (model->ready[id])
            model_break(model, RULE_ENCODED, "nobody is left, but the bytes of sample %u are", id);
    struct engine_totals totals;
    engine_totals(engine, &totals);
    if (model->compare_totals && (totals.arena.pinned_bytes || totals.arena.quota_bytes))
        model_break(model, RULE_STATUS, "nobody is left, but %llu bytes are pinned and %llu promised",
                    (unsigned long long)totals.arena.pinned_bytes, (unsigned long long)totals.arena.quota_bytes);
}
