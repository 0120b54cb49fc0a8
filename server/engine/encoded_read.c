/* encoded_read.c: what a read brings: the chunk's samples that are worth keeping, and chunks that nobody waits for yet.
 *
 * A fiber's stock for a job is what the fiber has in memory and the job still wants. A read brings a sample when some
 * job that wants it has room in its stock, ENGINE_STOCK_DEPTH · w samples of a fiber (more where memory has room for
 * more than the smallest groups ask); jobs that are in step want the same, so that one stock serves them all. Groups
 * are made so large that one such stock fills the budget. Jobs that are out of step share the budget: a sample that is
 * missing from a small stock takes the place of what fewer jobs want, or what has lain longest.
 *
 * No read brings a job more than a part of what its view has in the chunk: what comes together leaves together, so that
 * two visits at different times spread a chunk's samples farther than any stay in a small memory. Jobs out of step find
 * together what one of them would leave, and get all. Where memory holds half of a view, samples stay long enough.
 *
 * Reads ahead keep memory filled, which is what spreads a chunk's samples: the longer one can stay, the farther it may
 * land from its neighbours. What they bring too early costs jobs out of step more than it gives: memory is full of what
 * one of them wants, and what is read for the other finds no room. So the farther jobs are apart, the more is left for
 * reads on demand, and the more a read ahead must bring. w = 1 is the papers' rule, with a stock of one and reads on
 * demand alone. */
#include "common/check.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/sources.h"

/* Jobs in step (or one alone), and jobs half an epoch apart; between them in proportion. */
/* of the budget that reads ahead may fill: the rest is for reads on demand */
static const double AHEAD_SHARE[] = {0.9, 0.85};
static const double AHEAD_LEAST[] = {0.5, 0.8}; /* of what views have of a chunk: with less it is not read ahead */

/* Slots in random order: what a stock has no room for comes later, and no sample may always be the late one. */
const uint32_t *encoded_shuffled_slots(struct encoded_store *store, uint32_t samples)
{
    store->slots = xgrow(store->slots, sizeof *store->slots, &store->slots_cap, samples);
    for (uint32_t i = 0; i < samples; i++) {
        uint32_t j = (uint32_t)random_below(&store->env->rng, i + 1);
        store->slots[i] = store->slots[j];
        store->slots[j] = i;
    }
    return store->slots;
}

/* ── ahead ── */

/* A job that needs something of the chunk, and whose source answers; ENGINE_NONE when there is none. */
uint32_t encoded_job_for(const struct encoded_store *store, const struct chunk *chunk, uint32_t chunk_samples)
{
    uint32_t takers[ENGINE_TAKERS_MAX], n_takers = demand_takers(store->jobs, takers, ENGINE_TAKERS_MAX);
    for (uint32_t slot = 0; slot < chunk_samples; slot++) {
        sample_id id = chunk->members[slot];
        for (uint32_t i = 0; id != SAMPLE_NONE && i < n_takers; i++) {
            if (!sources_away(store->sources, takers[i]) && store->samples[id].encoded == ENGINE_NONE &&
                encoded_needs_bytes(store, takers[i], id))
                return takers[i];
        }
    }
    return ENGINE_NONE;
}

static double between(const double bounds[2], double apart)
{
    return bounds[0] + (bounds[1] - bounds[0]) * apart;
}

/* Of the budget, what reads ahead may fill: all when nothing of it must leave. */
static double ahead_share(const struct encoded_store *store, double apart)
{
    return store->kept ? 1 : between(AHEAD_SHARE, apart);
}

/* The chunk of the group that brings most; NULL when none brings enough that fits. Ties at random. */
const struct chunk *encoded_best_chunk(struct encoded_store *store, const struct group *group)
{
    const struct chunk *best = NULL;
    uint64_t best_wants = 0, mean = encoded_mean_bytes(store);
    uint32_t compared = 0, from = (uint32_t)random_below(&store->env->rng, group->n_chunks);
    encoded_measure_shortage(store, group);
    double least = store->shortage.chunk_samples * between(AHEAD_LEAST, store->shortage.apart);
    double room = (double)encoded_most(store) * ahead_share(store, store->shortage.apart) - (double)store->used_bytes;
    struct fill most = encoded_most_fill(store, group);
    if (most.samples < least || least * (double)mean > room)
        return NULL;
    for (uint32_t i = 0;
         i < group->n_chunks && i < ENGINE_LOOK_MAX && compared < ENGINE_COMPARE_MAX && best_wants < most.wants; i++) {
        const struct chunk *chunk = &store->chunks->chunks[group->first_chunk + (from + i) % group->n_chunks];
        struct fill fill = encoded_fill(store, chunk);
        if (fill.samples == 0 || fill.samples < least || (double)(fill.samples * mean) > room)
            continue;
        compared++;
        if (fill.wants > best_wants) {
            best = chunk;
            best_wants = fill.wants;
        }
    }
    return best;
}

/* The group with the least in memory for its size, of those that are worth a try. */
struct group *encoded_hungry_group(const struct encoded_store *store)
{
    struct group *best = NULL;
    for (uint32_t i = 0; i < store->chunks->n_groups; i++) {
        struct group *group = &store->chunks->groups[i];
        if (group->stock < group->ahead_below &&
            (!best || (uint64_t)group->stock * best->n_chunks < (uint64_t)best->stock * group->n_chunks))
            best = group;
    }
    return best;
}

bool encoded_room_ahead(const struct encoded_store *store, const struct group *group)
{
    double chunk = (double)(encoded_mean_bytes(store) * group->chunk_samples);
    return (double)store->used_bytes + chunk <= (double)encoded_most(store) * ahead_share(store, 0) &&
           store->loading + group->chunk_samples <= store->env->config.inflight_loads;
}

void encoded_read_ahead_again(struct encoded_store *store)
{
    for (uint32_t i = 0; i < store->chunks->n_groups; i++)
        store->chunks->groups[i].ahead_below = UINT32_MAX;
}
