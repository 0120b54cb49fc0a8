/* plan_redirect.c: which samples a pick's jobs get (Brand and Redox: redirection, carried over to many jobs).
 *
 * A pick e is drawn for the jobs in S. Job j may get any sample e' of e's fiber that is in R_j, instead of e. Then e'
 * leaves R_j, and e does not. So the fiber is asked for as often as it has samples left.
 *
 * Fibers exist to bound reads. If all bytes stay in memory nothing is read. Then a job's instance may also come from
 * the same slots of other groups: as many groups as hold REACH_THIN samples of its view. So a job on a tenth of a
 * dataset looks into ten times as many groups as one on all of it. The search begins with e's own group and wraps
 * around, so each fiber is in reach of equally many others. */
#include <string.h>

#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/plan.h"
#include "server/engine/residents.h"

enum {
    /* A fiber with this many samples of a job's view is searched alone. With half as many, too few samples are found
     * that were prepared for another job. With twice as many, jobs receive more of their samples in the order of other
     * jobs. */
    REACH_SAMPLES = 192,
    /* If a fiber has fewer, the search covers this many. */
    REACH_THIN = 384,
    /* Fibers, and instances in all of them, that are looked at for one job; those of a fiber newest first. This bounds
     * the work. */
    GROUPS_LOOK_MAX = 1024,
    PREPARED_LOOK_MAX = 256
};

/* eligible tells whether the sample is in R_j, or is the pick itself, which has just left R_j. */
static bool eligible(const struct plan *plan, uint32_t job, sample_id pick, sample_id id)
{
    return id == pick || sampler_wants(plan->env->sampler, job, id);
}

/* eligible_for_all tells whether the sample is eligible for each of the jobs. */
static bool eligible_for_all(const struct plan *plan, const struct jobset *jobs, sample_id pick, sample_id id)
{
    const struct sampler *sampler = plan->env->sampler;
    if (id == pick)
        return true;
    JOBSET_EACH(job, jobs)
        if (!sampler_wants(sampler, job, id))
            return false;
    return true;
}

/* better_instance returns the better of two settled instances for the job; `best` may be ENGINE_NONE. An instance that
 * the job may not get is never better. READY is better than MAKING. Between equals, the one that fewer jobs want is
 * better: it would be evicted first. */
static uint32_t better_instance(const struct plan *plan, uint32_t job, sample_id pick, uint32_t index, uint32_t best)
{
    const struct instance *instance = &plan->prepared->instances[index];
    if (!demand_suits(plan->jobs, job, &instance->form) || !eligible(plan, job, pick, instance->form.id))
        return best;
    if (best == ENGINE_NONE)
        return index;
    const struct instance *other = &plan->prepared->instances[best];
    bool ready = instance->state == INSTANCE_READY;
    if (ready != (other->state == INSTANCE_READY))
        return ready ? index : best;
    return instance->want < other->want ? index : best;
}

static bool is_ready(const struct plan *plan, uint32_t index)
{
    return index != ENGINE_NONE && plan->prepared->instances[index].state == INSTANCE_READY;
}

/* none_is_better tells whether the instance is READY and at most one job wants it: nothing of the fiber comes before
 * such a one. */
static bool none_is_better(const struct plan *plan, uint32_t best)
{
    return is_ready(plan, best) && plan->prepared->instances[best].want < 2 * DEMAND_NOW;
}

/* groups_in_reach returns the number of groups to search for an instance, the pick's own included. A job alone searches
 * one: nothing was prepared for others. */
static uint32_t groups_in_reach(const struct plan *plan, const struct job *job, const struct group *group)
{
    bool alone = job == jobs_first(plan->jobs) && !jobs_after(plan->jobs, job);
    if (alone || !group->kept || !job->shape.chunk_count)
        return 1;
    /* The view has `part` / `whole` samples in a fiber, on the mean of its dataset. All groups reach equally far: those
     * with a chunk less would else count as thin where a whole one has just REACH_SAMPLES, and bring more of other
     * jobs' order than they save. */
    uint64_t part = job->shape.view_samples * group->most_chunks * group->width;
    uint64_t whole = (uint64_t)job->shape.chunk_count * group->chunk_samples;
    uint64_t reach = part < REACH_SAMPLES * whole ? REACH_THIN : REACH_SAMPLES;
    if (plan->env->config.redirect_reach)
        reach = plan->env->config.redirect_reach;
    uint64_t groups = (reach * whole + part - 1) / part;
    uint32_t most = group->n_alike < GROUPS_LOOK_MAX ? group->n_alike : GROUPS_LOOK_MAX;
    return groups < most ? (uint32_t)groups : most;
}

