/* prepared_room.c: room in the arena, for an instance or a slot of a zone: what is free, or is made so by eviction. */
#include "common/check.h"
#include "server/engine/demand.h"
#include "server/engine/prepared.h"

enum {
    REUSE_VICTIMS = 32,   /* victims of one want that are compared by expected reuse */
    WINDOW_VICTIMS = 64,  /* victims whose neighbourhood is tried before the whole arena is walked */
    SPARE_VICTIMS = 8,    /* victims that spare room may cost */
    SETTLE_INSTANCES = 64 /* victims that are settled before one is taken as it is */
};

/* The room that an instance needs: a slot of its zone, or `bytes` beside all zones. */
struct claim {
    uint32_t index;
    uint64_t bytes;
    struct zone *zone; /* NULL: it is sized */
};

/* Blocks that lie together and may be cleared. The first `count` of prepared.window are the instances in them. */
struct window {
    uint64_t from, to;
    size_t count;
};

/* clearable tells whether the block may be cleared. *owner is the instance in it, ENGINE_NONE when it is free. A slot
 * of a zone may not be cleared: it is for its own size only. A block above the limit would make no room. */
static bool clearable(const struct prepared *prepared, uint32_t block, uint32_t *owner)
{
    *owner = ENGINE_NONE;
    if (!extent_owner(prepared->extents, block, owner))
        return true;
    return *owner < PREPARED_AWAY && !prepared->instances[*owner].zoned &&
           extent_offset(prepared->extents, block) < prepared->growth.limit &&
           residency_pins(prepared->residency, *owner) == 0;
}

/* is_slot_for tells whether the victim lies in a slot of the zone that the claim asks for. */
static bool is_slot_for(const struct prepared *prepared, const struct claim *claim, uint32_t victim)
{
    const struct instance *instance = &prepared->instances[victim];
    return claim->zone && instance->zoned && extent_bytes(prepared->extents, instance->block) == claim->bytes;
}

/* collect gathers the owners of clearable blocks from `block` on, in one direction, until `bytes` are together. It
 * returns how many bytes it found. */
static uint64_t collect(struct prepared *prepared, uint32_t block, bool forward, uint64_t bytes, size_t *count)
{
    uint64_t found = 0;
    uint32_t owner;
    while (block != EXTENT_NONE && found < bytes && clearable(prepared, block, &owner)) {
        found += extent_bytes(prepared->extents, block);
        if (owner != ENGINE_NONE) {
            prepared->window = xgrow(prepared->window, sizeof *prepared->window, &prepared->window_cap, *count + 1);
            prepared->window[(*count)++] = owner;
        }
        block = forward ? extent_next(prepared->extents, block) : extent_prev(prepared->extents, block);
    }
    return found;
}

/* is_within tells whether the instance lies in the window. */
static bool is_within(const struct prepared *prepared, uint32_t index, const struct window *window)
{
    uint64_t offset = extent_offset(prepared->extents, prepared->instances[index].block);
    return window->from <= offset && offset < window->to;
}

/* find_window finds a window of `bytes` around the victim that may be cleared. */
static bool find_window(struct prepared *prepared, uint32_t victim, uint64_t bytes, struct window *out)
{
    uint32_t block = prepared->instances[victim].block;
    uint64_t from = extent_offset(prepared->extents, block), before = 0;
    size_t count = 0;
    uint64_t found = collect(prepared, block, true, bytes, &count);
    if (found < bytes)
        before = collect(prepared, extent_prev(prepared->extents, block), false, bytes - found, &count);
    *out = (struct window){.from = from - before, .to = from + found, .count = count};
    return found + before >= bytes;
}

/* clear_window evicts what lies in the window that was found last. */
static void clear_window(struct prepared *prepared, size_t count)
{
    for (size_t i = 0; i < count; i++)
        prepared_evict(prepared, prepared->window[i]);
}

/* clear_around clears the victim's block if it is a slot of the claim's zone. Otherwise it clears a window around the
 * victim, if the neighbours may go. */
