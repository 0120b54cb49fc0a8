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
    if (encoded_sample(residents->encoded, id)->encoded != ENGINE_NONE)
        encoded_shift_want(residents->encoded, encoded_sample(residents->encoded, id)->encoded, by);
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

/* What is done with the instances of a job's samples. */
struct tour {
    struct residents *residents;
    struct job *job;
    void (*done)(const struct tour *tour, uint32_t index);
};

static void visit_instances(void *context, sample_id id)
{
    const struct tour *tour = context;
    INSTANCES_OF(tour->residents->prepared, id, index)
        tour->done(tour, index);
}

/* tour_instances goes through the instances of the job's samples, or through all instances if these are fewer. */
static void tour_instances(struct residents *residents, struct job *job,
                           void (*done)(const struct tour *tour, uint32_t index))
{
    struct tour tour = {residents, job, done};
    if (goes_by_samples(residents, job->shape.view_samples)) {
        sampler_each_viewed(residents->env->sampler, job->no, visit_instances, &tour);
        return;
    }
    for (uint32_t index = 0; index < residents->prepared->slab.size; index++) {
        if (residents->prepared->instances[index].state != INSTANCE_FREE)
            done(&tour, index);
    }
}

/* The job is IDLE and wants nothing, so no want changes. */
void residents_inherit(struct residents *residents, struct job *job, const struct engine_job_desc *desc)
{
    struct prepared *prepared = residents->prepared;
    for (uint32_t index = 0; desc->inherits && index < prepared->slab.size; index++) {
        const struct instance *instance = &prepared->instances[index];
        if (instance->state != INSTANCE_FREE && instance->form.pipeline == job->terms.pipeline &&
            (desc->inherits == ENGINE_INHERITS_ALL || jobset_has(&instance->form.had, desc->predecessor)))
            prepared_mark_had(prepared, job->no, index);
    }
}

static void forget_had(const struct tour *tour, uint32_t index)
{
    jobset_remove(&tour->residents->prepared->instances[index].form.had, tour->job->no);
    if (tour->job->terms.repeatable)
        prepared_note_again(tour->residents->prepared, index);
}

void residents_forget_job(struct residents *residents, struct job *job)
{
    job->progress.began = false;
    tour_instances(residents, job, forget_had);
}

static void renew(const struct tour *tour, uint32_t index)
{
    struct prepared *prepared = tour->residents->prepared;
    struct form *form = &prepared->instances[index].form;
    if (form->pipeline != tour->job->terms.pipeline)
        return;
    jobset_remove(&form->had, tour->job->no);
    prepared_set_alone(prepared, index);
    prepared_set_want(prepared, index, demand_count(prepared->jobs, form));
}

void residents_renew(struct residents *residents, struct job *job)
{
    if (job->terms.repeatable)
        tour_instances(residents, job, renew);
}

static void note_again(const struct tour *tour, uint32_t index)
{
    prepared_note_again(tour->residents->prepared, index);
}

void residents_job_failed(struct residents *residents, struct job *job)
{
    if (job->terms.repeatable)
        tour_instances(residents, job, note_again);
}
