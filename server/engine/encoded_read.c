/* encoded_read.c: what a read brings: the chunk's samples that are worth keeping, and chunks that nobody waits for yet.
 *
 * A fiber's stock for a job is what the fiber has in memory and the job still wants. A read brings a sample when some job
 * that wants it has room in its stock, ENGINE_STOCK_DEPTH · w samples of a fiber (more where memory has room for more
 * than the smallest groups ask); jobs that are in step want the same, so
 * that one stock serves them all. Groups are made so large that one such stock fills the budget. Jobs that are out of
 * step share the budget: a sample that is missing from a small stock takes the place of what fewer jobs want, or what has
 * lain longest.
 *
 * No read brings a job more than a part of what its view has in the chunk: what comes together leaves together, so that
 * two visits at different times spread a chunk's samples farther than any stay in a small memory. Jobs out of step find
 * together what one of them would leave, and get all. Where memory holds half of a view, samples stay long enough.
 *
 * Reads ahead keep memory filled, which is what spreads a chunk's samples: the longer one can stay, the farther it may
 * land from its neighbours. What they bring too early costs jobs out of step more than it gives: memory is full of what one
 * of them wants, and what is read for the other finds no room. So the farther jobs are apart, the more is left for reads on
 * demand, and the more a read ahead must bring. w = 1 is the papers' rule, with a stock of one and reads on demand alone. */
#include <string.h>

#include "server/engine/engine_priv.h"

enum {
    AHEAD_PATIENCE = 4, /* a group that had no such chunk is tried again when a chunk's samples over this are used up */
    SHARED_STOCKS = 2   /* stocks that jobs out of step may fill by eviction, all together */
};
/* Jobs in step (or one alone), and jobs half an epoch apart; between them in proportion. */
static const double AHEAD_SHARE[] = {0.9, 0.85}; /* of the budget that reads ahead may fill: the rest is for reads on demand */
static const double AHEAD_LEAST[] = {0.5, 0.8};  /* of what views have of a chunk: with less it is not read ahead */
static const double IN_STEP = 0.02;   /* of half an epoch: jobs that are no farther apart */
static const double READ_PART = 0.75; /* of what a view has in a chunk: what two visits bring, with some to spare */
static const double LIKE_SPEED = 0.1; /* a job slower by no more than this finds most of what a faster one's read brings */

uint32_t engine_stock_max(uint32_t width)
{
    return width == 1 ? 1 : (uint32_t)(width * ENGINE_STOCK_DEPTH + 0.5);
}

/* Would the job be served with the sample's bytes? Not when they could not be read, or a form that it may get is prepared. */
static bool needs_bytes(const struct engine *engine, uint32_t job, sample_id id)
{
    if (engine->samples[id].failed || !sampler_wants(engine->sampler, job, id))
        return false;
    for (uint32_t index = engine->samples[id].instances; index != ENGINE_NONE; index = engine->instances[index].next) {
        if (engine->instances[index].state == INSTANCE_READY && engine_suits(engine, job, &engine->instances[index]))
            return false;
    }
    return true;
}

static uint32_t stock_of(const struct engine *engine, uint32_t job, uint32_t fiber)
{
    uint32_t stock = 0;
    for (uint32_t index = engine->fibers[fiber].encoded; index != ENGINE_NONE; index = engine->encoded[index].fiber_next)
        stock += !engine->encoded[index].in_order && sampler_wants(engine->sampler, job, engine->encoded[index].id);
    return stock;
}

/* The running jobs that are redirected: at most max of them, which bounds the work on a chunk. */
static uint32_t find_takers(const struct engine *engine, uint32_t *takers, uint32_t max)
{
    uint32_t count = 0;
    for (uint32_t job = 0; job < engine->jobs_end && count < max; job++) {
        if (engine->jobs[job].state == JOB_RUNNING && engine->jobs[job].redirected)
            takers[count++] = job;
    }
    return count;
}

/* How far apart in their epochs the takers are that have a stock in the group (others take no part of memory there). An epoch
 * is a circle: one job's end is beside the other's beginning. */
static double takers_apart(const struct engine *engine, const struct room *room, const bool *stocked)
{
    double first = -1, apart = 0;
    for (uint32_t i = 0; i < room->n_takers; i++) {
        if (!stocked[i])
            continue;
        const struct job *job = &engine->jobs[room->takers[i]];
        double left = (double)sampler_remaining(engine->sampler, room->takers[i]) / (double)job->view_samples;
        first = first < 0 ? left : first;
        double ahead = left < first ? first - left : left - first, distance = ahead < 0.5 ? ahead * 2 : 2 - ahead * 2;
        apart = distance > apart ? distance : apart;
    }
    return apart;
}

