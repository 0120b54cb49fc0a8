/* residents.c: samples leave remaining sets and come back: the wants that both memories count by follow. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/prepared.h"
#include "server/engine/residents.h"

enum { SAMPLE_WORK = 16 }; /* residents that are gone through in the time that a sample's take to be found */

/* What is done for each of a job's samples. */
struct visit {
    struct residents *residents;
    uint32_t job;
    int by;
};

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
        if (residents->encoded->encodeds[index].state != ENCODED_FREE &&
            demand_wants_encoded(residents->jobs, job, residents->encoded->encodeds[index].id))
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

void residents_drop_remaining(struct residents *residents, uint32_t job)
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
