/* queue.c: a rank's queue: entries in planned order, the batches that its client holds, and the samples that are kept
 * for it. A batch has only entries that are ready. So a bad sample leaves no hole: the list closes up. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"

#define PACE_FIRST_NS 100e6 /* assumed training time of a batch, before any is measured */
#define REPEATS_LOST_MAX 16 /* bad repeats in a row before policy `skip` tries one at a time */

SLAB(, entry, queues, entries, in_line.next)

int queue_begin(struct job_queue *queue, uint32_t rank, uint32_t held_max, uint64_t reserved)
{
    *queue = (struct job_queue){.rank = rank, .line = {.entries = LINE_EMPTY, .first_waiting = ENGINE_NONE}};
    queue->leases = xcalloc(held_max, sizeof *queue->leases);
    queue->reserve.samples = reserved ? malloc(reserved * sizeof *queue->reserve.samples) : NULL;
    queue->reserve.cap = queue->reserve.samples ? reserved : 0;
    return reserved && !queue->reserve.samples ? LARDER_ENOMEM : 0;
}

void queue_end(struct job_queue *queue)
{
    while (queue->n_leases)
        free(queue->leases[--queue->n_leases].samples);
    free(queue->leases);
    free(queue->reserve.samples);
}

/* ── entries ── */

void queue_append(struct queues *queues, uint32_t index)
{
    struct entry *entry = &queues->entries[index];
    struct job_queue *queue = queue_of(queues, entry);
    line_append(&queue->line.entries, LINKS(queues->entries, in_line), index);
    queue->line.queued++;
    queue->held_slots++;
}

void queue_unplaced(struct queues *queues, uint32_t index)
{
    struct entry *entry = &queues->entries[index];
    struct job_queue *queue = queue_of(queues, entry);
    queue->line.ready -= entry->state == ENTRY_READY;
    entry->state = ENTRY_UNPLACED;
    entry->instance = ENGINE_NONE;
    queue->line.unplaced++;
    queue->line.no_room_since = 0;
}

void queue_placed(struct queues *queues, uint32_t index, uint32_t instance)
{
    struct entry *entry = &queues->entries[index];
    queue_of(queues, entry)->line.unplaced -= entry->state == ENTRY_UNPLACED;
    queue_of(queues, entry)->starves_since_ns = 0;
    entry->instance = instance;
    entry->state = ENTRY_WAITING;
}

void queue_waiter_remove(struct queues *queues, uint32_t index)
{
    uint32_t *link = &queues->prepared->instances[queues->entries[index].instance].waiters;
    while (*link != index) {
        CHECK(*link != ENGINE_NONE);
        link = &queues->entries[*link].next_waiter;
    }
    *link = queues->entries[index].next_waiter;
}

void queue_remove(struct queues *queues, uint32_t index)
{
    struct entry *entry = &queues->entries[index];
    struct job_queue *queue = queue_of(queues, entry);
    line_remove(&queue->line.entries, LINKS(queues->entries, in_line), index);
    queue->line.ready -= entry->state == ENTRY_READY;
    queue->line.first_waiting = queue->line.first_waiting == index ? entry->in_line.next : queue->line.first_waiting;
    queue->line.unplaced -= entry->state == ENTRY_UNPLACED;
    queue->line.queued--;
    queue->held_slots--;
    queues->prepared->room_changes++; /* the entries behind it have come nearer to the front */
    entry_drop(queues, index);
}

void queue_clear(struct queues *queues, struct job_queue *queue)
{
    for (uint32_t index = queue->line.entries.head, next; index != ENGINE_NONE; index = next) {
        next = queues->entries[index].in_line.next;
        entry_drop(queues, index);
    }
    queue->held_slots -= queue->line.queued;
    queue->line.entries = LINE_EMPTY;
    queue->line.first_waiting = ENGINE_NONE;
    queue->line.queued = queue->line.ready = queue->line.unplaced = 0;
}

/* ── leases ── */

struct lease *queue_lease_begin(struct queues *queues, struct job_queue *queue, uint32_t epoch, uint32_t count)
{
    struct lease *lease = &queue->leases[queue->n_leases++];
    *lease = (struct lease){.batch = queues->next_batch++,
                            .epoch = epoch,
                            .since_ns = queues->env->now_ns,
                            .samples = xmalloc(count * sizeof *lease->samples)};
    return lease;
}

