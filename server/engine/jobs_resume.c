/* jobs_resume.c: jobs that are restoring: their ranks had a part of an epoch before the job was made; see engine.h. */
#include "common/check.h"
#include "server/engine/jobs.h"
#include "server/engine/outbox.h"
#include "server/engine/plan.h"
#include "server/engine/queue.h"
#include "server/engine/resume.h"

/* end_epoch tells the rank's client that nothing of this epoch is left for it. A client that holds all batches that it
 * may is not told: it has not released those that told it before. */
static void end_epoch(struct engine *engine, const struct job *job, struct job_queue *queue, uint32_t epoch,
                      uint32_t index)
{
    if ((queue->epoch.told && epoch <= queue->epoch.told_epoch) || queue->n_leases == job->quota.held_max)
        return;
    struct lease *lease = queue_lease_begin(&engine->queues, queue, epoch, 0);
    struct engine_action *action = job_act(&engine->outbox, ENGINE_DELIVER, job);
    action->rank = queue->rank;
    action->client = queue->client.id;
    action->deliver.batch = lease->batch;
    action->deliver.epoch = epoch;
    action->deliver.index = index;
    action->deliver.last = true;
    action->deliver.stall_ns = jobs_stall_end(engine, queue);
    queue->tallies.batches_delivered++;
    queue->epoch.told = true;
    queue->epoch.told_epoch = epoch;
}

void jobs_resume_end_behind(struct engine *engine, const struct job *job, struct job_queue *queue, uint32_t epoch)
{
    end_epoch(engine, job, queue, epoch, epoch == queue->epoch.behind_epoch ? queue->epoch.behind_index : 0);
}

bool jobs_resume_ready(struct engine *engine, const struct job *job)
{
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        if (job->queues[rank].client.presence != RANK_THERE && !resume_is_done(job->resume, rank))
            return false;
    }
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        const struct resume_rank *told = &job->resume->ranks[rank];
        if (!queue->next.asked || queue->next.epoch >= job->resume->epoch)
            continue;
        queue->next.asked = false;
        end_epoch(engine, job, queue, queue->next.epoch, queue->next.epoch == told->epoch ? told->batches : 0);
    }
    return true;
}

uint32_t jobs_resume_epoch(const struct job *job)
{
    uint32_t lowest = UINT32_MAX;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        const struct rank_next *next = &job->queues[rank].next;
        uint32_t epoch = next->asked ? next->epoch : job->resume->epoch;
        lowest = epoch < lowest ? epoch : lowest;
    }
    return lowest;
}

bool jobs_resume_elsewhere(const struct job *job)
{
    const struct resume *resume = job->resume;
    bool elsewhere = false;
    for (uint32_t rank = 0; job->progress.away && rank < resume->world_size && !elsewhere; rank++) {
        const struct resume_rank *told = &resume->ranks[rank];
        elsewhere = told->told && told->epoch == job->progress.epoch && told->turns &&
                    idset_intersection_count(told->turns, job->progress.away) > 0;
    }
    return elsewhere;
}

/* is_through marks a rank as done that received its share before the epoch was begun here. Nobody gets what it left
 * under drop_last. */
static void is_through(struct job *job, struct job_queue *queue)
{
    job->progress.abandoned += queue_reserve_count(&queue->reserve);
    queue->reserve.at = queue->reserve.end = 0;
    queue->epoch.done = true;
}

int jobs_resume_begin(struct plan *plan, struct job *job, bool restores)
{
    struct resume *resume = job->resume;
    int code = restores && job->progress.epoch == resume->epoch ? plan_restore(plan, job) : 0;
    for (uint32_t rank = 0; rank < resume->world_size; rank++) {
        struct rank_epoch *epoch = &job->queues[rank].epoch;
        if (job->queues[rank].client.presence != RANK_THERE) { /* it is done, or all ranks would be there */
            job->queues[rank].client.presence = RANK_AWAY;
            if (job->progress.epoch == resume->epoch)
                is_through(job, &job->queues[rank]);
        }
        epoch->behind = resume->ranks[rank].epoch < job->progress.epoch;
        epoch->behind_epoch = resume->ranks[rank].epoch;
        epoch->behind_index = resume->ranks[rank].batches;
    }
    resume_destroy(resume);
    job->resume = NULL;
    return code;
}