/* Is the group of the job's dataset? */
static bool is_here(const struct job *job, const struct group *group)
{
    return group->first_chunk >= job->chunk_base && group->first_chunk - job->chunk_base < job->chunk_count;
}

/* The part of what a view has in a chunk that one read may bring a job, when `here` tells whose dataset it is. */
static double read_part(const struct engine *engine, const struct room *room, const bool *here)
{
    double slowest = 0, fastest = 0;
    if (takers_apart(engine, room, here) <= IN_STEP)
        return READ_PART;
    for (uint32_t i = 0; i < room->n_takers; i++) {
        double rate = here[i] ? engine_job_rate(engine, &engine->jobs[room->takers[i]]) : 0;
        slowest = rate > 0 && (slowest == 0 || rate < slowest) ? rate : slowest;
        fastest = rate > fastest ? rate : fastest;
    }
    double part = fastest > 0 ? slowest / fastest + LIKE_SPEED : 1;
    return part < READ_PART ? READ_PART : part < 1 ? part : 1;
}

/* How many samples of a chunk of the group the takers' views have, by the one that has most; and the most that a read may
 * bring each of them. */
static void measure_parts(const struct engine *engine, const struct group *group, struct room *room)
{
    bool here[ENGINE_TAKERS_MAX];
    room->chunk_samples = 0;
    for (uint32_t i = 0; i < room->n_takers; i++) {
        double samples = engine->jobs[room->takers[i]].chunk_samples;
        here[i] = is_here(&engine->jobs[room->takers[i]], group);
        room->chunk_samples = here[i] && samples > room->chunk_samples ? samples : room->chunk_samples;
    }
    double part = read_part(engine, room, here);
    for (uint32_t i = 0; i < room->n_takers; i++) {
        const struct job *job = &engine->jobs[room->takers[i]];
        double most = job->chunk_samples * part;
        room->most[i] = part == 1 || job->ample ? group->chunk_samples : most < 1 ? 1 : (uint32_t)most;
    }
}

/* The room that each taker has in the stock of each fiber of the group, by fiber, then taker. */
void engine_measure_room(struct engine *engine, const struct group *group)
{
    struct room *room = &engine->room;
    uint32_t width = group->width, max = group->stock_max;
    bool stocked[ENGINE_TAKERS_MAX] = {false};
    room->n_takers = find_takers(engine, room->takers, ENGINE_TAKERS_MAX);
    room->n_fibers = (group->chunk_samples + width - 1) / width;
    if ((size_t)room->n_fibers * room->n_takers > room->cap) {
        room->cap = (size_t)room->n_fibers * room->n_takers;
        room->left = xrealloc(room->left, room->cap, sizeof *room->left);
    }
    for (uint32_t fiber = 0; fiber < room->n_fibers; fiber++) {
        for (uint32_t i = 0; i < room->n_takers; i++) {
            uint32_t stock = stock_of(engine, room->takers[i], group->first_fiber + fiber);
            room->left[fiber * room->n_takers + i] = stock < max ? max - stock : 0;
            stocked[i] = stocked[i] || stock > 0;
        }
    }
    room->apart = takers_apart(engine, room, stocked);
    measure_parts(engine, group, room);
}

/* What a read of the chunk would bring, after engine_measure_room of its group: samples for which some job has room, and
 * the wants that they answer. */
