/* encoded.c: encoded bytes in memory: their life from the load to the drop, pins, and the budget. */
#include <stdlib.h>

#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/outbox.h"

void encoded_free(struct engine *engine, uint32_t index, bool evicted)
{
    struct encoded *encoded = &engine->encoded[index];
    CHECK(encoded->tasks == ENGINE_NONE);
    if (encoded->handle)
        outbox_add(engine, ENGINE_DROP_ENCODED)->drop.encoded = encoded->handle;
    engine->totals.evicted_encoded += evicted;
    chunks_fiber_remove_encoded(engine, index);
    if (engine->samples[encoded->id].chunk != ENGINE_NONE)
        engine->groups[engine->chunks[engine->samples[encoded->id].chunk].group].stock--;
    engine->encoded_used -= encoded->bytes;
    if (residency_pins(engine->encodeds, index) > 0) /* its load has failed */
        engine->encoded_pinned -= encoded->bytes;
    if (engine->samples[encoded->id].encoded == index) /* a failed load gives its place up before it ends */
        engine->samples[encoded->id].encoded = ENGINE_NONE;
    residency_remove(engine->encodeds, index);
    slab_encoded_drop(engine, index);
}

static uint64_t beside_records(const struct engine *engine, uint64_t instances)
{
    uint64_t all = engine->config.encoded_bytes, most = all / ENGINE_RECORDS_PART;
    uint64_t records = instances * engine->config.instance_bytes;
    return all - (records < most ? records : most);
}

uint64_t encoded_most(const struct engine *engine)
{
    return beside_records(engine, engine->instance_pool.size);
}

uint64_t encoded_sure(const struct engine *engine)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        const struct job *job = &engine->jobs[place];
        uint64_t slot = job->state != JOB_FREE ? engine_slot_bytes(&engine->config, job->slot_bytes) : least;
        least = slot < least ? slot : least;
    }
    uint64_t sure = beside_records(engine, engine->config.arena_bytes / least), now = encoded_most(engine);
    return sure < now ? sure : now;
}

/* Evicts until `bytes` more fit; false when what is left is pinned and they do not. */
static bool make_room_encoded(struct engine *engine, uint64_t bytes)
{
    while (engine->encoded_used + bytes > encoded_most(engine)) {
        uint32_t victim = residency_victim(engine->encodeds);
        if (victim == RESIDENT_NONE)
            return false;
        encoded_free(engine, victim, true);
    }
    return true;
}

void encoded_shed(struct engine *engine)
{
    (void)make_room_encoded(engine, 0);
}

uint32_t encoded_begin(struct engine *engine, sample_id id, uint64_t bytes)
{
    /* One alone may have all: else no sample would come that needs what the records take. */
    if (!make_room_encoded(engine, bytes) && (engine->encoded_used > 0 || bytes > engine->config.encoded_bytes))
        return ENGINE_NONE;
    uint32_t index = slab_encoded_new(engine);
    engine->encoded[index] = (struct encoded){.state = ENCODED_LOADING, .id = id, .tasks = ENGINE_NONE, .bytes = bytes};
    engine->samples[id].encoded = index;
    chunks_fiber_add_encoded(engine, index);
    if (engine->samples[id].chunk != ENGINE_NONE)
        engine->groups[engine->chunks[engine->samples[id].chunk].group].stock++;
    engine->encoded_used += bytes;
    engine->encoded_pinned += bytes;
    residency_add(engine->encodeds, index, demand_count_encoded(engine, id)); /* its first pin is the load's */
    return index;
}

void encoded_pin(struct engine *engine, uint32_t index)
{
    if (residency_pins(engine->encodeds, index) == 0)
        engine->encoded_pinned += engine->encoded[index].bytes;
    residency_pin(engine->encodeds, index);
}

/* A loaded sample that nobody wants this epoch is not kept, unless there is room for all. */
static void encoded_settle(struct engine *engine, uint32_t index)
{
    if (residency_pins(engine->encodeds, index) == 0 && residency_want(engine->encodeds, index) == 0 &&
        !encoded_keeps(engine, engine->encoded[index].id))
        encoded_free(engine, index, false);
}

void encoded_unpin(struct engine *engine, uint32_t index)
{
    residency_unpin(engine->encodeds, index);
    if (residency_pins(engine->encodeds, index) == 0)
        engine->encoded_pinned -= engine->encoded[index].bytes;
    encoded_settle(engine, index);
}

void encoded_drop_if_idle(struct engine *engine, sample_id id)
{
    if (engine->samples[id].encoded != ENGINE_NONE)
        encoded_settle(engine, engine->samples[id].encoded);
}

void encoded_drop_idle(struct engine *engine)
{
    uint32_t index = residency_victim(engine->encodeds);
    while (index != RESIDENT_NONE && residency_want(engine->encodeds, index) == 0) { /* the others are wanted */
        uint32_t next = residency_victim_after(engine->encodeds, index);
        encoded_settle(engine, index);
        index = next;
    }
}

/* May all that the sample's chunk can bring be out as well? A read that is cut short leaves its chunk to be read again,
 * and what is free after small reads makes for small reads. */
bool encoded_room_for_read(const struct engine *engine, sample_id id)
{
    uint32_t chunk = engine->samples[id].chunk;
    uint32_t samples = chunk == ENGINE_NONE ? 1 : engine->groups[engine->chunks[chunk].group].chunk_samples;
    return engine->loads_inflight == 0 || engine->loads_inflight + samples <= engine->config.inflight_loads;
}

/* The same for memory: for what the chunk can bring, or half of it all, bytes that nobody is at work with. Else each sample
 * that is through would make room for a read of one sample, as soon as the look-ahead needs more than there is. */
bool encoded_memory_for_read(const struct engine *engine, uint32_t job, sample_id id, uint64_t bytes)
{
    uint32_t chunk = engine->jobs[job].redirected ? engine->samples[id].chunk : ENGINE_NONE;
    uint64_t limit = encoded_most(engine), pinned = engine->encoded_pinned, most = limit / 2;
    uint64_t taken = engine->encoded_pool.taken, mean = taken ? engine->encoded_used / taken : bytes, all = bytes;
    if (chunk != ENGINE_NONE)
        all = mean * engine->groups[engine->chunks[chunk].group].chunk_samples;
    all = all > most ? most : all;
    return pinned == 0 || pinned + (all > bytes ? all : bytes) <= limit;
}
