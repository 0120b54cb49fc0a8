/* plan_give_back.c: what was planned goes back: look-ahead whose room others need, and what a rank leaves behind. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/outbox.h"
#include "server/engine/plan.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/quota.h"
#include "server/engine/tasks.h"

/* may_loosen tells whether the entry has an instance that it can give up now. */
static bool may_loosen(const struct plan *plan, const struct entry *entry)
{
    return (entry->state == ENTRY_READY || entry->state == ENTRY_WAITING) &&
           !tasks_is_running(plan->tasks, &plan->prepared->instances[entry->instance]);
}

/* sure_entries returns how many of the queue's first entries keep their instances; the others are loose. Instances of
 * sized jobs have no zone. So of such a job no entry behind one without an instance is sure: the room that this one
 * lacks may lie in pieces between them, and none of them is delivered before it. */
static uint64_t sure_entries(const struct plan *plan, const struct job *job, const struct job_queue *queue)
{
    uint64_t sure = queue_sure_slots(job, queue), placed = 0;
    if (!job->terms.sized)
        return sure;
    for (uint32_t index = queue->line.entries.head; placed < sure && index != ENGINE_NONE;
         index = plan->queues->entries[index].in_line.next) {
        if (plan->queues->entries[index].state == ENTRY_UNPLACED)
            break;
        placed++;
    }
    return placed;
}

/* loosen_queue takes the instances of the queue's loose entries in this state. It begins with the last entry, so that
 * the instance needed last is evicted first. */
static void loosen_queue(struct plan *plan, const struct job *job, const struct job_queue *queue,
                         enum entry_state state)
{
    uint64_t sure = sure_entries(plan, job, queue);
    uint32_t index = queue->line.entries.tail;
    for (uint64_t at = queue->line.queued; at > sure; at--) {
        const struct entry *entry = &plan->queues->entries[index];
        uint32_t prev = entry->in_line.prev;
        if (entry->state == state && may_loosen(plan, entry))
            plan_unplace(plan, index);
        index = prev;
    }
}

/* count_loose counts for each instance the pins of the queue's loose entries that can give it up. */
static void count_loose(const struct plan *plan, const struct job *job, const struct job_queue *queue, uint32_t *pins)
{
    uint64_t sure = sure_entries(plan, job, queue);
    uint32_t index = queue->line.entries.tail;
    for (uint64_t at = queue->line.queued; at > sure; at--, index = plan->queues->entries[index].in_line.prev)
        if (may_loosen(plan, &plan->queues->entries[index]))
            pins[plan->queues->entries[index].instance]++;
}

/* is_loose tells whether the block is free, or can be cleared once loose entries have given their instances up. */
static bool is_loose(const struct plan *plan, uint32_t block, const uint32_t *pins)
{
    const struct prepared *prepared = plan->prepared;
    uint32_t owner;
    if (!extent_owner(prepared->extents, block, &owner))
        return true;
    if (owner >= PREPARED_AWAY || prepared->instances[owner].zoned ||
        extent_offset(prepared->extents, block) >= prepared->growth.limit)
        return false;
    uint32_t making = prepared->instances[owner].state == INSTANCE_MAKING; /* has a pin of its own */
    return residency_pins(prepared->residency, owner) == pins[owner] + (pins[owner] > 0 ? making : 0);
}

bool plan_loosening_helps(const struct plan *plan, uint64_t bytes)
{
    uint32_t *pins = xcalloc(plan->prepared->slab.size + 1, sizeof *pins);
    uint64_t found = 0;
    for (uint32_t no = 0; no < plan->jobs->end; no++) {
        const struct job *job = job_at(plan->jobs, no);
        for (uint32_t rank = 0; job->state == JOB_RUNNING && rank < job->terms.world_size; rank++)
            count_loose(plan, job, &job->queues[rank], pins);
    }
    for (uint32_t block = extent_first(plan->prepared->extents); block != EXTENT_NONE && found < bytes;
         block = extent_next(plan->prepared->extents, block))
        found = is_loose(plan, block, pins) ? found + extent_bytes(plan->prepared->extents, block) : 0;
    free(pins);
    return found >= bytes;
}

void plan_loosen(struct plan *plan, enum entry_state state)
{
    for (uint32_t no = 0; no < plan->jobs->end; no++) {
        const struct job *job = job_at(plan->jobs, no);
        for (uint32_t rank = 0; job->state == JOB_RUNNING && rank < job->terms.world_size; rank++)
            loosen_queue(plan, job, &job->queues[rank], state);
    }
}

/* entry_abandon gives back the pin and the mark of an undelivered entry: its job has not received the instance after
 * all. */
static void entry_abandon(struct plan *plan, uint32_t index)
{
    struct entry *entry = &plan->queues->entries[index];
    uint32_t instance = entry->instance;
    if (entry->state == ENTRY_UNPLACED)
        return;
    prepared_clear_had(plan->prepared, entry->job, instance);
    bool orphan = false;
    if (entry->state == ENTRY_WAITING) {
        queue_waiter_remove(plan->queues, index);
        queue_making_ended(plan->queues, entry);
        orphan = plan->prepared->instances[instance].waiters == ENGINE_NONE;
    }
    prepared_unpin(plan->prepared, instance);
    if (orphan)
        tasks_cancel_output(plan->tasks, instance);
    else if (entry->state == ENTRY_WAITING)
        tasks_waiter_left(plan->tasks, plan->prepared->instances[instance].task, entry->job);
}

