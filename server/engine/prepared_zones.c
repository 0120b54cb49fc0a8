/* prepared_zones.c: room that nobody takes.
 *
 * Quotas sum up to at most the arena, but with slots of several sizes free space can lie in pieces between what clients
 * hold, too short for a slot. So the least rows of each job are more than a sum: for each slot size there is a zone, as
 * many slots of exactly that size as the jobs with that size are to keep in all. A zone's slots lie anywhere; no other
 * size ever gets into one. Whose they are is not fixed: an instance takes a free slot first, one in a slot that nobody
 * pins is cache as any, and an instance may lie beside the zone as well.
 *
 * A queue is sure of room for its first entries, as many as its least rows have room for beside what its client holds;
 * those behind them are loose. Why a sure entry always finds room, whatever clients do and wherever things lie: leases and
 * sure entries of all jobs of its size need no more slots than the zone has, and it has none yet. So one slot is free, or
 * pinned by nobody, or by loose entries only, which give it up (engine_loosen), or by a preparation under way, which ends.
 *
 * A zone is laid out when a job comes. All but what clients hold, or is being prepared, can make way then. Where that is
 * not enough nothing is planned for the job until it is; after config.room_timeout_ns the job fails, with a text that says
 * who holds what.
 *
 * Instances as long as their samples (by_size) have no zone: they lie in what the zones leave, where a sure entry may have
 * to wait for what clients hold. That ends after room_timeout_ns in the same way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cache/memory/layout.h"
#include "server/engine/engine_priv.h"

/* To lay a zone out takes a look at all of the arena. After a look at many instances none follows for TRY_LOOK_NS each,
 * after one in vain none for TRY_NS besides: jobs that wait take turns. */
#define TRY_NS UINT64_C(20000000)
#define TRY_LOOK_NS 2000
enum { TRY_LOOK_FREE = 10000 };

/* ── slots ── */

static struct zone *find_zone(const struct engine *engine, uint64_t bytes)
{
    for (uint32_t i = 0; i < engine->n_zones; i++)
        if (engine->zones[i].bytes == bytes)
            return &engine->zones[i];
    return NULL;
}

struct zone *engine_zone_of(const struct engine *engine, const struct instance *instance)
{
    return instance->by_size ? NULL : find_zone(engine, engine_slot_bytes(&engine->config, instance->bytes));
}

static void push_free(struct zone *zone, uint32_t block)
{
    if (zone->n_free == zone->cap) {
        zone->cap = zone->cap ? zone->cap * 2 : 64;
        zone->free = xrealloc(zone->free, zone->cap, sizeof *zone->free);
    }
    zone->free[zone->n_free++] = block;
}

uint32_t engine_zone_take(struct engine *engine, struct zone *zone, uint32_t index)
{
    if (zone->n_free == 0)
        return ENGINE_NONE;
    uint32_t block = zone->free[--zone->n_free];
    extent_set_owner(engine->extents, block, index);
    engine->instances[index].zoned = true;
    return block;
}

void engine_zone_give(struct engine *engine, uint32_t index)
{
    struct instance *instance = &engine->instances[index];
    extent_set_owner(engine->extents, instance->block, ENGINE_NONE);
    push_free(engine_zone_of(engine, instance), instance->block);
    instance->zoned = false;
}

uint64_t engine_zones_free_bytes(const struct engine *engine)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < engine->n_zones; i++)
        bytes += engine->zones[i].n_free * engine->zones[i].bytes;
    return bytes;
}

void engine_zones_destroy(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->n_zones; i++)
        free(engine->zones[i].free);
    free(engine->zones);
}

/* ── what a queue is sure of ── */

uint64_t engine_sure_slots(const struct job *job, const struct job_queue *queue)
{
    uint64_t least = job->least * job->batch_slots, leased = queue->held_slots - queue->queued;
    CHECK(leased <= least);
    return least - leased;
}

