/* prepared_grow.c: the arena grows by need, and shrinks when nobody has needed it for long or memory is short.
 *
 * More is asked for ahead of need: when little is free, or a zone finds no room. One request is out at a time. Wanted
 * instances grow the arena. Leftovers, which no running job wants, grow it only while they are fewer than the samples
 * in the views of all pipelines: about one instance of each sample for future jobs. After that the oldest leftovers
 * make way for new instances. While a RESERVE is out, nothing is evicted for an instance that finds no room: it waits
 * for the answer.
 *
 * The need is noted for each part of config.linger_ns. Memory above the highest of these is given back. */
#include "common/check.h"
#include "server/engine/prepared.h"

enum {
    FREE_PART = 8, /* More is asked for when less than 1/8 is free. */
    /* One request adds at least 1/4 to what is reserved; less than that is not given back while jobs run. */
    STEP_PART = 4
};
#define RETRY_NS UINT64_C(1000000000)  /* after a request was refused, and after memory was short */
#define LACKED_NS UINT64_C(2000000000) /* so long, what was lacked does not go */
#define PART_NS UINT64_C(125000000)    /* the shortest part of linger_ns */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool may_grow(const struct prepared *prepared)
{
    return prepared->growth.limit < prepared->env->config.arena_bytes;
}

void prepared_growth_begin(struct prepared *prepared)
{
    prepared->growth = (struct growth){.vain_bytes = UINT64_MAX, .most_bytes = prepared->env->config.arena_bytes};
    prepared_limit_begin(prepared);
}

/* ── growing ── */

bool prepared_may_grow(const struct prepared *prepared)
{
    const struct growth *growth = &prepared->growth;
    bool vain = growth->vain_bytes != UINT64_MAX; /* even the whole arena had no room for somebody */
    return (may_grow(prepared) && !growth->refused && !vain) || growth->came_ns == prepared->env->now_ns;
}

void prepared_count_leftovers(struct prepared *prepared)
{
    const struct jobs *jobs = prepared->jobs;
    uint64_t most = 0;
    for (const struct job *job = jobs_first(jobs); job; job = jobs_after(jobs, job)) {
        const struct job *other = jobs_first(jobs);
        while (other != job &&
               (other->terms.pipeline != job->terms.pipeline || other->terms.dataset != job->terms.dataset))
            other = jobs_after(jobs, other);
        if (other == job) /* the first job of its pipeline and dataset counts for all of them */
            most += job->shape.view_samples;
    }
    prepared->growth.leftovers_most = most;
    prepared->growth.vain_bytes = UINT64_MAX;
    if (!jobs_first(jobs))
        prepared->growth.wanted_bytes = prepared->growth.lacked_bytes = 0;
}

/* want notes that the limit should be so high. */
static void want(struct prepared *prepared, uint64_t bytes)
{
    struct growth *growth = &prepared->growth;
    bytes = least(bytes, prepared->env->config.arena_bytes);
    if (may_grow(prepared) && bytes > growth->wanted_bytes)
        growth->wanted_bytes = bytes;
}

void prepared_lack(struct prepared *prepared, uint64_t bytes)
{
    prepared->growth.lacked_bytes = least(bytes, prepared->env->config.arena_bytes);
    prepared->growth.lacked_ns = prepared->env->now_ns;
    want(prepared, bytes);
}

void prepared_note_room(struct prepared *prepared, uint64_t bytes, bool spare, bool found)
{
    struct growth *growth = &prepared->growth;
    uint64_t step = growth->limit / STEP_PART, more = growth->limit + (step > bytes ? step : bytes);
    uint64_t most = least(more, growth->most_bytes);
    if (!found && !may_grow(prepared))
        growth->vain_bytes = least(bytes, growth->vain_bytes);
    if (!found && bytes >= growth->vain_bytes)
        return;
    if (!found && prepared_room_comes(prepared, bytes))
        want(prepared, most); /* it waits, while there may be leftovers */
    else if (!found && (!spare || growth->limit < growth->most_bytes))
        prepared_lack(prepared, more);
    if (!found || !may_grow(prepared) || growth->pressed)
        return;
    uint64_t free_bytes = prepared_there_bytes(prepared) - prepared_used_bytes(prepared);
    if (free_bytes < growth->limit / FREE_PART && prepared_idle(prepared) < growth->leftovers_most)
        want(prepared, most);
}

