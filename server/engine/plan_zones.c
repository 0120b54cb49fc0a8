/* plan_zones.c: zones are laid out when jobs come, and shrink when they go; prepared_zones.c has the rules. */
#include <stdlib.h>

#include "cache/memory/layout.h"
#include "common/check.h"
#include "server/engine/plan.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/quota.h"
#include "server/engine/tasks.h"

/* Laying a zone out takes a look at all of the arena. After a look at more than TRY_LOOK_FREE instances, none follows
 * for TRY_LOOK_NS for each of them. After a look in vain, none follows for TRY_NS besides. Jobs that wait take
 * turns. */
#define TRY_NS UINT64_C(20000000)
#define TRY_LOOK_NS 2000
enum { TRY_LOOK_FREE = 10000 };

/* mark_leased marks the instances in clients' hands. A layout, if given, also gets their blocks, in any order. */
static void mark_leased(const struct plan *plan, bool *leased, struct layout *layout)
{
    for (uint32_t no = 0; no < plan->jobs->end; no++) {
        const struct job *job = job_at(plan->jobs, no);
        for (uint32_t rank = 0; job->state != JOB_FREE && rank < job->terms.world_size; rank++) {
            const struct job_queue *queue = &job->queues[rank];
            for (uint32_t at = 0; at < queue->n_leases; at++) {
                for (uint32_t i = 0; i < queue->leases[at].count; i++) {
                    uint32_t index = queue->leases[at].samples[i].instance;
                    uint32_t block = plan->prepared->instances[index].block;
                    if (layout && !leased[index] && extent_offset(plan->prepared->extents, block) < layout->bytes)
                        layout->blocks[layout->n_blocks++] = prepared_as_block(plan->prepared, block, index);
                    leased[index] = true;
                }
            }
        }
    }
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

/* lay_out gives every zone the slots that it has promised, and returns whether that was possible. With `move` entries
 * make way. What clients hold and what is being prepared never does. */
static bool lay_out(struct plan *plan, bool move)
{
    struct layout layout = {.bytes = plan->prepared->growth.limit, .n_zones = plan->prepared->n_zones};
    struct layout_zone *zones = prepared_promises(plan->prepared);
    bool *fixed = xcalloc(plan->prepared->slab.size + 1, sizeof *fixed);
    layout.zones = zones;
    mark_leased(plan, fixed, NULL);
    for (uint32_t index = 0; index < plan->prepared->slab.size; index++) {
        const struct instance *instance = &plan->prepared->instances[index];
        if (instance->state != INSTANCE_FREE)
            fixed[index] |= tasks_is_running(plan->tasks, instance) ||
                            (!move && residency_pins(plan->prepared->residency, index) > 0);
    }
    prepared_survey(plan->prepared, fixed, &layout);
    bool found = layout_find(&layout);
    if (found) {
        clear(plan, &layout);
        prepared_make_slots(plan->prepared, &layout);
    }
    free(layout.blocks);
    free(layout.places);
    free(fixed);
    free(zones);
    return found;
}

/* fit_beside_leased tells whether the zones would find room if the arena had nothing in it except what clients hold.
 * Mostly this is far less to look at; *looked is how many instances it was. */
static bool fit_beside_leased(const struct plan *plan, uint64_t *looked)
{
    struct layout layout = {.bytes = plan->prepared->growth.limit, .n_zones = plan->prepared->n_zones};
    struct layout_zone *zones = prepared_promises(plan->prepared);
    bool *leased = xcalloc(plan->prepared->slab.size + 1, sizeof *leased);
    layout.zones = zones;
    layout.blocks = xcalloc(plan->prepared->slab.taken + 1, sizeof *layout.blocks);
    mark_leased(plan, leased, &layout);
    *looked = layout.n_blocks;
    qsort(layout.blocks, layout.n_blocks, sizeof *layout.blocks, prepared_compare_blocks);
    for (size_t i = 0; i < layout.n_blocks; i++)
        layout.blocks[i].fixed = true;
    bool found = layout_find(&layout);
    free(layout.blocks);
    free(layout.places);
    free(leased);
    free(zones);
    return found;
}

/* want_room asks for the room that a zone did not find: all that jobs may look ahead, and what the zone would take
 * beside all that is there. */
static void want_room(struct plan *plan, uint64_t zone_bytes)
{
    uint64_t limit = plan->prepared->growth.limit, ahead = plan->quota->promised_bytes;
    prepared_lack(plan->prepared, limit < ahead ? ahead : limit + zone_bytes);
}

void plan_zone_enter(struct plan *plan, struct job *job)
{
    if (job->terms.raw || plan->env->now_ns < plan->zone_again_ns)
        return;
    uint64_t bytes = engine_slot_bytes(&plan->env->config, job->terms.slot_bytes), looked = 0;
    prepared_promise(plan->prepared, bytes, queue_slots_of(job));
    if (fit_beside_leased(plan, &looked)) {
        looked += plan->prepared->slab.taken;
        job->zoned = lay_out(plan, false) || lay_out(plan, true);
    }
    uint64_t pause_ns = looked > TRY_LOOK_FREE ? looked * TRY_LOOK_NS : 0;
    plan->zone_again_ns = plan->env->now_ns + pause_ns + (job->zoned ? 0 : TRY_NS);
    if (job->zoned)
        return;
    prepared_withdraw(plan->prepared, bytes, queue_slots_of(job));
    want_room(plan, bytes * queue_slots_of(job));
}

void plan_zone_leave(struct plan *plan, const struct job *job)
{
    if (job->zoned)
        prepared_withdraw(plan->prepared, engine_slot_bytes(&plan->env->config, job->terms.slot_bytes),
                          queue_slots_of(job));
}
