/* queue_exchange.c: a sample is bound to a rank when it is ready, not when it is planned.
 *
 * Ranks of one job train in step. If each rank waited for its own reads, every step would take as long as the slowest
 * read. So a sample that becomes ready is given to the rank of the job that runs dry first (tasks_ranks.c). That rank's
 * first sample that is still waited for takes its place: the two entries change places. Every rank has as many samples
 * planned as before, and each sample still has one rank. A batch comes to all ranks within a few arrivals. If the rank
 * itself runs dry first, both entries are of its own queue. This is needed because exchanged samples become ready out
 * of order, and one far back in the queue makes no batch.
 *
 * - Exchanges happen only where the order is the ranks' own affair: `dependent`, not `ordered`.
 * - A sample that is kept for a rank, because that rank had it before it went away, stays that rank's own.
 * - A rank that is as far behind as another keeps what it has.
 * - A sample that others have overtaken keeps that count when it is exchanged. It is moved no further back than its own
 *   queue could have put it off, and then stays where it is (queue_overtakers_max). */
#include "server/engine/queue.h"
#include "server/engine/quota.h"

enum {
    LOOK = 64 /* entries of a queue that are looked at */
};

#define SWAP(type, a, b) \
    do {                 \
        type swap_ = a;  \
        a = b;           \
        b = swap_;       \
    } while (0)

/* passed returns how many entries have left the queue. An entry's number less this is its place in line; the result is
 * below 0 when it was overtaken. */
static int64_t passed(const struct job_queue *queue)
{
    return (int64_t)(queue->line.numbered - queue->line.queued);
}

/* waits_for moves first_waiting to the entry, if the entry lies before it or no other entry waits. */
static void waits_for(struct queues *queues, uint32_t index)
{
    struct entry *entry = &queues->entries[index];
    struct job_queue *queue = queue_of(queues, entry);
    if (queue->line.first_waiting == ENGINE_NONE ||
        entry->place_in_line < queues->entries[queue->line.first_waiting].place_in_line)
        queue->line.first_waiting = index;
}

void queue_waiter_add(struct queues *queues, uint32_t index)
{
    struct entry *entry = &queues->entries[index];
    struct instance *instance = &queues->prepared->instances[entry->instance];
    entry->next_waiter = instance->waiters;
    instance->waiters = index;
    waits_for(queues, index);
}

/* driest returns the queue that runs dry first among those that wait for a sample; `from` itself when no other runs dry
 * before it. */
static struct job_queue *driest(const struct job *job, struct job_queue *from)
{
    struct job_queue *best = from;
    double best_ns = queue_dry_ns(job, from, from->line.ready);
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        double its_ns = queue_dry_ns(job, queue, queue->line.ready);
        if (its_ns < best_ns && queue->line.queued > queue->line.ready) {
            best = queue;
            best_ns = its_ns;
        }
    }
    return best;
}

/* find_waiting returns the first entry of the queue that may wait in the place of `ready`; ENGINE_NONE when there is
 * none. In ready's own queue, only an entry before it may. */
static uint32_t find_waiting(const struct queues *queues, struct job_queue *queue, const struct entry *ready)
{
    const struct job *job = job_at(queues->jobs, ready->job);
    uint64_t end = queue == queue_of(queues, ready) ? ready->place_in_line : UINT64_MAX;
    int64_t place = (int64_t)ready->place_in_line - passed(queue_of(queues, ready));
    int64_t most = (int64_t)queue_overtakers_max(job) - job->terms.batch_size - (place > 0 ? place : 0);
    uint32_t index = queue_first_waiting(queues, queue);
    for (uint32_t looked = 0; index != ENGINE_NONE && looked < LOOK;
         index = queues->entries[index].in_line.next, looked++) {
        const struct entry *entry = &queues->entries[index];
        if (entry->place_in_line >= end)
            return ENGINE_NONE;
        if (entry->state == ENTRY_WAITING && !entry->reserved && passed(queue) - entry->due_in_line <= most)
            return index;
    }
    return ENGINE_NONE;
}

/* exchange puts each of two entries of one job in the other's place. In one queue, the waiting entry must lie before
 * the ready one. */
static void exchange(struct queues *queues, uint32_t ready_index, uint32_t waiting_index)
{
    struct entry *ready = &queues->entries[ready_index], *waiting = &queues->entries[waiting_index];
    struct job_queue *from = queue_of(queues, ready), *to = queue_of(queues, waiting);
    int64_t ahead = passed(from) - passed(to);
    SWAP(uint32_t, ready->rank, waiting->rank);
    SWAP(uint32_t, ready->in_line.prev, waiting->in_line.prev);
    SWAP(uint32_t, ready->in_line.next, waiting->in_line.next);
    SWAP(uint64_t, ready->place_in_line, waiting->place_in_line);
    /* here they were neighbours */
    ready->in_line.next = ready->in_line.next == ready_index ? waiting_index : ready->in_line.next;
    waiting->in_line.prev = waiting->in_line.prev == waiting_index ? ready_index : waiting->in_line.prev;
    ready->due_in_line -= ahead;
    waiting->due_in_line += ahead;
    line_relink(&to->line.entries, LINKS(queues->entries, in_line), ready_index);
    line_relink(&from->line.entries, LINKS(queues->entries, in_line), waiting_index);
    bool first = to->line.first_waiting == waiting_index;
    from->line.first_waiting = from->line.first_waiting == ready_index ? waiting_index : from->line.first_waiting;
    to->line.first_waiting = first ? ready_index : to->line.first_waiting;
    waits_for(queues, waiting_index);
    to->line.making -= waiting->making;
    from->line.making += waiting->making;
}

/* exchange_ready returns the entry that has taken the place of this one and still waits; ENGINE_NONE when nothing
 * changed places. */
static uint32_t exchange_ready(struct queues *queues, uint32_t index)
{
    const struct entry *entry = &queues->entries[index];
    const struct job *job = job_at(queues->jobs, entry->job);
    if (job->terms.world_size == 1 || job->terms.ordered || entry->reserved)
        return ENGINE_NONE;
    uint32_t waiting = find_waiting(queues, driest(job, queue_of(queues, entry)), entry);
    if (waiting != ENGINE_NONE)
        exchange(queues, index, waiting);
    return waiting;
}

uint32_t queue_ready(struct queues *queues, uint32_t index)
{
    struct entry *entry = &queues->entries[index];
    struct job_queue *queue = queue_of(queues, entry);
    entry->state = ENTRY_READY;
    entry->bad_in_row = 0;
    queue_making_ended(queues, entry);
    quota_note_ready(queues->quota, job_at(queues->jobs, entry->job), entry->rank, entry->planned_ns);
    if (entry_is_repeat(entry))
        queue->epoch.repeats_lost = 0;
    uint32_t moved = exchange_ready(queues, index);
    queue_of(queues, entry)->line.ready++;
    return moved;
}
