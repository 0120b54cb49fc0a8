/* residents.c: samples leave remaining sets and come back: the wants that both memories count by follow. */
#include <stdlib.h>

#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/plan.h"
#include "server/engine/prepared.h"
#include "server/engine/residents.h"

/* What is done for each of a job's samples. */
struct visit {
    struct engine *engine;
    uint32_t job;
    int by;
};

/* What is in memory of the sample counts in its fiber from now on. */
static void take_place(struct engine *engine, sample_id id, const struct engine_place *place)
{
    struct sample_state *sample = &engine->samples.all[id];
    struct chunk *chunk = &engine->chunks.chunks[place->chunk];
    struct group *group = &engine->chunks.groups[chunk->group];
    sample->chunk = place->chunk;
    sample->fiber = group->first_fiber + place->slot / group->width;
    chunk->members[place->slot] = id;
    for (uint32_t i = sample->instances; i != ENGINE_NONE; i = engine->prepared.instances[i].next) {
        if (residency_want(engine->prepared.residency, i))
            chunks_fiber_add_instance(engine, i);
    }
    if (sample->encoded != ENGINE_NONE) {
        chunks_fiber_add_encoded(engine, sample->encoded);
        group->stock++;
    }
}

int residents_place(struct engine *engine, const struct engine_job_desc *desc, struct job *job)
{
    if (!desc->places || !desc->chunk_count || !engine->config.redirect_width)
        return 0;
    uint64_t count = idset_count(desc->view);
    uint32_t n_seen = 0;
    sample_id *ids = malloc(count * sizeof *ids);
    bool *seen = calloc(desc->chunk_count, sizeof *seen);
    bool known = desc->chunk_base < engine->chunks.n_chunks && engine->chunks.chunks[desc->chunk_base].group != ENGINE_NONE;
    if (!ids || !seen || (!known && chunks_enter(engine, desc))) {
        free(ids);
        free(seen);
        return LARDER_ENOMEM;
    }
    idset_to_array(desc->view, ids);
    for (uint64_t i = 0; i < count; i++) {
        struct sample_state *sample = &engine->samples.all[ids[i]];
        const struct engine_place *place = &desc->places[i];
        CHECK(place->chunk >= desc->chunk_base && place->chunk - desc->chunk_base < desc->chunk_count &&
              place->slot < desc->chunk_samples);
        if (sample->chunk == ENGINE_NONE && !sample->pending)
            take_place(engine, ids[i], place);
        n_seen += !seen[place->chunk - desc->chunk_base];
        seen[place->chunk - desc->chunk_base] = true;
    }
    free(seen);
    free(ids);
    job->shape.chunk_base = desc->chunk_base;
    job->shape.chunk_count = desc->chunk_count;
    job->shape.chunk_samples = (double)count / n_seen;
    job->shape.ample = engine->config.redirect_width == 1 || chunks_samples_held(engine, desc) * 2 >= count;
    return 0;
}

/* What is in memory of the sample stays there. */
static void lose_place(struct engine *engine, sample_id id)
{
    struct sample_state *sample = &engine->samples.all[id];
    for (uint32_t i = sample->instances; i != ENGINE_NONE; i = engine->prepared.instances[i].next) {
        if (residency_want(engine->prepared.residency, i))
            chunks_fiber_remove_instance(engine, i);
    }
    if (sample->encoded != ENGINE_NONE) {
        chunks_fiber_remove_encoded(engine, sample->encoded);
        engine->chunks.groups[engine->chunks.chunks[sample->chunk].group].stock--;
    }
    sample->chunk = sample->fiber = ENGINE_NONE;
}

void engine_forget_chunks(struct engine *engine, uint32_t chunk_base, uint32_t chunk_count)
{
    uint32_t chunk_end = chunk_base + chunk_count;
    if (!chunk_count || chunk_base >= engine->chunks.n_chunks || engine->chunks.chunks[chunk_base].group == ENGINE_NONE)
        return; /* no job that was accepted came with them */
    CHECK(chunk_end <= engine->chunks.n_chunks);
    uint32_t first = engine->chunks.chunks[chunk_base].group, end = engine->chunks.chunks[chunk_end - 1].group + 1;
    for (uint64_t id = 0; id < engine->samples.cap; id++) { /* a member's slot may be another's by now */
        uint32_t chunk = engine->samples.all[id].chunk;
        if (chunk != ENGINE_NONE && chunk >= chunk_base && chunk < chunk_end)
            lose_place(engine, (sample_id)id);
    }
    for (uint32_t chunk = chunk_base; chunk < chunk_end; chunk++) {
        free(engine->chunks.chunks[chunk].members);
        engine->chunks.chunks[chunk] = (struct chunk){.group = ENGINE_NONE};
    }
    chunks_drop_groups(engine, first, end);
}

