/* encoded.c: encoded bytes in memory: their life from the load to the drop, their pins, and the budget. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/outbox.h"

SLAB(static, encoded, encoded_store, encodeds, next)

void encoded_fiber_enter(struct encoded_store *store, uint32_t index)
{
    struct encoded *encoded = &store->encodeds[index];
    struct fiber *fiber = chunks_fiber(store->chunks, encoded->id);
    if (!fiber || encoded->arranged == store->chunks->arranged)
        return;
    encoded->arranged = store->chunks->arranged;
    chunks_add_member(&fiber->encoded, index);
    chunks_group(store->chunks, encoded->id)->stock++;
}

void encoded_fiber_leave(struct encoded_store *store, uint32_t index)
{
    struct encoded *encoded = &store->encodeds[index];
    if (encoded->arranged != store->chunks->arranged)
        return;
    encoded->arranged = 0;
    chunks_remove_member(&chunks_fiber(store->chunks, encoded->id)->encoded, index);
    chunks_group(store->chunks, encoded->id)->stock--;
}

/* forget_form takes an encoded that is freed out of the forms. */
static void forget_form(struct encoded_store *store, uint32_t index)
{
    const struct encoded *encoded = &store->encodeds[index];
    CHECK(!encoded->granted);
    if (!encoded->decoded)
        return;
    store->forms.extra_bytes -= (int64_t)(encoded->bytes - encoded->read_bytes);
    store->forms.count--;
    store->forms.bytes -= encoded->bytes;
    line_remove(&store->forms.line, LINKS(store->encodeds, in_forms), index);
}

void encoded_free(struct encoded_store *store, uint32_t index, bool evicted)
{
    struct encoded *encoded = &store->encodeds[index];
    CHECK(encoded->state == ENCODED_READY || encoded->tasks.head == ENGINE_NONE);
    if (encoded->handle)
        outbox_add(store->outbox, ENGINE_DROP_ENCODED)->drop.encoded = encoded->handle;
    store->env->counts.evicted_encoded += evicted;
    encoded_fiber_leave(store, index);
    encoded_next_remove(store, index);
    forget_form(store, index);
    store->used_bytes -= encoded->bytes;
    store->kept_bytes -= encoded->kept ? encoded_as_read(encoded) : 0;
    encoded_flight_free(store, encoded);
    if (residency_pins(store->residency, index) > 0) { /* its load has failed, and pinned it */
        store->pinned_bytes -= encoded->bytes;
        store->kept_pinned_bytes -= encoded->kept ? encoded_as_read(encoded) : 0;
    }
    encoded_sample(store, encoded->id)->encoded = ENGINE_NONE;
    residency_remove(store->residency, index);
    encoded_drop(store, index);
}

/* records returns the bytes that the records of `instances` instances take of the budget. */
static uint64_t records(const struct encoded_store *store, uint64_t instances)
{
    const struct engine_config *config = &store->env->config;
    uint64_t most = config->encoded_bytes / ENGINE_RECORDS_PART, bytes = instances * config->instance_bytes;
    return bytes < most ? bytes : most;
}

/* beside_records returns the bytes of the budget left beside the records of `instances` instances, when the arena takes
 * `arena` bytes. */
static uint64_t beside_records(const struct encoded_store *store, uint64_t arena, uint64_t instances)
{
    const struct engine_config *config = &store->env->config;
    uint64_t left = config->arena_bytes - arena, lent = left < config->lent_bytes ? left : config->lent_bytes;
    return config->encoded_bytes + lent - records(store, instances);
}

uint64_t encoded_budget(const struct encoded_store *store)
{
    return beside_records(store, store->prepared->growth.most_bytes, 0);
}

uint64_t encoded_taken(const struct encoded_store *store)
{
    return store->used_bytes + records(store, store->prepared->slab.size) + store->next.bytes;
}

uint64_t encoded_most(const struct encoded_store *store)
{
    return beside_records(store, prepared_taken_bytes(store->prepared), store->prepared->slab.size) - store->next.bytes;
}

