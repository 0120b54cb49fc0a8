/* prepared_check.c: what must hold of the arena between steps. */
#include <string.h>

#include "common/check.h"
#include "server/engine/prepared.h"

/* The stored want equals what the counted jobs add up to, and that is right if the instance is settled. */
static void check_want(const struct prepared *prepared, uint32_t index)
{
    const struct instance *instance = &prepared->instances[index];
    uint32_t want = residency_want(prepared->residency, index);
    struct jobset wanted;
    CHECK(instance->want == want);
    CHECK(want / DEMAND_NOW == jobset_count(&instance->wanted));
    CHECK(instance->settled >= prepared->changes->first && instance->settled <= prepared->changes->end);
    if (instance->settled == prepared->changes->end)
        CHECK(want == demand_count(prepared->jobs, &instance->form, &wanted) &&
              memcmp(&wanted, &instance->wanted, sizeof wanted) == 0);
}

/* check_instances checks the blocks, pins, wants and sums of instances. */
static void check_instances(const struct prepared *prepared, const uint32_t *users)
{
    uint64_t used = 0, pinned = 0;
    uint32_t idle = 0;
    for (uint32_t index = 0; index < prepared->slab.size; index++) {
        const struct instance *instance = &prepared->instances[index];
        if (instance->state == INSTANCE_FREE)
            continue;
        bool making = instance->state == INSTANCE_MAKING;
        uint32_t owner;
        CHECK(extent_owner(prepared->extents, instance->block, &owner) && owner == index);
        CHECK(extent_bytes(prepared->extents, instance->block) >= instance->bytes);
        CHECK(residency_pins(prepared->residency, index) == users[index] + making);
        check_want(prepared, index);
        CHECK(making == (instance->task != ENGINE_NONE));
        CHECK(making || instance->waiters == ENGINE_NONE);
        CHECK(!instance->expected || (making && instance->alone));
        CHECK(instance->arranged != prepared->chunks->arranged || prepared_is_listed(prepared, index));
        used += extent_bytes(prepared->extents, instance->block);
        pinned += residency_pins(prepared->residency, index) > 0 ? extent_bytes(prepared->extents, instance->block) : 0;
        idle += residency_pins(prepared->residency, index) == 0 && !prepared_is_wanted(prepared, index);
    }
    CHECK(idle == prepared_idle(prepared) && pinned == prepared->pinned_bytes);
    CHECK(used + prepared_zones_free_bytes(prepared) == prepared_used_bytes(prepared));
    CHECK(prepared_used_bytes(prepared) <= prepared_there_bytes(prepared));
    CHECK(prepared->slab.taken * prepared->env->config.slot_least <= prepared->env->config.arena_bytes);
}

/* check_list checks one of the zone's lists, and returns its number of instances. */
static uint64_t check_list(const struct prepared *prepared, const struct zone *zone, bool zoned)
{
    const struct line *line = zoned ? &zone->used : &zone->beside;
    uint64_t count = 0;
    uint32_t prev = ENGINE_NONE;
    for (uint32_t index = line->head; index != ENGINE_NONE; index = prepared->instances[index].in_zone.next) {
        const struct instance *instance = &prepared->instances[index];
        CHECK(instance->state != INSTANCE_FREE && instance->zoned == zoned && instance->in_zone.prev == prev);
        CHECK(prepared_zone_of(prepared, instance) == zone);
        CHECK(extent_bytes(prepared->extents, instance->block) == zone->bytes);
        prev = index;
        count++;
    }
    CHECK(prev == line->tail);
    return count;
}

/* Each zone has the slots that it has promised, in use or free, and each instance that is not sized is in its zone. */
static void check_zones(const struct prepared *prepared)
{
    uint64_t listed = 0, sized = 0;
    for (uint32_t index = 0; index < prepared->slab.size; index++)
        sized += prepared->instances[index].state != INSTANCE_FREE && prepared->instances[index].sized;
    for (uint32_t at = 0; at < prepared->n_zones; at++) {
        const struct zone *zone = &prepared->zones[at];
        uint64_t promised = 0, used = check_list(prepared, zone, true);
        uint32_t owner;
        listed += used + check_list(prepared, zone, false);
        for (uint32_t no = 0; no < prepared->jobs->end; no++) {
            const struct job *job = job_at(prepared->jobs, no);
            if (job->state != JOB_FREE &&
                engine_slot_bytes(&prepared->env->config, job->terms.slot_bytes) == zone->bytes)
                promised += job->zone_slots;
        }
        for (size_t i = 0; i < zone->n_free; i++)
            CHECK(extent_owner(prepared->extents, zone->free[i], &owner) && owner == ENGINE_NONE);
        CHECK(zone->slots == zone->promised && zone->promised == promised && used + zone->n_free == zone->slots);
        CHECK(at == 0 || prepared->zones[at - 1].bytes > zone->bytes);
    }
    CHECK(listed + sized == prepared->slab.taken);
}

/* All blocks without memory lie above the limit. Every block above it that has memory is in use. */
static void check_growth(const struct prepared *prepared)
{
    const struct growth *growth = &prepared->growth;
    uint64_t arena = prepared->env->config.arena_bytes, away = 0;
    uint32_t block = extent_first(prepared->extents), owner;
    for (; block != EXTENT_NONE && block != growth->above; block = extent_next(prepared->extents, block))
        CHECK(!prepared_is_away(prepared, block));
    CHECK(block == growth->above);
    CHECK(growth->limit == (block == EXTENT_NONE ? arena : extent_offset(prepared->extents, block)));
    for (; block != EXTENT_NONE; block = extent_next(prepared->extents, block)) {
        CHECK(extent_owner(prepared->extents, block, &owner));
        away += prepared_is_away(prepared, block) ? extent_bytes(prepared->extents, block) : 0;
    }
    CHECK(away == growth->away_bytes && growth->wanted_bytes <= arena && growth->asked_bytes <= arena);
}

void prepared_check(const struct prepared *prepared, const uint32_t *users)
{
    extents_check(prepared->extents);
    check_growth(prepared);
    check_instances(prepared, users);
    check_zones(prepared);
}