static bool is_running(const struct engine *engine, const struct instance *instance)
{
    return instance->state == INSTANCE_MAKING && engine->tasks[instance->task].state == TASK_RUNNING;
}

/* The last first: what is evicted first of what they leave is wanted last. */
static void loosen_queue(struct engine *engine, const struct job *job, const struct job_queue *queue,
                         enum entry_state state)
{
    uint64_t sure = engine_sure_slots(job, queue);
    uint32_t index = queue->tail;
    for (uint64_t at = queue->queued; at > sure; at--) {
        const struct entry *entry = &engine->entries[index];
        uint32_t prev = entry->prev;
        if (entry->state == state && !is_running(engine, &engine->instances[entry->instance]))
            engine_entry_unplace(engine, index);
        index = prev;
    }
}

void engine_loosen(struct engine *engine, enum entry_state state)
{
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        const struct job *job = &engine->jobs[place];
        for (uint32_t rank = 0; job->state == JOB_RUNNING && rank < job->world_size; rank++)
            loosen_queue(engine, job, &job->queues[rank], state);
    }
}

/* ── laying out ── */

static uint64_t slots_of(const struct job *job)
{
    return job->least * job->batch_slots * job->world_size;
}

static struct layout_block as_block(const struct engine *engine, uint32_t block, uint32_t owner)
{
    uint64_t bytes = extent_bytes(engine->extents, block);
    const struct zone *zone =
        owner != ENGINE_NONE ? engine_zone_of(engine, &engine->instances[owner]) : find_zone(engine, bytes);
    return (struct layout_block){.offset = extent_offset(engine->extents, block),
                                 .bytes = bytes,
                                 .name = block,
                                 .zone = zone ? (uint32_t)(zone - engine->zones) : LAYOUT_NONE};
}

/* Marks the instances in clients' hands; a layout gets their blocks besides, in any order. */
static void mark_leased(const struct engine *engine, bool *leased, struct layout *layout)
{
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        const struct job *job = &engine->jobs[place];
        for (uint32_t rank = 0; job->state != JOB_FREE && rank < job->world_size; rank++) {
            const struct job_queue *queue = &job->queues[rank];
            for (uint32_t at = 0; at < queue->n_leases; at++) {
                for (uint32_t i = 0; i < queue->leases[at].count; i++) {
                    uint32_t index = queue->leases[at].instances[i];
                    if (layout && !leased[index])
                        layout->blocks[layout->n_blocks++] = as_block(engine, engine->instances[index].block, index);
                    leased[index] = true;
                }
            }
        }
    }
}

/* The arena as it is. `fixed` tells of each instance whether it stays. */
static void survey(const struct engine *engine, const bool *fixed, struct layout *layout)
{
    size_t count = 0;
    uint32_t owner;
    const struct extents *arena = engine->extents;
    for (uint32_t block = extent_first(arena); block != EXTENT_NONE; block = extent_next(arena, block))
        count += extent_owner(arena, block, &owner);
    layout->blocks = xcalloc(count + 1, sizeof *layout->blocks);
    for (uint32_t block = extent_first(arena); block != EXTENT_NONE; block = extent_next(arena, block)) {
        if (!extent_owner(arena, block, &owner))
            continue;
        layout->blocks[layout->n_blocks] = as_block(engine, block, owner);
        layout->blocks[layout->n_blocks++].fixed = owner != ENGINE_NONE && fixed[owner];
    }
}

/* Entries leave the instances that must go. */
static void unplace_from(struct engine *engine, const bool *goes)
{
    for (uint32_t index = 0; index < engine->entry_pool.size; index++) {
        const struct entry *entry = &engine->entries[index];
        if ((entry->state == ENTRY_READY || entry->state == ENTRY_WAITING) && goes[entry->instance])
            engine_entry_unplace(engine, index);
    }
}

