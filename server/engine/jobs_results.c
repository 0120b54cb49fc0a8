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
    if (entry->bad_in_row++ == SUBSTITUTES_MAX) {
        fail_job(engine, result, LARDER_ESAMPLE,
                 "this sample and every substitute drawn for it are bad: check the dataset");
        return;
    }
    entry->id = plan_any_sample(&engine->plan, job);
    entry->substitute = true;
}

/* skip leaves the sample out. A job that has lost all of an epoch fails: otherwise it would train on nothing without a
 * word. It has not when something of the epoch was had before the job was made. */
static void skip(struct engine *engine, const struct result *result)
{
    struct entry *entry = &engine->queues.entries[result->entry];
    struct job *job = job_at(&engine->jobs, entry->job);
    struct job_queue *queue = queue_of(&engine->queues, entry);
    if (entry_is_repeat(entry) && queue_repeat_lost(queue)) {
        fail_job(engine, result, LARDER_ESAMPLE,
                 "this sample and all others that were to fill a rank's share up are bad: check the dataset");
        return;
    }
    job->progress.lost++;
    if (!job_in_step(job) && queue_share_of(job, job->shape.epoch_samples - job->progress.lost) == 0) {
        fail_job(engine, result, LARDER_ESAMPLE,
                 "this sample and so many others are bad that nothing is left of the epoch: check the dataset");
        return;
    }
    queue->epoch.planned--;
    queue_remove(&engine->queues, result->entry);
}

/* bad_count returns how many samples of the epoch are bad, with those that were lost before it was begun here. */
static uint64_t bad_count(const struct job *job)
{
    return idset_count(job->progress.bad) + job->progress.lost_before;
}

/* samples_of returns how many samples of an epoch could be bad: of a multiset no more than the view has. */
static uint64_t samples_of(const struct job *job)
{
    const struct job_shape *shape = &job->shape;
    return shape->view_samples < shape->epoch_samples ? shape->view_samples : shape->epoch_samples;
}

/* bad_most returns the most bad samples of an epoch with which any job goes on; bad_max what of them is allowed
 * here. */
static uint64_t bad_most(const struct job *job)
{
    return samples_of(job) / ENGINE_BAD_PART;
}

static uint64_t bad_max(const struct engine_config *config, const struct job *job)
{
    uint64_t share = (uint64_t)(config->bad_share * (double)samples_of(job));
    uint64_t max = share > config->bad_count ? share : config->bad_count;
    return max < bad_most(job) ? max : bad_most(job);
}

/* fail_of_bad fails the job over the bad samples of its epoch. */
static void fail_of_bad(struct engine *engine, const struct result *result, const char *text)
{
    const struct entry *entry = &engine->queues.entries[result->entry];
    struct failure failure = {.id = entry->id, .reason = result->reason, .of_all_bad = true};
    jobs_fail(engine, entry->job, &failure, LARDER_ESAMPLE, text);
}

static void fail_too_many(struct engine *engine, const struct result *result)
{
    const struct job *job = job_at(&engine->jobs, engine->queues.entries[result->entry].job);
    uint64_t max = bad_max(&engine->env.config, job);
    char text[224];
    snprintf(text, sizeof text,
             "with this one %llu of %llu samples are bad in this epoch, and limits.bad allows %llu%s: repair the "
             "dataset%s",
             (unsigned long long)bad_count(job), (unsigned long long)samples_of(job), (unsigned long long)max,
             max == bad_most(job) ? ", never more than a tenth" : "",
             max == bad_most(job) ? ", or train on a subset without them" : ", or raise limits.bad");
    fail_of_bad(engine, result, text);
}

/* is_too_much tells whether a job that does without bad samples can no longer do without this one, and fails it then.
 * `counted`: the sample counts as bad from now on. */
static bool is_too_much(struct engine *engine, const struct result *result, bool counted)
{
    const struct engine_config *config = &engine->env.config;
    const struct entry *entry = &engine->queues.entries[result->entry];
    const struct job *job = job_at(&engine->jobs, entry->job);
    if (job->terms.bad_policy == BAD_ERROR || job->terms.bad_unlimited || !config->bad_limited)
        return false;
    bool too_many = bad_count(job) > bad_max(config, job);
    bool left = too_many || !counted || job->terms.own_labels || !config->class_is_left ||
                config->class_is_left(job->terms.dataset, entry->id, job->terms.view, job->progress.bad);
    if (too_many)
        fail_too_many(engine, result);
    else if (!left)
        fail_of_bad(engine, result,
                    "with this one all samples of its class are bad in this epoch, and the job would train without the "
                    "class: repair them, or train on a subset without it");
    return too_many || !left;
}

/* judge treats one result by the policy of its job, and counts the sample as bad. */
static void judge(struct engine *engine, const struct result *result)
{
    struct entry *entry = &engine->queues.entries[result->entry];
    struct job *job = job_at(&engine->jobs, entry->job);
    bool own = !entry_is_repeat(entry) && !entry->substitute;
    bool counted = own && !idset_contains(job->progress.bad, entry->id);
    job->tallies.bad_samples++;
    if (counted) {
        uint64_t before = idset_count(job->progress.bad);
        if (before < ENGINE_BAD_NAMED)
            job->progress.first_bad[before] = (struct engine_bad){.id = entry->id, .reason = result->reason};
        idset_add(job->progress.bad, entry->id);
    }
    if (counted || (own && job->terms.multiset)) /* of a multiset each draw of the sample is lost */
        queue_of(&engine->queues, entry)->epoch.lost++;
    engine->plan.again = true;
    if (is_too_much(engine, result, counted))
        return;
    if (job->terms.bad_policy == BAD_SKIP)
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