bool prepared_room_comes(const struct prepared *prepared, uint64_t bytes)
{
    const struct growth *growth = &prepared->growth;
    return growth->limit < growth->most_bytes && !growth->refused && !growth->pressed && bytes < growth->vain_bytes &&
           prepared_idle(prepared) < growth->leftovers_most;
}

/* wanted_limit returns the limit that is aimed at, as a RESERVE asks for it. */
static uint64_t wanted_limit(const struct prepared *prepared)
{
    uint64_t unit = prepared->env->config.reserve_bytes, wanted = prepared->growth.wanted_bytes;
    return unit ? least((wanted + unit - 1) / unit * unit, prepared->env->config.arena_bytes) : 0;
}

/* there_with returns how much of the arena there is when all of it is below `limit`, at least the present one. */
static uint64_t there_with(const struct prepared *prepared, uint64_t limit)
{
    uint64_t there = limit;
    uint32_t block = prepared->growth.above;
    for (; block != EXTENT_NONE; block = extent_next(prepared->extents, block)) {
        uint64_t from = extent_offset(prepared->extents, block), end = from + extent_bytes(prepared->extents, block);
        from = from < limit ? limit : from;
        there += !prepared_is_away(prepared, block) && end > from ? end - from : 0;
    }
    return there;
}

/* It adds a RESERVE if more is wanted, none is out, and encoded samples leave room. */
void prepared_ask(struct prepared *prepared, uint64_t room_bytes)
{
    struct growth *growth = &prepared->growth;
    uint64_t unit = prepared->env->config.reserve_bytes, there = prepared_there_bytes(prepared);
    growth->held_up = false;
    if (unit == 0 || growth->asked_bytes > 0 || growth->shrinks || growth->wanted_bytes <= growth->limit ||
        prepared->env->now_ns < growth->again_ns)
        return;
    uint64_t bytes = wanted_limit(prepared);
    if (bytes - growth->limit + there > room_bytes && there_with(prepared, bytes) > room_bytes)
        bytes = room_bytes > there ? (growth->limit + room_bytes - there) / unit * unit : 0;
    growth->held_up = bytes <= growth->limit;
    if (growth->held_up)
        return;
    growth->asked_bytes = bytes;
    outbox_add(prepared->outbox, ENGINE_RESERVE)->reserve.bytes = growth->asked_bytes;
}

void prepared_on_reserved(struct prepared *prepared, uint64_t bytes, bool refused)
{
    struct growth *growth = &prepared->growth;
    CHECK(growth->asked_bytes > 0 && bytes <= growth->asked_bytes);
    growth->asked_bytes = 0;
    growth->refused = refused;
    growth->pressed = false;
    prepared->room_changes += refused; /* now what is there makes way: what found no room looks again */
    growth->again_ns = refused ? prepared->env->now_ns + RETRY_NS : 0;
    if (bytes > growth->limit) {
        growth->came_ns = prepared->env->now_ns;
        prepared_lift(prepared, bytes);
        growth->needed_bytes[growth->part] = prepared_there_bytes(prepared); /* it is new: it stays for a while */
    }
    if (refused || growth->returns_again) /* a part of what was refused may have come */
        prepared_return_all(prepared);
    growth->returns_again = false;
    growth->owed_bytes = 0;
    if (growth->wanted_bytes <= growth->limit)
        growth->wanted_bytes = 0;
}

/* ── shrinking ── */

