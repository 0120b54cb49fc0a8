/* prepared.c: instances in the arena: pins, which jobs have had them, and their end. A pinned instance is never
 * evicted. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/prepared.h"

SLAB(, instance, prepared, instances, next)

/* ── prepared ── */

uint32_t prepared_idle(const struct prepared *prepared)
{
    return residency_count(prepared->residency, 0) + residency_count(prepared->residency, DEMAND_AGAIN);
}

/* unlist takes the instance off its sample's list. */
static void unlist(struct prepared *prepared, uint32_t index)
{
    const struct instance *instance = &prepared->instances[index];
    uint32_t *link = &prepared_sample(prepared, instance->form.id)->instances;
    while (*link != index) {
        CHECK(*link != ENGINE_NONE);
        link = &prepared->instances[*link].next;
    }
    *link = instance->next;
}

/* gave_way notes that something in the arena has lost a pin, or has gone. */
static void gave_way(struct prepared *prepared)
{
    prepared->room_changes++;
    prepared->growth.vain_bytes = UINT64_MAX;
}

void prepared_free(struct prepared *prepared, uint32_t index)
{
    struct instance *instance = &prepared->instances[index];
    CHECK(instance->waiters == ENGINE_NONE);
    unlist(prepared, index);
    prepared_set_want(prepared, index, 0);
    if (residency_pins(prepared->residency, index) > 0) /* it could not be made, and its making pinned it */
        prepared->pinned_bytes -= extent_bytes(prepared->extents, instance->block);
    prepared_zone_leave(prepared, index);
    gave_way(prepared);
    residency_remove(prepared->residency, index);
    instance_drop(prepared, index);
}

void prepared_evict(struct prepared *prepared, uint32_t index)
{
    CHECK(prepared->instances[index].state == INSTANCE_READY && residency_pins(prepared->residency, index) == 0);
    prepared->env->counts.evicted_prepared++;
    prepared_free(prepared, index);
}

/* becomes_ready returns the first entry that waited for the instance. */
static uint32_t becomes_ready(struct prepared *prepared, uint32_t index)
{
    struct instance *instance = &prepared->instances[index];
    uint32_t waiters = instance->waiters;
    instance->state = INSTANCE_READY;
    instance->task = instance->waiters = ENGINE_NONE;
    return waiters;
}

uint32_t prepared_made(struct prepared *prepared, uint32_t index)
{
    prepared->env->counts.instances_prepared++;
    return becomes_ready(prepared, index);
}

void prepared_trim(struct prepared *prepared, uint32_t index, uint64_t bytes)
{
    struct instance *instance = &prepared->instances[index];
    uint64_t begun = extent_bytes(prepared->extents, instance->block);
    uint64_t kept = engine_slot_bytes(&prepared->env->config, bytes);
    CHECK(instance->sized && bytes > 0 && bytes <= instance->bytes && residency_pins(prepared->residency, index) > 0);
    instance->bytes = bytes;
    if (kept == begun)
        return;
    prepared->pinned_bytes -= begun - kept;
    prepared_release(prepared, extent_split(prepared->extents, instance->block, kept));
    gave_way(prepared);
}

/* It is alone: a pick of another sample must not get it, since its own was not this node's choice. */
void prepared_expect(struct prepared *prepared, uint32_t index)
{
    prepared_set_alone(prepared, index);
    prepared->instances[index].expected = true;
}

void prepared_rename(struct prepared *prepared, uint32_t index, sample_id id)
{
    struct instance *instance = &prepared->instances[index];
    CHECK(instance->expected);
    unlist(prepared, index);
    instance->form.id = id;
    instance->next = prepared_sample(prepared, id)->instances;
    prepared_sample(prepared, id)->instances = index;
    prepared_settle(prepared, index);
    prepared_count_wants(prepared, index);
}

/* No other job gets it, now or later: its node may have given it to that job too. */
uint32_t prepared_arrived(struct prepared *prepared, uint32_t index)
{
    prepared->instances[index].expected = false;
    prepared->instances[index].form.pipeline = PIPELINE_GONE;
    prepared_count_wants(prepared, index);
    return becomes_ready(prepared, index);
}

void prepared_keep(struct prepared *prepared, uint32_t index)
{
    prepared->instances[index].kept = true;
    prepared_unpin(prepared, index);
}

void prepared_pin(struct prepared *prepared, uint32_t index)
{
    prepared->instances[index].kept = false;
    if (residency_pins(prepared->residency, index) == 0)
        prepared->pinned_bytes += extent_bytes(prepared->extents, prepared->instances[index].block);
    residency_pin(prepared->residency, index);
}

/* is_lent tells whether the instance lies above the limit, where encoded samples get the room. */
static bool is_lent(const struct prepared *prepared, uint32_t index)
{
    const struct instance *instance = &prepared->instances[index];
    return prepared->growth.most_bytes < prepared->env->config.arena_bytes && !instance->zoned && !instance->kept &&
           extent_offset(prepared->extents, instance->block) >= prepared->growth.limit;
}

void prepared_unpin(struct prepared *prepared, uint32_t index)
{
    residency_unpin(prepared->residency, index);
    if (residency_pins(prepared->residency, index) == 0)
        prepared->pinned_bytes -= extent_bytes(prepared->extents, prepared->instances[index].block);
    gave_way(prepared);
    const struct instance *instance = &prepared->instances[index];
    bool gone = instance->form.pipeline == PIPELINE_GONE && !instance->kept;
    if (residency_pins(prepared->residency, index) > 0)
        return;
    if (gone)
        prepared_free(prepared, index);
    else if (is_lent(prepared, index))
        prepared_evict(prepared, index);
}

static bool shares_had(const struct prepared *prepared, uint32_t job, uint32_t member)
{
    return job_at(prepared->jobs, member)->kin.had == job_at(prepared->jobs, job)->kin.had;
}

void prepared_mark_had(struct prepared *prepared, uint32_t job, uint32_t index)
{
    prepared_settle(prepared, index);
    FAMILY_EACH(prepared->jobs, job_at(prepared->jobs, job), member)
    if (shares_had(prepared, job, member))
        prepared_left(prepared, index, member);
    jobset_add(&prepared->instances[index].form.had, job_at(prepared->jobs, job)->kin.had);
}

void prepared_clear_had(struct prepared *prepared, uint32_t job, uint32_t index)
{
    prepared_settle(prepared, index);
    jobset_remove(&prepared->instances[index].form.had, job_at(prepared->jobs, job)->kin.had);
    FAMILY_EACH(prepared->jobs, job_at(prepared->jobs, job), member)
    if (shares_had(prepared, job, member))
        prepared_back(prepared, index, member);
}

/* may_find tells whether the job gets the instance for an entry of its sample. What is kept is for the job that it was
 * begun for, in the epoch's variant. */
static bool may_find(const struct prepared *prepared, uint32_t no, const struct instance *instance)
{
    const struct job *job = job_at(prepared->jobs, no);
    if (instance->kept)
        return instance->made_for == job->terms.serial && instance->form.variant == job->progress.variant;
    return !instance->expected && demand_suits(prepared->jobs, no, &instance->form);
}

uint32_t prepared_find(struct prepared *prepared, uint32_t job, sample_id id)
{
    uint32_t making = ENGINE_NONE;
    INSTANCES_OF(prepared, id, index) {
        const struct instance *instance = &prepared->instances[index];
        prepared_settle(prepared, index);
        if (!may_find(prepared, job, instance))
            continue;
        if (instance->state == INSTANCE_READY)
            return index;
        making = index;
    }
    return making;
}
