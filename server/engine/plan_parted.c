/* plan_parted.c: samples of which some copies had come when the epoch was left, and not all. Each of the others goes to
 * a rank that had none.
 *
 * These copies are dealt at once, to the rank with least that may have them. It may be that all such ranks have more
 * than others that may not. Then copies that were dealt change ranks: one goes to a rank that has less and may have it,
 * and leaves its place to the new one, over as many ranks as it takes (an augmenting path). So the ranks' loads are as
 * equal as they can be (Harvey et al., Semi-matchings for bipartite graphs and load balancing, 2003). The way on which
 * the epoch would have gone is one in which the rest of it fits into equal shares; so it fits here, too. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/plan.h"
#include "server/engine/queue.h"

/* Steps that looking for such paths may take, of a state that came from anywhere. After that copies go to the rank with
 * least. */
enum { STEPS_MAX = 1 << 22 };

/* Copies of a sample that are to come, each to another rank. A sample with more copies than there are ranks has some
 * more of these. Ranks are bits, as jobs are in a jobset. */
struct parted {
    sample_id id;
    uint32_t copies;
    bool elsewhere;
    struct jobset had, gets;
};

/* What is dealt, and to whom. */
struct dealing {
    struct plan *plan;
    struct job *job;
    struct parted *parted; /* n of them, in the order in which they come into reserves */
    size_t n, cap;
    uint64_t loads[ENGINE_RANKS_MAX]; /* of each rank: what it had, and gets */
    uint64_t share;
    uint32_t steps;
};

_Static_assert(ENGINE_RANKS_MAX <= JOBS_MAX, "ranks are bits of a jobset");

/* ── which samples ── */

static int by_sample(const void *a, const void *b)
{
    const struct engine_copy *one = a, *other = b;
    return one->id != other->id ? (one->id > other->id) - (one->id < other->id)
                                : (one->rank > other->rank) - (one->rank < other->rank);
}

/* add_parted adds what is to come of a sample: a copy for each rank that had least, then for all, until so many are
 * dealt. times[rank] says how many a rank had. */
static void add_parted(struct dealing *dealing, sample_id id, uint32_t copies, bool elsewhere, const uint32_t *times)
{
    uint32_t world = dealing->job->terms.world_size, least = UINT32_MAX;
    for (uint32_t rank = 0; rank < world; rank++)
        least = times[rank] < least ? times[rank] : least;
    for (; copies > 0; least++) {
        dealing->parted = xgrow(dealing->parted, sizeof *dealing->parted, &dealing->cap, dealing->n + 1);
        struct parted *parted = &dealing->parted[dealing->n++];
        *parted = (struct parted){.id = id, .elsewhere = elsewhere};
        for (uint32_t rank = 0; rank < world; rank++)
            if (times[rank] > least)
                jobset_add(&parted->had, rank);
        uint32_t open = world - jobset_count(&parted->had);
        parted->copies = copies < open ? copies : open;
        copies -= parted->copies;
    }
}

/* take_parted takes what is to come of the samples in the list out of the samplers. */
static void take_parted(struct dealing *dealing, const struct engine_copy *had, size_t n_had)
{
    const struct engine_env *env = dealing->plan->env;
    for (size_t at = 0; at < n_had;) {
        sample_id id = had[at].id;
        uint32_t times[ENGINE_RANKS_MAX] = {0};
        for (; at < n_had && had[at].id == id; at++)
            times[had[at].rank]++;
        bool elsewhere = dealing->job->terms.homes.elsewhere && sampler_wants(env->elsewhere, dealing->job->no, id);
        uint32_t copies = sampler_take_draws(elsewhere ? env->elsewhere : env->sampler, dealing->job->no, id);
        add_parted(dealing, id, copies, elsewhere, times);
    }
}

/* mix puts them into an order by chance. */
static void mix(struct dealing *dealing)
{
    for (size_t i = dealing->n; i > 1; i--) {
        size_t j = (size_t)random_below(&dealing->plan->env->rng, i);
        struct parted swap = dealing->parted[i - 1];
        dealing->parted[i - 1] = dealing->parted[j];
        dealing->parted[j] = swap;
    }
}

/* ── which ranks ── */

/* may_get tells whether the rank may get one of these copies. */
static bool may_get(const struct dealing *dealing, const struct parted *parted, uint32_t rank)
{
    return !jobset_has(&parted->had, rank) && !jobset_has(&parted->gets, rank) &&
           !dealing->job->queues[rank].epoch.done;
}