/* is_leftover tells whether the block holds an instance that may go: nobody pins it, it lies in no zone, and no running
 * job wants it, or encoded samples get the room. */
static bool is_leftover(const struct prepared *prepared, uint32_t block, uint32_t *owner)
{
    const struct growth *growth = &prepared->growth;
    bool yields = growth->yields && extent_offset(prepared->extents, block) >= growth->most_bytes;
    return extent_owner(prepared->extents, block, owner) && *owner < PREPARED_AWAY &&
           !prepared->instances[*owner].zoned && residency_pins(prepared->residency, *owner) == 0 &&
           (yields || !prepared_is_wanted(prepared, *owner));
}

/* clear_last evicts the leftover in the block, and returns the free block that replaces it. */
static uint32_t clear_last(struct prepared *prepared, uint32_t block, uint32_t owner)
{
    uint32_t before = extent_prev(prepared->extents, block);
    before = prepared_is_free(prepared, before) ? before : block;
    prepared_evict(prepared, owner);
    return before;
}

/* clear_islands evicts leftovers above the limit. False: there may be more. */
static bool clear_islands(struct prepared *prepared)
{
    uint32_t owner, gone = 0;
    for (uint32_t block = prepared->growth.above; block != EXTENT_NONE; block = extent_next(prepared->extents, block)) {
        if (!is_leftover(prepared, block, &owner))
            continue;
        if (gone++ == prepared->env->config.evicted_at_once)
            return false;
        prepared_evict(prepared, owner);
    }
    return true;
}

/* shrink_to has the limit go down to keep_bytes. */
static void shrink_to(struct prepared *prepared, uint64_t keep_bytes)
{
    struct growth *growth = &prepared->growth;
    growth->shrinks = true;
    keep_bytes = growth->yields ? least(keep_bytes, growth->most_bytes) : keep_bytes;
    growth->keep_bytes = least(extent_round(keep_bytes), growth->limit);
}

/* shrink lowers the limit piece by piece to growth.keep_bytes, or to what some job has lacked of late, and evicts the
 * leftovers above. All other blocks there stay as islands. */
static void shrink(struct prepared *prepared)
{
    struct growth *growth = &prepared->growth;
    uint32_t block, owner, gone = 0;
    if (prepared->env->now_ns - growth->lacked_ns < LACKED_NS && growth->keep_bytes < growth->lacked_bytes)
        growth->keep_bytes = least(extent_round(growth->lacked_bytes), growth->limit);
    while (growth->limit > growth->keep_bytes && (block = prepared_last_below(prepared)) != EXTENT_NONE) {
        bool goes = is_leftover(prepared, block, &owner), unused = prepared_is_free(prepared, block);
        uint64_t from = extent_offset(prepared->extents, block);
        if (gone == prepared->env->config.evicted_at_once)
            return;
        if (!unused && from < growth->keep_bytes)
            break;
        if (goes) {
            block = clear_last(prepared, block, owner);
            from = extent_offset(prepared->extents, block);
            gone++;
        } else if (!unused) {
            prepared_leave_island(prepared, block);
            continue;
        }
        prepared_cut(prepared, block, from > growth->keep_bytes ? from : growth->keep_bytes);
    }
    growth->shrinks = !clear_islands(prepared);
    growth->yields = growth->yields && growth->shrinks;
    prepared->room_changes++;
}

void prepared_set_most(struct prepared *prepared, uint64_t bytes)
{
    struct growth *growth = &prepared->growth;
    growth->most_bytes = least(extent_round(bytes), prepared->env->config.arena_bytes);
    growth->shrinks = growth->shrinks && !growth->yields;
    growth->yields = growth->limit > growth->most_bytes;
    growth->wanted_bytes = least(growth->wanted_bytes, growth->most_bytes);
    prepared->room_changes++; /* what found no room asks again for what it cannot do without */
    if (growth->yields)
        shrink_to(prepared, growth->most_bytes);
}