/* sure_of returns encoded_sure, when known orders take `orders`. */
static uint64_t sure_of(const struct encoded_store *store, uint64_t orders)
{
    uint64_t arena = store->prepared->growth.most_bytes, least = UINT64_MAX;
    for (uint32_t no = 0; no < store->jobs->end; no++) {
        const struct job *job = job_at(store->jobs, no);
        uint64_t slot = job->state != JOB_FREE ? engine_slot_bytes(&store->env->config, job->terms.slot_bytes) : least;
        least = slot < least ? slot : least;
    }
    uint64_t sure = beside_records(store, arena, arena / least);
    uint64_t now = beside_records(store, arena, store->prepared->slab.size) - orders;
    return sure < now ? sure : now;
}

uint64_t encoded_sure(const struct encoded_store *store)
{
    return sure_of(store, store->next.bytes);
}

uint64_t encoded_sure_alone(const struct encoded_store *store)
{
    return sure_of(store, 0);
}

void encoded_drop_handles(const struct encoded_store *store, void (*drop)(void *handle))
{
    for (uint32_t index = 0; index < store->slab.size; index++)
        if (store->encodeds[index].state == ENCODED_READY)
            drop(store->encodeds[index].handle);
}

uint32_t encoded_forms_victim(const struct encoded_store *store)
{
    uint32_t index = store->forms.line.head;
    for (int looked = 0; index != ENGINE_NONE && looked < SETTLE_VICTIMS; looked++) {
        if (residency_pins(store->residency, index) == 0)
            return index;
        index = store->encodeds[index].in_forms.next;
    }
    return RESIDENT_NONE;
}

/* make_room_encoded evicts until `bytes` more fit. It returns false when they do not fit and what is left is pinned. */
static bool make_room_encoded(struct encoded_store *store, uint64_t bytes)
{
    while (store->used_bytes + bytes > encoded_most(store)) {
        uint32_t victim = encoded_forms_victim(store);
        if (victim == RESIDENT_NONE)
            victim = store->next.known ? encoded_next_victim(store) : encoded_victim(store);
        if (victim == RESIDENT_NONE)
            return false;
        encoded_free(store, victim, true);
    }
    return true;
}

void encoded_shed(struct encoded_store *store)
{
    (void)make_room_encoded(store, 0);
}

uint32_t encoded_begin(struct encoded_store *store, const void *dataset, sample_id id, uint64_t bytes)
{
    /* A sample alone may take all of the budget. Otherwise a sample that needs what the records take would never
     * come. */
    if (!make_room_encoded(store, bytes) && (store->used_bytes > 0 || bytes > store->env->config.encoded_bytes))
        return ENGINE_NONE;
    uint32_t index = encoded_new(store);
    bool kept = encoded_keeps(store, id);
    store->encodeds[index] = (struct encoded){
        .state = ENCODED_LOADING, .id = id, .tasks = LINE_EMPTY, .bytes = bytes, .heap_at = ENGINE_NONE, .kept = kept};
    store->encodeds[index].dataset = dataset;
    store->encodeds[index].settled = store->changes->end;
    store->encodeds[index].flight = encoded_flight_begin(store, dataset, bytes);
    encoded_sample(store, id)->encoded = index;
    encoded_fiber_enter(store, index);
    store->used_bytes += bytes;
    store->kept_bytes += kept ? bytes : 0;
    store->kept_pinned_bytes += kept ? bytes : 0;
    store->pinned_bytes += bytes;
    /* its first pin is the load's */
    uint32_t want = demand_count_encoded(store->jobs, id, &store->encodeds[index].wanted);
    residency_add(store->residency, index, want + (kept ? KEPT_WANT : 0));
    return index;
}

/* shrink counts fewer bytes for a load that has come, and is pinned. */
static void shrink(struct encoded_store *store, struct encoded *encoded, uint64_t bytes)
{
    uint64_t less = encoded->bytes - bytes;
    store->used_bytes -= less;
    store->pinned_bytes -= less;
    store->kept_bytes -= encoded->kept ? less : 0;
    store->kept_pinned_bytes -= encoded->kept ? less : 0;
    encoded->bytes = bytes;
}

