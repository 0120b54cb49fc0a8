/* encoded_stock.c: stocks: how much memory has of each fiber for each job, and what a read of a chunk would bring. */
#include <string.h>

#include "common/check.h"
#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/encoded_figures.h"

/* The bytes are of no use when they could not be read last time, or when a form that the job may get is READY. */
bool encoded_needs_bytes(const struct encoded_store *store, uint32_t job, sample_id id)
{
    const struct sample *sample = samples_at(&store->env->samples, id);
    if (sample->encoded.failed || !sampler_wants(store->env->sampler, job, id))
        return false;
    /* This is the usual case; the function is called for each sample that a read may bring. */
    if (sample->prepared.instances == ENGINE_NONE)
        return true;
    uint32_t instance = prepared_find(store->prepared, job, id);
    return instance == ENGINE_NONE || store->prepared->instances[instance].state != INSTANCE_READY;
}

/* is_in_stock tells whether the encoded belongs to the job's stock. Samples that were read in the dataset's order do
 * not. */
static bool is_in_stock(const struct encoded_store *store, const struct encoded *encoded, uint32_t job)
{
    bool settled = encoded->settled == store->changes->end; /* then `wanted` tells, which is faster */
    return !encoded->in_order &&
           (settled ? jobset_has(&encoded->wanted, job) : sampler_wants(store->env->sampler, job, encoded->id));
}

/* count_stocks counts the stocks of several jobs in the fiber. It looks at each encoded once for all of them, because
 * most come from memory. */
static void count_stocks(const struct encoded_store *store, uint32_t fiber, const uint32_t *jobs, uint32_t n,
                         uint32_t *stocks)
{
    const struct fiber_members *members = &store->chunks->fibers[fiber].encoded;
    memset(stocks, 0, n * sizeof *stocks);
    for (uint32_t at = members->count; at-- > 0;) {
        const struct encoded *encoded = encoded_member(store, members, at);
        for (uint32_t i = 0; i < n; i++)
            stocks[i] += is_in_stock(store, encoded, jobs[i]);
    }
}

static uint32_t stock_of(const struct encoded_store *store, uint32_t job, uint32_t fiber)
{
    uint32_t stock;
    count_stocks(store, fiber, &job, 1, &stock);
    return stock;
}

/* slowest_rate returns the rate of the slowest taker of a chunk, over that of the fastest. `here` tells of each taker
 * whether the chunk is of its dataset. */
static double slowest_rate(const struct encoded_store *store, const struct shortage *room, const bool *here)
{
    double slowest = 0, fastest = 0;
    for (uint32_t i = 0; i < room->n_takers; i++) {
        double rate = here[i] ? demand_draw_rate(store->jobs, job_at(store->jobs, room->takers[i])) : 0;
        slowest = rate > 0 && (slowest == 0 || rate < slowest) ? rate : slowest;
        fastest = rate > fastest ? rate : fastest;
    }
    return fastest > 0 ? slowest / fastest : 1;
}

/* measure_apart returns the part of what a view has in a chunk that one read may bring a job. It finds out whether the
 * takers are of one speed. */
static double measure_apart(const struct encoded_store *store, struct shortage *room, const bool *here)
{
    room->one_speed = false;
    if (demand_apart(store->jobs, room->takers, room->n_takers, here) <= ALIKE)
        return READ_PART;
    double part = slowest_rate(store, room, here) + ALIKE;
    room->one_speed = part >= 1;
    return part < READ_PART_APART ? READ_PART_APART : part < 1 ? part : 1;
}

/* measure_parts fills in how many samples the takers' views have in a chunk of the group, for the taker that has most,
 * and how many samples a read may bring each taker. */
static void measure_parts(const struct encoded_store *store, const struct group *group, struct shortage *room)
{
    bool here[ENGINE_TAKERS_MAX];
    room->chunk_samples = 0;
    for (uint32_t i = 0; i < room->n_takers; i++) {
        double samples = job_at(store->jobs, room->takers[i])->shape.chunk_samples;
        here[i] = chunks_is_here(job_at(store->jobs, room->takers[i]), group);
        room->chunk_samples = here[i] && samples > room->chunk_samples ? samples : room->chunk_samples;
    }
    double part = measure_apart(store, room, here);
    for (uint32_t i = 0; i < room->n_takers; i++) {
        const struct job *job = job_at(store->jobs, room->takers[i]);
        double most = job->shape.chunk_samples * part;
        room->most[i] = part == 1 || group->ample ? group->chunk_samples : most < 1 ? 1 : (uint32_t)(most + 0.5);
    }
}