/* best_of_fiber returns the best of `best`, which may be ENGINE_NONE, and the fiber's instances that somebody wants. It
 * settles and counts each that it looks at. */
static uint32_t best_of_fiber(const struct plan *plan, uint32_t job, sample_id pick, const struct fiber *fiber,
                              uint32_t *looked, uint32_t best)
{
    const struct fiber_members *members = &fiber->instances;
    for (uint32_t at = members->count; at-- > 0 && *looked < PREPARED_LOOK_MAX && !none_is_better(plan, best);
         ++*looked) {
        uint32_t index = members->all[at];
        if (at >= MEMBERS_AHEAD)
            prepared_fetch(plan->prepared, members->all[at - MEMBERS_AHEAD]);
        if (prepared_settle(plan->prepared, index) && !prepared_is_listed(plan->prepared, index))
            continue;
        best = better_instance(plan, job, pick, index, best);
    }
    return best;
}

/* find_prepared returns the best instance for the job. Candidates are the instances of the pick, wanted or not, and
 * those of its fiber that somebody wants. If none of these is READY, the next fiber in reach with a READY one is used.
 * Two kinds of instance are given for their own sample only. One was left behind by a job in the dataset's order: since
 * a folder is sorted by class, an epoch would begin with one class. The other lies there since an earlier epoch: it
 * would come early in each epoch. */
static uint32_t find_prepared(const struct plan *plan, uint32_t job, sample_id pick)
{
    const struct group *group = chunks_group(plan->chunks, pick), *near = group;
    const struct group *first = &plan->chunks->groups[group->first_alike], *end = first + group->n_alike;
    uint32_t fiber = chunks_place(plan->chunks, pick)->slot / group->width, best = ENGINE_NONE, looked = 0;
    INSTANCES_OF(plan->prepared, pick, index) {
        prepared_settle(plan->prepared, index);
        best = better_instance(plan, job, pick, index, best);
    }
    for (uint32_t left = groups_in_reach(plan, job_at(plan->jobs, job), group); left > 0; left--) {
        best = best_of_fiber(plan, job, pick, &plan->chunks->fibers[near->first_fiber + fiber], &looked, best);
        if (is_ready(plan, best))
            break;
        near = near + 1 < end ? near + 1 : first;
    }
    return best;
}

/* find_encoded returns a sample of the fiber whose bytes are in memory or being loaded, and that all the jobs may get;
 * SAMPLE_NONE when there is none. Bytes in memory come before bytes being loaded. It takes a random one of
 * those that fewest jobs want, which keeps neighbours in a chunk from following each other. In a kept chunk the pick
 * itself is as good as any. */
static sample_id find_encoded(struct plan *plan, const struct jobset *jobs, sample_id pick)
{
    sample_id best = SAMPLE_NONE;
    uint32_t best_want = 0;
    uint64_t ties = 0;
    if (chunks_group(plan->chunks, pick)->kept && encoded_is_ready(plan->encoded, pick))
        return pick;
    const struct fiber_members *members = &chunks_fiber(plan->chunks, pick)->encoded;
    for (uint32_t at = members->count; at-- > 0;) {
        const struct encoded *encoded = encoded_member(plan->encoded, members, at);
        uint32_t index = members->all[at];
        if ((encoded->in_order && encoded->id != pick) || !eligible_for_all(plan, jobs, pick, encoded->id))
            continue;
        encoded_settle(plan->encoded, index);
        uint32_t want = residency_want(plan->encoded->residency, index) +
                        (encoded->state == ENCODED_LOADING ? RESIDENCY_WANT_MAX : 0);
        bool fewer = best == SAMPLE_NONE || want < best_want;
        ties = fewer ? 1 : ties + (want == best_want);
        if (fewer || (want == best_want && random_below(&plan->env->rng, ties) == 0)) {
            best = encoded->id;
            best_want = want;
        }
    }
    return best;
}

/* member_for returns a sample of the chunk, in slots first … end - 1, that all the jobs may get and memory does not
 * have; SAMPLE_NONE when there is none. Chance decides among several. */