void encoded_arrived(struct encoded_store *store, uint32_t index, void *handle, uint64_t bytes)
{
    struct encoded *encoded = &store->encodeds[index];
    CHECK(bytes == encoded->bytes || (bytes < encoded->bytes && store->env->config.planes_bytes));
    encoded_flight_end(store, encoded);
    shrink(store, encoded, bytes);
    encoded->state = ENCODED_READY;
    encoded->handle = handle;
    encoded_sample(store, encoded->id)->failed = false;
    store->env->counts.samples_loaded++;
    store->env->counts.loaded_bytes += encoded->bytes;
}

void encoded_failed(struct encoded_store *store, uint32_t index)
{
    encoded_flight_end(store, &store->encodeds[index]);
    encoded_sample(store, store->encodeds[index].id)->failed = true;
    encoded_free(store, index, false);
}

void encoded_pin(struct encoded_store *store, uint32_t index)
{
    const struct encoded *encoded = &store->encodeds[index];
    if (residency_pins(store->residency, index) == 0) {
        store->pinned_bytes += encoded->bytes;
        store->kept_pinned_bytes += encoded->kept ? encoded_as_read(encoded) : 0;
    }
    encoded_next_remove(store, index);
    residency_pin(store->residency, index);
}

bool encoded_keeps(const struct encoded_store *store, sample_id id)
{
    return store->kept && idset_contains(store->kept, id);
}

double encoded_room(const struct encoded_store *store, bool kept, double share)
{
    uint64_t most = encoded_most(store);
    double used = (double)store->used_bytes - (double)store->forms.extra_bytes, left = (double)most - used;
    if (kept)
        return left;
    uint64_t reserved = store->kept_most < most ? store->kept_most : most;
    double room = (double)(most - reserved) * share - (used - (double)store->kept_bytes);
    return room < left ? room : left; /* kept samples may take more than their share for a while */
}

/* drop_if_idle drops an encoded that has no pin, if nobody wants it in this epoch and it is not kept, or if it is known
 * that nobody will use it again. */
static void drop_if_idle(struct encoded_store *store, uint32_t index)
{
    if (residency_pins(store->residency, index) > 0)
        return;
    encoded_settle(store, index);
    if (residency_want(store->residency, index) == 0 || encoded_next_is_never(store, index))
        encoded_free(store, index, false);
}

void encoded_unpin(struct encoded_store *store, uint32_t index)
{
    residency_unpin(store->residency, index);
    const struct encoded *encoded = &store->encodeds[index];
    if (residency_pins(store->residency, index) == 0) {
        store->pinned_bytes -= encoded->bytes;
        store->kept_pinned_bytes -= encoded->kept ? encoded_as_read(encoded) : 0;
    }
    encoded_next_note(store, index);
    drop_if_idle(store, index);
}

void encoded_drop_if_idle(struct encoded_store *store, sample_id id)
{
    if (encoded_sample(store, id)->encoded != ENGINE_NONE)
        drop_if_idle(store, encoded_sample(store, id)->encoded);
}

uint32_t encoded_victim(struct encoded_store *store)
{
    uint32_t victim = residency_victim(store->residency);
    for (int tries = 0; tries < SETTLE_VICTIMS && victim != RESIDENT_NONE && encoded_settle(store, victim); tries++)
        victim = residency_victim(store->residency);
    return victim;
}

uint32_t encoded_drop_idle(struct encoded_store *store, uint32_t most)
{
    uint32_t count = 0, index;
    for (; count < most && (index = encoded_victim(store)) != RESIDENT_NONE &&
           residency_want(store->residency, index) == 0;
         count++)
        encoded_free(store, index, false);
    for (; count < most && store->next.known && (index = encoded_next_victim(store)) != RESIDENT_NONE &&
           encoded_next_is_never(store, index);
         count++)
        encoded_free(store, index, false);
    return count;
}

uint64_t encoded_mean_bytes(const struct encoded_store *store)
{
    uint64_t as_read = (uint64_t)((int64_t)store->used_bytes - store->forms.extra_bytes);
    return store->slab.taken ? as_read / store->slab.taken : 0;
}