static void clear(struct engine *engine, const struct layout *layout)
{
    uint32_t size = engine->instance_pool.size, owner = ENGINE_NONE;
    bool *goes = xcalloc(size + 1, sizeof *goes);
    for (uint32_t i = 0; i < engine->n_zones; i++)
        engine->zones[i].slots = engine->zones[i].n_free = 0;
    for (size_t i = 0; i < layout->n_blocks; i++) {
        const struct layout_block *block = &layout->blocks[i];
        CHECK(extent_owner(engine->extents, block->name, &owner));
        if (block->is_slot)
            engine->zones[block->zone].slots++;
        if (owner != ENGINE_NONE) {
            engine->instances[owner].zoned = block->is_slot;
            goes[owner] = block->must_go;
        } else if (block->is_slot) {
            push_free(&engine->zones[block->zone], block->name);
        } else {
            extent_free(engine->extents, block->name);
        }
    }
    unplace_from(engine, goes);
    for (uint32_t index = 0; index < size; index++)
        if (goes[index] && engine->instances[index].state != INSTANCE_FREE)
            engine_evict_instance(engine, index);
    free(goes);
}

static void make_slots(struct engine *engine, const struct layout *layout)
{
    uint32_t block = extent_first(engine->extents);
    for (size_t i = 0; i < layout->n_places; i++) {
        const struct layout_place *place = &layout->places[i];
        struct zone *zone = &engine->zones[place->zone];
        while (extent_offset(engine->extents, block) + extent_bytes(engine->extents, block) <= place->offset)
            block = extent_next(engine->extents, block);
        block = extent_alloc_at(engine->extents, block, place->offset, zone->bytes, ENGINE_NONE);
        push_free(zone, block);
        zone->slots++;
    }
    for (uint32_t i = 0; i < engine->n_zones; i++)
        CHECK(engine->zones[i].slots == engine->zones[i].promised);
}

static struct layout_zone *promises(const struct engine *engine)
{
    struct layout_zone *zones = xcalloc(engine->n_zones, sizeof *zones);
    for (uint32_t i = 0; i < engine->n_zones; i++)
        zones[i] = (struct layout_zone){.bytes = engine->zones[i].bytes, .slots = engine->zones[i].promised};
    return zones;
}

/* Gives every zone the slots that it has promised. With `move` entries make way, what clients hold and what is being
 * prepared never. */
static bool lay_out(struct engine *engine, bool move)
{
    struct layout layout = {.bytes = engine->config.arena_bytes, .n_zones = engine->n_zones};
    struct layout_zone *zones = promises(engine);
    bool *fixed = xcalloc(engine->instance_pool.size + 1, sizeof *fixed);
    layout.zones = zones;
    mark_leased(engine, fixed, NULL);
    for (uint32_t index = 0; index < engine->instance_pool.size; index++) {
        const struct instance *instance = &engine->instances[index];
        if (instance->state != INSTANCE_FREE)
            fixed[index] |= is_running(engine, instance) || (!move && residency_pins(engine->prepared, index) > 0);
    }
    survey(engine, fixed, &layout);
    bool found = layout_find(&layout);
    if (found) {
        clear(engine, &layout);
        make_slots(engine, &layout);
        engine->room_changes++;
    }
    free(layout.blocks);
    free(layout.places);
    free(fixed);
    free(zones);
    return found;
}

static int compare_blocks(const void *a, const void *b)
{
    uint64_t x = ((const struct layout_block *)a)->offset, y = ((const struct layout_block *)b)->offset;
    return (x > y) - (x < y);
}

/* Would the zones find room if nothing were in the arena but what clients hold? Mostly that is far less to look at. */
static bool fit_beside_leased(const struct engine *engine, uint64_t *looked)
{
    struct layout layout = {.bytes = engine->config.arena_bytes, .n_zones = engine->n_zones};
    struct layout_zone *zones = promises(engine);
    bool *leased = xcalloc(engine->instance_pool.size + 1, sizeof *leased);
    layout.zones = zones;
    layout.blocks = xcalloc(engine->instance_pool.taken + 1, sizeof *layout.blocks);
    mark_leased(engine, leased, &layout);
    *looked = layout.n_blocks;
    qsort(layout.blocks, layout.n_blocks, sizeof *layout.blocks, compare_blocks);
    for (size_t i = 0; i < layout.n_blocks; i++)
        layout.blocks[i].fixed = true;
    bool found = layout_find(&layout);
    free(layout.blocks);
    free(layout.places);
    free(leased);
    free(zones);
    return found;
}

