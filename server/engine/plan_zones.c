/* plan_zones.c: zones are laid out when jobs come, and shrink when they go; prepared_zones.c has the rules. */
#include <stdlib.h>

#include "cache/memory/layout.h"
#include "server/engine/plan.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/tasks.h"

/* To lay a zone out takes a look at all of the arena. After a look at many instances none follows for TRY_LOOK_NS each,
 * after one in vain none for TRY_NS besides: jobs that wait take turns. */
#define TRY_NS UINT64_C(20000000)
#define TRY_LOOK_NS 2000
enum { TRY_LOOK_FREE = 10000 };

/* Marks the instances in clients' hands; a layout gets their blocks besides, in any order. */
static void mark_leased(const struct engine *engine, bool *leased, struct layout *layout)
{
    for (uint32_t place = 0; place < engine->jobs.end; place++) {
        const struct job *job = &engine->jobs.all[place];
        for (uint32_t rank = 0; job->state != JOB_FREE && rank < job->terms.world_size; rank++) {
            const struct job_queue *queue = &job->queues[rank];
            for (uint32_t at = 0; at < queue->n_leases; at++) {
                for (uint32_t i = 0; i < queue->leases[at].count; i++) {
                    uint32_t index = queue->leases[at].instances[i];
                    if (layout && !leased[index])
                        layout->blocks[layout->n_blocks++] = prepared_as_block(engine, engine->prepared.instances[index].block, index);
                    leased[index] = true;
                }
            }
        }
    }
}

/* Entries leave the instances that must go. */
static void unplace_from(struct engine *engine, const bool *goes)
{
    for (uint32_t index = 0; index < engine->queues.slab.size; index++) {
        const struct entry *entry = &engine->queues.entries[index];
        if ((entry->state == ENTRY_READY || entry->state == ENTRY_WAITING) && goes[entry->instance])
            plan_unplace(engine, index);
    }
}

static void clear(struct engine *engine, const struct layout *layout)
{
    uint32_t size = engine->prepared.slab.size, owner = ENGINE_NONE;
    bool *goes = xcalloc(size + 1, sizeof *goes);
    for (uint32_t i = 0; i < engine->prepared.n_zones; i++)
        engine->prepared.zones[i].slots = engine->prepared.zones[i].n_free = 0;
    for (size_t i = 0; i < layout->n_blocks; i++) {
        const struct layout_block *block = &layout->blocks[i];
        CHECK(extent_owner(engine->prepared.extents, block->name, &owner));
        if (block->is_slot)
            engine->prepared.zones[block->zone].slots++;
        if (owner != ENGINE_NONE) {
            engine->prepared.instances[owner].zoned = block->is_slot;
            goes[owner] = block->must_go;
        } else if (block->is_slot) {
            prepared_push_free(&engine->prepared.zones[block->zone], block->name);
        } else {
            extent_free(engine->prepared.extents, block->name);
        }
    }
    unplace_from(engine, goes);
    for (uint32_t index = 0; index < size; index++)
        if (goes[index] && engine->prepared.instances[index].state != INSTANCE_FREE)
            prepared_evict(engine, index);
    free(goes);
}

/* Gives every zone the slots that it has promised. With `move` entries make way, what clients hold and what is being
 * prepared never. */
static bool lay_out(struct engine *engine, bool move)
{
    struct layout layout = {.bytes = engine->config.arena_bytes, .n_zones = engine->prepared.n_zones};
    struct layout_zone *zones = prepared_promises(engine);
    bool *fixed = xcalloc(engine->prepared.slab.size + 1, sizeof *fixed);
    layout.zones = zones;
    mark_leased(engine, fixed, NULL);
    for (uint32_t index = 0; index < engine->prepared.slab.size; index++) {
        const struct instance *instance = &engine->prepared.instances[index];
        if (instance->state != INSTANCE_FREE)
            fixed[index] |= tasks_is_running(engine, instance) || (!move && residency_pins(engine->prepared.residency, index) > 0);
    }
    prepared_survey(engine, fixed, &layout);
    bool found = layout_find(&layout);
    if (found) {
        clear(engine, &layout);
        prepared_make_slots(engine, &layout);
        engine->plan.room_changes++;
    }
    free(layout.blocks);
    free(layout.places);
    free(fixed);
    free(zones);
    return found;
}

/* Would the zones find room if nothing were in the arena but what clients hold? Mostly that is far less to look at. */
static bool fit_beside_leased(const struct engine *engine, uint64_t *looked)
{
    struct layout layout = {.bytes = engine->config.arena_bytes, .n_zones = engine->prepared.n_zones};
    struct layout_zone *zones = prepared_promises(engine);
    bool *leased = xcalloc(engine->prepared.slab.size + 1, sizeof *leased);
    layout.zones = zones;
    layout.blocks = xcalloc(engine->prepared.slab.taken + 1, sizeof *layout.blocks);
    mark_leased(engine, leased, &layout);
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

void plan_zone_enter(struct engine *engine, struct job *job)
{
    if (job->terms.raw || engine->now_ns < engine->plan.zone_again_ns)
        return;
    uint64_t bytes = engine_slot_bytes(&engine->config, job->terms.slot_bytes), looked = 0;
    struct zone *zone = prepared_find_zone(engine, bytes);
    if (!zone)
        zone = prepared_insert_zone(engine, bytes);
    zone->promised += queue_slots_of(job);
    if (fit_beside_leased(engine, &looked)) {
        looked += engine->prepared.slab.taken;
        job->zoned = lay_out(engine, false) || lay_out(engine, true);
    }
    uint64_t pause_ns = looked > TRY_LOOK_FREE ? looked * TRY_LOOK_NS : 0;
    engine->plan.zone_again_ns = engine->now_ns + pause_ns + (job->zoned ? 0 : TRY_NS);
    if (!job->zoned)
        prepared_shrink(engine, zone, queue_slots_of(job));
}

void plan_zone_leave(struct engine *engine, const struct job *job)
{
    if (job->zoned)
        prepared_shrink(engine, prepared_find_zone(engine, engine_slot_bytes(&engine->config, job->terms.slot_bytes)), queue_slots_of(job));
}