static bool clear_around(struct prepared *prepared, const struct claim *claim, uint32_t victim)
{
    struct window window;
    if (is_slot_for(prepared, claim, victim)) {
        prepared_evict(prepared, victim);
        return true;
    }
    if (!find_window(prepared, victim, claim->bytes, &window))
        return false;
    clear_window(prepared, window.count);
    return true;
}

/* clear_anywhere clears the first window of `bytes` in the arena that may be cleared. */
static bool clear_anywhere(struct prepared *prepared, uint64_t bytes)
{
    uint32_t block = extent_first(prepared->extents);
    while (block != EXTENT_NONE) {
        size_t count = 0;
        uint32_t start = block, owner;
        uint64_t found = collect(prepared, start, true, bytes, &count);
        if (found >= bytes) {
            clear_window(prepared, count);
            return true;
        }
        /* The window is too short: go on behind the block that stopped it. */
        while (block != EXTENT_NONE && clearable(prepared, block, &owner))
            block = extent_next(prepared->extents, block);
        while (block != EXTENT_NONE && !clearable(prepared, block, &owner))
            block = extent_next(prepared->extents, block);
    }
    return false;
}

/* expected_reuse returns how soon the instance is expected to be used: the sum of rate / |R| over the jobs that want it
 * (Lobster's reuse distance, in expectation). */
static double expected_reuse(const struct prepared *prepared, const struct instance *instance)
{
    double reuse = 0;
    for (uint32_t no = 0; no < prepared->jobs->end; no++) {
        const struct job *job = job_at(prepared->jobs, no);
        if (!demand_wants_instance(prepared->jobs, no, &instance->form))
            continue;
        reuse += demand_job_rate(prepared->jobs, job) / (double)job_left(prepared->env, job);
    }
    return reuse;
}

/* first_victim returns an instance of those that fewest jobs want. */
static uint32_t first_victim(struct prepared *prepared)
{
    uint32_t victim = residency_victim(prepared->residency);
    for (int tries = 0; tries < SETTLE_INSTANCES && victim != RESIDENT_NONE && prepared_settle(prepared, victim);
         tries++)
        victim = residency_victim(prepared->residency);
    return victim;
}

/* find_victim returns the instance to evict. Among those with the lowest want, it is the one whose next use is expected
 * last. Only the REUSE_VICTIMS least recently used ones are compared. */
static uint32_t find_victim(struct prepared *prepared)
{
    uint32_t victim = first_victim(prepared), at = victim, after;
    if (victim == RESIDENT_NONE || !prepared_is_wanted(prepared, victim))
        return victim;
    double least = expected_reuse(prepared, &prepared->instances[victim]);
    after = residency_victim_after(prepared->residency, at);
    for (int compared = 1; compared < REUSE_VICTIMS; compared++) {
        at = after;
        if (at == RESIDENT_NONE || prepared->instances[at].want > prepared->instances[victim].want)
            break;
        after = residency_victim_after(prepared->residency, at);
        if (prepared_settle(prepared, at)) /* it is in another list now */
            continue;
        double reuse = expected_reuse(prepared, &prepared->instances[at]);
        if (reuse < least) {
            victim = at;
            least = reuse;
        }
    }
    return victim;
}

/* clear_slot clears a slot of the claim's zone that nobody pins, one that fewest jobs want. */
static bool clear_slot(struct prepared *prepared, const struct claim *claim)
{
    uint32_t victim = RESIDENT_NONE, index = claim->zone ? claim->zone->used.head : ENGINE_NONE;
    for (; index != ENGINE_NONE; index = prepared->instances[index].in_zone.next) {
        if (residency_pins(prepared->residency, index) > 0)
            continue;
        prepared_settle(prepared, index);
        if (victim == RESIDENT_NONE || prepared->instances[index].want < prepared->instances[victim].want)
            victim = index;
    }
    if (victim != RESIDENT_NONE)
        prepared_evict(prepared, victim);
    return victim != RESIDENT_NONE;
}

