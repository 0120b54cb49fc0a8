/* residents.c: samples leave remaining sets and come back: the wants that both memories count by follow. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/prepared.h"
#include "server/engine/residents.h"

/* What is done for each of a job's samples. */
struct visit {
    struct residents *residents;
    uint32_t job;
    int by;
};

/* What is in memory of the sample counts in its fiber from now on. */
static void take_place(struct residents *residents, sample_id id, const struct engine_place *place)
{
    struct chunk *chunk = &residents->chunks->chunks[place->chunk];
    struct group *group = &residents->chunks->groups[chunk->group];
    residents->chunks->at[id] = (struct chunk_place){place->chunk, group->first_fiber + place->slot / group->width};
    chunk->members[place->slot] = id;
    INSTANCES_OF(residents->prepared, id, i) {
        if (residency_want(residents->prepared->residency, i))
            prepared_fiber_enter(residents->prepared, i);
    }
    if (residents->encoded->samples[id].encoded != ENGINE_NONE)
        encoded_fiber_enter(residents->encoded, residents->encoded->samples[id].encoded);
}

int residents_place(struct residents *residents, const struct engine_job_desc *desc, struct job *job)
{
    if (!desc->places || !desc->chunk_count || !residents->env->config.redirect_width)
        return 0;
    uint64_t count = idset_count(desc->view);
    uint64_t held = encoded_sure(residents->encoded) / job->shape.mean_bytes; /* samples of the dataset that the encoded budget holds */
    uint32_t n_seen = 0;
    sample_id *ids = malloc(count * sizeof *ids);
    bool *seen = calloc(desc->chunk_count, sizeof *seen);
    bool known = desc->chunk_base < residents->chunks->n_chunks && residents->chunks->chunks[desc->chunk_base].group != ENGINE_NONE;
    if (!ids || !seen || (!known && chunks_enter(residents->chunks, desc, held))) {
        free(ids);
        free(seen);
        return LARDER_ENOMEM;
    }
    idset_to_array(desc->view, ids);
    for (uint64_t i = 0; i < count; i++) {
        const struct engine_place *place = &desc->places[i];
        CHECK(place->chunk >= desc->chunk_base && place->chunk - desc->chunk_base < desc->chunk_count &&
              place->slot < desc->chunk_samples);
        if (residents->chunks->at[ids[i]].chunk == ENGINE_NONE && !residents->encoded->samples[ids[i]].pending)
            take_place(residents, ids[i], place);
        n_seen += !seen[place->chunk - desc->chunk_base];
        seen[place->chunk - desc->chunk_base] = true;
    }
    free(seen);
    free(ids);
    job->shape.chunk_base = desc->chunk_base;
    job->shape.chunk_count = desc->chunk_count;
    job->shape.chunk_samples = (double)count / n_seen;
    job->shape.ample = residents->env->config.redirect_width == 1 || held * 2 >= count;
    return 0;
}

/* What is in memory of the sample stays there. */
static void lose_place(struct residents *residents, sample_id id)
{
    INSTANCES_OF(residents->prepared, id, i) {
        if (residency_want(residents->prepared->residency, i))
            prepared_fiber_leave(residents->prepared, i);
    }
    if (residents->encoded->samples[id].encoded != ENGINE_NONE)
        encoded_fiber_leave(residents->encoded, residents->encoded->samples[id].encoded);
    residents->chunks->at[id] = CHUNK_PLACE_NONE;
}

void residents_forget_chunks(struct residents *residents, uint32_t chunk_base, uint32_t chunk_count)
{
    uint32_t chunk_end = chunk_base + chunk_count;
    if (!chunk_count || chunk_base >= residents->chunks->n_chunks || residents->chunks->chunks[chunk_base].group == ENGINE_NONE)
        return; /* no job that was accepted came with them */
    CHECK(chunk_end <= residents->chunks->n_chunks);
    uint32_t first = residents->chunks->chunks[chunk_base].group, end = residents->chunks->chunks[chunk_end - 1].group + 1;
    for (uint64_t id = 0; id < residents->env->ids; id++) { /* a member's slot may be another's by now */
        uint32_t chunk = residents->chunks->at[id].chunk;
        if (chunk != ENGINE_NONE && chunk >= chunk_base && chunk < chunk_end)
            lose_place(residents, (sample_id)id);
    }
    for (uint32_t chunk = chunk_base; chunk < chunk_end; chunk++) {
        free(residents->chunks->chunks[chunk].members);
        residents->chunks->chunks[chunk] = (struct chunk){.group = ENGINE_NONE};
    }
    chunks_drop_groups(residents->chunks, first, end);
}