struct fill engine_chunk_fill(const struct engine *engine, const struct chunk *chunk)
{
    const struct room *room = &engine->room;
    const struct group *group = &engine->groups[chunk->group];
    uint32_t width = group->width, left[ENGINE_TAKERS_MAX], most[ENGINE_TAKERS_MAX];
    struct fill fill = {0, 0};
    memcpy(most, room->most, room->n_takers * sizeof *most);
    for (uint32_t slot = 0; slot < group->chunk_samples; slot++) {
        if (slot % width == 0 && room->n_takers) /* with none there may be no array either */
            memcpy(left, room->left + slot / width * room->n_takers, room->n_takers * sizeof *left);
        sample_id id = chunk->members[slot];
        if (id == SAMPLE_NONE || engine->samples[id].encoded != ENGINE_NONE)
            continue;
        uint32_t wants = 0;
        for (uint32_t i = 0; i < room->n_takers; i++) {
            if (left[i] && most[i] && needs_bytes(engine, room->takers[i], id)) {
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

/* Is there room for the sample in the stock of max samples of some taker that may still get some of this read? */
static bool lacks(const struct engine *engine, const struct room *room, sample_id id, uint32_t max)
{
    for (uint32_t i = 0; i < room->n_takers; i++) {
        uint32_t job = room->takers[i];
        if (room->most[i] && needs_bytes(engine, job, id) && stock_of(engine, job, engine->samples[id].fiber) < max)
            return true;
    }
    return false;
}

static void count_brought(const struct engine *engine, struct room *room, sample_id id)
{
    for (uint32_t i = 0; i < room->n_takers; i++)
        room->most[i] -= room->most[i] && needs_bytes(engine, room->takers[i], id);
}

/* May the sample take the place of another? */
static bool may_evict(const struct engine *engine, const struct room *room, sample_id id, uint32_t max)
{
    uint32_t share = SHARED_STOCKS * max / room->n_takers;
    uint32_t victim = residency_victim(engine->encodeds);
    share = share < 1 ? 1 : share > max ? max : share;
    return victim != RESIDENT_NONE && residency_want(engine->encodeds, victim) <= engine_count_encoded_want(engine, id) &&
           lacks(engine, room, id, share);
}

/* Slots in random order: what a stock has no room for comes later, and no sample may always be the late one. */
static const uint32_t *shuffled_slots(struct engine *engine, uint32_t samples)
{
    if (samples > engine->scratch_cap) {
        engine->scratch_cap = samples;
        engine->scratch = xrealloc(engine->scratch, engine->scratch_cap, sizeof *engine->scratch);
    }
    for (uint32_t i = 0; i < samples; i++) {
        uint32_t j = (uint32_t)random_below(&engine->rng, i + 1);
        engine->scratch[i] = engine->scratch[j];
        engine->scratch[j] = i;
    }
    return engine->scratch;
}

/* The rest of the chunk comes with a read: what a task waits for, then what a stock has room for. Returns how many came. */
static uint32_t load_chunk(struct engine *engine, uint32_t job, const struct chunk *chunk, bool ahead)
{
    const struct group *group = &engine->groups[chunk->group];
    uint32_t samples = group->chunk_samples, max = group->stock_max, came = 0;
    struct room *room = &engine->room;
    const uint32_t *slots = shuffled_slots(engine, samples);
    engine_measure_room(engine, group);
    for (int stocked = 0; stocked <= 1; stocked++) {
        for (uint32_t i = 0; i < samples && engine->loads_inflight < engine->config.inflight_loads; i++) {
            sample_id id = chunk->members[slots[i]];
            if (id == SAMPLE_NONE || engine->samples[id].encoded != ENGINE_NONE)
                continue;
            if (stocked ? !lacks(engine, room, id, max) : engine->samples[id].pending == 0)
                continue;
            uint64_t bytes = engine->config.sample_bytes(engine->jobs[job].dataset, id);
            if (bytes == ENGINE_NOT_THERE || bytes > engine->config.encoded_bytes)
                continue;
            bool fits = engine->encoded_used + bytes <= engine_encoded_most(engine);
            if (!fits && !(stocked && !ahead && !group->thin && may_evict(engine, room, id, max)))
                continue;
            if (engine_load(engine, job, id, bytes)) {
                came++;
                count_brought(engine, room, id);
            }
        }
    }
    return came;
}

/* Of the budget that jobs in an order of their own may fill with what they want later. */
enum { LATER_TENTHS = 9 };

/* A job with an order of its own will want every sample of the chunk before its epoch is out: those come for which there
 * is room that nothing must leave. */
static void load_for_later(struct engine *engine, uint32_t job, sample_id first, const struct chunk *chunk)
{
    bool in_order = engine->encoded[engine->samples[first].encoded].in_order;
    uint64_t most = engine->kept ? engine_encoded_most(engine) : engine_encoded_most(engine) / 10 * LATER_TENTHS;
    for (uint32_t slot = 0; slot < engine->groups[chunk->group].chunk_samples; slot++) {
        sample_id id = chunk->members[slot];
        if (id == SAMPLE_NONE || engine->samples[id].encoded != ENGINE_NONE ||
            (engine->samples[id].pending == 0 && !needs_bytes(engine, job, id)))
            continue;
        uint64_t bytes = engine->config.sample_bytes(engine->jobs[job].dataset, id);
        if (bytes == ENGINE_NOT_THERE || bytes > most || engine->encoded_used > most - bytes ||
            engine->loads_inflight == engine->config.inflight_loads)
            continue;
        if (engine_load(engine, job, id, bytes))
            engine->encoded[engine->samples[id].encoded].in_order = in_order;
    }
}

void engine_load_mates(struct engine *engine, uint32_t job, sample_id id)
{
    if (engine->samples[id].chunk == ENGINE_NONE)
        return;
    const struct chunk *chunk = &engine->chunks[engine->samples[id].chunk];
    if (engine->jobs[job].redirected)
        load_chunk(engine, job, chunk, false);
    else
        load_for_later(engine, job, id, chunk);
}

/* ── ahead ── */

/* A job that needs something of the chunk, and whose source answers; ENGINE_NONE when there is none. */
static uint32_t job_for(const struct engine *engine, const struct chunk *chunk, uint32_t chunk_samples)
{
    uint32_t takers[ENGINE_TAKERS_MAX], n_takers = find_takers(engine, takers, ENGINE_TAKERS_MAX);
    for (uint32_t slot = 0; slot < chunk_samples; slot++) {
        sample_id id = chunk->members[slot];
        for (uint32_t i = 0; id != SAMPLE_NONE && i < n_takers; i++) {
            if (!engine_source_away(engine, takers[i]) && engine->samples[id].encoded == ENGINE_NONE && needs_bytes(engine, takers[i], id))
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
static double ahead_share(const struct engine *engine, double apart)
{
    return engine->kept ? 1 : between(AHEAD_SHARE, apart);
}

static uint64_t mean_bytes(const struct engine *engine)
{
    uint64_t taken = engine->encoded_pool.taken;
    return taken ? engine->encoded_used / taken : 0;
}

/* The most that a read of a chunk of the group could bring, after engine_measure_room: all that there is room for. */
static struct fill most_fill(const struct engine *engine, const struct group *group)
{
    const struct room *room = &engine->room;
    struct fill most = {0, 0};
    for (uint32_t i = 0; i < room->n_takers; i++) {
        uint32_t wants = 0;
        for (uint32_t fiber = 0; fiber < room->n_fibers; fiber++) {
            uint32_t left = room->left[fiber * room->n_takers + i];
            wants += left < group->width ? left : group->width;
        }
        most.wants += wants < room->most[i] ? wants : room->most[i];
    }
    most.samples = (uint32_t)most.wants; /* when each is for one of them only */
    return most;
}

/* The chunk of the group that brings most; NULL when none brings enough that fits. Ties at random. */
static const struct chunk *best_chunk(struct engine *engine, const struct group *group)
{
    const struct chunk *best = NULL;
    uint64_t best_wants = 0, mean = mean_bytes(engine);
    uint32_t compared = 0, from = (uint32_t)random_below(&engine->rng, group->n_chunks);
    engine_measure_room(engine, group);
    double least = engine->room.chunk_samples * between(AHEAD_LEAST, engine->room.apart);
    double room = (double)engine_encoded_most(engine) * ahead_share(engine, engine->room.apart) - (double)engine->encoded_used;
    struct fill most = most_fill(engine, group);
    if (most.samples < least || least * (double)mean > room)
        return NULL;
    for (uint32_t i = 0; i < group->n_chunks && i < ENGINE_LOOK_MAX && compared < ENGINE_COMPARE_MAX && best_wants < most.wants; i++) {
        const struct chunk *chunk = &engine->chunks[group->first_chunk + (from + i) % group->n_chunks];
        struct fill fill = engine_chunk_fill(engine, chunk);
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
static struct group *hungry_group(const struct engine *engine)
{
    struct group *best = NULL;
    for (uint32_t i = 0; i < engine->n_groups; i++) {
        struct group *group = &engine->groups[i];
        if (group->stock < group->ahead_below &&
            (!best || (uint64_t)group->stock * best->n_chunks < (uint64_t)best->stock * group->n_chunks))
            best = group;
    }
    return best;
}

static bool room_ahead(const struct engine *engine, const struct group *group)
{
    double chunk = (double)(mean_bytes(engine) * group->chunk_samples);
    return (double)engine->encoded_used + chunk <= (double)engine_encoded_most(engine) * ahead_share(engine, 0) &&
           engine->loads_inflight + group->chunk_samples <= engine->config.inflight_loads;
}

/* Reads chunks that nobody waits for yet. */
void engine_read_ahead(struct engine *engine)
{
    struct group *group;
    while (engine->config.redirect_width > 1 && (group = hungry_group(engine)) != NULL && room_ahead(engine, group)) {
        const struct chunk *chunk = best_chunk(engine, group);
        uint32_t job = chunk ? job_for(engine, chunk, group->chunk_samples) : ENGINE_NONE;
        if (job != ENGINE_NONE && load_chunk(engine, job, chunk, true)) {
            engine->totals.reads++;
            continue;
        }
        uint32_t used_up = group->chunk_samples / AHEAD_PATIENCE;
        group->ahead_below = group->stock > used_up ? group->stock - used_up : 0;
    }
}

void engine_read_ahead_again(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->n_groups; i++)
        engine->groups[i].ahead_below = UINT32_MAX;
}
