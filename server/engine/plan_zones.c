/* plan_zones.c: zones grow when jobs come, and shrink when they go; prepared_zones.c has the rules.
 *
 * A job's slots are taken where things lie (prepared_extend). That costs as much as the job has slots, whatever else is
 * in memory. Only if what is pinned leaves free space in pieces are all zones laid out anew, which goes over everything
 * in the arena. Whether that succeeds depends on nothing but what cannot be moved, so it is known before anything is
 * evicted. A job gets all of its slots or none, but for one whose room is still being made from step to step. */
#include <stdlib.h>

#include "cache/memory/layout.h"
#include "common/check.h"
#include "server/engine/plan.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/quota.h"
#include "server/engine/tasks.h"

/* Pause after a failed try. Waiting jobs are tried round-robin. */
#define TRY_NS UINT64_C(20000000)

/* Instances that nothing moves: those in clients' hands and those under preparation. One may be named twice. */
struct fixed {
    uint32_t *all;
    size_t count, cap;
};

static void add_fixed(struct fixed *fixed, uint32_t index)
{
    fixed->all = xgrow(fixed->all, sizeof *fixed->all, &fixed->cap, fixed->count + 1);
    fixed->all[fixed->count++] = index;
}

/* gather_fixed returns the instances that nothing moves. The caller frees them. */
static struct fixed gather_fixed(const struct plan *plan)
{
    struct fixed fixed = {0};
    for (uint32_t no = 0; no < plan->jobs->end; no++) {
        const struct job *job = job_at(plan->jobs, no);
        for (uint32_t rank = 0; job->state != JOB_FREE && rank < job->terms.world_size; rank++) {
            const struct job_queue *queue = &job->queues[rank];
            for (uint32_t at = 0; at < queue->n_leases; at++)
                for (uint32_t i = 0; i < queue->leases[at].count; i++)
                    add_fixed(&fixed, queue->leases[at].samples[i].instance);
        }
    }
    for (uint32_t no = 0; no < plan->tasks->slab.size; no++) {
        const struct task *task = &plan->tasks->tasks[no];
        for (uint32_t i = 0; tasks_is_out(task) && i < task->n_outputs; i++)
            add_fixed(&fixed, task->outputs[i]);
    }
    return fixed;
}

/* unplace_from takes the instances that must go from their entries. */
static void unplace_from(struct plan *plan, const bool *goes)
{
    for (uint32_t index = 0; index < plan->queues->slab.size; index++) {
        const struct entry *entry = &plan->queues->entries[index];
        if ((entry->state == ENTRY_READY || entry->state == ENTRY_WAITING) && goes[entry->instance])
            plan_unplace(plan, index);
    }
}

/* clear makes the arena as the layout says: what must go is evicted. */
static void clear(struct plan *plan, const struct layout *layout)
{
    uint32_t size = plan->prepared->slab.size;
    bool *goes = xcalloc(size + 1, sizeof *goes);
    prepared_clear_slots(plan->prepared, layout, goes);
    unplace_from(plan, goes);
    for (uint32_t index = 0; index < size; index++)
        if (goes[index] && plan->prepared->instances[index].state != INSTANCE_FREE)
            prepared_evict(plan->prepared, index);
    free(goes);
}

/* lay_out returns every zone the slots that it has promised, and returns whether that was possible. With `move` entries
 * make way. */
static bool lay_out(struct plan *plan, const struct fixed *fixed, bool move)
{
    struct layout layout = {.bytes = plan->prepared->growth.limit, .n_zones = plan->prepared->n_zones};
    struct layout_zone *zones = prepared_promises(plan->prepared);
    bool *stays = xcalloc(plan->prepared->slab.size + 1, sizeof *stays);
    layout.zones = zones;
    for (size_t i = 0; i < fixed->count; i++)
        stays[fixed->all[i]] = true;
    for (uint32_t index = 0; !move && index < plan->prepared->slab.size; index++)
        if (plan->prepared->instances[index].state != INSTANCE_FREE)
            stays[index] |= residency_pins(plan->prepared->residency, index) > 0;
    prepared_survey(plan->prepared, stays, &layout);
    bool found = layout_find(&layout);
    if (found) {
        clear(plan, &layout);
        prepared_make_slots(plan->prepared, &layout);
    }
    free(layout.blocks);
    free(layout.places);
    free(stays);
    free(zones);
    return found;
}

/* fits_beside tells whether the zones find room if every block that can be moved makes way, as lay_out with `move` has
 * them do. */
static bool fits_beside(const struct plan *plan, const struct fixed *fixed)
{
    struct layout layout = {.bytes = plan->prepared->growth.limit, .n_zones = plan->prepared->n_zones};
    struct layout_zone *zones = prepared_promises(plan->prepared);
    struct layout_block *blocks = xcalloc(fixed->count + 1, sizeof *blocks);
    size_t count = 0;
    layout.zones = zones;
    layout.blocks = blocks;
    for (size_t i = 0; i < fixed->count; i++) {
        uint32_t block = plan->prepared->instances[fixed->all[i]].block;
        blocks[count] = prepared_as_block(plan->prepared, block, fixed->all[i]);
        blocks[count].fixed = true;
        count += blocks[count].offset < layout.bytes;
    }
    qsort(blocks, count, sizeof *blocks, prepared_compare_blocks);
    for (size_t i = 0; i < count; i++)
        if (layout.n_blocks == 0 || blocks[layout.n_blocks - 1].offset != blocks[i].offset)
            blocks[layout.n_blocks++] = blocks[i];
    bool found = layout_find(&layout);
    free(blocks);
    free(layout.places);
    free(zones);
    return found;
}