/* The ranks to which a path leads, in the order in which they were found. The copy `from[rank]` would come to the rank:
 * the new one, or one that the rank `before[rank]` gets. */
struct paths {
    uint32_t found[ENGINE_RANKS_MAX], n;
    struct parted *from[ENGINE_RANKS_MAX];
    uint32_t before[ENGINE_RANKS_MAX];
};

/* extend finds the ranks that may get the copy. */
static void extend(struct dealing *dealing, struct paths *paths, struct parted *copy, uint32_t before)
{
    dealing->steps += dealing->job->terms.world_size;
    for (uint32_t rank = 0; rank < dealing->job->terms.world_size; rank++) {
        if (paths->from[rank] || !may_get(dealing, copy, rank))
            continue;
        paths->from[rank] = copy;
        paths->before[rank] = before;
        paths->found[paths->n++] = rank;
    }
}

/* least_found returns the found rank with the lowest load below the share; ENGINE_NONE when there is none. */
static uint32_t least_found(const struct dealing *dealing, const struct paths *paths)
{
    uint64_t least = dealing->share;
    uint32_t best = ENGINE_NONE;
    for (uint32_t i = 0; i < paths->n; i++) {
        if (dealing->loads[paths->found[i]] < least) {
            best = paths->found[i];
            least = dealing->loads[best];
        }
    }
    return best;
}

/* is_least tells whether no rank that may get anything has a lower load. */
static bool is_least(const struct dealing *dealing, uint32_t rank)
{
    for (uint32_t other = 0; other < dealing->job->terms.world_size; other++)
        if (!dealing->job->queues[other].epoch.done && dealing->loads[other] < dealing->loads[rank])
            return false;
    return true;
}

/* deal_one deals a copy. It returns false when no rank may get one. */
static bool deal_one(struct dealing *dealing, struct parted *copy)
{
    struct paths paths = {.n = 0};
    extend(dealing, &paths, copy, ENGINE_NONE);
    uint32_t best = least_found(dealing, &paths);
    if (best == ENGINE_NONE || !is_least(dealing, best)) {
        for (uint32_t i = 0; i < paths.n; i++) {
            for (size_t at = 0; at < dealing->n && dealing->steps < STEPS_MAX; at++, dealing->steps++)
                if (jobset_has(&dealing->parted[at].gets, paths.found[i]) && &dealing->parted[at] != copy)
                    extend(dealing, &paths, &dealing->parted[at], paths.found[i]);
        }
        best = least_found(dealing, &paths);
    }
    if (best == ENGINE_NONE)
        return false;
    dealing->loads[best]++;
    for (uint32_t rank = best; rank != ENGINE_NONE; rank = paths.before[rank]) {
        jobset_add(&paths.from[rank]->gets, rank);
        if (paths.before[rank] != ENGINE_NONE)
            jobset_remove(&paths.from[rank]->gets, paths.before[rank]);
    }
    return true;
}

/* put_all puts what is dealt into the ranks' reserves. */
static void put_all(struct dealing *dealing)
{
    for (size_t at = 0; at < dealing->n; at++) {
        const struct parted *parted = &dealing->parted[at];
        JOBSET_EACH(rank, &parted->gets) {
            dealing->job->progress.drawn++;
            queue_reserve_add(&dealing->job->queues[rank].reserve,
                              (struct allotted){parted->id, parted->id, 0, parted->elsewhere});
        }
    }
}

void plan_deal_parted(struct plan *plan, struct job *job, struct engine_copy *had, size_t n_had)
{
    struct dealing dealing = {.plan = plan, .job = job, .share = queue_share(job)};
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++)
        dealing.loads[rank] = job->queues[rank].epoch.planned;
    if (n_had)
        qsort(had, n_had, sizeof *had, by_sample);
    take_parted(&dealing, had, n_had);
    mix(&dealing);
    for (size_t at = 0; at < dealing.n; at++) {
        struct parted *parted = &dealing.parted[at];
        while (parted->copies > 0 && deal_one(&dealing, parted))
            parted->copies--;
        sampler_put_back(parted->elsewhere ? plan->env->elsewhere : plan->env->sampler, job->no, parted->id,
                         parted->copies);
    }
    put_all(&dealing);
    free(dealing.parted);
}