void queue_lease_take(struct queues *queues, struct lease *lease, uint32_t index)
{
    const struct entry *entry = &queues->entries[index];
    struct job_queue *queue = queue_of(queues, entry);
    lease->samples[lease->count++] = (struct leased){entry->instance, entry->turn, entry->number};
    queue_remove(queues, index);
    queue->held_slots++;
}

void queue_lease_end(struct queues *queues, struct job_queue *queue, uint32_t at)
{
    struct lease *lease = &queue->leases[at];
    for (uint32_t i = 0; i < lease->count; i++)
        prepared_unpin(queues->prepared, lease->samples[i].instance);
    queue->held_slots -= lease->count;
    queues->prepared->room_changes++;
    free(lease->samples);
    *lease = queue->leases[--queue->n_leases];
}

/* ── the reserve ── */

void queue_reserve_add(struct reserve *reserve, struct allotted sample)
{
    if (reserve->at == reserve->end)
        reserve->at = reserve->end = 0;
    if (reserve->end == reserve->cap && reserve->at >= reserve->cap / 2) {
        uint64_t count = queue_reserve_count(reserve);
        if (count)
            memmove(reserve->samples, reserve->samples + reserve->at, count * sizeof *reserve->samples);
        reserve->at = 0;
        reserve->end = count;
    }
    reserve->samples = xgrow(reserve->samples, sizeof *reserve->samples, &reserve->cap, reserve->end + 1);
    reserve->samples[reserve->end++] = sample;
}

/* Together the samples are no more than the rank's share, so a reserve that was made for all of a share never grows. */
void queue_reserve_put_first(struct reserve *reserve, struct reserve *back)
{
    uint64_t count = queue_reserve_count(reserve), more = queue_reserve_count(back);
    reserve->samples = xgrow(reserve->samples, sizeof *reserve->samples, &reserve->cap, count + more);
    if (count)
        memmove(reserve->samples + more, reserve->samples + reserve->at, count * sizeof *reserve->samples);
    if (more)
        memcpy(reserve->samples, back->samples + back->at, more * sizeof *reserve->samples);
    reserve->at = 0;
    reserve->end = count + more;
    free(back->samples);
}

uint32_t queue_oldest_lease(const struct job_queue *queue, uint64_t least)
{
    uint32_t best = queue->n_leases;
    for (uint32_t at = 0; at < queue->n_leases; at++) {
        if (queue->leases[at].batch >= least &&
            (best == queue->n_leases || queue->leases[at].batch < queue->leases[best].batch))
            best = at;
    }
    return best;
}

void queue_lease_put_back(struct queues *queues, uint32_t job, struct job_queue *queue, const struct lease *lease,
                          struct reserve *back)
{
    for (uint32_t i = 0; i < lease->count; i++) {
        const struct leased *sample = &lease->samples[i];
        sample_id id = queues->prepared->instances[sample->instance].form.id;
        queue_reserve_add(back, (struct allotted){id, sample->turn, sample->number, false});
        if (!job_at(queues->jobs, job)->terms.family) /* a family's node may have it from its guest */
            prepared_clear_had(queues->prepared, job, sample->instance);
    }
    queue->epoch.planned -= lease->count;
    queue->epoch.delivered -= lease->count;
    queue->epoch.batch_index--;
    if (lease->count > 0)
        queue->epoch.done = false;
}

/* A sample may be overtaken by as many samples as the queue may look ahead, and by two batches at the least. */
uint64_t queue_overtakers_max(const struct job *job)
{
    uint64_t least = 2 * (uint64_t)job->terms.batch_size;
    return job->quota.slots > least ? job->quota.slots : least;
}

/* Repeats come last in a queue, because they are planned when nothing else is left. Positions that a rank left when it
 * was done are not counted, even if it comes back and takes its last batches again. */
uint32_t queue_through(const struct queues *queues, const struct job *job, const struct job_queue *queue)
{
    uint32_t first = queue->line.entries.head;
    const struct reserve *reserve = &queue->reserve;
    if (job->terms.shuffle == SHUFFLE_DEPENDENT)
        return 0;
    if (first != ENGINE_NONE && queues->entries[first].turn != SAMPLE_NONE)
        return queues->entries[first].number;
    if (first == ENGINE_NONE && queue_reserve_count(reserve) && reserve->samples[reserve->at].turn != SAMPLE_NONE)
        return reserve->samples[reserve->at].number;
    uint64_t dealt = (job->progress.drawn + job->terms.world_size - 1 - queue->rank) / job->terms.world_size;
    return dealt < queue->epoch.left_from ? (uint32_t)dealt : queue->epoch.left_from;
}

