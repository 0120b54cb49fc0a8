/* prepared_zones.c: room that nobody takes.
 *
 * Quotas sum up to at most the arena. With slots of several sizes, though, free space can lie in pieces between what
 * clients hold, too short for a slot. So the least rows of each job are more than a sum: for each slot size there is a
 * zone. It has as many slots of exactly that size as the jobs with that size keep in all. The slots of a zone lie
 * anywhere, and no other size ever gets into one. Slots of a zone belong to no job in particular. An instance takes a
 * free slot of its zone first, and may lie beside the zones too. An instance in a slot that nobody pins is cache like
 * any other.
 *
 * A queue is sure of room for its first entries: as many as its least rows have room for beside what its client holds.
 * The entries behind them are loose. A sure entry always finds room, whatever clients do and wherever things lie. This
 * is why: the leases and sure entries of all jobs of one size need no more slots than the zone has, and this entry has
 * none yet. So there is a slot that is free, or that nobody pins, or that only loose entries pin, which give it up
 * (plan_loosen), or that a preparation pins, which ends.
 *
 * When a job comes, its slots are taken where things lie (prepared_extend): first free space, then the blocks of
 * instances of this size, then those of victims. An instance stays where it is when its block becomes a slot, and may
 * be pinned: the proof counts slots, whoever pins them. So a zone lists all instances of its size, in slots or beside
 * them. If what is pinned leaves too little in one piece, all zones are laid out anew. Then everything can make way
 * except what clients hold and what is being prepared. If that is not enough, nothing is planned for the job until it
 * is. After config.room_timeout_ns the job fails, with a text that says who holds what.
 *
 * Instances that differ in length (sized) have no zone. They lie in what the zones leave, where a sure entry may have
 * to wait for what clients hold, or find what is free in pieces between slots. That ends after room_timeout_ns in the
 * same way: all zones are laid out anew with room for the entry beside them (plan_sized_enter), or the job fails. */
#include <stdlib.h>
#include <string.h>

#include "cache/memory/layout.h"
#include "common/check.h"
#include "server/engine/prepared.h"

/* ── slots ── */

/* find_zone returns the zone with slots of `bytes`; NULL when there is none. */
static struct zone *find_zone(const struct prepared *prepared, uint64_t bytes)
{
    for (uint32_t i = 0; i < prepared->n_zones; i++)
        if (prepared->zones[i].bytes == bytes)
            return &prepared->zones[i];
    return NULL;
}

struct zone *prepared_zone_of(const struct prepared *prepared, const struct instance *instance)
{
    return instance->sized ? NULL : find_zone(prepared, engine_slot_bytes(&prepared->env->config, instance->bytes));
}

/* is_empty tells whether the zone has neither slots nor instances. */
static bool is_empty(const struct zone *zone)
{
    return zone->promised == 0 && zone->used.head == ENGINE_NONE && zone->beside.head == ENGINE_NONE;
}

bool prepared_has_zone(const struct prepared *prepared, uint64_t bytes)
{
    const struct zone *zone = find_zone(prepared, bytes);
    return zone && !is_empty(zone);
}

/* drop_empty drops the empty zones. */
static void drop_empty(struct prepared *prepared)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < prepared->n_zones; i++) {
        struct zone *zone = &prepared->zones[i];
        if (is_empty(zone))
            free(zone->free);
        else
            prepared->zones[kept++] = *zone;
    }
    prepared->n_zones = kept;
}

/* insert_zone adds a zone that promises nothing, in order of slot size. */
static struct zone *insert_zone(struct prepared *prepared, uint64_t bytes)
{
    uint32_t at = 0;
    drop_empty(prepared);
    prepared->zones = xrealloc(prepared->zones, prepared->n_zones + 1, sizeof *prepared->zones);
    while (at < prepared->n_zones && prepared->zones[at].bytes > bytes)
        at++;
    memmove(&prepared->zones[at + 1], &prepared->zones[at], (prepared->n_zones++ - at) * sizeof *prepared->zones);
    prepared->zones[at] = (struct zone){.bytes = bytes, .used = LINE_EMPTY, .beside = LINE_EMPTY};
    return &prepared->zones[at];
}

