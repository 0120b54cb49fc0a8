/* demand.h: who wants what: which jobs may be given an instance, how many want a sample, and how far apart they are.
 *
 * Invariant: none of these functions changes anything, and all follow from the jobs' states, the remaining sets of the
 * sampler and `had` of a form. demand_count and demand_count_encoded are the definition of a want: the counts that the
 * two stores keep must always equal them (engine_check).
 * Owner: none; this module has no state. */
#ifndef LARDER_SERVER_ENGINE_DEMAND_H
#define LARDER_SERVER_ENGINE_DEMAND_H

#include "server/engine/job.h"

#define PIPELINE_GONE UINT32_MAX /* no job's: the number means another pipeline now */

/* What a job may be given: a sample, prepared in one way, and the jobs that planned or got it. */
struct form {
    sample_id id;
    uint32_t pipeline; /* the caller's number, or PIPELINE_GONE */
    uint64_t variant;
    struct jobset had;
};

/* May the job be given the form, as far as pipeline, variant and what it had go? */
static inline bool demand_suits(const struct jobs *jobs, uint32_t no, const struct form *form)
{
    const struct job *job = job_at(jobs, no);
    return form->pipeline == job->terms.pipeline && form->variant == job->progress.variant &&
           !jobset_has(&form->had, no);
}

bool demand_prepare_alike(const struct jobs *jobs);
uint32_t demand_takers(const struct jobs *jobs, uint32_t *takers, uint32_t max);
double demand_apart(const struct jobs *jobs, const uint32_t *takers, uint32_t count, const bool *stocked);
bool demand_wants_instance(const struct jobs *jobs, uint32_t job, const struct form *form);
bool demand_wants_encoded(const struct jobs *jobs, uint32_t job, sample_id id);
uint32_t demand_count(const struct jobs *jobs, const struct form *form);
uint32_t demand_count_encoded(const struct jobs *jobs, sample_id id);
/* samples a nanosecond that it was given since it came */
double demand_job_rate(const struct jobs *jobs, const struct job *job);

#endif
