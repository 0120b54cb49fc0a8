/* jobs_results.c: what preparations bring: instances, or bad samples, which each job treats by its policy. */
#include <stdio.h>

#include "common/check.h"
#include "preprocess/prepare.h"
#include "server/engine/engine_priv.h"
#include "server/engine/jobs.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/tasks.h"

/* Policy `error`, or no substitute found. Dropping the queue finds the entry whole. */
static void fail_job(struct engine *engine, uint32_t index, int code, const char *text)
{
    struct entry *entry = &engine->queues.entries[index];
    queue_unplaced(&engine->queues, index);
    jobs_fail(engine, entry->job, entry->id, code, text);
}

static void substitute(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->queues.entries[index];
    struct job *job = job_at(&engine->jobs, entry->job);
    if (entry->substitutes++ == ENGINE_SUBSTITUTES_MAX) {
        fail_job(engine, index, LARDER_ESAMPLE, "this sample and every substitute drawn for it are bad: check the dataset");
        return;
    }
    CHECK(idset_select(job->terms.view, random_below(&engine->env.rng, job->shape.view_samples), &entry->id));
    queue_unplaced(&engine->queues, index); /* placed by the planning that follows */
}

/* One that has lost all of an epoch would train on nothing without a word. */
static void skip(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->queues.entries[index];
    struct job *job = job_at(&engine->jobs, entry->job);
    struct job_queue *queue = queue_of(&engine->queues, entry);
    if (entry->repeat && queue->epoch.repeats_lost++ == ENGINE_SUBSTITUTES_MAX) {
        fail_job(engine, index, LARDER_ESAMPLE, "this sample and all others that were to fill a rank's share up are bad: "
                 "check the dataset");
        return;
    }
    job->progress.lost++;
    if (job->terms.world_size == 1 && job_rank_share(job) == 0) {
        fail_job(engine, index, LARDER_ESAMPLE, "this sample and so many others are bad that nothing is left of the "
                 "epoch: check the dataset");
        return;
    }
    queue->epoch.planned--;
    queue_remove(&engine->queues, index);
}

/* Bad samples of an epoch that the job goes on with. */
static uint64_t bad_max(const struct engine *engine, const struct job *job)
{
    uint64_t share = (uint64_t)(engine->env.config.bad_share * (double)job->shape.view_samples);
    return share > engine->env.config.bad_count ? share : engine->env.config.bad_count;
}

static void fail_too_many(struct engine *engine, uint32_t index)
{
    const struct job *job = job_at(&engine->jobs, engine->queues.entries[index].job);
    char text[224];
    snprintf(text, sizeof text, "with this one %llu of %llu samples are bad in this epoch, and limits.bad allows %llu: the "
             "daemon's log names them; repair the dataset, or raise limits.bad", (unsigned long long)idset_count(job->progress.bad),
             (unsigned long long)job->shape.view_samples, (unsigned long long)bad_max(engine, job));
    fail_job(engine, index, LARDER_ESAMPLE, text);
}

/* The entry waited for an instance, which is gone already. */
void jobs_entry_bad(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->queues.entries[index];
    struct job *job = job_at(&engine->jobs, entry->job);
    queue_rank_made(&engine->queues, entry);
    job->tallies.bad_samples++;
    if (!entry->repeat && entry->substitutes == 0 && !idset_contains(job->progress.bad, entry->id)) {
        idset_add(job->progress.bad, entry->id);
        queue_of(&engine->queues, entry)->epoch.lost++;
    }
    engine->plan.again = true;
    if (job->terms.bad_policy != BAD_ERROR && engine->env.config.bad_limited && idset_count(job->progress.bad) > bad_max(engine, job))
        fail_too_many(engine, index);
    else if (job->terms.bad_policy == BAD_SKIP)
        skip(engine, index);
    else if (job->terms.bad_policy == BAD_REPLACE)
        substitute(engine, index);
    else
        fail_job(engine, index, LARDER_ESAMPLE, "this sample is bad, and the job's policy is `error`: repair it or take it away, or have "
                 "bad samples skipped or replaced");
}