static struct zone *insert_zone(struct engine *engine, uint64_t bytes)
{
    uint32_t at = 0;
    engine->zones = xrealloc(engine->zones, engine->n_zones + 1, sizeof *engine->zones);
    while (at < engine->n_zones && engine->zones[at].bytes > bytes)
        at++;
    memmove(&engine->zones[at + 1], &engine->zones[at], (engine->n_zones++ - at) * sizeof *engine->zones);
    engine->zones[at] = (struct zone){.bytes = bytes};
    return &engine->zones[at];
}

static void shrink(struct engine *engine, struct zone *zone, uint64_t by)
{
    zone->promised -= by;
    for (; zone->slots > zone->promised && zone->n_free > 0; zone->slots--)
        extent_free(engine->extents, zone->free[--zone->n_free]);
    for (uint32_t index = 0; index < engine->instance_pool.size && zone->slots > zone->promised; index++) {
        struct instance *instance = &engine->instances[index];
        if (instance->state == INSTANCE_FREE || !instance->zoned || engine_zone_of(engine, instance) != zone)
            continue;
        instance->zoned = false;
        zone->slots--;
    }
    engine->room_changes++;
    if (zone->promised > 0)
        return;
    free(zone->free);
    uint32_t at = (uint32_t)(zone - engine->zones);
    memmove(zone, zone + 1, (--engine->n_zones - at) * sizeof *zone);
}

void engine_zone_enter(struct engine *engine, struct job *job)
{
    if (job->by_size || engine->now_ns < engine->try_again_ns)
        return;
    uint64_t bytes = engine_slot_bytes(&engine->config, job->slot_bytes), looked = 0;
    struct zone *zone = find_zone(engine, bytes);
    if (!zone)
        zone = insert_zone(engine, bytes);
    zone->promised += slots_of(job);
    if (fit_beside_leased(engine, &looked)) {
        looked += engine->instance_pool.taken;
        job->zoned = lay_out(engine, false) || lay_out(engine, true);
    }
    uint64_t pause_ns = looked > TRY_LOOK_FREE ? looked * TRY_LOOK_NS : 0;
    engine->try_again_ns = engine->now_ns + pause_ns + (job->zoned ? 0 : TRY_NS);
    if (!job->zoned)
        shrink(engine, zone, slots_of(job));
}

void engine_zone_leave(struct engine *engine, const struct job *job)
{
    if (job->zoned)
        shrink(engine, find_zone(engine, engine_slot_bytes(&engine->config, job->slot_bytes)), slots_of(job));
}

/* ── who waits for room ── */

enum { HOLDERS_TOLD = 4 };

static uint32_t batches_held(const struct job *job)
{
    uint32_t batches = 0;
    for (uint32_t rank = 0; job->state != JOB_FREE && rank < job->world_size; rank++)
        batches += job->queues[rank].n_leases;
    return batches;
}

/* The longest place that is asked for: of any job's slots, or of a file that waits. */
static uint64_t longest_place(const struct engine *engine, const struct job *job)
{
    uint64_t longest = 0;
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        uint64_t bytes = engine->jobs[place].state != JOB_FREE ? engine->jobs[place].slot_bytes : 0;
        longest = bytes > longest ? bytes : longest;
    }
    for (uint32_t rank = 0; job->by_size && rank < job->world_size; rank++) {
        uint32_t index = job->queues[rank].head;
        for (; index != ENGINE_NONE; index = engine->entries[index].next) {
            uint64_t bytes = engine->config.sample_bytes(job->dataset, engine->entries[index].id);
            if (engine->entries[index].state == ENTRY_UNPLACED && bytes > longest)
                longest = bytes;
        }
    }
    return engine_slot_bytes(&engine->config, longest);
}