static sample_id member_for(struct plan *plan, const struct chunk *chunk, const struct jobset *jobs, sample_id pick,
                            uint32_t first, uint32_t end)
{
    sample_id found = SAMPLE_NONE;
    uint64_t seen = 0;
    for (uint32_t slot = first; slot < end; slot++) {
        sample_id id = chunk->members[slot];
        if (id == SAMPLE_NONE || (encoded_sample(plan->encoded, id)->encoded != ENGINE_NONE && id != pick))
            continue;
        if (eligible_for_all(plan, jobs, pick, id) && random_below(&plan->env->rng, ++seen) == 0)
            found = id;
    }
    return found;
}

/* find_load returns the sample to load. It is from the chunk of the group that brings most, but a chunk that a task
 * waits for already comes before all others. */
static sample_id find_load(struct plan *plan, const struct jobset *jobs, sample_id pick)
{
    const struct group *group = chunks_group(plan->chunks, pick);
    uint32_t first = chunks_place(plan->chunks, pick)->slot / group->width * group->width;
    uint32_t end = first + group->width;
    end = end < group->chunk_samples ? end : group->chunk_samples;
    sample_id best = pick;
    uint64_t best_fill = 0;
    uint32_t compared = 0, from = (uint32_t)random_below(&plan->env->rng, group->n_chunks);
    encoded_measure_shortage(plan->encoded, group);
    for (uint32_t i = 0; i < group->n_chunks && i < ENGINE_LOOK_MAX && compared < ENGINE_COMPARE_MAX; i++) {
        const struct chunk *chunk = chunks_at(plan->chunks, group, (from + i) % group->n_chunks);
        sample_id id = member_for(plan, chunk, jobs, pick, first, end);
        if (id == SAMPLE_NONE)
            continue;
        if (chunk->pending)
            return id;
        uint64_t fill = encoded_fill(plan->encoded, chunk).wants + 1;
        compared++;
        if (fill > best_fill) {
            best = id;
            best_fill = fill;
        }
    }
    return best;
}

/* give gives the job the sample `id` instead of the pick, which goes back into R_j. Its residents count the want still,
 * but for those that were begun since the pick was drawn. */
static void give(struct plan *plan, uint32_t job, sample_id pick, sample_id id, sample_id target[JOBS_MAX])
{
    target[job] = id;
    if (id == pick)
        return;
    encoded_fetch(plan->encoded, id);
    sampler_put_back(plan->env->sampler, job, pick, 1);
    residents_back(plan->residents, job, pick);
    sampler_take(plan->env->sampler, job, id);
}

/* find_residents adds the jobs of the pick that may be redirected to `jobs`, and sets found[j] to the instance that job
 * j would get, or ENGINE_NONE. It returns whether all of them would get one. */
static bool find_residents(const struct plan *plan, const struct pick *pick, struct jobset *jobs,
                           uint32_t found[JOBS_MAX])
{
    bool all = true;
    JOBSET_EACH(job, &pick->jobs) {
        if (!job_at(plan->jobs, job)->terms.redirected)
            continue;
        jobset_add(jobs, job);
        found[job] = find_prepared(plan, job, pick->id);
        if (found[job] != ENGINE_NONE)
            samples_fetch(&plan->env->samples, plan->prepared->instances[found[job]].form.id);
        all = all && found[job] != ENGINE_NONE;
    }
    return all;
}

/* A pick is split only when that costs no preparation. When each of its jobs finds an instance that it may get, each
 * gets its own. When one of them needs a new instance, all get that one: it is made anyway, and what the others would
 * have taken stays for later. In the scenario of four speeds this takes 0.409 preparations a sample, against 0.430 when
 * each job takes what it finds. */
void plan_redirect(struct plan *plan, const struct pick *pick, sample_id target[JOBS_MAX])
{
    struct jobset jobs = {{0}};
    uint32_t found[JOBS_MAX];
    JOBSET_EACH(job, &pick->jobs)
        target[job] = pick->id;
    if (chunks_fiber_no(plan->chunks, pick->id) == ENGINE_NONE)
        return;
    encoded_fetch(plan->encoded, pick->id); /* its wants change when the pick goes back */
    if (find_residents(plan, pick, &jobs, found)) {
        JOBSET_EACH(job, &jobs) {
            plan->env->counts.redirected_prepared += plan->prepared->instances[found[job]].form.id != pick->id;
            give(plan, job, pick->id, plan->prepared->instances[found[job]].form.id, target);
        }
        return;
    }
    sample_id id = find_encoded(plan, &jobs, pick->id);
    if (id == SAMPLE_NONE)
        id = find_load(plan, &jobs, pick->id);
    plan->env->counts.redirected_encoded += id != pick->id;
    JOBSET_EACH(job, &jobs)
        give(plan, job, pick->id, id, target);
}
