/* plan_redirect.c: which samples a pick's jobs get (Brand and Redox: redirection, carried over to many jobs).
 *
 * A pick e is drawn for the jobs in S. Any sample e' of e's fiber that is in R_j may be given to j instead of e: then e',
 * not e, leaves R_j, and the fiber is asked for as often as it has samples left. */
#include <string.h>

#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/plan.h"
#include "server/engine/residents.h"

enum { PREPARED_LOOK_MAX = 256 }; /* instances of a fiber that are looked at for one job, newest first: bounds the work */

/* In R_j, or the pick itself, which has left it just now. */
static bool eligible(const struct engine *engine, uint32_t job, sample_id pick, sample_id id)
{
    return id == pick || sampler_wants(engine->sampler, job, id);
}

static bool eligible_for_all(const struct engine *engine, const struct jobset *jobs, sample_id pick, sample_id id)
{
    JOBSET_EACH(job, jobs)
        if (!eligible(engine, job, pick, id))
            return false;
    return true;
}

/* What the job may get of one list of instances, and fewest others still want, when that is better than `best`: ready before
 * being made, and the first to be evicted before the others. */
static uint32_t better_instance(const struct engine *engine, uint32_t job, sample_id pick, uint32_t index, uint32_t best)
{
    const struct instance *instance = &engine->prepared.instances[index];
    if (instance->doomed || !demand_suits(engine, job, instance) || !eligible(engine, job, pick, instance->form.id))
        return best;
    if (best == ENGINE_NONE)
        return index;
    bool ready = instance->state == INSTANCE_READY, best_ready = engine->prepared.instances[best].state == INSTANCE_READY;
    if (ready != best_ready)
        return ready ? index : best;
    return residency_want(engine->prepared.residency, index) < residency_want(engine->prepared.residency, best) ? index : best;
}

/* Nothing of the fiber comes before an instance that is ready, and that the job alone wants. */
static bool none_is_better(const struct engine *engine, uint32_t best)
{
    return best != ENGINE_NONE && engine->prepared.instances[best].state == INSTANCE_READY && residency_want(engine->prepared.residency, best) <= 1;
}

/* The pick's own instances, which perhaps nobody else wants, then those of the fiber that somebody wants. What a job in the
 * dataset's order left behind is given for itself only: a folder is sorted by class, and an epoch would begin with one. */
static uint32_t find_prepared(const struct engine *engine, uint32_t job, sample_id pick)
{
    uint32_t best = ENGINE_NONE, looked = 0;
    for (uint32_t index = engine->samples.all[pick].instances; index != ENGINE_NONE; index = engine->prepared.instances[index].next)
        best = better_instance(engine, job, pick, index, best);
    for (uint32_t index = engine->chunks.fibers[engine->samples.all[pick].fiber].instances.head;
         index != ENGINE_NONE && looked < PREPARED_LOOK_MAX && !none_is_better(engine, best);
         index = engine->prepared.instances[index].in_fiber.next, looked++) {
        if (!engine->prepared.instances[index].in_order)
            best = better_instance(engine, job, pick, index, best);
    }
    return best;
}

/* The sample of the fiber whose bytes are in memory (or on their way) and that all the jobs may get. Of those that fewest
 * want the newest by one chance in four, or any: the newest leaves the others time to drift from their neighbours in the
 * chunk, and any keeps neighbours from following each other. Where all stay, none is new. */
static sample_id find_encoded(struct engine *engine, const struct jobset *jobs, sample_id pick)
{
    sample_id best = SAMPLE_NONE;
    uint32_t best_want = 0;
    uint64_t ties = 0;
    bool newest = random_below(&engine->rng, 4) == 0 && !encoded_keeps(engine, pick);
    for (uint32_t index = engine->chunks.fibers[engine->samples.all[pick].fiber].encoded.head; index != ENGINE_NONE;
         index = engine->encoded.encodeds[index].in_fiber.next) {
        const struct encoded *encoded = &engine->encoded.encodeds[index];
        if ((encoded->in_order && encoded->id != pick) || !eligible_for_all(engine, jobs, pick, encoded->id))
            continue;
        uint32_t want = residency_want(engine->encoded.residency, index) + (encoded->state == ENCODED_LOADING ? JOBS_MAX : 0);
        bool fewer = best == SAMPLE_NONE || want < best_want;
        ties = fewer ? 1 : ties + (want == best_want);
        if (fewer || (want == best_want && !newest && random_below(&engine->rng, ties) == 0)) {
            best = encoded->id;
            best_want = want;
        }
    }
    return best;
}

