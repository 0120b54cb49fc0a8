/* jobs_deliver.c: batches go out to the clients that asked for them. */
#include "common/check.h"
#include "server/engine/engine_priv.h"
#include "server/engine/jobs.h"
#include "server/engine/outbox.h"
#include "server/engine/queue.h"
#include "server/engine/quota.h"

/* delivered_entry describes a ready entry for the client. */
static struct engine_entry delivered_entry(const struct prepared *prepared, const struct entry *entry)
{
    const struct instance *instance = &prepared->instances[entry->instance];
    return (struct engine_entry){.offset = extent_offset(prepared->extents, instance->block),
                                 .bytes = instance->bytes,
                                 .id = entry->id,
                                 .turn = entry->turn};
}

void jobs_deliver_batch(struct engine *engine, uint32_t no, struct job_queue *queue, uint32_t count)
{
    struct job *job = job_at(&engine->jobs, no);
    struct lease *lease = queue_lease_begin(&engine->queues, queue, job->progress.epoch, count);
    struct outbox *outbox = &engine->outbox;
    outbox->delivered = xgrow(outbox->delivered, sizeof *outbox->delivered, &outbox->delivered_cap,
                              outbox->n_delivered + count);
    for (uint32_t index = queue->line.entries.head, next; lease->count < count; index = next) {
        CHECK(index != ENGINE_NONE);
        const struct entry *entry = &engine->queues.entries[index];
        next = entry->in_line.next;
        if (entry->state != ENTRY_READY)
            continue;
        outbox->delivered[outbox->n_delivered++] = delivered_entry(&engine->prepared, entry);
        engine->env.counts.delivered_from[entry->level]++;
        job->tallies.samples_shared += engine->prepared.instances[entry->instance].made_for != job->terms.serial;
        queue_lease_take(&engine->queues, lease, index);
    }
    if (!queue->epoch.done)
        queue->epoch.through = queue_through(&engine->queues, job, queue);
    queue->epoch.credits -= queue->epoch.credits > 0;
    queue->epoch.delivered += count;
    queue->tallies.samples_delivered += count;
    job->tallies.samples_delivered += count;
    queue->tallies.batches_delivered++;
    quota_note_delivery(&engine->quota, job, queue->rank, queue_waited_ns(queue, engine->env.now_ns));
    engine->env.counts.samples_delivered += count;
    struct engine_action *action = job_act(&engine->outbox, ENGINE_DELIVER, job_at(&engine->jobs, no));
    action->rank = queue->rank;
    action->client = queue->client.id;
    action->deliver.batch = lease->batch;
    action->deliver.epoch = job->progress.epoch;
    action->deliver.index = queue->epoch.batch_index++;
    action->deliver.count = count;
    action->deliver.lost = queue->epoch.lost;
    action->deliver.through = queue->epoch.through;
    action->deliver.stall_ns = jobs_stall_end(engine, queue);
    /* The batch is the last one if nothing more will be planned and the queue is empty after it, or under drop_last has
     * less than a batch. */
    action->deliver.last = !queue_has_more_to_plan(&engine->queues, job, queue) &&
                           (job->terms.drop_last ? queue->line.queued < job->terms.batch_size
                                                 : queue->line.queued == 0);
    queue->epoch.told = queue->epoch.told || action->deliver.last;
    queue->epoch.told_epoch = action->deliver.last ? job->progress.epoch : queue->epoch.told_epoch;
    if (action->deliver.last && !queue->epoch.done) {
        jobs_rank_through(&engine->plan, job, queue);
        jobs_turn_epoch(engine, no);
    }
}

/* deliver_queue delivers the queue's batches that are ready and that its client may have. */
static void deliver_queue(struct engine *engine, uint32_t no, struct job_queue *queue)
{
    struct job *job = job_at(&engine->jobs, no);
    uint32_t count;
    while (queue_may_have_batch(job, queue) && !engine->plan.again &&
           queue_next_batch_ready(&engine->queues, job, queue, &count))
        jobs_deliver_batch(engine, no, queue, count);
    bool waiting = queue_may_have_batch(job, queue);
    if (waiting && !queue->tallies.waiting) {
        queue->tallies.waiting_since_ns = engine->env.now_ns;
        quota_note_wait(&engine->quota, job, queue->rank, queue->epoch.batch_index - queue->epoch.first_batch);
    }
    if (!waiting && queue->tallies.waiting)
        queue->tallies.wait_ns += engine->env.now_ns - queue->tallies.waiting_since_ns;
    queue->tallies.waiting = waiting;
    jobs_stall_watch(engine, job, queue);
}

void jobs_deliver(struct engine *engine)
{
    for (uint32_t no = 0; no < engine->jobs.end; no++) {
        for (uint32_t rank = 0;
             job_at(&engine->jobs, no)->state != JOB_FREE && rank < job_at(&engine->jobs, no)->terms.world_size; rank++)
            deliver_queue(engine, no, &job_at(&engine->jobs, no)->queues[rank]);
    }
}
