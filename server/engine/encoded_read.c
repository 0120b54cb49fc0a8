/* encoded_read.c: chooses what a read brings: which samples of a chunk, and which chunks ahead of need.
 *
 * A fiber's stock for a job is what memory has of the fiber and the job still wants. A read brings a sample when some
 * job that wants it has room in its stock. A stock has room for STOCK_DEPTH · w samples of a fiber (chunks.c), or more
 * if memory has room for more than the smallest groups need. Jobs that are in step want the same samples, so one stock
 * serves them all. Groups are made so large that one such stock fills the budget. Jobs that are out of step share the
 * budget: a sample that is missing from a small stock takes the place of a sample that fewer jobs want, or that has
 * lain longest.
 *
 * A read brings a job only a fraction of its view's samples in the chunk. Samples that come together leave together. So
 * two reads at different times spread a chunk's samples farther than any stay in a small memory can. Jobs out of step
 * get all of them, because one uses what the other would leave. If memory holds half of a view, samples stay long
 * enough without this.
 *
 * Reads ahead keep memory filled, which spreads a chunk's samples: the longer a sample can stay, the farther it may
 * land from its neighbours. For jobs out of step, reading ahead too early costs more than it saves: memory fills with
 * samples that one job wants, and reads for the other find no room. So the farther jobs are apart, the more room is
 * left for reads on demand, and the more a read ahead must bring. w = 1 is the papers' rule, with a stock of one and
 * reads on demand alone. */
#include "common/check.h"
#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/encoded_figures.h"
#include "server/engine/sources.h"

/* The order is random because what a stock has no room for comes later, and no sample may always be the late one. To
 * jobs of one speed comes first what most of them need: what they take at about the same time makes room together. */
const uint32_t *encoded_slots(struct encoded_store *store, const struct chunk *chunk)
{
    uint32_t samples = store->chunks->groups[chunk->group].chunk_samples, sorted = 0;
    store->slots = xgrow(store->slots, sizeof *store->slots, &store->slots_cap, (size_t)samples * 3);
    uint32_t *slots = store->slots, *wants = slots + samples, *most_first = wants + samples;
    for (uint32_t i = 0; i < samples; i++) {
        uint32_t j = (uint32_t)random_below(&store->env->rng, i + 1);
        slots[i] = slots[j];
        slots[j] = i;
    }
    if (!store->shortage.one_speed)
        return slots;
    for (uint32_t slot = 0; slot < samples; slot++)
        wants[slot] = chunk->members[slot] == SAMPLE_NONE ? 0 : encoded_count_wants(store, chunk->members[slot]);
    for (uint32_t want = store->shortage.n_takers + 1; want-- > 0;) {
        for (uint32_t i = 0; i < samples; i++) {
            if (wants[slots[i]] == want)
                most_first[sorted++] = slots[i];
        }
    }
    return most_first;
}

/* ── ahead ── */

/* may_read tells whether the job's source answers, and may read a chunk. */
static bool may_read(const struct encoded_store *store, uint32_t job, uint32_t samples)
{
    return !sources_away(store->sources, job) && encoded_share_for_read(store, job_at(store->jobs, job)->terms.dataset,
                                                                        samples, encoded_mean_bytes(store) * samples);
}

/* is_held tells whether all jobs that could read the group have to wait for their source. */
static bool is_held(const struct encoded_store *store, const struct group *group)
{
    uint32_t takers[ENGINE_TAKERS_MAX], n_takers = demand_takers(store->jobs, takers, ENGINE_TAKERS_MAX), here = 0;
    for (uint32_t i = 0; i < n_takers; i++) {
        if (!chunks_is_here(job_at(store->jobs, takers[i]), group))
            continue;
        if (may_read(store, takers[i], group->chunk_samples))
            return false;
        here++;
    }
    return here > 0;
}

uint32_t encoded_job_for(const struct encoded_store *store, const struct chunk *chunk, uint32_t chunk_samples)
{
    uint32_t takers[ENGINE_TAKERS_MAX], n_takers = demand_takers(store->jobs, takers, ENGINE_TAKERS_MAX);
    for (uint32_t slot = 0; slot < chunk_samples; slot++) {
        sample_id id = chunk->members[slot];
        for (uint32_t i = 0; id != SAMPLE_NONE && i < n_takers; i++) {
            if (may_read(store, takers[i], chunk_samples) && encoded_sample(store, id)->encoded == ENGINE_NONE &&
                encoded_needs_bytes(store, takers[i], id))
                return takers[i];
        }
    }
    return ENGINE_NONE;
}

/* between returns the figure for jobs that are so far apart: `far` is the one for half an epoch. */
static double between(double in_step, double far, double apart)
{
    return in_step + (far - in_step) * apart;
}

const struct chunk *encoded_best_chunk(struct encoded_store *store, const struct group *group)
{
    const struct chunk *best = NULL;
    uint64_t best_wants = 0, mean = encoded_mean_bytes(store);
    uint32_t compared = 0, from = (uint32_t)random_below(&store->env->rng, group->n_chunks);
    encoded_measure_shortage(store, group);
    double least = store->shortage.chunk_samples * between(AHEAD_LEAST, READ_PART_APART, store->shortage.apart);
    double room = encoded_room(store, group->kept, between(AHEAD_SHARE, AHEAD_SHARE_APART, store->shortage.apart));
    struct fill most = encoded_most_fill(store, group);
    uint32_t n_takers = store->shortage.n_takers, looks = ENGINE_LOOK_MAX;
    if (n_takers > ENGINE_LOOK_TAKERS)
        looks = looks * ENGINE_LOOK_TAKERS / n_takers;
    if (most.samples < least || least * (double)mean > room)
        return NULL;
    for (uint32_t i = 0; i < group->n_chunks && i < looks && compared < ENGINE_COMPARE_MAX && best_wants < most.wants;
         i++) {
        const struct chunk *chunk = chunks_at(store->chunks, group, (from + i) % group->n_chunks);
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

struct group *encoded_hungry_group(const struct encoded_store *store)
{
    struct group *best = NULL;
    for (uint32_t i = 0; i < store->chunks->n_groups; i++) {
        struct group *group = &store->chunks->groups[i];
        if (group->stock < group->ahead_below &&
            (!best || (uint64_t)group->stock * best->n_chunks < (uint64_t)best->stock * group->n_chunks) &&
            (store->loading == 0 || !is_held(store, group)))
            best = group;
    }
    return best;
}

bool encoded_room_ahead(const struct encoded_store *store, const struct group *group)
{
    double chunk = (double)(encoded_mean_bytes(store) * group->chunk_samples);
    return chunk <= encoded_room(store, group->kept, AHEAD_SHARE) &&
           store->loading + group->chunk_samples <= store->env->config.inflight_loads;
}

void encoded_read_ahead_again(struct encoded_store *store)
{
    for (uint32_t i = 0; i < store->chunks->n_groups; i++)
        store->chunks->groups[i].ahead_below = UINT32_MAX;
}