void plan_drop_entries(struct plan *plan, struct job_queue *queue)
{
    for (uint32_t index = queue->line.entries.head; index != ENGINE_NONE;
         index = plan->queues->entries[index].in_line.next)
        entry_abandon(plan, index);
    queue_clear(plan->queues, queue);
}

void plan_unplace(struct plan *plan, uint32_t index)
{
    struct entry *entry = &plan->queues->entries[index];
    entry_abandon(plan, index);
    entry->planned_ns = plan->env->now_ns;
    queue_unplaced(plan->queues, index);
}

/* as_allotted returns the entry's sample as the reserve keeps it. */
static struct allotted as_allotted(const struct entry *entry)
{
    return (struct allotted){entry->id, entry->turn, entry->number, entry->elsewhere};
}

/* shorten takes the last entries out of the queue until it holds no more than `slots`. Their samples go into the
 * reserve, before those that were there. */
static void shorten(struct plan *plan, uint32_t job, struct job_queue *queue, uint64_t slots)
{
    if (queue->held_slots <= slots)
        return;
    struct reserve back = {0};
    uint64_t surplus = queue->held_slots - slots;
    CHECK(surplus <= queue->line.queued);
    uint32_t first = queue->line.entries.tail;
    for (uint64_t i = 1; i < surplus; i++)
        first = plan->queues->entries[first].in_line.prev;
    queue->line.numbered = plan->queues->entries[first].place_in_line;
    for (uint32_t index = first, next; index != ENGINE_NONE; index = next) {
        next = plan->queues->entries[index].in_line.next;
        queue_reserve_add(&back, as_allotted(&plan->queues->entries[index]));
        CHECK(plan->queues->entries[index].job == job);
        entry_abandon(plan, index);
        queue_remove(plan->queues, index);
    }
    queue->epoch.planned -= surplus;
    queue_reserve_put_first(&queue->reserve, &back);
}

/* The reserve gets first what was delivered and not released, then what was planned, then what it had before. Batches
 * of epochs that are over are lost with the client that held them. */
void plan_put_back(struct plan *plan, uint32_t job_index, struct job_queue *queue)
{
    const struct job *job = job_at(plan->jobs, job_index);
    struct reserve back = {0};
    bool left = queue->epoch.done && queue->next.asked; /* the rank has given up what remained of the epoch already */
    for (uint64_t batch = 0; job->state == JOB_RUNNING && !left;) {
        uint32_t at = queue_oldest_lease(queue, batch);
        if (at == queue->n_leases)
            break;
        batch = queue->leases[at].batch + 1;
        if (queue->leases[at].epoch == job->progress.epoch)
            queue_lease_put_back(plan->queues, job_index, queue, &queue->leases[at], &back);
    }
    for (uint32_t index = queue->line.entries.head; index != ENGINE_NONE;
         index = plan->queues->entries[index].in_line.next)
        queue_reserve_add(&back, as_allotted(&plan->queues->entries[index]));
    queue->epoch.planned -= queue->line.queued;
    plan_drop_entries(plan, queue);
    while (queue->n_leases)
        queue_lease_end(plan->queues, queue, queue->n_leases - 1);
    CHECK(queue->held_slots == 0);
    queue_reserve_put_first(&queue->reserve, &back);
}

/* set_rows gives the job `rows` rows. If they are fewer than before, it shortens the job's queues first. */
static void set_rows(struct plan *plan, uint32_t no, uint32_t rows)
{
    struct job *job = job_at(plan->jobs, no);
    uint32_t before = job->quota.ahead_now;
    quota_set_rows(plan->quota, job, rows);
    for (uint32_t rank = 0; rank < job->terms.world_size && rows < before; rank++)
        shorten(plan, no, &job->queues[rank], job->quota.slots);
    if (before == 0) /* JOB_ADDED tells a new job */
        return;
    plan->env->counts.ahead_shortened += rows < before;
    struct engine_action *action = job_act(plan->outbox, ENGINE_AHEAD, job_at(plan->jobs, no));
    action->ahead.quota_bytes = job->quota.bytes;
    action->ahead.from = before - ENGINE_ROWS_MIN;
    action->ahead.to = rows - ENGINE_ROWS_MIN;
    action->ahead.wanted_bytes = quota_wanted_bytes(plan->quota);
    action->ahead.failed = job->state == JOB_FAILED;
}

void plan_divide_arena(struct plan *plan)
{
    uint32_t rows[JOBS_MAX];
    quota_divide(plan->quota, rows);
    prepared_count_leftovers(plan->prepared);
    for (int given = 0; given <= 1; given++) { /* first the jobs that give rows back, then those that get rows */
        for (uint32_t no = 0; no < plan->jobs->end; no++) {
            if (given ? rows[no] > job_at(plan->jobs, no)->quota.ahead_now
                      : rows[no] < job_at(plan->jobs, no)->quota.ahead_now)
                set_rows(plan, no, rows[no]);
        }
    }
}