uint64_t prepared_taken_bytes(const struct prepared *prepared)
{
    const struct growth *growth = &prepared->growth;
    uint64_t islands = prepared_there_bytes(prepared) - growth->limit, limit = growth->limit;
    limit = growth->asked_bytes > limit ? growth->asked_bytes : limit;
    limit = wanted_limit(prepared) > limit ? wanted_limit(prepared) : limit;
    return least(limit + islands + growth->owed_bytes, prepared->env->config.arena_bytes);
}

void prepared_press(struct prepared *prepared)
{
    struct growth *growth = &prepared->growth;
    if (prepared->env->config.reserve_bytes == 0)
        return;
    shrink_to(prepared, 0);
    growth->pressed = true; /* jobs get what they cannot do without, and no more */
    prepared->room_changes++;
}

/* needed_bytes returns what the arena is needed for: what is there but for the leftovers that are too many. */
static uint64_t needed_bytes(const struct prepared *prepared)
{
    uint64_t used = prepared_used_bytes(prepared), taken = prepared->slab.taken, idle = prepared_idle(prepared);
    uint64_t most = prepared->growth.leftovers_most, spare = idle > most ? idle - most : 0;
    return taken == 0 ? used : used - used / taken * spare;
}

/* part_ns returns the length of a part of linger_ns. */
static uint64_t part_ns(const struct prepared *prepared)
{
    uint64_t part = prepared->env->config.linger_ns / LINGER_PARTS;
    return part > PART_NS ? part : PART_NS;
}

/* linger notes what is needed now, and has what was not needed for linger_ns go. */
static void linger(struct prepared *prepared)
{
    struct growth *growth = &prepared->growth;
    uint64_t needed = needed_bytes(prepared), now_ns = prepared->env->now_ns, most = 0;
    uint64_t *part = &growth->needed_bytes[growth->part];
    growth->settled = growth->settled && needed == *part;
    *part = needed > *part ? needed : *part;
    if (now_ns < growth->part_ends_ns)
        return;
    growth->settled = true;
    for (uint32_t i = 0; i < LINGER_PARTS; i++) {
        most = growth->needed_bytes[i] > most ? growth->needed_bytes[i] : most;
        growth->settled = growth->settled && growth->needed_bytes[i] == needed;
    }
    growth->part = (growth->part + 1) % LINGER_PARTS;
    growth->needed_bytes[growth->part] = needed;
    growth->part_ends_ns = now_ns + part_ns(prepared);
    if (!clear_islands(prepared))
        shrink_to(prepared, growth->limit);
    uint64_t keep = most + most / FREE_PART, there = prepared_there_bytes(prepared);
    bool worth = there > keep && growth->limit > 0 && (most == 0 || there - keep >= there / STEP_PART);
    if (worth && growth->wanted_bytes <= growth->limit)
        shrink_to(prepared, keep);
}

void prepared_tend(struct prepared *prepared)
{
    const struct engine_config *config = &prepared->env->config;
    if (config->reserve_bytes == 0)
        return;
    if (config->linger_ns > 0)
        linger(prepared);
    if (prepared->growth.shrinks && prepared->growth.asked_bytes == 0)
        shrink(prepared);
}

uint64_t prepared_wakes_ns(const struct prepared *prepared)
{
    const struct growth *growth = &prepared->growth;
    const struct engine_config *config = &prepared->env->config;
    uint64_t wakes_ns = UINT64_MAX;
    if (growth->asked_bytes == 0 && growth->shrinks)
        return prepared->env->now_ns;
    if (growth->asked_bytes == 0 && growth->wanted_bytes > growth->limit && !growth->held_up)
        wakes_ns = growth->again_ns;
    if (config->reserve_bytes > 0 && config->linger_ns > 0 && !growth->settled)
        wakes_ns = least(wakes_ns, growth->part_ends_ns);
    return wakes_ns;
}