/* So large an arena has room for the job wherever clients hold theirs: what is free between two of those is less than a
 * place, else one would be there. */
static uint64_t enough_bytes(const struct engine *engine, const struct job *job)
{
    uint64_t held = 0;
    for (uint32_t place = 0; place < engine->jobs_end; place++)
        held += engine->jobs[place].state != JOB_FREE ? slots_of(&engine->jobs[place]) : 0;
    return engine_least_bytes(engine) + held * longest_place(engine, job);
}

/* What it takes comes first: the text may be cut. */
static void fail(struct engine *engine, uint32_t place)
{
    char text[ERROR_TEXT_MAX];
    int used = snprintf(text, sizeof text,
                        "no room in the arena for %.3g s, free space lies in pieces between what clients hold: "
                        "raise memory.arena to %llu bytes, stop a job, or give batches back sooner (zero_copy, C: hold)",
                        (double)engine->config.room_timeout_ns / 1e9,
                        (unsigned long long)enough_bytes(engine, &engine->jobs[place]));
    for (uint32_t other = 0, told = 0; other < engine->jobs_end && told < HOLDERS_TOLD; other++) {
        uint32_t batches = batches_held(&engine->jobs[other]);
        if (batches > 0 && used < ERROR_TEXT_MAX)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%s holds %u", told++ ? ", " : "; ",
                             engine->jobs[other].name, batches);
    }
    engine_job_fail(engine, place, SAMPLE_NONE, LARDER_EQUOTA, text);
}

/* Its client waits, and nothing that is under way leads to its next batch. */
static bool starves(const struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    if (job->state != JOB_RUNNING || queue->credits == 0 || queue->n_leases >= job->held_max)
        return false;
    if (!job->by_size)
        return true; /* nothing is planned for it yet */
    if (queue->unplaced == 0 || engine_batch_ready(engine, job, queue))
        return false;
    for (uint32_t index = queue->head; index != ENGINE_NONE; index = engine->entries[index].next)
        if (engine->entries[index].state == ENTRY_WAITING)
            return false;
    return true;
}

static void watch_job(struct engine *engine, uint32_t place)
{
    struct job *job = &engine->jobs[place];
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        uint64_t timeout_ns = engine->config.room_timeout_ns;
        if (job->zoned || !starves(engine, job, queue)) {
            queue->starves_since_ns = 0;
        } else if (queue->starves_since_ns == 0) {
            queue->starves_since_ns = engine->now_ns ? engine->now_ns : 1;
        } else if (timeout_ns && engine->now_ns >= queue->starves_since_ns + timeout_ns) {
            engine->try_again_ns = 0; /* whoever's turn it is: its last one */
            engine_zone_enter(engine, job);
            if (!job->zoned)
                fail(engine, place);
            return;
        }
    }
}

static bool may_wait(const struct job *job)
{
    return job->state != JOB_FREE && job->state != JOB_FAILED && !job->zoned;
}

bool engine_waits_for_room(const struct engine *engine)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    for (uint32_t place = 0; place < engine->jobs_end; place++)
        if (may_wait(&engine->jobs[place]))
            return true;
    return false;
}

void engine_watch_room(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->jobs_end && engine->now_ns >= engine->try_again_ns; i++) {
        engine->try_place = (engine->try_place + 1) % engine->jobs_end;
        if (may_wait(&engine->jobs[engine->try_place]))
            engine_zone_enter(engine, &engine->jobs[engine->try_place]);
    }
    for (uint32_t place = 0; place < engine->jobs_end; place++)
        if (may_wait(&engine->jobs[place]))
            watch_job(engine, place);
}
