/* prepared.c: what is in memory: instances in the arena, encoded bytes beside it, and who goes first.
 *
 * want(instance) = jobs of its pipeline with the sample in R_j that have not had it; want(encoded) = jobs with the sample
 * in R_j. Both are kept up to date as samples leave remaining sets. A pinned resident is never evicted. */
#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/outbox.h"
#include "server/engine/prepared.h"

SLAB(instance, prepared, instances, next)

/* ── prepared ── */

/* A fiber lists those of its instances that somebody wants. */
void prepared_set_want(struct engine *engine, uint32_t index, uint32_t want)
{
    uint32_t before = residency_want(engine->prepared.residency, index);
    residency_set_want(engine->prepared.residency, index, want);
    if (!before && want)
        chunks_fiber_add_instance(engine, index);
    else if (before && !want)
        chunks_fiber_remove_instance(engine, index);
}

void prepared_shift_want(struct engine *engine, uint32_t index, int by)
{
    prepared_set_want(engine, index, residency_want(engine->prepared.residency, index) + (uint32_t)by);
}

void prepared_free(struct engine *engine, uint32_t index)
{
    struct instance *instance = &engine->prepared.instances[index];
    CHECK(instance->waiters == ENGINE_NONE);
    uint32_t *link = &engine->samples.all[instance->form.id].instances;
    while (*link != index) {
        CHECK(*link != ENGINE_NONE);
        link = &engine->prepared.instances[*link].next;
    }
    *link = instance->next;
    prepared_set_want(engine, index, 0);
    if (residency_pins(engine->prepared.residency, index) > 0) /* it could not be made */
        engine->prepared.pinned_bytes -= extent_bytes(engine->prepared.extents, instance->block);
    if (instance->zoned)
        prepared_zone_give(engine, index);
    else
        extent_free(engine->prepared.extents, instance->block);
    engine->plan.room_changes++;
    residency_remove(engine->prepared.residency, index);
    instance_drop(&engine->prepared, index);
}

void prepared_evict(struct engine *engine, uint32_t index)
{
    CHECK(engine->prepared.instances[index].state == INSTANCE_READY && residency_pins(engine->prepared.residency, index) == 0);
    engine->totals.evicted_prepared++;
    prepared_free(engine, index);
}

void prepared_pin(struct engine *engine, uint32_t index)
{
    if (residency_pins(engine->prepared.residency, index) == 0)
        engine->prepared.pinned_bytes += extent_bytes(engine->prepared.extents, engine->prepared.instances[index].block);
    residency_pin(engine->prepared.residency, index);
}

void prepared_unpin(struct engine *engine, uint32_t index)
{
    residency_unpin(engine->prepared.residency, index);
    if (residency_pins(engine->prepared.residency, index) == 0)
        engine->prepared.pinned_bytes -= extent_bytes(engine->prepared.extents, engine->prepared.instances[index].block);
    engine->plan.room_changes++;
    if (engine->prepared.instances[index].doomed && residency_pins(engine->prepared.residency, index) == 0)
        prepared_free(engine, index);
}

void prepared_mark_had(struct engine *engine, uint32_t job, uint32_t index)
{
    struct instance *instance = &engine->prepared.instances[index];
    if (demand_wants_instance(engine, job, instance))
        prepared_shift_want(engine, index, -1);
    jobset_add(&instance->form.had, job);
}

void prepared_clear_had(struct engine *engine, uint32_t job, uint32_t index)
{
    struct instance *instance = &engine->prepared.instances[index];
    jobset_remove(&instance->form.had, job);
    if (demand_wants_instance(engine, job, instance))
        prepared_shift_want(engine, index, 1);
}

void prepared_forget_pipeline(struct engine *engine, uint32_t pipeline)
{
    for (uint32_t index = 0; index < engine->prepared.slab.size; index++) {
        struct instance *instance = &engine->prepared.instances[index];
        if (instance->state == INSTANCE_FREE || instance->form.pipeline != pipeline)
            continue;
        if (instance->state == INSTANCE_READY) {
            prepared_evict(engine, index);
        } else { /* its task runs for nobody: the result is not wanted under the number's new meaning */
            CHECK(instance->waiters == ENGINE_NONE);
            instance->doomed = true;
        }
    }
}

/* An instance of the sample that the job may get: one that is ready before one that is being made. */
uint32_t prepared_find(const struct engine *engine, uint32_t job, sample_id id)
{
    uint32_t making = ENGINE_NONE;
    for (uint32_t index = engine->samples.all[id].instances; index != ENGINE_NONE; index = engine->prepared.instances[index].next) {
        const struct instance *instance = &engine->prepared.instances[index];
        if (instance->doomed || !demand_suits(engine, job, instance))
            continue;
        if (instance->state == INSTANCE_READY)
            return index;
        making = index;
    }
    return making;
}