struct zone *prepared_zone_for(struct prepared *prepared, uint64_t bytes)
{
    struct zone *zone = find_zone(prepared, bytes);
    return zone ? zone : insert_zone(prepared, bytes);
}

/* push_free adds a block to the free slots of the zone. */
static void push_free(struct zone *zone, uint32_t block)
{
    zone->free = xgrow(zone->free, sizeof *zone->free, &zone->cap, zone->n_free + 1);
    zone->free[zone->n_free++] = block;
}

/* list_of returns the zone's list that the instance is in, or belongs to. */
static struct line *list_of(struct zone *zone, const struct instance *instance)
{
    return instance->zoned ? &zone->used : &zone->beside;
}

/* set_zoned notes whether the block of an instance of the zone is a slot. */
static void set_zoned(struct prepared *prepared, struct zone *zone, uint32_t index, bool zoned)
{
    struct instance *instance = &prepared->instances[index];
    if (instance->zoned == zoned)
        return;
    line_remove(list_of(zone, instance), LINKS(prepared->instances, in_zone), index);
    instance->zoned = zoned;
    line_append(list_of(zone, instance), LINKS(prepared->instances, in_zone), index);
}

uint32_t prepared_zone_take(struct prepared *prepared, struct zone *zone, uint32_t index)
{
    if (zone->n_free == 0)
        return ENGINE_NONE;
    uint32_t block = zone->free[--zone->n_free];
    extent_set_owner(prepared->extents, block, index);
    prepared->instances[index].zoned = true;
    return block;
}

void prepared_zone_enter(struct prepared *prepared, struct zone *zone, uint32_t index)
{
    line_append(list_of(zone, &prepared->instances[index]), LINKS(prepared->instances, in_zone), index);
}

void prepared_zone_leave(struct prepared *prepared, uint32_t index)
{
    struct instance *instance = &prepared->instances[index];
    struct zone *zone = prepared_zone_of(prepared, instance);
    if (zone)
        line_remove(list_of(zone, instance), LINKS(prepared->instances, in_zone), index);
    if (!instance->zoned) {
        prepared_release(prepared, instance->block);
        return;
    }
    extent_set_owner(prepared->extents, instance->block, ENGINE_NONE);
    push_free(zone, instance->block);
    instance->zoned = false;
}

void prepared_zone_add(struct zone *zone, uint32_t block)
{
    push_free(zone, block);
    zone->slots++;
}

bool prepared_zone_adopt(struct prepared *prepared, struct zone *zone)
{
    if (zone->beside.head == ENGINE_NONE)
        return false;
    set_zoned(prepared, zone, zone->beside.head, true);
    zone->slots++;
    return true;
}

uint64_t prepared_zones_free_bytes(const struct prepared *prepared)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < prepared->n_zones; i++)
        bytes += prepared->zones[i].n_free * prepared->zones[i].bytes;
    return bytes;
}

void prepared_zones_destroy(struct prepared *prepared)
{
    for (uint32_t i = 0; i < prepared->n_zones; i++)
        free(prepared->zones[i].free);
    free(prepared->zones);
}

struct layout_block prepared_as_block(const struct prepared *prepared, uint32_t block, uint32_t owner)
{
    uint64_t bytes = extent_bytes(prepared->extents, block);
    const struct zone *zone = owner != ENGINE_NONE ? prepared_zone_of(prepared, &prepared->instances[owner])
                                                   : find_zone(prepared, bytes);
    return (struct layout_block){.offset = extent_offset(prepared->extents, block),
                                 .bytes = bytes,
                                 .name = block,
                                 .zone = zone ? (uint32_t)(zone - prepared->zones) : LAYOUT_NONE};
}