/* The same. Whatever the job's policy: it would train on something else than what it registered. */
void jobs_entry_changed(struct engine *engine, uint32_t index)
{
    queue_rank_made(&engine->queues, &engine->queues.entries[index]);
    fail_job(engine, index, LARDER_ECHANGED, "this file is not the one that was indexed: it was changed or replaced "
             "since; start the job again, which indexes the dataset anew");
}

static void instance_failed(struct engine *engine, uint32_t index)
{
    uint32_t waiter = engine->prepared.instances[index].waiters;
    engine->prepared.instances[index].waiters = ENGINE_NONE;
    prepared_free(&engine->prepared, index);
    while (waiter != ENGINE_NONE) {
        uint32_t next = engine->queues.entries[waiter].next_waiter;
        engine->queues.entries[waiter].instance = ENGINE_NONE;
        jobs_entry_bad(engine, waiter);
        waiter = next;
    }
}

/* The task is in no list. RUNNING keeps a job that fails over this sample from cancelling outputs under our feet. */
void jobs_task_failed(struct engine *engine, uint32_t index, int reason)
{
    struct task task = engine->tasks.tasks[index];
    engine->tasks.tasks[index].state = TASK_RUNNING;
    engine->failing = reason > 0 && reason < BAD_REASONS ? reason : BAD_CORRUPT;
    engine->env.totals.bad_samples[engine->failing]++;
    for (uint32_t i = 0; i < task.n_outputs; i++)
        instance_failed(engine, task.outputs[i]);
    tasks_end(&engine->tasks, index);
}

static void instance_made(struct engine *engine, uint32_t index)
{
    struct instance *instance = &engine->prepared.instances[index];
    instance->state = INSTANCE_READY;
    instance->task = ENGINE_NONE;
    engine->env.totals.instances_prepared++;
    uint32_t waiter = instance->waiters;
    instance->waiters = ENGINE_NONE;
    while (waiter != ENGINE_NONE) {
        uint32_t next = engine->queues.entries[waiter].next_waiter;
        tasks_entry_ready(&engine->tasks, waiter);
        waiter = next;
    }
    prepared_unpin(&engine->prepared, index);
}

/* Each way in which outputs that somebody waits for have failed counts once. */
static void count_bad(struct engine *engine, const struct task *task, const uint8_t *reasons)
{
    bool counted[BAD_REASONS] = {false};
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        CHECK(reasons[i] < BAD_REASONS);
        if (!reasons[i] || counted[reasons[i]] || engine->prepared.instances[task->outputs[i]].waiters == ENGINE_NONE)
            continue;
        counted[reasons[i]] = true;
        engine->env.totals.bad_samples[reasons[i]]++;
    }
}

/* The task with only those of its outputs that were made. */
static struct task made_part(const struct task *task, const uint8_t *reasons)
{
    struct task made = *task;
    made.n_outputs = 0;
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        if (!reasons[i])
            made.outputs[made.n_outputs++] = task->outputs[i];
    }
    return made;
}

/* The task stays RUNNING to the end: a job that fails over one output does not cancel others under our feet. */
void jobs_on_prepared(struct engine *engine, const struct engine_event *event)
{
    uint32_t index = event->prepared.task;
    const uint8_t *reasons = event->prepared.reasons;
    CHECK(index < engine->tasks.slab.size && engine->tasks.tasks[index].state == TASK_RUNNING && engine->tasks.running > 0);
    engine->tasks.running--;
    struct task task = engine->tasks.tasks[index], made = made_part(&task, reasons);
    count_bad(engine, &task, reasons);
    if (made.n_outputs) {
        tasks_measure_prepare(&engine->tasks, &made, event->prepared.core_ns);
        engine->env.totals.samples_decoded += tasks_makes_pixels(&engine->tasks, &made);
    }
    for (uint32_t i = 0; i < task.n_outputs; i++) {
        if (!reasons[i]) {
            instance_made(engine, task.outputs[i]);
            continue;
        }
        engine->failing = reasons[i];
        instance_failed(engine, task.outputs[i]);
    }
    tasks_end(&engine->tasks, index);
}
