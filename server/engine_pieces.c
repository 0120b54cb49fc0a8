/* engine_pieces.c: free space in pieces.
 *
 * Quotas sum up to at most the arena, but with slots of several sizes what is free, or may be evicted, can lie between
 * what is pinned, in pieces too short for a slot. Then a job does not get all that its quota promises:
 *
 * - It goes on with less: its first entry without a place takes that of its last one that is ready and nobody else's.
 * - A job whose client waits, and for which nothing is being made, would wait for other clients. It takes the places of
 *   what is ready for clients that can be given nothing now, or that wait as well and have not waited as long; those
 *   entries are placed anew when there is room. What clients hold stays where it is. */
#include <stdlib.h>

#include "server/engine_priv.h"

/* A ready entry has no instance any more; the instance has lost its pin. */
static void unplace(struct engine *engine, struct job_queue *queue, uint32_t index)
{
    uint32_t instance = engine->entries[index].instance;
    engine_clear_had(engine, engine->entries[index].job, instance);
    engine_unpin_instance(engine, instance);
    queue->ready--;
    engine->entries[index].planned_ns = engine->now_ns;
    engine_unplaced_append(engine, queue, index);
}

static void evict(struct engine *engine, uint32_t instance)
{
    engine_free_instance(engine, instance);
    engine->totals.evicted_prepared++;
}

bool engine_take_from_behind(struct engine *engine, struct job_queue *queue)
{
    uint32_t first = queue->head, at = queue->tail;
    while (engine->entries[first].state != ENTRY_UNPLACED)
        first = engine->entries[first].next;
    while (at != first && (engine->entries[at].state != ENTRY_READY ||
                           residency_pins(engine->prepared, engine->entries[at].instance) > 1))
        at = engine->entries[at].prev;
    if (at == first)
        return false;
    uint32_t instance = engine->entries[at].instance;
    unplace(engine, queue, at);
    evict(engine, instance);
    engine_unplaced_remove(engine, queue, first);
    bool placed = engine_place(engine, first);
    if (!placed)
        engine_unplaced_prepend(engine, queue, first);
    return placed;
}

/* ── from those who wait for nothing ── */

/* Could its batches not be delivered now, even if they were whole? */
static bool is_idle(const struct job *job, const struct job_queue *queue)
{
    return queue->credits == 0 || queue->n_leases >= job->held_max;
}

/* Its client waits, nothing is being made for it, and what it still needs has no place. */
static bool starves(const struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    if (is_idle(job, queue) || queue->unplaced_head == ENGINE_NONE || engine_batch_ready(engine, job, queue))
        return false;
    for (uint32_t index = queue->head; index != ENGINE_NONE; index = engine->entries[index].next)
        if (engine->entries[index].state == ENTRY_WAITING)
            return false;
    return true;
}

/* Two that starve must not take from each other by turns: who has waited longer takes. */
static bool waits_longer(const struct engine *engine, const struct entry *taker, uint32_t place, uint32_t rank)
{
    const struct job_queue *queue = engine_queue_of(engine, taker), *other = &engine->jobs[place].queues[rank];
    uint64_t since = queue->waiting ? queue->waiting_since_ns : engine->now_ns;
    uint64_t other_since = other->waiting ? other->waiting_since_ns : engine->now_ns;
    if (since != other_since)
        return since < other_since;
    return taker->job != place ? taker->job < place : taker->rank < rank;
}

/* Goes through the ready entries that the taker may take the places of, among them with `own` those of its queue: counts
 * their pins, or with `counts` NULL takes those of marked instances out of their places. */
static void each_loose(struct engine *engine, const struct entry *taker, bool own, uint32_t *counts, const bool *marked)
{
    const struct job_queue *takers = engine_queue_of(engine, taker);
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        struct job *job = &engine->jobs[place];
        for (uint32_t rank = 0; job->state == JOB_RUNNING && rank < job->world_size; rank++) {
            struct job_queue *queue = &job->queues[rank];
            bool is_own = own && queue == takers;
            bool loose = is_own || is_idle(job, queue) ||
                         (waits_longer(engine, taker, place, rank) && starves(engine, job, queue));
            for (uint32_t at = queue->head; loose && at != ENGINE_NONE; at = engine->entries[at].next) {
                uint32_t instance = engine->entries[at].instance;
                if (engine->entries[at].state != ENTRY_READY || (is_own && engine->entries[at].moved))
                    continue;
                if (counts) {
                    counts[instance]++;
                } else if (marked[instance]) {
                    engine->entries[at].moved |= is_own;
                    unplace(engine, queue, at);
                }
            }
        }
    }
}

/* The first run of blocks that may go, `bytes` long; EXTENT_NONE: there is none. */
static uint32_t find_window(const struct engine *engine, const uint32_t *loose, uint64_t bytes)
{
    uint32_t first = EXTENT_NONE, owner;
    uint64_t found = 0;
    for (uint32_t block = extent_first(engine->extents); block != EXTENT_NONE && found < bytes;
         block = extent_next(engine->extents, block)) {
        bool used = extent_owner(engine->extents, block, &owner);
        if (used && residency_pins(engine->prepared, owner) > loose[owner]) {
            first = EXTENT_NONE;
            found = 0;
            continue;
        }
        first = first == EXTENT_NONE ? block : first;
        found += extent_bytes(engine->extents, block);
    }
    return found >= bytes ? first : EXTENT_NONE;
}

/* Marks who lies in the window; the blocks themselves merge when these go. */
static void mark(const struct engine *engine, uint32_t block, uint64_t bytes, bool *marked)
{
    uint32_t owner;
    for (uint64_t found = 0; found < bytes; block = extent_next(engine->extents, block)) {
        found += extent_bytes(engine->extents, block);
        if (extent_owner(engine->extents, block, &owner))
            marked[owner] = true;
    }
}

static bool take(struct engine *engine, const struct entry *taker, uint64_t bytes, bool own)
{
    uint32_t size = engine->instance_pool.size;
    uint32_t *loose = xcalloc(size + 1, sizeof *loose);
    bool *marked = xcalloc(size + 1, sizeof *marked);
    each_loose(engine, taker, own, loose, NULL);
    uint32_t window = find_window(engine, loose, bytes);
    if (window != EXTENT_NONE) {
        mark(engine, window, bytes, marked);
        each_loose(engine, taker, own, NULL, marked);
        for (uint32_t instance = 0; instance < size; instance++)
            if (marked[instance])
                evict(engine, instance);
    }
    free(loose);
    free(marked);
    return window != EXTENT_NONE;
}

bool engine_take_from_idle(struct engine *engine, struct job_queue *queue, uint32_t entry)
{
    const struct entry *taker = &engine->entries[entry];
    const struct job *job = &engine->jobs[taker->job];
    if (!starves(engine, job, queue))
        return false;
    uint64_t bytes = job->slot_bytes;
    if (job->by_size)
        bytes = engine->config.sample_bytes(job->dataset, taker->id);
    bytes = extent_round(bytes ? bytes : 1);
    return take(engine, taker, bytes, false) || take(engine, taker, bytes, true);
}