/* clear_slots gets the slots that the job still lacks by eviction, or by laying all zones out anew. Nothing is evicted
 * in vain: all zones are known to fit beside what cannot be moved. It returns how many the job got; less than it lacked
 * only if that is none, or zone_goes_on. */
static uint64_t clear_slots(struct plan *plan, uint64_t bytes, uint64_t lacking)
{
    struct fixed fixed = gather_fixed(plan);
    uint64_t given = 0;
    prepared_promise(plan->prepared, bytes, lacking);
    bool fits = fits_beside(plan, &fixed);
    prepared_withdraw(plan->prepared, bytes, lacking);
    if (fits)
        given = prepared_extend_clearing(plan->prepared, bytes, lacking, &plan->zone_goes_on);
    if (fits && given < lacking && !plan->zone_goes_on) {
        prepared_promise(plan->prepared, bytes, lacking - given);
        CHECK(lay_out(plan, &fixed, false) || lay_out(plan, &fixed, true));
        given = lacking;
    }
    free(fixed.all);
    return given;
}

/* clear_range lays all zones out anew, so that beside them and beside what is fixed there is a free range of `bytes`. A
 * zone of one slot stands for the range, and goes again. No other zone has slots of its size: withdrawing it would take
 * one of those instead. */
static bool clear_range(struct plan *plan, const struct fixed *fixed, uint64_t bytes)
{
    while (prepared_has_zone(plan->prepared, bytes))
        bytes = extent_round(bytes + 1);
    prepared_promise(plan->prepared, bytes, 1);
    bool fits = fits_beside(plan, fixed);
    if (fits)
        CHECK(lay_out(plan, fixed, false) || lay_out(plan, fixed, true));
    prepared_withdraw(plan->prepared, bytes, 1);
    return fits;
}

/* first_unplaced returns the first entry of the queue that has no instance, and adds the instances before it to what is
 * fixed. ENGINE_NONE when the queue is not sure of room for that entry. */
static uint32_t first_unplaced(const struct plan *plan, const struct job *job, const struct job_queue *queue,
                               struct fixed *fixed)
{
    uint64_t sure = queue_sure_slots(job, queue);
    uint32_t index = queue->line.entries.head;
    for (; sure > 0 && index != ENGINE_NONE; index = plan->queues->entries[index].in_line.next, sure--) {
        if (plan->queues->entries[index].state == ENTRY_UNPLACED)
            return index;
        add_fixed(fixed, plan->queues->entries[index].instance);
    }
    return ENGINE_NONE;
}

/* place_bytes returns the size of the place that the entry needs. */
static uint64_t place_bytes(const struct plan *plan, const struct job *job, uint32_t index)
{
    const struct entry *entry = &plan->queues->entries[index];
    const struct engine_config *config = &plan->env->config;
    return engine_slot_bytes(config, job_begun_bytes(config, &job->terms, entry->id, entry->elsewhere));
}

bool plan_sized_enter(struct plan *plan, const struct job *job, struct job_queue *queue)
{
    for (bool placed = false;; placed = true) {
        struct fixed fixed = gather_fixed(plan);
        uint32_t index = first_unplaced(plan, job, queue, &fixed);
        bool room = index != ENGINE_NONE && clear_range(plan, &fixed, place_bytes(plan, job, index));
        free(fixed.all);
        if (!room)
            return placed;
        plan_place(plan, job, queue);
        CHECK(plan->queues->entries[index].state != ENTRY_UNPLACED);
    }
}

/* want_room asks for a larger arena, because a zone found no room: large enough for all that jobs may look ahead, or
 * for the zone beside all that there is. */
static void want_room(struct plan *plan, uint64_t zone_bytes)
{
    uint64_t limit = plan->prepared->growth.limit, ahead = plan->quota->promised_bytes;
    prepared_lack(plan->prepared, limit < ahead ? ahead : limit + zone_bytes);
}

void plan_zone_enter(struct plan *plan, struct job *job)
{
    if (job->terms.sized || plan->env->now_ns < plan->zone_again_ns ||
        (plan->zone_goes_on && plan->zone_turn != job->no))
        return;
    uint64_t bytes = engine_slot_bytes(&plan->env->config, job->terms.slot_bytes), slots = queue_slots_of(job);
    plan->zone_turn = job->no;
    plan->zone_goes_on = false;
    job->zone_slots += (uint32_t)prepared_extend(plan->prepared, bytes, slots - job->zone_slots);
    if (job->zone_slots < slots)
        job->zone_slots += (uint32_t)clear_slots(plan, bytes, slots - job->zone_slots);
    job->zoned = job->zone_slots == slots;
    plan->zone_again_ns = plan->env->now_ns + (job->zoned ? 0 : plan->zone_goes_on ? 1 : TRY_NS);
    if (job->zoned || plan->zone_goes_on)
        return;
    plan_zone_leave(plan, job); /* jobs that wait must not keep each other from the room for one of them */
    job->zone_slots = 0;
    want_room(plan, bytes * slots);
}

void plan_zone_leave(struct plan *plan, const struct job *job)
{
    if (job->zone_slots > 0)
        prepared_withdraw(plan->prepared, engine_slot_bytes(&plan->env->config, job->terms.slot_bytes),
                          job->zone_slots);
}