/* The room is listed by fiber, then by taker. */
void encoded_measure_shortage(struct encoded_store *store, const struct group *group)
{
    struct shortage *room = &store->shortage;
    uint32_t width = group->width;
    bool stocked[ENGINE_TAKERS_MAX] = {false};
    room->n_takers = demand_takers(store->jobs, room->takers, ENGINE_TAKERS_MAX);
    room->n_fibers = (group->chunk_samples + width - 1) / width;
    room->left = xgrow(room->left, sizeof *room->left, &room->cap, (size_t)room->n_fibers * room->n_takers);
    for (uint32_t i = 0; i < room->n_takers; i++)
        room->stock[i] = family_is_known(job_at(store->jobs, room->takers[i])) ? group->stock_part : group->stock_max;
    for (uint32_t fiber = 0; fiber < room->n_fibers; fiber++) {
        uint32_t stocks[ENGINE_TAKERS_MAX];
        count_stocks(store, group->first_fiber + fiber, room->takers, room->n_takers, stocks);
        for (uint32_t i = 0; i < room->n_takers; i++) {
            room->left[fiber * room->n_takers + i] = stocks[i] < room->stock[i] ? room->stock[i] - stocks[i] : 0;
            stocked[i] = stocked[i] || stocks[i] > 0;
        }
    }
    room->apart = demand_apart(store->jobs, room->takers, room->n_takers, stocked);
    measure_parts(store, group, room);
}

/* even_share returns what eviction fills of a stock: an even share of SHARED_STOCKS stocks, and at most a whole one. */
static uint32_t even_share(const struct shortage *room, uint32_t max)
{
    uint32_t share = SHARED_STOCKS * max / room->n_takers;
    return share < 1 ? 1 : share > max ? max : share;
}

/* count_needs returns how many samples of the chunk that are not in memory would serve the job. */
static uint32_t count_needs(const struct encoded_store *store, const struct chunk *chunk, uint32_t job)
{
    uint32_t count = 0;
    for (uint32_t slot = 0; slot < store->chunks->groups[chunk->group].chunk_samples; slot++) {
        sample_id id = chunk->members[slot];
        count += id != SAMPLE_NONE && encoded_sample(store, id)->encoded == ENGINE_NONE &&
                 encoded_needs_bytes(store, job, id);
    }
    return count;
}

/* encoded_measure_whole finds the takers to which a read of the chunk brings all that they need of it. If a read leaves
 * some of its samples behind, the job must read the chunk again at the end of its epoch. The takers are the job that
 * the read is for, if another job needs some of the chunk, and jobs with few samples of it left. Slower jobs are left
 * out: their samples would keep the room for long. So are jobs that share no chunks: they would only push out each
 * other's stocks. A daemon without other nodes never does this: there the saved reads are not worth a smaller spread of
 * a chunk's samples. */
void encoded_measure_whole(struct encoded_store *store, const struct chunk *chunk, uint32_t job)
{
    struct shortage *room = &store->shortage;
    bool shared = false;
    memset(room->whole, 0, sizeof room->whole);
    if (!store->env->config.home)
        return;
    double rate = demand_draw_rate(store->jobs, job_at(store->jobs, job));
    for (uint32_t i = 0; i < room->n_takers; i++) {
        const struct job *taker = job_at(store->jobs, room->takers[i]);
        uint32_t needs = taker->no == job ? 0 : count_needs(store, chunk, taker->no);
        shared = shared || needs > 0;
        room->whole[i] = needs > 0 && needs < (1 - READ_PART) * taker->shape.chunk_samples &&
                         demand_draw_rate(store->jobs, taker) >= rate * (1 - ALIKE);
    }
    for (uint32_t i = 0; i < room->n_takers; i++)
        room->whole[i] = room->whole[i] || (shared && room->takers[i] == job);
}