void prepared_survey(const struct prepared *prepared, const bool *fixed, struct layout *layout)
{
    size_t count = 0;
    uint32_t owner;
    const struct extents *arena = prepared->extents;
    uint32_t end = prepared->growth.above;
    for (uint32_t block = extent_first(arena); block != end; block = extent_next(arena, block))
        count += extent_owner(arena, block, &owner);
    layout->blocks = xcalloc(count + 1, sizeof *layout->blocks);
    for (uint32_t block = extent_first(arena); block != end; block = extent_next(arena, block)) {
        if (!extent_owner(arena, block, &owner))
            continue;
        layout->blocks[layout->n_blocks] = prepared_as_block(prepared, block, owner);
        layout->blocks[layout->n_blocks++].fixed = owner != ENGINE_NONE && fixed[owner];
    }
}

/* leave_islands takes the slots above the limit from their zones: free ones go, and what lies in the others goes on as
 * an instance beside all zones. */
static void leave_islands(struct prepared *prepared)
{
    uint32_t owner;
    for (uint32_t block = prepared->growth.above; block != EXTENT_NONE; block = extent_next(prepared->extents, block)) {
        CHECK(extent_owner(prepared->extents, block, &owner));
        if (owner == ENGINE_NONE)
            prepared_release(prepared, block);
        else if (owner != PREPARED_AWAY && prepared->instances[owner].zoned)
            set_zoned(prepared, prepared_zone_of(prepared, &prepared->instances[owner]), owner, false);
    }
}

void prepared_clear_slots(struct prepared *prepared, const struct layout *layout, bool *goes)
{
    uint32_t owner = ENGINE_NONE;
    for (uint32_t i = 0; i < prepared->n_zones; i++)
        prepared->zones[i].slots = prepared->zones[i].n_free = 0;
    leave_islands(prepared);
    for (size_t i = 0; i < layout->n_blocks; i++) {
        const struct layout_block *block = &layout->blocks[i];
        CHECK(extent_owner(prepared->extents, block->name, &owner));
        if (block->is_cell)
            prepared->zones[block->zone].slots++;
        if (owner != ENGINE_NONE) {
            if (block->zone != LAYOUT_NONE)
                set_zoned(prepared, &prepared->zones[block->zone], owner, block->is_cell);
            goes[owner] = block->must_go;
        } else if (block->is_cell) {
            push_free(&prepared->zones[block->zone], block->name);
        } else {
            prepared_release(prepared, block->name);
        }
    }
}

void prepared_make_slots(struct prepared *prepared, const struct layout *layout)
{
    uint32_t block = extent_first(prepared->extents);
    for (size_t i = 0; i < layout->n_places; i++) {
        const struct layout_place *place = &layout->places[i];
        struct zone *zone = &prepared->zones[place->zone];
        while (extent_offset(prepared->extents, block) + extent_bytes(prepared->extents, block) <= place->offset)
            block = extent_next(prepared->extents, block);
        block = extent_alloc_at(prepared->extents, block, place->offset, zone->bytes, ENGINE_NONE);
        prepared_zone_add(zone, block);
    }
    for (uint32_t i = 0; i < prepared->n_zones; i++)
        CHECK(prepared->zones[i].slots == prepared->zones[i].promised);
    prepared->room_changes++;
}

struct layout_zone *prepared_promises(const struct prepared *prepared)
{
    struct layout_zone *zones = xcalloc(prepared->n_zones, sizeof *zones);
    for (uint32_t i = 0; i < prepared->n_zones; i++)
        zones[i] = (struct layout_zone){.bytes = prepared->zones[i].bytes, .cells = prepared->zones[i].promised};
    return zones;
}

int prepared_compare_blocks(const void *a, const void *b)
{
    uint64_t x = ((const struct layout_block *)a)->offset, y = ((const struct layout_block *)b)->offset;
    return (x > y) - (x < y);
}

void prepared_promise(struct prepared *prepared, uint64_t bytes, uint64_t slots)
{
    prepared_zone_for(prepared, bytes)->promised += slots;
}

void prepared_withdraw(struct prepared *prepared, uint64_t bytes, uint64_t by)
{
    struct zone *zone = find_zone(prepared, bytes);
    zone->promised -= by;
    for (; zone->slots > zone->promised && zone->n_free > 0; zone->slots--)
        prepared_release(prepared, zone->free[--zone->n_free]);
    for (; zone->slots > zone->promised; zone->slots--)
        set_zoned(prepared, zone, zone->used.head, false);
    prepared->room_changes++;
}
