/* jobs_next.c: clients ask for batches: of this epoch, or of a later one. */
#include "server/engine/jobs.h"
#include "server/engine/outbox.h"
#include "server/engine/queue.h"

/* A later epoch than the job's: the rank is through with this one, and waits for those that are not. */
static void ask_later(struct engine *engine, uint32_t place, struct job_queue *queue, const struct engine_event *event)
{
    struct job *job = &engine->jobs.all[place];
    if (queue->waits && event->next.epoch < queue->wanted_epoch)
        return;
    if (job->state == JOB_RUNNING && !queue->done)
        jobs_queue_done(engine, job, queue);
    if (!queue->waits || queue->wanted_epoch != event->next.epoch)
        queue->wanted_credits = 0;
    queue->waits = true;
    queue->wanted_epoch = event->next.epoch;
    queue_add_credits(&queue->wanted_credits, event->next.credits);
    jobs_turn_epoch(engine, place);
}

void jobs_on_next(struct engine *engine, const struct engine_event *event)
{
    uint32_t place = event->next.job, epoch = event->next.epoch;
    struct job *job = &engine->jobs.all[place];
    if (job->state == JOB_FREE || job->state == JOB_FAILED)
        return;
    CHECK(event->rank < job->world_size);
    struct job_queue *queue = &job->queues[event->rank];
    if (!queue->attached)
        return;
    if (job->epochs && epoch >= job->epochs) {
        struct engine_action *action = jobs_act_error(engine, place, event->rank);
        error_set(&action->error.error, LARDER_EINVAL, "job %s: epoch %u was asked for and it has %u", job->name, epoch, job->epochs);
    } else if (!job->began || epoch > job->epoch) {
        ask_later(engine, place, queue, event);
    } else if (epoch < job->epoch) {
        if (job->world_size == 1 || (queue->told && epoch <= queue->told_epoch))
            return;
        struct engine_action *action = jobs_act_error(engine, place, event->rank);
        error_set(&action->error.error, LARDER_EINVAL, "job %s: rank %u asks for epoch %u and the job is in epoch %u: a rank that "
                  "comes back goes on there, and ranks leave an epoch together", job->name, event->rank, epoch, job->epoch);
    } else if (!queue->done) {
        queue_add_credits(&queue->credits, event->next.credits);
    } else if (queue->returned && !queue->waits) {
        queue->returned = false;
        jobs_deliver_batch(engine, place, queue, 0);
    }
}