/* Under drop_last the share is whole batches. */
uint64_t queue_share_of(const struct job *job, uint64_t samples)
{
    uint64_t share = (samples + (job->terms.drop_last ? 0 : job->terms.world_size - 1)) / job->terms.world_size;
    return job->terms.drop_last ? share / job->terms.batch_size * job->terms.batch_size : share;
}

uint64_t queue_rank_planned(const struct job *job, uint32_t rank)
{
    return job->queues[rank].epoch.done ? UINT64_MAX : job->queues[rank].epoch.planned;
}

/* In a job of one rank, the rank gets all samples except bad ones. Several ranks always have equal shares, because they
 * train in step. */
uint64_t queue_share(const struct job *job)
{
    uint64_t samples = job->terms.part.world_size ? job->progress.part_samples
                                                  : job->progress.samples - (job_in_step(job) ? 0 : job->progress.lost);
    uint64_t odd = job->progress.odd * job->terms.world_size;
    return samples < odd ? queue_share_of(job, samples) : job->progress.odd + queue_share_of(job, samples - odd);
}

bool queue_lost_many(const struct job_queue *queue)
{
    return queue->epoch.repeats_lost > REPEATS_LOST_MAX;
}

/* When repeats are planned together, bad ones often become known after later planned good ones. So these do not decide:
 * as many repeats again must be bad that were tried one at a time. */
bool queue_repeat_lost(struct job_queue *queue)
{
    bool one_waits = queue->line.queued - queue->line.ready == 1; /* this one is not removed yet */
    if (!queue_lost_many(queue) || one_waits)
        queue->epoch.repeats_lost++;
    return one_waits && queue->epoch.repeats_lost > 2 * REPEATS_LOST_MAX;
}

bool queue_has_more_to_plan(const struct queues *queues, const struct job *job, const struct job_queue *queue)
{
    return !queue->epoch.done && queue->epoch.planned < queue_share(job) &&
           (job_in_step(job) || queue_reserve_count(&queue->reserve) > 0 || job_left(queues->env, job) > 0);
}

uint64_t queue_sure_slots(const struct job *job, const struct job_queue *queue)
{
    uint64_t least = job->quota.ahead_min * job->shape.batch_slots, leased = queue->held_slots - queue->line.queued;
    CHECK(leased <= least);
    return least - leased;
}

uint64_t queue_slots_of(const struct job *job)
{
    return job->quota.ahead_min * job->shape.batch_slots * job->terms.world_size;
}

uint32_t queue_batches_held(const struct job *job)
{
    uint32_t batches = 0;
    for (uint32_t rank = 0; job->state != JOB_FREE && rank < job->terms.world_size; rank++)
        batches += job->queues[rank].n_leases;
    return batches;
}

void queue_making_begun(struct queues *queues, uint32_t instance)
{
    WAITERS_OF(queues, instance, at) {
        queues->entries[at].making = true;
        queue_of(queues, &queues->entries[at])->line.making++;
    }
}

void queue_making_ended(struct queues *queues, struct entry *entry)
{
    queue_of(queues, entry)->line.making -= entry->making;
    entry->making = false;
}

/* If a client has asked for more than there is, the job's mean pace decides: all ranks miss a sample alike. */
double queue_dry_ns(const struct job *job, const struct job_queue *queue, uint64_t begun)
{
    uint64_t leased = queue->held_slots - queue->line.queued;
    double batches = (double)(leased + begun) / job->terms.batch_size - queue->epoch.credits;
    double pace_ns = job->turns.pace_ns > 0 ? job->turns.pace_ns : PACE_FIRST_NS;
    if (batches > 0 && queue->pace_ns)
        pace_ns = (double)queue->pace_ns;
    return batches * pace_ns;
}

uint32_t queue_first_waiting(const struct queues *queues, struct job_queue *queue)
{
    uint32_t index = queue->line.first_waiting;
    while (index != ENGINE_NONE && queues->entries[index].state != ENTRY_WAITING)
        index = queues->entries[index].in_line.next;
    queue->line.first_waiting = index;
    return index;
}