static void shift_wants(struct residents *residents, uint32_t job, sample_id id, int by)
{
    INSTANCES_OF(residents->prepared, id, index) {
        const struct instance *instance = &residents->prepared->instances[index];
        if (demand_suits(residents->jobs, job, &instance->form))
            prepared_shift_want(residents->prepared, index, by);
    }
    if (residents->encoded->samples[id].encoded != ENGINE_NONE)
        encoded_shift_want(residents->encoded, residents->encoded->samples[id].encoded, by);
}

void residents_left(struct residents *residents, uint32_t job, sample_id id)
{
    shift_wants(residents, job, id, -1);
}

void residents_back(struct residents *residents, uint32_t job, sample_id id)
{
    shift_wants(residents, job, id, 1);
}

/* A job among those of which much more is in memory changes its epoch by its own samples, not by all residents. */
static bool goes_by_samples(const struct residents *residents, uint64_t samples)
{
    return samples * SAMPLE_WORK < (uint64_t)residents->prepared->slab.size + residents->encoded->slab.size;
}

static void visit_wants(void *context, sample_id id)
{
    const struct visit *visit = context;
    shift_wants(visit->residents, visit->job, id, visit->by);
}

static void visit_settle(void *context, sample_id id)
{
    encoded_drop_if_idle(((const struct visit *)context)->residents->encoded, id);
}

static void visit_had(void *context, sample_id id)
{
    const struct visit *visit = context;
    struct residents *residents = visit->residents;
    INSTANCES_OF(residents->prepared, id, index)
        jobset_remove(&residents->prepared->instances[index].form.had, visit->job);
}

/* The job's wants of all that remains to it count once more, or once less. */
static void shift_all_wants(struct residents *residents, uint32_t job, int by)
{
    if (job_at(residents->jobs, job)->state != JOB_RUNNING)
        return;
    if (goes_by_samples(residents, sampler_remaining(residents->env->sampler, job))) {
        sampler_each_left(residents->env->sampler, job, visit_wants, &(struct visit){residents, job, by});
        return;
    }
    for (uint32_t index = 0; index < residents->prepared->slab.size; index++) {
        const struct instance *instance = &residents->prepared->instances[index];
        if (instance->state != INSTANCE_FREE && demand_wants_instance(residents->jobs, job, &instance->form))
            prepared_shift_want(residents->prepared, index, by);
    }
    for (uint32_t index = 0; index < residents->encoded->slab.size; index++) {
        if (residents->encoded->encodeds[index].state != ENCODED_FREE && demand_wants_encoded(residents->jobs, job, residents->encoded->encodeds[index].id))
            encoded_shift_want(residents->encoded, index, by);
    }
}

void residents_withdraw(struct residents *residents, uint32_t job)
{
    shift_all_wants(residents, job, -1);
}

void residents_declare(struct residents *residents, uint32_t job)
{
    shift_all_wants(residents, job, 1);
}

void residents_drop_left(struct residents *residents, uint32_t job)
{
    if (goes_by_samples(residents, sampler_remaining(residents->env->sampler, job)))
        sampler_each_left(residents->env->sampler, job, visit_settle, &(struct visit){residents, job, 0});
    else
        encoded_drop_idle(residents->encoded);
}

void residents_forget_had(struct residents *residents, uint32_t job)
{
    if (goes_by_samples(residents, job_at(residents->jobs, job)->shape.view_samples)) {
        sampler_each_viewed(residents->env->sampler, job, visit_had, &(struct visit){residents, job, 0});
        return;
    }
    for (uint32_t index = 0; index < residents->prepared->slab.size; index++) {
        if (residents->prepared->instances[index].state != INSTANCE_FREE)
            jobset_remove(&residents->prepared->instances[index].form.had, job);
    }
}
