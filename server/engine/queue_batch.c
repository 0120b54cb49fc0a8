/* queue_batch.c: which of a queue's entries are its next batch, and whether that is ready. */
#include "server/engine/queue.h"

void queue_add_credits(uint32_t *credits, uint32_t more)
{
    uint64_t sum = (uint64_t)*credits + more;
    *credits = sum < ENGINE_PREFETCH_MAX ? (uint32_t)sum : ENGINE_PREFETCH_MAX;
}

/* whole_batch_ready tells whether batch_size entries are ready that the next batch may take. An ordered job takes them
 * in planned order. Other jobs take them from a window of two batches. The window goes on past an entry that is not
 * ready until all that may overtake that entry have done so. */
static bool whole_batch_ready(const struct queues *queues, const struct job *job, const struct job_queue *queue)
{
    if (queue->line.ready < job->terms.batch_size)
        return false;
    int64_t last = INT64_MAX, most = (int64_t)queue_overtakers_max(job);
    uint32_t window = job->terms.ordered ? job->terms.batch_size : 2 * job->terms.batch_size, ready = 0;
    for (uint32_t index = queue->line.entries.head; index != ENGINE_NONE && window > 0;
         index = queues->entries[index].in_line.next, window--) {
        const struct entry *entry = &queues->entries[index];
        if ((int64_t)entry->place_in_line > last || (entry->state != ENTRY_READY && job->terms.ordered))
            return false;
        if (entry->state != ENTRY_READY && entry->due_in_line + most < last)
            last = entry->due_in_line + most;
        ready += entry->state == ENTRY_READY;
        if (ready == job->terms.batch_size)
            return true;
        if (ready + window - 1 < job->terms.batch_size) /* not enough even if all the rest were ready */
            return false;
    }
    return false;
}

bool queue_next_batch_ready(const struct queues *queues, const struct job *job, const struct job_queue *queue,
                            uint32_t *count)
{
    if (queue->line.queued >= job->terms.batch_size) {
        *count = job->terms.batch_size;
        return whole_batch_ready(queues, job, queue);
    }
    if (queue_has_more_to_plan(queues, job, queue))
        return false;
    *count = job->terms.drop_last ? 0 : queue->line.queued;
    return job->terms.drop_last || queue->line.ready == queue->line.queued;
}

bool queue_batch_ready(const struct queues *queues, const struct job *job, const struct job_queue *queue)
{
    uint32_t count;
    return queue_next_batch_ready(queues, job, queue, &count);
}

bool queue_may_have_batch(const struct job *job, const struct job_queue *queue)
{
    return job->state == JOB_RUNNING && queue->epoch.credits > 0 && queue->n_leases < job->quota.held_max;
}

uint32_t queue_ready_batches(const struct queues *queues, const struct job *job, const struct job_queue *queue)
{
    uint32_t whole = queue->line.ready / job->terms.batch_size, rest = 0;
    if (job->state == JOB_RUNNING && queue->line.queued && queue->line.ready == queue->line.queued &&
        !queue_has_more_to_plan(queues, job, queue))
        rest = !job->terms.drop_last && queue->line.queued % job->terms.batch_size > 0;
    return whole + rest;
}
