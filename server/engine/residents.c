/* residents.c: samples leave remaining sets and come back, and the wants that both memories count follow. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/prepared.h"
#include "server/engine/residents.h"

enum { SAMPLE_WORK = 16 }; /* residents that are gone through in the time that it takes to find those of one sample */

/* What the visits of a job's samples need; `by` is the change of each want. */
struct visit {
    struct residents *residents;
    uint32_t job;
    int by;
};

/* shift_wants changes the wants of the sample's residents by what this job counts for. */
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

/* goes_by_samples tells whether it is less work to go through so many samples than through all residents. That is so
 * for a job whose samples are few beside what is in memory. */
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

/* shift_all_wants counts the wants of a running job for all that remains to it once more, or once less. */
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
