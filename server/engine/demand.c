/* demand.c: who wants what: which jobs want a sample or an instance, how many, how fast they take samples, and how far
 * apart they are. */
#include "server/engine/demand.h"

uint32_t demand_takers(const struct jobs *jobs, uint32_t *takers, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t job = 0; job < jobs->end && count < max; job++) {
        if (job_at(jobs, job)->state == JOB_RUNNING && job_at(jobs, job)->terms.redirected)
            takers[count++] = job;
    }
    return count;
}

/* Only takers with a stock in the group count: the others take no part of memory there. An epoch is a circle: one job's
 * end is beside another's beginning. */
double demand_apart(const struct jobs *jobs, const uint32_t *takers, uint32_t count, const bool *stocked)
{
    double first = -1, apart = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!stocked[i])
            continue;
        const struct job *job = job_at(jobs, takers[i]);
        double left = (double)job_left(jobs->env, job) /
                      (double)(job->shape.epoch_samples ? job->shape.epoch_samples : 1);
        first = first < 0 ? left : first;
        double ahead = left < first ? first - left : left - first, distance = ahead < 0.5 ? ahead * 2 : 2 - ahead * 2;
        apart = distance > apart ? distance : apart;
    }
    return apart;
}

bool demand_wants_instance(const struct jobs *jobs, uint32_t job, const struct form *form)
{
    return job_at(jobs, job)->state == JOB_RUNNING && demand_suits(jobs, job, form) &&
           sampler_wants(jobs->env->sampler, job, form->id);
}

bool demand_wants_encoded(const struct jobs *jobs, uint32_t job, sample_id id)
{
    return job_at(jobs, job)->state == JOB_RUNNING && sampler_wants(jobs->env->sampler, job, id);
}

uint32_t demand_again(const struct jobs *jobs, const struct form *form)
{
    for (const struct job *job = jobs_first(jobs); job; job = jobs_after(jobs, job)) {
        if (job->terms.repeatable && job->progress.began && job->state != JOB_FAILED &&
            job->terms.pipeline == form->pipeline && idset_contains(job->terms.view, form->id))
            return DEMAND_AGAIN;
    }
    return 0;
}

uint32_t demand_count(const struct jobs *jobs, const struct form *form, struct jobset *wanted)
{
    uint32_t want = demand_again(jobs, form);
    *wanted = (struct jobset){{0}};
    for (uint32_t job = 0; job < jobs->end; job++) {
        if (!demand_wants_instance(jobs, job, form))
            continue;
        jobset_add(wanted, job);
        want += DEMAND_NOW;
    }
    return want;
}

uint32_t demand_count_encoded(const struct jobs *jobs, sample_id id, struct jobset *wanted)
{
    uint32_t want = 0;
    *wanted = (struct jobset){{0}};
    for (uint32_t job = 0; job < jobs->end; job++) {
        if (!demand_wants_encoded(jobs, job, id))
            continue;
        jobset_add(wanted, job);
        want++;
    }
    return want;
}

double demand_job_rate(const struct jobs *jobs, const struct job *job)
{
    return (double)job->tallies.samples_delivered / (double)(jobs->env->now_ns - job->tallies.came_ns + 1);
}

double demand_draw_rate(const struct jobs *jobs, const struct job *job)
{
    double rate = demand_job_rate(jobs, job);
    if (!job->progress.here || rate == 0)
        return rate;
    return rate * (double)idset_count(job->progress.here) / (double)job->shape.view_samples;
}
