/* queue.c: a rank's queue: entries in planned order, the batches its client holds, and the samples that are kept for
 * it. A batch is nothing but entries that are ready, so that a bad sample leaves no hole: the list closes up. */
#include <stdlib.h>
#include <string.h>

#include "server/engine/engine_priv.h"

/* ── entries ── */

void engine_queue_append(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    struct job_queue *queue = engine_queue_of(engine, entry);
    entry->prev = queue->tail;
    entry->next = ENGINE_NONE;
    if (queue->tail != ENGINE_NONE)
        engine->entries[queue->tail].next = index;
    else
        queue->head = index;
    queue->tail = index;
    queue->queued++;
    queue->held_slots++;
}

void engine_entry_unplaced(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    struct job_queue *queue = engine_queue_of(engine, entry);
    entry->state = ENTRY_UNPLACED;
    entry->instance = ENGINE_NONE;
    queue->unplaced++;
    queue->no_room_since = 0;
}

static void waiter_remove(struct engine *engine, uint32_t index)
{
    uint32_t *link = &engine->instances[engine->entries[index].instance].waiters;
    while (*link != index) {
        CHECK(*link != ENGINE_NONE);
        link = &engine->entries[*link].link;
    }
    *link = engine->entries[index].link;
}

void engine_queue_remove(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    struct job_queue *queue = engine_queue_of(engine, entry);
    if (entry->prev != ENGINE_NONE)
        engine->entries[entry->prev].next = entry->next;
    else
        queue->head = entry->next;
    if (entry->next != ENGINE_NONE)
        engine->entries[entry->next].prev = entry->prev;
    else
        queue->tail = entry->prev;
    queue->ready -= entry->state == ENTRY_READY;
    queue->open = queue->open == index ? entry->next : queue->open;
    queue->unplaced -= entry->state == ENTRY_UNPLACED;
    queue->queued--;
    queue->held_slots--;
    engine->room_changes++; /* those behind it are nearer to the front */
    engine_entry_drop(engine, index);
}

/* Gives back what an undelivered entry holds: its job has not had the instance after all. */
static void entry_abandon(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    uint32_t instance = entry->instance;
    if (entry->state == ENTRY_UNPLACED)
        return;
    engine_clear_had(engine, entry->job, instance);
    bool orphan = false;
    if (entry->state == ENTRY_WAITING) {
        waiter_remove(engine, index);
        engine_rank_made(engine, entry);
        orphan = engine->instances[instance].waiters == ENGINE_NONE;
    }
    engine_unpin_instance(engine, instance);
    if (orphan)
        engine_task_cancel_output(engine, instance);
    else if (entry->state == ENTRY_WAITING)
        engine_task_left(engine, engine->instances[instance].task, entry->job);
}

void engine_queue_drop_all(struct engine *engine, struct job_queue *queue)
{
    for (uint32_t index = queue->head, next; index != ENGINE_NONE; index = next) {
        next = engine->entries[index].next;
        entry_abandon(engine, index);
        queue->held_slots--;
        engine_entry_drop(engine, index);
    }
    queue->head = queue->tail = queue->open = ENGINE_NONE;
    queue->queued = queue->ready = queue->unplaced = 0;
}

void engine_entry_unplace(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    engine_queue_of(engine, entry)->ready -= entry->state == ENTRY_READY;
    entry_abandon(engine, index);
    entry->planned_ns = engine->now_ns;
    engine_entry_unplaced(engine, index);
}

void engine_entry_ready(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    struct job_queue *queue = engine_queue_of(engine, entry);
    entry->state = ENTRY_READY;
    engine_rank_made(engine, entry);
    engine_note_ready(engine, &engine->jobs[entry->job], queue, entry);
    if (entry->repeat)
        queue->repeats_lost = 0;
    engine_exchange(engine, index);
    engine_queue_of(engine, entry)->ready++;
}

/* ── leases ── */

void engine_lease_end(struct engine *engine, struct job_queue *queue, uint32_t at)
{
    struct lease *lease = &queue->leases[at];
    for (uint32_t i = 0; i < lease->count; i++)
        engine_unpin_instance(engine, lease->instances[i]);
    queue->held_slots -= lease->count;
    engine->room_changes++;
    free(lease->instances);
    *lease = queue->leases[--queue->n_leases];
}

/* ── the reserve ── */

