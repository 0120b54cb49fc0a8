/* encoded.c: encoded bytes in memory: their life from the load to the drop, pins, and the budget. */
#include <stdlib.h>

#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/outbox.h"

SLAB(encoded, encoded_store, encodeds, next)

void encoded_free(struct engine *engine, uint32_t index, bool evicted)
{
    struct encoded *encoded = &engine->encoded.encodeds[index];
    CHECK(encoded->tasks == ENGINE_NONE);
    if (encoded->handle)
        outbox_add(engine, ENGINE_DROP_ENCODED)->drop.encoded = encoded->handle;
    engine->totals.evicted_encoded += evicted;
    chunks_fiber_remove_encoded(engine, index);
    if (engine->samples.all[encoded->id].chunk != ENGINE_NONE)
        engine->chunks.groups[engine->chunks.chunks[engine->samples.all[encoded->id].chunk].group].stock--;
    engine->encoded.used_bytes -= encoded->bytes;
    if (residency_pins(engine->encoded.residency, index) > 0) /* its load has failed */
        engine->encoded.pinned_bytes -= encoded->bytes;
    if (engine->samples.all[encoded->id].encoded == index) /* a failed load gives its place up before it ends */
        engine->samples.all[encoded->id].encoded = ENGINE_NONE;
    residency_remove(engine->encoded.residency, index);
    encoded_drop(&engine->encoded, index);
}

static uint64_t beside_records(const struct engine *engine, uint64_t instances)
{
    uint64_t all = engine->config.encoded_bytes, most = all / ENGINE_RECORDS_PART;
    uint64_t records = instances * engine->config.instance_bytes;
    return all - (records < most ? records : most);
}

uint64_t encoded_most(const struct engine *engine)
{
    return beside_records(engine, engine->prepared.slab.size);
}

uint64_t encoded_sure(const struct engine *engine)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t place = 0; place < engine->jobs.end; place++) {
        const struct job *job = &engine->jobs.all[place];
        uint64_t slot = job->state != JOB_FREE ? engine_slot_bytes(&engine->config, job->terms.slot_bytes) : least;
        least = slot < least ? slot : least;
    }
    uint64_t sure = beside_records(engine, engine->config.arena_bytes / least), now = encoded_most(engine);
    return sure < now ? sure : now;
}

/* Evicts until `bytes` more fit; false when what is left is pinned and they do not. */
static bool make_room_encoded(struct engine *engine, uint64_t bytes)
{
    while (engine->encoded.used_bytes + bytes > encoded_most(engine)) {
        uint32_t victim = residency_victim(engine->encoded.residency);
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
    if (!make_room_encoded(engine, bytes) && (engine->encoded.used_bytes > 0 || bytes > engine->config.encoded_bytes))
        return ENGINE_NONE;
    uint32_t index = encoded_new(&engine->encoded);
    engine->encoded.encodeds[index] = (struct encoded){.state = ENCODED_LOADING, .id = id, .tasks = ENGINE_NONE, .bytes = bytes};
    engine->samples.all[id].encoded = index;
    chunks_fiber_add_encoded(engine, index);
    if (engine->samples.all[id].chunk != ENGINE_NONE)
        engine->chunks.groups[engine->chunks.chunks[engine->samples.all[id].chunk].group].stock++;
    engine->encoded.used_bytes += bytes;
    engine->encoded.pinned_bytes += bytes;
    residency_add(engine->encoded.residency, index, demand_count_encoded(engine, id)); /* its first pin is the load's */
    return index;
}

void encoded_pin(struct engine *engine, uint32_t index)
{
    if (residency_pins(engine->encoded.residency, index) == 0)
        engine->encoded.pinned_bytes += engine->encoded.encodeds[index].bytes;
    residency_pin(engine->encoded.residency, index);
}

/* A loaded sample that nobody wants this epoch is not kept, unless there is room for all. */
static void encoded_settle(struct engine *engine, uint32_t index)
{
    if (residency_pins(engine->encoded.residency, index) == 0 && residency_want(engine->encoded.residency, index) == 0 &&
        !encoded_keeps(engine, engine->encoded.encodeds[index].id))
        encoded_free(engine, index, false);
}

void encoded_unpin(struct engine *engine, uint32_t index)
{
    residency_unpin(engine->encoded.residency, index);
    if (residency_pins(engine->encoded.residency, index) == 0)
        engine->encoded.pinned_bytes -= engine->encoded.encodeds[index].bytes;
    encoded_settle(engine, index);
}

void encoded_drop_if_idle(struct engine *engine, sample_id id)
{
    if (engine->samples.all[id].encoded != ENGINE_NONE)
        encoded_settle(engine, engine->samples.all[id].encoded);
}

void encoded_drop_idle(struct engine *engine)
{
    uint32_t index = residency_victim(engine->encoded.residency);
    while (index != RESIDENT_NONE && residency_want(engine->encoded.residency, index) == 0) { /* the others are wanted */
        uint32_t next = residency_victim_after(engine->encoded.residency, index);
        encoded_settle(engine, index);
        index = next;
    }
}

/* May all that the sample's chunk can bring be out as well? A read that is cut short leaves its chunk to be read again,
 * and what is free after small reads makes for small reads. */
bool encoded_room_for_read(const struct engine *engine, sample_id id)
{
    uint32_t chunk = engine->samples.all[id].chunk;
    uint32_t samples = chunk == ENGINE_NONE ? 1 : engine->chunks.groups[engine->chunks.chunks[chunk].group].chunk_samples;
    return engine->encoded.loading == 0 || engine->encoded.loading + samples <= engine->config.inflight_loads;
}

/* The same for memory: for what the chunk can bring, or half of it all, bytes that nobody is at work with. Else each sample
 * that is through would make room for a read of one sample, as soon as the look-ahead needs more than there is. */
bool encoded_memory_for_read(const struct engine *engine, uint32_t job, sample_id id, uint64_t bytes)
{
    uint32_t chunk = engine->jobs.all[job].terms.redirected ? engine->samples.all[id].chunk : ENGINE_NONE;
    uint64_t limit = encoded_most(engine), pinned = engine->encoded.pinned_bytes, most = limit / 2;
    uint64_t taken = engine->encoded.slab.taken, mean = taken ? engine->encoded.used_bytes / taken : bytes, all = bytes;
    if (chunk != ENGINE_NONE)
        all = mean * engine->chunks.groups[engine->chunks.chunks[chunk].group].chunk_samples;
    all = all > most ? most : all;
    return pinned == 0 || pinned + (all > bytes ? all : bytes) <= limit;
}
