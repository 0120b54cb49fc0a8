/* jobs_results.c: entries whose samples failed. Each job treats its entries by its policy. These entries have no
 * instance any more. */
#include <stdio.h>

#include "common/check.h"
#include "server/engine/engine_priv.h"
#include "server/engine/jobs.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/tasks.h"

#define SUBSTITUTES_MAX 16 /* bad samples in a row before policy `replace` gives up */

/* fail_job fails the job over the result's sample. */
static void fail_job(struct engine *engine, const struct result *result, int code, const char *text)
{
    const struct entry *entry = &engine->queues.entries[result->entry];
    jobs_fail(engine, entry->job, &(struct failure){.id = entry->id, .reason = result->reason}, code, text);
}

/* substitute gives the entry another sample of the view, by chance. */
static void substitute(struct engine *engine, const struct result *result)
{
    struct entry *entry = &engine->queues.entries[result->entry];
    struct job *job = job_at(&engine->jobs, entry->job);
    if (entry->substitutes++ == SUBSTITUTES_MAX) {
        fail_job(engine, result, LARDER_ESAMPLE,
                 "this sample and every substitute drawn for it are bad: check the dataset");
        return;
    }
    entry->id = plan_any_sample(&engine->plan, job);
}

/* fills_in_vain notes a bad repeat. It tells whether so many were bad since the last good one that the rank's share
 * cannot be filled up. Bad samples are often known before good ones that were planned earlier. So it cannot be told
 * while the queue waits for others. */
static bool fills_in_vain(struct job_queue *queue)
{
    queue->epoch.repeats_lost++;
    return queue_lost_many(queue) && queue->line.queued - queue->line.ready == 1; /* this one is not removed yet */
}

/* skip leaves the sample out. A job that has lost all of an epoch fails: otherwise it would train on nothing without a
 * word. It has not when something of the epoch was had before the job was made. */
static void skip(struct engine *engine, const struct result *result)
{
    struct entry *entry = &engine->queues.entries[result->entry];
    struct job *job = job_at(&engine->jobs, entry->job);
    struct job_queue *queue = queue_of(&engine->queues, entry);
    if (entry->repeat && fills_in_vain(queue)) {
        fail_job(engine, result, LARDER_ESAMPLE,
                 "this sample and all others that were to fill a rank's share up are bad: check the dataset");
        return;
    }
    job->progress.lost++;
    if (!job_in_step(job) && queue_share_of(job, job->shape.view_samples - job->progress.lost) == 0) {
        fail_job(engine, result, LARDER_ESAMPLE,
                 "this sample and so many others are bad that nothing is left of the epoch: check the dataset");
        return;
    }
    queue->epoch.planned--;
    queue_remove(&engine->queues, result->entry);
}

/* bad_max gives the most bad samples of an epoch with which the job goes on. */
static uint64_t bad_max(const struct engine_config *config, const struct job *job)
{
    uint64_t share = (uint64_t)(config->bad_share * (double)job->shape.epoch_samples);
    return share > config->bad_count ? share : config->bad_count;
}

/* fail_too_many fails the job because too many samples of the epoch are bad. */
static void fail_too_many(struct engine *engine, const struct result *result)
{
    const struct job *job = job_at(&engine->jobs, engine->queues.entries[result->entry].job);
    char text[224];
    snprintf(text, sizeof text,
             "with this one %llu of %llu samples are bad in this epoch, and limits.bad allows %llu: the daemon's log "
             "names them; repair the dataset, or raise limits.bad",
             (unsigned long long)idset_count(job->progress.bad), (unsigned long long)job->shape.epoch_samples,
             (unsigned long long)bad_max(&engine->env.config, job));
    fail_job(engine, result, LARDER_ESAMPLE, text);
}

/* judge treats one result by the policy of its job, and counts the sample as bad. */
static void judge(struct engine *engine, const struct result *result)
{
    struct entry *entry = &engine->queues.entries[result->entry];
    struct job *job = job_at(&engine->jobs, entry->job);
    job->tallies.bad_samples++;
    if (!entry->repeat && entry->substitutes == 0 && !idset_contains(job->progress.bad, entry->id)) {
        idset_add(job->progress.bad, entry->id);
        queue_of(&engine->queues, entry)->epoch.lost++;
    }
    engine->plan.again = true;
    if (job->terms.bad_policy != BAD_ERROR && engine->env.config.bad_limited &&
        idset_count(job->progress.bad) > bad_max(&engine->env.config, job))
        fail_too_many(engine, result);
    else if (job->terms.bad_policy == BAD_SKIP)
        skip(engine, result);
    else if (job->terms.bad_policy == BAD_REPLACE)
        substitute(engine, result);
    else
        fail_job(engine, result, LARDER_ESAMPLE,
                 "this sample is bad, and the job's policy is `error`: repair it or take it away, or have bad samples "
                 "skipped or replaced");
}

/* judge_changed fails the job, because a sample's file is not the one that was indexed. The policy does not matter: the
 * job would train on something else than what it registered. */
static void judge_changed(struct engine *engine, const struct result *result)
{
    fail_job(engine, result, LARDER_ECHANGED,
             "this file is not the one that was indexed: it was changed or replaced since; start the job again, which "
             "indexes the dataset anew");
}

/* A job that fails over one result drops its entries, so entries of later results may be FREE. Nothing is planned
 * before all results are judged, so no other entry has taken their numbers. */
void jobs_judge(struct engine *engine)
{
    for (size_t i = 0; i < engine->tasks.n_results; i++) {
        const struct result *result = &engine->tasks.results[i];
        if (engine->queues.entries[result->entry].state == ENTRY_FREE)
            continue;
        if (result->changed)
            judge_changed(engine, result);
        else
            judge(engine, result);
    }
    engine->tasks.n_results = 0;
}