/* take_free returns a free slot of the zone, or a free block beside the zones; EXTENT_NONE when there is neither. */
static uint32_t take_free(struct prepared *prepared, const struct claim *claim)
{
    uint32_t block = claim->zone ? prepared_zone_take(prepared, claim->zone, claim->index) : ENGINE_NONE;
    return block != ENGINE_NONE ? block : extent_alloc(prepared->extents, claim->bytes, claim->index);
}

/* arena_alloc returns a block for the claim, and clears room for it if need be; EXTENT_NONE when there is no room, or
 * when more is about to come. */
static uint32_t arena_alloc(struct prepared *prepared, const struct claim *claim)
{
    uint32_t block = take_free(prepared, claim);
    if (block != EXTENT_NONE || prepared_room_comes(prepared, claim->bytes))
        return block;
    uint32_t victim = find_victim(prepared);
    bool cleared = false;
    for (int tries = 0; victim != RESIDENT_NONE && !cleared && tries < WINDOW_VICTIMS; tries++) {
        cleared = clear_around(prepared, claim, victim);
        if (!cleared)
            victim = residency_victim_after(prepared->residency, victim);
    }
    if (!cleared && !clear_slot(prepared, claim) && !clear_anywhere(prepared, claim->bytes))
        return EXTENT_NONE;
    block = take_free(prepared, claim);
    CHECK(block != EXTENT_NONE);
    return block;
}

/* arena_alloc_spare returns a block for the claim like arena_alloc, but clears away only instances that nobody
 * wants. */
static uint32_t arena_alloc_spare(struct prepared *prepared, const struct claim *claim)
{
    uint32_t block = take_free(prepared, claim);
    uint32_t victim = block == EXTENT_NONE ? first_victim(prepared) : RESIDENT_NONE;
    for (int tries = 0; block == EXTENT_NONE && tries < SPARE_VICTIMS; tries++) {
        if (victim != RESIDENT_NONE)
            prepared_settle(prepared, victim);
        if (victim == RESIDENT_NONE || prepared_is_wanted(prepared, victim))
            return EXTENT_NONE;
        uint32_t after = residency_victim_after(prepared->residency, victim);
        if (!prepared->instances[victim].zoned || is_slot_for(prepared, claim, victim)) {
            prepared_evict(prepared, victim);
            block = take_free(prepared, claim);
        }
        victim = after;
    }
    return block;
}

/* begin_instance begins an instance; `spare` says that it may take only room that nobody wants. ENGINE_NONE when there
 * is no room. */
static uint32_t begin_instance(struct prepared *prepared, uint32_t job, sample_id id, bool expected, bool spare)
{
    uint32_t index = instance_new(prepared);
    struct instance *instance = &prepared->instances[index];
    const struct job *owner = job_at(prepared->jobs, job);
    uint64_t bytes = job_begun_bytes(&prepared->env->config, &owner->terms, id, expected);
    *instance = (struct instance){.state = INSTANCE_MAKING, .bytes = bytes, .sized = owner->terms.sized};
    uint64_t slot_bytes = engine_slot_bytes(&prepared->env->config, bytes);
    struct claim claim = {
        .index = index, .bytes = slot_bytes, .zone = instance->sized ? NULL : prepared_zone_for(prepared, slot_bytes)};
    /* this evicts, but begins no instance: `instance` stays valid */
    uint32_t block = spare ? arena_alloc_spare(prepared, &claim) : arena_alloc(prepared, &claim);
    prepared_note_room(prepared, claim.bytes, spare, block != EXTENT_NONE);
    if (block == EXTENT_NONE) {
        instance_drop(prepared, index);
        return ENGINE_NONE;
    }
    struct prepared_sample *sample = prepared_sample(prepared, id);
    CHECK(bytes < UINT64_C(1) << INSTANCE_BYTES_BITS);
    *instance = (struct instance){
        .state = INSTANCE_MAKING,
        .zoned = instance->zoned,
        .next = sample->instances,
        .form.id = id,
        .form.pipeline = owner->terms.pipeline,
        .block = block,
        .task = ENGINE_NONE,
        .waiters = ENGINE_NONE,
        .bytes = bytes,
        .raw = owner->terms.raw,
        .sized = owner->terms.sized,
        .draw = owner->terms.shuffle == SHUFFLE_STRICT && owner->progress.variant ? 0 : sample->begun++,
        .form.variant = owner->progress.variant,
        .alone = owner->terms.shuffle == SHUFFLE_NONE,
        .settled = prepared->changes->end,
        .made_for = owner->terms.serial};
    sample->instances = index;
    if (claim.zone)
        prepared_zone_enter(prepared, claim.zone, index);
    prepared->recent[prepared->n_begun++ % PREPARED_RECENT] = index;
    residency_add(prepared->residency, index, 0); /* its first pin is held by the task that makes it */
    prepared->pinned_bytes += extent_bytes(prepared->extents, block);
    prepared_count_wants(prepared, index);
    return index;
}

