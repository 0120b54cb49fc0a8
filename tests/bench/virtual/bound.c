/* bound.c: the bound of the linear program, in closed form.
 *
 * One job takes each of its n samples once in an epoch. So a use in a later epoch needs no read in that epoch only if
 * memory had the sample when the epoch began, encoded or decoded, and no decode only if it had the form. The means
 * over the later epochs of the parts that memory holds so, e and d, are at least 0, e + d <= 1, and e + d * decoded is
 * at most the room in memory, in samples as read over n. An instance is of no use to the job again, but may be made
 * ahead: when the second epoch begins, memory has at most the part a = room / prepared of its instances. The first
 * epoch reads and decodes all, and the job trains on one epoch after the other. So the makespan is at least
 *
 *     first = n * max(read_s, (decode_s + prepare_s) / cores, train_s)
 *     later = n * max(read_s * (epochs - 1) * (1 - e - d), train_s * (epochs - 1),
 *                     ((epochs - 1) * (prepare_s + decode_s * (1 - d)) - a * (prepare_s + decode_s)) / cores)
 *     first + later, and what the cores have to do in both.
 *
 * For a given d the largest e is best. What results is convex in d, so the least is found by thirds. */
#include "tests/bench/virtual/bound.h"

#include <math.h>

#include "tests/bench/virtual/sharing_priv.h"

enum { THIRDS = 200 };

static double view_samples(const struct sharing_scenario *scenario, const struct sharing_job *job)
{
    switch (job->view) {
    case SHARING_FRACTION: return round(job->fraction * scenario->samples);
    case SHARING_RANGE: return job->end - job->first;
    case SHARING_DEALT: return floor((double)scenario->samples / job->world_size);
    default: return scenario->samples;
    }
}

/* What memory has room for, in samples as read. */
static double room(const struct sharing_scenario *scenario)
{
    return (double)sharing_encoded(scenario) + (double)sharing_slots(scenario) * scenario->costs.prepared;
}

/* least_with returns the least seconds if memory holds the part d of n samples decoded. */
static double least_with(const struct sharing_scenario *scenario, const struct sharing_job *job, double n, double d)
{
    const struct costs *costs = &scenario->costs;
    double part = room(scenario) / n, more = job->epochs - 1;
    double e = fmax(0, fmin(1 - d, part - d * costs->decoded)), a = fmin(1, part / costs->prepared);
    double whole_s = (costs->decode_s + costs->prepare_s) / costs->cores;
    double again_s = more * (costs->prepare_s + costs->decode_s * (1 - d)) / costs->cores;
    double first = fmax(fmax(costs_read_s(costs), whole_s), job->train_s);
    double later = fmax(costs_read_s(costs) * more * (1 - e - d), job->train_s * more);
    later = fmax(later, again_s - a * whole_s);
    return n * fmax(first + later, whole_s + again_s);
}

double bound_job(const struct sharing_scenario *scenario, const struct sharing_job *job)
{
    double n = view_samples(scenario, job);
    double low = 0, high = fmin(1, room(scenario) / n / scenario->costs.decoded);
    for (int i = 0; i < THIRDS; i++) {
        double third = (high - low) / 3;
        if (least_with(scenario, job, n, low + third) <= least_with(scenario, job, n, high - third))
            high -= third;
        else
            low += third;
    }
    return least_with(scenario, job, n, low);
}

static bool same(const struct sharing_job *a, const struct sharing_job *b)
{
    return a->start == b->start && a->train_s == b->train_s && a->epochs == b->epochs && a->pipeline == b->pipeline &&
           a->view == SHARING_ALL && b->view == SHARING_ALL;
}

double bound_scenario(const struct sharing_scenario *scenario, bool *in_step)
{
    const struct costs *costs = &scenario->costs;
    double least_s = 0, training_s = 0;
    *in_step = costs->at_once == 0 || costs->at_once >= scenario->n_jobs;
    for (uint32_t i = 0; i < scenario->n_jobs; i++) {
        const struct sharing_job *job = &scenario->jobs[i];
        least_s = fmax(least_s, job->start + bound_job(scenario, job));
        training_s += view_samples(scenario, job) * job->train_s * job->epochs;
        *in_step = *in_step && same(job, &scenario->jobs[0]);
    }
    return costs->at_once ? fmax(least_s, training_s / costs->at_once) : least_s;
}

json_t *bound_report(const struct sharing_scenario *scenario, const struct costs_machine *machine)
{
    bool in_step;
    double bound_s = bound_scenario(scenario, &in_step);
    json_t *json = costs_report(machine);
    json_object_set_new(json, "bound_s", json_real(bound_s));
    json_object_set_new(json, "over_bound", json_real((double)machine->makespan_ns / 1e9 / bound_s));
    json_object_set_new(json, "in_step", json_boolean(in_step));
    return json;
}
