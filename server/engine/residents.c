/* residents.c: samples leave remaining sets and come back, and the wants that both memories count follow. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/prepared.h"
#include "server/engine/residents.h"

/* A want that is counted no more needs no settled resident: whatever it follows later, the job wants it no more. */
void residents_left(struct residents *residents, uint32_t job, sample_id id)
{
    INSTANCES_OF(residents->prepared, id, index)
        prepared_left(residents->prepared, index, job);
    if (encoded_sample(residents->encoded, id)->encoded != ENGINE_NONE)
        encoded_left(residents->encoded, encoded_sample(residents->encoded, id)->encoded, job);
}

void residents_back(struct residents *residents, uint32_t job, sample_id id)
{
    INSTANCES_OF(residents->prepared, id, index) {
        prepared_settle(residents->prepared, index);
        prepared_back(residents->prepared, index, job);
    }
    if (encoded_sample(residents->encoded, id)->encoded != ENGINE_NONE)
        encoded_back(residents->encoded, encoded_sample(residents->encoded, id)->encoded, job);
}

/* The context of visits to a job's samples. */
struct visit {
    struct residents *residents;
    struct change change;
};

static void visit_instances(void *context, sample_id id)
{
    const struct visit *visit = context;
    INSTANCES_OF(visit->residents->prepared, id, index) {
        prepared_settle(visit->residents->prepared, index);
        prepared_follow(visit->residents->prepared, index, &visit->change, 1);
    }
}

static void visit_all(void *context, sample_id id)
{
    const struct visit *visit = context;
    uint32_t encoded = encoded_sample(visit->residents->encoded, id)->encoded;
    visit_instances(context, id);
    if (encoded == ENGINE_NONE)
        return;
    encoded_settle(visit->residents->encoded, encoded);
    encoded_follow(visit->residents->encoded, encoded, &visit->change, 1);
}

static void visit_drop(void *context, sample_id id)
{
    encoded_drop_if_idle(((const struct visit *)context)->residents->encoded, id);
}

/* If few samples remain to the job, no change is logged: the residents of these samples are updated at once. */
void residents_turned(struct residents *residents, uint32_t job)
{
    struct change change = {CHANGE_WANTS, .job = job, .pipeline = job_at(residents->jobs, job)->terms.pipeline};
    if (residents_few(residents, sampler_remaining(residents->env->sampler, job)))
        sampler_each_left(residents->env->sampler, job, visit_all, &(struct visit){residents, change});
    else
        residents_change(residents, &change);
}

void residents_drop_remaining(struct residents *residents, uint32_t job)
{
    if (residents_few(residents, sampler_remaining(residents->env->sampler, job)))
        sampler_each_left(residents->env->sampler, job, visit_drop, &(struct visit){.residents = residents});
    else
        residents_drop_idle(residents);
}

void residents_uses_changed(struct residents *residents)
{
    residents_change(residents, &(struct change){CHANGE_USES, .pipeline = PIPELINE_GONE});
}

/* change_viewed has the instances of the job's samples follow the change, or adds a line. */
static void change_viewed(struct residents *residents, const struct job *job, enum change_kind kind)
{
    struct change change = {kind, .job = job->no, .pipeline = job->terms.pipeline, .other = job->kin.had};
    if (residents_few(residents, job->shape.view_samples))
        sampler_each_viewed(residents->env->sampler, job->no, visit_instances, &(struct visit){residents, change});
    else
        residents_change(residents, &change);
}

/* The job is IDLE and wants nothing, so no want changes. Its family knows what was had better. But members may have
 * been here before, and have gone with what they knew: so the first that comes gets nothing that exists. */
void residents_inherit(struct residents *residents, struct job *job, const struct engine_job_desc *desc)
{
    bool anew = job->terms.family && !job->terms.repeatable;
    bool all = desc->inherits == ENGINE_INHERITS_ALL || anew;
    if ((desc->inherits || anew) && !family_is_known(job))
        residents_change(residents, &(struct change){all ? CHANGE_INHERITED_ALL : CHANGE_INHERITED, job->kin.had,
                                                     job->terms.pipeline,
                                                     all ? 0 : job_at(residents->jobs, desc->predecessor)->kin.had});
}

void residents_forget_job(struct residents *residents, struct job *job)
{
    bool last = family_leave(residents->jobs, job);
    job->progress.began = false;
    if (!job->terms.family)
        change_viewed(residents, job, CHANGE_FORGOTTEN);
    else if (last) /* other members had other samples than its own */
        residents_change(residents, &(struct change){CHANGE_FORGOTTEN, job->kin.had, job->terms.pipeline, 0});
    if (job->terms.repeatable)
        change_viewed(residents, job, CHANGE_AGAIN);
}

void residents_renew(struct residents *residents, struct job *job)
{
    if (job->terms.repeatable)
        change_viewed(residents, job, CHANGE_RENEWED);
}

void residents_job_failed(struct residents *residents, struct job *job)
{
    if (job->terms.repeatable)
        change_viewed(residents, job, CHANGE_AGAIN);
}

void residents_forget_pipeline(struct residents *residents, uint32_t pipeline)
{
    residents_change(residents, &(struct change){CHANGE_PIPELINE_GONE, .pipeline = pipeline});
}