/* A sample of the chunk, in the fiber, that all the jobs may get and memory has not; which of several, by chance. */
static sample_id member_for(struct engine *engine, const struct chunk *chunk, const struct jobset *jobs, sample_id pick, uint32_t first,
                            uint32_t end)
{
    sample_id found = SAMPLE_NONE;
    uint64_t seen = 0;
    for (uint32_t slot = first; slot < end; slot++) {
        sample_id id = chunk->members[slot];
        if (id == SAMPLE_NONE || (engine->samples.all[id].encoded != ENGINE_NONE && id != pick))
            continue;
        if (eligible_for_all(engine, jobs, pick, id) && random_below(&engine->rng, ++seen) == 0)
            found = id;
    }
    return found;
}

/* The sample to load: from the chunk of the group that brings most, one that is asked for already before all others. */
static sample_id find_load(struct engine *engine, const struct jobset *jobs, sample_id pick)
{
    const struct sample_state *sample = &engine->samples.all[pick];
    const struct group *group = &engine->chunks.groups[engine->chunks.chunks[sample->chunk].group];
    uint32_t first = (sample->fiber - group->first_fiber) * group->width;
    uint32_t end = first + group->width;
    end = end < group->chunk_samples ? end : group->chunk_samples;
    sample_id best = pick;
    uint64_t best_fill = 0;
    uint32_t compared = 0, from = (uint32_t)random_below(&engine->rng, group->n_chunks);
    encoded_measure_shortage(engine, group);
    for (uint32_t i = 0; i < group->n_chunks && i < ENGINE_LOOK_MAX && compared < ENGINE_COMPARE_MAX; i++) {
        const struct chunk *chunk = &engine->chunks.chunks[group->first_chunk + (from + i) % group->n_chunks];
        sample_id id = member_for(engine, chunk, jobs, pick, first, end);
        if (id == SAMPLE_NONE)
            continue;
        if (chunk->pending)
            return id;
        uint64_t fill = encoded_fill(engine, chunk).wants + 1;
        compared++;
        if (fill > best_fill) {
            best = id;
            best_fill = fill;
        }
    }
    return best;
}

static void give(struct engine *engine, uint32_t job, sample_id pick, sample_id id, sample_id target[JOBS_MAX])
{
    target[job] = id;
    if (id == pick)
        return;
    sampler_put_back(engine->sampler, job, pick);
    residents_back(engine, job, pick);
    sampler_take(engine->sampler, job, id);
    residents_left(engine, job, id);
}

/* The jobs of a pick that may be redirected, and what each would get of what is prepared. True: all of them would. */
static bool find_residents(const struct engine *engine, const struct pick *pick, struct jobset *jobs, uint32_t found[JOBS_MAX])
{
    bool all = true;
    JOBSET_EACH(job, &pick->jobs) {
        if (!engine->jobs.all[job].terms.redirected)
            continue;
        jobset_add(jobs, job);
        found[job] = find_prepared(engine, job, pick->id);
        all = all && found[job] != ENGINE_NONE;
    }
    return all;
}

/* A pick is split only when that costs no preparation: when each of its jobs finds an instance it may get, each gets its
 * own. When one of them needs a new instance, all get that one: it is made anyway, and what the others would have taken
 * stays for later (0.409 preparations a sample in the scenario of four speeds, against 0.430 when each takes what it finds). */
void plan_redirect(struct engine *engine, const struct pick *pick, sample_id target[JOBS_MAX])
{
    struct jobset jobs = {{0}};
    uint32_t found[JOBS_MAX];
    JOBSET_EACH(job, &pick->jobs)
        target[job] = pick->id;
    if (engine->samples.all[pick->id].fiber == ENGINE_NONE)
        return;
    if (find_residents(engine, pick, &jobs, found)) {
        JOBSET_EACH(job, &jobs) {
            engine->totals.redirected_prepared += engine->prepared.instances[found[job]].form.id != pick->id;
            give(engine, job, pick->id, engine->prepared.instances[found[job]].form.id, target);
        }
        return;
    }
    sample_id id = find_encoded(engine, &jobs, pick->id);
    if (id == SAMPLE_NONE)
        id = find_load(engine, &jobs, pick->id);
    engine->totals.redirected_encoded += id != pick->id;
    JOBSET_EACH(job, &jobs)
        give(engine, job, pick->id, id, target);
}
