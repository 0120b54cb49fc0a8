/* jobs_next.c: clients ask for batches, of this epoch or of a later one. */
#include "common/check.h"
#include "server/engine/jobs.h"
#include "server/engine/queue.h"

/* ask_later notes that a rank asks for a later epoch than the job's. The rank has finished the present one, and waits
 * for ranks that have not. */
static void ask_later(struct engine *engine, uint32_t no, struct job_queue *queue, const struct engine_event *event)
{
    struct job *job = job_at(&engine->jobs, no);
    if (queue->next.asked && event->next.epoch < queue->next.epoch)
        return;
    if (job->state == JOB_RUNNING && !queue->epoch.done)
        jobs_rank_through(&engine->plan, job, queue);
    if (!queue->next.asked || queue->next.epoch != event->next.epoch)
        queue->next.credits = 0;
    queue->next.asked = true;
    queue->next.epoch = event->next.epoch;
    queue_add_credits(&queue->next.credits, event->next.credits);
    jobs_turn_epoch(engine, no);
}

/* take_credits gives the rank its credits, or says why it gets none. */
static void take_credits(struct engine *engine, const struct engine_event *event, struct job_queue *queue)
{
    uint32_t no = event->next.job, epoch = event->next.epoch;
    struct job *job = job_at(&engine->jobs, no);
    if (epoch >= job_epochs(job)) {
        struct engine_action *action = jobs_act_error(&engine->outbox, job, event->rank);
        error_set(&action->error.error, LARDER_EINVAL, "job %s: epoch %u was asked for and it has %u", job->terms.name,
                  epoch, job_epochs(job));
    } else if (!job->progress.began || epoch > job->progress.epoch) {
        ask_later(engine, no, queue, event);
    } else if (epoch < job->progress.epoch) {
        if (job->terms.world_size == 1 || (queue->epoch.told && epoch <= queue->epoch.told_epoch))
            return;
        if (queue->epoch.behind) {
            jobs_resume_end_behind(engine, job, queue, epoch);
            return;
        }
        struct engine_action *action = jobs_act_error(&engine->outbox, job, event->rank);
        error_set(&action->error.error, LARDER_EINVAL,
                  "job %s: rank %u asks for epoch %u and the job is in epoch %u: a rank that comes back goes on there, "
                  "and ranks leave an epoch together",
                  job->terms.name, job->terms.part.first + event->rank, epoch, job->progress.epoch);
    } else if (!queue->epoch.done) {
        queue_add_credits(&queue->epoch.credits, event->next.credits);
    } else if (queue->epoch.returned && !queue->next.asked) {
        queue->epoch.returned = false;
        jobs_deliver_batch(engine, no, queue, 0);
    }
}

void jobs_on_next(struct engine *engine, const struct engine_event *event)
{
    uint32_t no = event->next.job;
    struct job *job = job_at(&engine->jobs, no);
    if (job->state == JOB_FREE || job->state == JOB_FAILED)
        return;
    CHECK(event->rank < job->terms.world_size);
    struct job_queue *queue = &job->queues[event->rank];
    if (queue->client.presence != RANK_THERE)
        return;
    take_credits(engine, event, queue);
    jobs_stall_asked(engine, job, queue, event->next.awaited);
}
