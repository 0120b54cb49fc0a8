/* jobs_attach.c: the answers to ranks that come, and whether a rank may join a job that is there. */
#include <stdarg.h>
#include <stdio.h>

#include "server/engine/job.h"
#include "server/engine/jobs.h"
#include "server/engine/outbox.h"
#include "server/engine/queue.h"
#include "server/engine/quota.h"
#include "server/engine/resume.h"

int jobs_refuse(struct outbox *outbox, const struct engine_job_desc *desc, int code, const char *fmt, ...)
{
    struct engine_action *action = outbox_add(outbox, ENGINE_JOB_REFUSED);
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    action->client = desc->client;
    action->error.id = SAMPLE_NONE;
    return error_set(&action->error.error, code, "job %s: %s", desc->name, text);
}

void jobs_answer(struct engine *engine, uint32_t no, const struct engine_job_desc *desc, bool attached)
{
    struct job *job = job_at(&engine->jobs, no);
    struct job_queue *queue = &job->queues[desc->rank];
    queue->client.presence = RANK_THERE;
    queue->client.died = false;
    queue->epoch.told = false;
    queue->client.id = desc->client;
    queue->epoch.returned = attached && job->progress.began && queue->epoch.done;
    job->attached++;
    uint64_t share = queue_share_of(job,
                                    job->terms.part.world_size ? job->shape.part_samples : job->shape.epoch_samples);
    struct engine_action *action = job_act(&engine->outbox, ENGINE_JOB_ADDED, job_at(&engine->jobs, no));
    action->rank = desc->rank;
    action->client = desc->client;
    action->job_added.held_max = job->quota.held_max;
    action->job_added.quota_bytes = job->quota.bytes;
    action->job_added.ahead = job->quota.ahead_now - ENGINE_ROWS_MIN;
    action->job_added.wanted_bytes = quota_wanted_bytes(&engine->quota);
    action->job_added.encoded_bytes = quota_ahead_encoded_bytes(&engine->quota);
    action->job_added.n_batches = (uint32_t)((share + job->terms.batch_size - 1) / job->terms.batch_size);
    action->job_added.attached = attached;
    action->job_added.restoring = job->resume != NULL;
    action->job_added.epoch = job->progress.began ? job->progress.epoch + queue->epoch.returned : 0;
    action->job_added.batch = queue->epoch.done ? 0 : queue->epoch.batch_index;
    if (desc->resume) {
        action->job_added.epoch = desc->resume->epoch;
        action->job_added.batch = desc->resume->base_batches + desc->resume->batches;
    }
}

/* ── a job that is restoring ── */

/* forget_those_before forgets what ranks have told that are away, unless some present rank has received something. */
static void forget_those_before(struct job *job)
{
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        if (job->queues[rank].client.presence == RANK_THERE && resume_had(job->resume, rank))
            return;
    }
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        if (job->queues[rank].client.presence != RANK_THERE)
            resume_forget(job->resume, rank);
    }
}

/* attach_restoring attaches a rank to a job that is restoring, or refuses it. A rank may bring no record because the
 * daemon died before the rank first came: it has received nothing. If it brought a record before, it has been started
 * again since, without a checkpoint. */
static void attach_restoring(struct engine *engine, struct job *job, const struct engine_job_desc *asked)
{
    const struct engine_resume nothing = {.key = job->resume->key, .presented = true};
    struct engine_job_desc with_nothing = *asked, *desc = &with_nothing;
    if (!desc->resume && resume_is_of_the_start(job->resume)) {
        desc->resume = &nothing;
        if (resume_had(job->resume, desc->rank))
            forget_those_before(job);
    }
    const char *clash = desc->resume ? resume_clash(job->resume, desc) : "brings no state, and the other ranks do";
    if (clash)
        jobs_refuse(&engine->outbox, desc, LARDER_EINVAL, "rank %u %s: start all ranks from the same checkpoint",
                    desc->part.first + desc->rank, clash);
    else if (resume_add(job->resume, desc))
        jobs_refuse(&engine->outbox, desc, LARDER_ENOMEM,
                    "no memory for what rank %u has had of the epoch: free memory, or lower the budgets",
                    desc->part.first + desc->rank);
    else {
        jobs_answer(engine, job->no, desc, true);
        jobs_turn_epoch(engine, job->no);
    }
}

/* ── a job that runs ── */

/* is_where_it_was tells whether a rank that comes back to a running job has received exactly what its queue gave it. */
static bool is_where_it_was(const struct job *job, const struct job_queue *queue, const struct engine_resume *told)
{
    const struct job_progress *progress = &job->progress;
    bool same_base = told->base_batches == progress->base_batches &&
                     (told->base_batches == 0 || told->key == progress->base_key);
    uint32_t batches = told->base_batches + told->batches;
    if (!progress->began || told->epoch > progress->epoch) /* nothing of the epoch that it is to have next */
        return batches == 0 && told->delivered == 0 && (!progress->began || queue->epoch.done);
    if (told->epoch < progress->epoch) /* it has finished that epoch, and received nothing of this one */
        return queue->epoch.delivered == 0 && !queue->epoch.done;
    return same_base && told->delivered == queue->epoch.delivered &&
           (queue->epoch.done || batches == queue->epoch.batch_index);
}

/* attach_running attaches a rank to a running job, or refuses a rank whose record differs from what the job gave it. */
static void attach_running(struct engine *engine, struct job *job, const struct engine_job_desc *desc)
{
    struct job_queue *queue = &job->queues[desc->rank];
    const struct engine_resume *told = desc->resume;
    if (told && !told->presented) {
        jobs_refuse(
            &engine->outbox, desc, LARDER_EBUSY,
            "it runs already, and cannot begin from a checkpoint: wait until its ranks have gone, or take another "
            "name");
        return;
    }
    if (told && !is_where_it_was(job, queue, told)) {
        jobs_refuse(&engine->outbox, desc, LARDER_EGONE,
                    "rank %u comes back from another place than where the job has it: start all ranks from the same "
                    "checkpoint",
                    desc->part.first + desc->rank);
        return;
    }
    if (told && job->progress.began && told->epoch < job->progress.epoch) {
        queue->epoch.behind = true;
        queue->epoch.behind_epoch = told->epoch;
        queue->epoch.behind_index = told->base_batches + told->batches;
    }
    jobs_answer(engine, job->no, desc, true);
}

void jobs_attach(struct engine *engine, uint32_t no, const struct engine_job_desc *desc)
{
    struct job *job = job_at(&engine->jobs, no);
    const char *field = job_terms_differ(job, desc);
    if (job->terms.world_size == 1 && part_ranks(desc) == 1)
        jobs_refuse(&engine->outbox, desc, LARDER_EBUSY,
                    "another job has this name: choose another, or none and get one");
    else if (field)
        jobs_refuse(&engine->outbox, desc, LARDER_EINVAL,
                    "rank %u has another %s than the job's first rank: all ranks of a job give the same",
                    desc->part.first + desc->rank, field);
    else if (job->queues[desc->rank].client.presence == RANK_THERE)
        jobs_refuse(&engine->outbox, desc, LARDER_EBUSY,
                    "rank %u is there already: give each process a rank of its own, or another job name",
                    desc->part.first + desc->rank);
    else if (job->state == JOB_FAILED)
        jobs_refuse(&engine->outbox, desc, LARDER_EGONE,
                    "it has failed, and ends when its other ranks have gone: start all of them again");
    else if (job->resume)
        attach_restoring(engine, job, desc);
    else
        attach_running(engine, job, desc);
}