static void shift_wants(struct engine *engine, uint32_t job, sample_id id, int by)
{
    const struct sample_state *sample = &engine->samples.all[id];
    for (uint32_t index = sample->instances; index != ENGINE_NONE; index = engine->prepared.instances[index].next) {
        const struct instance *instance = &engine->prepared.instances[index];
        if (demand_suits(engine, job, instance))
            prepared_shift_want(engine, index, by);
    }
    if (sample->encoded != ENGINE_NONE)
        residency_set_want(engine->encoded.residency, sample->encoded, residency_want(engine->encoded.residency, sample->encoded) + (uint32_t)by);
}

void residents_left(struct engine *engine, uint32_t job, sample_id id)
{
    shift_wants(engine, job, id, -1);
}

void residents_back(struct engine *engine, uint32_t job, sample_id id)
{
    shift_wants(engine, job, id, 1);
}

/* A job among those of which much more is in memory changes its epoch by its own samples, not by all residents. */
static bool goes_by_samples(const struct engine *engine, uint64_t samples)
{
    return samples * SAMPLE_WORK < (uint64_t)engine->prepared.slab.size + engine->encoded.slab.size;
}

static void visit_wants(void *context, sample_id id)
{
    const struct visit *visit = context;
    shift_wants(visit->engine, visit->job, id, visit->by);
}

static void visit_settle(void *context, sample_id id)
{
    encoded_drop_if_idle(((const struct visit *)context)->engine, id);
}

static void visit_had(void *context, sample_id id)
{
    const struct visit *visit = context;
    struct engine *engine = visit->engine;
    for (uint32_t index = engine->samples.all[id].instances; index != ENGINE_NONE; index = engine->prepared.instances[index].next)
        jobset_remove(&engine->prepared.instances[index].form.had, visit->job);
}

/* The job's wants of all that remains to it count once more, or once less. */
static void shift_all_wants(struct engine *engine, uint32_t job, int by)
{
    if (engine->jobs.all[job].state != JOB_RUNNING)
        return;
    if (goes_by_samples(engine, sampler_remaining(engine->sampler, job))) {
        sampler_each_left(engine->sampler, job, visit_wants, &(struct visit){engine, job, by});
        return;
    }
    for (uint32_t index = 0; index < engine->prepared.slab.size; index++) {
        const struct instance *instance = &engine->prepared.instances[index];
        if (instance->state != INSTANCE_FREE && demand_wants_instance(engine, job, instance))
            prepared_shift_want(engine, index, by);
    }
    for (uint32_t index = 0; index < engine->encoded.slab.size; index++) {
        if (engine->encoded.encodeds[index].state != ENCODED_FREE && demand_wants_encoded(engine, job, engine->encoded.encodeds[index].id))
            residency_set_want(engine->encoded.residency, index, residency_want(engine->encoded.residency, index) + (uint32_t)by);
    }
}

void residents_withdraw(struct engine *engine, uint32_t job)
{
    shift_all_wants(engine, job, -1);
}

void residents_declare(struct engine *engine, uint32_t job)
{
    shift_all_wants(engine, job, 1);
}

void residents_drop_left(struct engine *engine, uint32_t job)
{
    if (goes_by_samples(engine, sampler_remaining(engine->sampler, job)))
        sampler_each_left(engine->sampler, job, visit_settle, &(struct visit){engine, job, 0});
    else
        encoded_drop_idle(engine);
}

void residents_forget_had(struct engine *engine, uint32_t job)
{
    if (goes_by_samples(engine, engine->jobs.all[job].shape.view_samples)) {
        sampler_each_viewed(engine->sampler, job, visit_had, &(struct visit){engine, job, 0});
        return;
    }
    for (uint32_t index = 0; index < engine->prepared.slab.size; index++) {
        if (engine->prepared.instances[index].state != INSTANCE_FREE)
            jobset_remove(&engine->prepared.instances[index].form.had, job);
    }
}