/* A read would bring the samples for which some taker has room, and would answer the wants of all takers that have
 * room. */
struct fill encoded_fill(const struct encoded_store *store, const struct chunk *chunk)
{
    const struct shortage *room = &store->shortage;
    const struct group *group = &store->chunks->groups[chunk->group];
    uint32_t width = group->width, left[ENGINE_TAKERS_MAX], most[ENGINE_TAKERS_MAX];
    struct fill fill = {0, 0};
    memcpy(most, room->most, room->n_takers * sizeof *most);
    for (uint32_t slot = 0; slot < group->chunk_samples; slot++) {
        if (slot % width == 0 && room->n_takers) /* without takers there may be no array */
            memcpy(left, room->left + slot / width * room->n_takers, room->n_takers * sizeof *left);
        sample_id id = chunk->members[slot];
        if (id == SAMPLE_NONE || encoded_sample(store, id)->encoded != ENGINE_NONE)
            continue;
        uint32_t wants = 0;
        for (uint32_t i = 0; i < room->n_takers; i++) {
            if (left[i] && most[i] && encoded_needs_bytes(store, room->takers[i], id)) {
                left[i]--;
                most[i]--;
                wants++;
            }
        }
        fill.samples += wants > 0;
        fill.wants += wants;
    }
    return fill;
}

uint32_t encoded_count_wants(const struct encoded_store *store, sample_id id)
{
    uint32_t wants = 0;
    for (uint32_t i = 0; i < store->shortage.n_takers; i++)
        wants += encoded_needs_bytes(store, store->shortage.takers[i], id);
    return wants;
}

/* lacks tells whether a taker lacks the sample. Stocks may have `share` samples here, and no more than whole ones;
 * those of `room->whole` may be whole. */
static bool lacks(const struct encoded_store *store, const struct shortage *room, sample_id id, uint32_t share)
{
    for (uint32_t i = 0; i < room->n_takers; i++) {
        uint32_t job = room->takers[i], fiber = chunks_fiber_no(store->chunks, id);
        uint32_t most = room->whole[i] || share > room->stock[i] ? room->stock[i] : share;
        if (room->most[i] && encoded_needs_bytes(store, job, id) &&
            (store->chunks->fibers[fiber].encoded.count < most || stock_of(store, job, fiber) < most))
            return true;
    }
    return false;
}

bool encoded_lacks(const struct encoded_store *store, const struct shortage *room, sample_id id)
{
    return lacks(store, room, id, UINT32_MAX);
}

void encoded_count_brought(const struct encoded_store *store, struct shortage *room, sample_id id)
{
    for (uint32_t i = 0; i < room->n_takers; i++)
        room->most[i] -= room->most[i] && encoded_needs_bytes(store, room->takers[i], id);
}

/* Eviction fills a taker's stock up to an even share, or whole. The victim must not be wanted by more jobs than the
 * sample. Nothing that is kept goes. */
bool encoded_may_evict(struct encoded_store *store, const struct shortage *room, sample_id id, uint32_t max)
{
    struct jobset wanted;
    uint32_t victim = encoded_victim(store);
    uint32_t most = encoded_keeps(store, id) ? KEPT_WANT - 1 : demand_count_encoded(store->jobs, id, &wanted);
    return victim != RESIDENT_NONE && residency_want(store->residency, victim) <= most &&
           lacks(store, room, id, even_share(room, max));
}

/* A read brings at most all that there is room for. */
struct fill encoded_most_fill(const struct encoded_store *store, const struct group *group)
{
    const struct shortage *room = &store->shortage;
    struct fill most = {0, 0};
    for (uint32_t i = 0; i < room->n_takers; i++) {
        uint32_t wants = 0;
        for (uint32_t fiber = 0; fiber < room->n_fibers; fiber++) {
            uint32_t left = room->left[fiber * room->n_takers + i];
            wants += left < group->width ? left : group->width;
        }
        most.wants += wants < room->most[i] ? wants : room->most[i];
    }
    most.samples = (uint32_t)most.wants; /* the bound is reached when each sample is for one taker only */
    return most;
}