uint32_t prepared_begin(struct prepared *prepared, uint32_t job, sample_id id, bool expected)
{
    return begin_instance(prepared, job, id, expected, false);
}

uint32_t prepared_begin_spare(struct prepared *prepared, uint32_t job, sample_id id)
{
    return begin_instance(prepared, job, id, false, true);
}

/* ── slots ── */

/* The progress of prepared_extend_clearing: the next victim, and the number of instances that it has looked at. */
struct clearing {
    uint32_t victim;
    uint64_t looked;
};

/* clear_next clears a window around the next victim that has one, and returns its bytes; 0 when there is none around
 * the next WINDOW_VICTIMS. Those in slots of zones do not count: there are no more than jobs were promised. */
static uint64_t clear_next(struct prepared *prepared, uint64_t bytes, struct clearing *clearing)
{
    struct window window;
    for (int tries = 0; clearing->victim != RESIDENT_NONE && tries < WINDOW_VICTIMS;) {
        bool found = find_window(prepared, clearing->victim, bytes, &window);
        tries += !prepared->instances[clearing->victim].zoned;
        clearing->looked += window.count;
        do
            clearing->victim = residency_victim_after(prepared->residency, clearing->victim);
        while (found && clearing->victim != RESIDENT_NONE && is_within(prepared, clearing->victim, &window));
        if (found) {
            clear_window(prepared, window.count);
            return window.to - window.from;
        }
    }
    return 0;
}

/* give_slots notes that the zone has `given` more slots. */
static uint64_t give_slots(struct prepared *prepared, struct zone *zone, uint64_t given)
{
    zone->promised += given;
    prepared->room_changes += given > 0;
    return given;
}

uint64_t prepared_extend(struct prepared *prepared, uint64_t bytes, uint64_t slots)
{
    struct zone *zone = prepared_zone_for(prepared, bytes);
    uint64_t given = 0;
    uint32_t block;
    for (; given < slots && (block = extent_alloc(prepared->extents, bytes, ENGINE_NONE)) != EXTENT_NONE; given++)
        prepared_zone_add(zone, block);
    while (given < slots && prepared_zone_adopt(prepared, zone))
        given++;
    return give_slots(prepared, zone, given);
}

uint64_t prepared_extend_clearing(struct prepared *prepared, uint64_t bytes, uint64_t slots, bool *more)
{
    struct zone *zone = prepared_zone_for(prepared, bytes);
    struct clearing clearing = {.victim = residency_victim(prepared->residency)};
    uint64_t given = 0, found, most = prepared->env->config.evicted_at_once;
    while (given < slots && clearing.looked < most && (found = clear_next(prepared, bytes, &clearing)) > 0)
        for (; given < slots && found >= bytes; found -= bytes, given++)
            prepared_zone_add(zone, extent_alloc(prepared->extents, bytes, ENGINE_NONE));
    *more = given > 0 && given < slots && clearing.looked >= most;
    return give_slots(prepared, zone, given);
}
