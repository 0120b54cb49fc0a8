/* demand.h: which jobs may get an instance, how many jobs want a sample, and how far apart jobs are.
 *
 * Invariant: none of these functions changes anything. All results follow from the jobs' states, the remaining sets of
 * the sampler, and `had` of a form. demand_count and demand_count_encoded define what a want is. Once a resident is
 * settled (changes.h), the want that its memory counts equals theirs (engine_check).
 * Owner: none; this module has no state. */
#ifndef LARDER_SERVER_ENGINE_DEMAND_H
#define LARDER_SERVER_ENGINE_DEMAND_H

#include "server/engine/family.h"

#define PIPELINE_GONE UINT32_MAX /* no job has this pipeline: its number already means another one */

/* In prepared memory each job that wants an instance adds two to its want. Jobs that will want it again in their next
 * epoch add one together. So such an instance is evicted before all that somebody wants now, and after those that
 * nobody wants any more. */
#define DEMAND_NOW 2u
#define DEMAND_AGAIN 1u

/* A sample prepared in one way, and the jobs that have planned or received it, by their bits (family.h). */
struct form {
    sample_id id;
    uint32_t pipeline; /* the caller's number, or PIPELINE_GONE */
    uint64_t variant;
    struct jobset had;
};

/* demand_suits tells whether the job may get the form: pipeline and variant match, and the job has not had it. */
static inline bool demand_suits(const struct jobs *jobs, uint32_t no, const struct form *form)
{
    const struct job *job = job_at(jobs, no);
    return form->pipeline == job->terms.pipeline && form->variant == job->progress.variant &&
           !jobset_has(&form->had, job->kin.had);
}

/* demand_takers fills in the running jobs that are redirected, at most max of them, and returns their number. The limit
 * bounds the work on a chunk. */
uint32_t demand_takers(const struct jobs *jobs, uint32_t *takers, uint32_t max);
/* demand_apart tells how far apart in their epochs those takers are for which `stocked` is set: 0 in step, 1 half an
 * epoch. */
double demand_apart(const struct jobs *jobs, const uint32_t *takers, uint32_t count, const bool *stocked);
/* demand_wants_instance tells whether the job is running, may get the form, and has its sample left in this epoch. */
bool demand_wants_instance(const struct jobs *jobs, uint32_t job, const struct form *form);
/* demand_wants_encoded tells whether the job is running and has the sample left in this epoch. */
bool demand_wants_encoded(const struct jobs *jobs, uint32_t job, sample_id id);
/* demand_again returns DEMAND_AGAIN if a job that is in one of its epochs, or between them, may get the form once in
 * each; else 0. */
uint32_t demand_again(const struct jobs *jobs, const struct form *form);
/* demand_count returns the want of the form, and demand_count_encoded the number of jobs that want the sample's bytes.
 * Both set *wanted to the jobs that want it. */
uint32_t demand_count(const struct jobs *jobs, const struct form *form, struct jobset *wanted);
uint32_t demand_count_encoded(const struct jobs *jobs, sample_id id, struct jobset *wanted);
/* demand_job_rate returns the samples per nanosecond that the job received since it came. */
double demand_job_rate(const struct jobs *jobs, const struct job *job);
/* demand_draw_rate counts only the samples that this engine drew: those that other nodes gave use no memory here. */
double demand_draw_rate(const struct jobs *jobs, const struct job *job);

#endif