void engine_reserve_add(struct reserve *reserve, sample_id id)
{
    if (reserve->end == reserve->cap && reserve->at >= reserve->cap / 2) {
        uint64_t count = engine_reserve_count(reserve);
        if (count)
            memmove(reserve->ids, reserve->ids + reserve->at, count * sizeof *reserve->ids);
        reserve->at = 0;
        reserve->end = count;
    }
    if (reserve->end == reserve->cap) {
        reserve->cap = reserve->cap ? reserve->cap * 2 : 64;
        reserve->ids = xrealloc(reserve->ids, reserve->cap, sizeof *reserve->ids);
    }
    reserve->ids[reserve->end++] = id;
}

/* What goes back comes before what was kept already. Together they are no more than the rank's share, so that a reserve
 * that was made for all of it never grows. Frees `back`'s ids. */
static void reserve_put_first(struct reserve *reserve, struct reserve *back)
{
    uint64_t count = engine_reserve_count(reserve), more = engine_reserve_count(back);
    if (count + more > reserve->cap) {
        reserve->cap = count + more;
        reserve->ids = xrealloc(reserve->ids, reserve->cap, sizeof *reserve->ids);
    }
    if (count)
        memmove(reserve->ids + more, reserve->ids + reserve->at, count * sizeof *reserve->ids);
    if (more)
        memcpy(reserve->ids, back->ids + back->at, more * sizeof *reserve->ids);
    reserve->at = 0;
    reserve->end = count + more;
    free(back->ids);
}

/* The batch that was delivered first of those from `least` on; n_leases when there is none. */
static uint32_t oldest_lease(const struct job_queue *queue, uint64_t least)
{
    uint32_t best = queue->n_leases;
    for (uint32_t at = 0; at < queue->n_leases; at++) {
        if (queue->leases[at].batch >= least && (best == queue->n_leases || queue->leases[at].batch < queue->leases[best].batch))
            best = at;
    }
    return best;
}

/* The samples of a batch that was not released go back, and the instances count as not had. */
static void lease_put_back(struct engine *engine, uint32_t job, struct job_queue *queue, const struct lease *lease, struct reserve *back)
{
    for (uint32_t i = 0; i < lease->count; i++) {
        engine_reserve_add(back, engine->instances[lease->instances[i]].id);
        engine_clear_had(engine, job, lease->instances[i]);
    }
    queue->planned -= lease->count;
    queue->delivered -= lease->count;
    queue->batch_index--;
    if (lease->count > 0)
        queue->done = false;
}

/* What was planned last goes back to be planned again, before what was kept already. */
void engine_queue_shorten(struct engine *engine, uint32_t job, struct job_queue *queue, uint64_t slots)
{
    if (queue->held_slots <= slots)
        return;
    struct reserve back = {0};
    uint64_t surplus = queue->held_slots - slots;
    CHECK(surplus <= queue->queued);
    uint32_t first = queue->tail;
    for (uint64_t i = 1; i < surplus; i++)
        first = engine->entries[first].prev;
    queue->numbered = engine->entries[first].number;
    for (uint32_t index = first, next; index != ENGINE_NONE; index = next) {
        next = engine->entries[index].next;
        engine_reserve_add(&back, engine->entries[index].id);
        CHECK(engine->entries[index].job == job);
        entry_abandon(engine, index);
        engine_queue_remove(engine, index);
    }
    queue->planned -= surplus;
    reserve_put_first(&queue->reserve, &back);
}

/* First what was delivered and not released, then what was planned, then what was kept already. Batches of epochs that are
 * over are lost with who held them. */
void engine_queue_put_back(struct engine *engine, uint32_t job_index, struct job_queue *queue)
{
    const struct job *job = &engine->jobs[job_index];
    struct reserve back = {0};
    bool left = queue->done && queue->waits; /* what remained of the epoch is given up already */
    for (uint64_t batch = 0; job->state == JOB_RUNNING && !left;) {
        uint32_t at = oldest_lease(queue, batch);
        if (at == queue->n_leases)
            break;
        batch = queue->leases[at].batch + 1;
        if (queue->leases[at].epoch == job->epoch)
            lease_put_back(engine, job_index, queue, &queue->leases[at], &back);
    }
    for (uint32_t index = queue->head; index != ENGINE_NONE; index = engine->entries[index].next)
        engine_reserve_add(&back, engine->entries[index].id);
    queue->planned -= queue->queued;
    engine_queue_drop_all(engine, queue);
    while (queue->n_leases)
        engine_lease_end(engine, queue, queue->n_leases - 1);
    CHECK(queue->held_slots == 0);
    reserve_put_first(&queue->reserve, &back);
}
