/* prepared.c: what is in memory: instances in the arena, encoded bytes beside it, and who goes first.
 *
 * want(instance) = jobs of its pipeline with the sample in R_j that have not had it; want(encoded) = jobs with the sample
 * in R_j. Both are kept up to date as samples leave remaining sets. A pinned resident is never evicted. */
#include "server/engine/engine_priv.h"

enum {
    REUSE_VICTIMS = 32,  /* of one want, compared by expected reuse */
    WINDOW_VICTIMS = 64, /* victims whose neighbourhood is tried before the whole arena is walked */
    SPARE_VICTIMS = 8,   /* victims that spare room may cost */
    SAMPLE_WORK = 16,    /* residents that are gone through in the time that a sample's take to be found */
};

static bool wants_instance(const struct engine *engine, uint32_t job, const struct instance *instance)
{
    return engine->jobs[job].state == JOB_RUNNING && engine_suits(engine, job, instance) &&
           sampler_wants(engine->sampler, job, instance->id);
}

static bool wants_encoded(const struct engine *engine, uint32_t job, sample_id id)
{
    return engine->jobs[job].state == JOB_RUNNING && sampler_wants(engine->sampler, job, id);
}

uint32_t engine_count_want(const struct engine *engine, const struct instance *instance)
{
    uint32_t want = 0;
    for (uint32_t job = 0; job < engine->jobs_end; job++)
        want += wants_instance(engine, job, instance);
    return want;
}

uint32_t engine_count_encoded_want(const struct engine *engine, sample_id id)
{
    uint32_t want = 0;
    for (uint32_t job = 0; job < engine->jobs_end; job++)
        want += wants_encoded(engine, job, id);
    return want;
}

/* ── prepared ── */

/* A fiber lists those of its instances that somebody wants. */
static void set_want(struct engine *engine, uint32_t index, uint32_t want)
{
    uint32_t before = residency_want(engine->prepared, index);
    residency_set_want(engine->prepared, index, want);
    if (!before && want)
        engine_fiber_add_instance(engine, index);
    else if (before && !want)
        engine_fiber_remove_instance(engine, index);
}

static void shift_want(struct engine *engine, uint32_t index, int by)
{
    set_want(engine, index, residency_want(engine->prepared, index) + (uint32_t)by);
}

void engine_free_instance(struct engine *engine, uint32_t index)
{
    struct instance *instance = &engine->instances[index];
    CHECK(instance->waiters == ENGINE_NONE);
    uint32_t *link = &engine->samples[instance->id].instances;
    while (*link != index) {
        CHECK(*link != ENGINE_NONE);
        link = &engine->instances[*link].next;
    }
    *link = instance->next;
    set_want(engine, index, 0);
    if (residency_pins(engine->prepared, index) > 0) /* it could not be made */
        engine->arena_pinned -= extent_bytes(engine->extents, instance->block);
    if (instance->zoned)
        engine_zone_give(engine, index);
    else
        extent_free(engine->extents, instance->block);
    engine->room_changes++;
    residency_remove(engine->prepared, index);
    engine_instance_drop(engine, index);
}

void engine_evict_instance(struct engine *engine, uint32_t index)
{
    CHECK(engine->instances[index].state == INSTANCE_READY && residency_pins(engine->prepared, index) == 0);
    engine->totals.evicted_prepared++;
    engine_free_instance(engine, index);
}

/* What an instance asks for: a slot of its zone, or so many bytes beside all zones. */
struct claim {
    uint32_t index;
    uint64_t bytes;
    struct zone *zone; /* NULL: there is none of its size */
};

/* May the block go? Free ones have gone already, and slots of zones are for their own size only. */
static bool clearable(const struct engine *engine, uint32_t block, uint32_t *owner)
{
    *owner = ENGINE_NONE;
    if (!extent_owner(engine->extents, block, owner))
        return true;
    return *owner != ENGINE_NONE && !engine->instances[*owner].zoned && residency_pins(engine->prepared, *owner) == 0;
}

static bool is_slot_for(const struct engine *engine, const struct claim *claim, uint32_t victim)
{
    const struct instance *instance = &engine->instances[victim];
    return claim->zone && instance->zoned && extent_bytes(engine->extents, instance->block) == claim->bytes;
}

/* Collects the owners of clearable blocks from `block` on, in one direction, until `bytes` are together. */
static uint64_t collect(struct engine *engine, uint32_t block, bool forward, uint64_t bytes, size_t *count)
{
    uint64_t found = 0;
    uint32_t owner;
    while (block != EXTENT_NONE && found < bytes && clearable(engine, block, &owner)) {
        found += extent_bytes(engine->extents, block);
        if (owner != ENGINE_NONE) {
            if (*count == engine->scratch_cap) {
                engine->scratch_cap = engine->scratch_cap ? engine->scratch_cap * 2 : 64;
                engine->scratch = xrealloc(engine->scratch, engine->scratch_cap, sizeof *engine->scratch);
            }
            engine->scratch[(*count)++] = owner;
        }
        block = forward ? extent_next(engine->extents, block) : extent_prev(engine->extents, block);
    }
    return found;
}

/* Clears a slot of the zone, or a window around the victim when its neighbours let it. */
static bool clear_around(struct engine *engine, const struct claim *claim, uint32_t victim)
{
    uint32_t block = engine->instances[victim].block;
    uint64_t bytes = claim->bytes;
    size_t count = 0;
    if (is_slot_for(engine, claim, victim)) {
        engine_evict_instance(engine, victim);
        return true;
    }
    uint64_t found = collect(engine, block, true, bytes, &count);
    if (found < bytes)
        found += collect(engine, extent_prev(engine->extents, block), false, bytes - found, &count);
    if (found < bytes)
        return false;
    for (size_t i = 0; i < count; i++)
        engine_evict_instance(engine, engine->scratch[i]);
    return true;
}

/* Clears the first window of `bytes` in the arena that can be cleared. */
static bool clear_anywhere(struct engine *engine, uint64_t bytes)
{
    uint32_t block = extent_first(engine->extents);
    while (block != EXTENT_NONE) {
        size_t count = 0;
        uint32_t start = block, owner;
        uint64_t found = collect(engine, start, true, bytes, &count);
        if (found >= bytes) {
            for (size_t i = 0; i < count; i++)
                engine_evict_instance(engine, engine->scratch[i]);
            return true;
        }
        while (block != EXTENT_NONE && clearable(engine, block, &owner)) /* too short: on past what stopped it */
            block = extent_next(engine->extents, block);
        while (block != EXTENT_NONE && !clearable(engine, block, &owner))
            block = extent_next(engine->extents, block);
    }
    return false;
}

double engine_job_rate(const struct engine *engine, const struct job *job)
{
    uint64_t given = 0;
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        given += job->queues[rank].samples_delivered;
    return (double)given / (double)(engine->now_ns - job->came_ns + 1);
}

/* How soon an instance is expected to be asked for: the sum over the jobs that want it of rate / |R| (Lobster's reuse distance,
 * in expectation). */
static double expected_reuse(const struct engine *engine, const struct instance *instance)
{
    double reuse = 0;
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        const struct job *job = &engine->jobs[place];
        if (!wants_instance(engine, place, instance))
            continue;
        reuse += engine_job_rate(engine, job) / (double)sampler_remaining(engine->sampler, place);
    }
    return reuse;
}

/* The instance to evict: of those that fewest jobs want the one that is expected to be asked for last. A few of them are
 * compared, those longest untouched. */
static uint32_t find_victim(const struct engine *engine)
{
    uint32_t victim = residency_victim(engine->prepared), at = victim;
    if (victim == RESIDENT_NONE || residency_want(engine->prepared, victim) == 0)
        return victim;
    double least = expected_reuse(engine, &engine->instances[victim]);
    for (int compared = 1; compared < REUSE_VICTIMS; compared++) {
        at = residency_victim_after(engine->prepared, at);
        if (at == RESIDENT_NONE || residency_want(engine->prepared, at) > residency_want(engine->prepared, victim))
            break;
        double reuse = expected_reuse(engine, &engine->instances[at]);
        if (reuse < least) {
            victim = at;
            least = reuse;
        }
    }
    return victim;
}

/* A slot of the zone that nobody pins, the first to be evicted of them. */
static bool clear_slot(struct engine *engine, const struct claim *claim)
{
    uint32_t victim = claim->zone ? residency_victim(engine->prepared) : RESIDENT_NONE;
    while (victim != RESIDENT_NONE && !is_slot_for(engine, claim, victim))
        victim = residency_victim_after(engine->prepared, victim);
    if (victim != RESIDENT_NONE)
        engine_evict_instance(engine, victim);
    return victim != RESIDENT_NONE;
}

static uint32_t take_free(struct engine *engine, const struct claim *claim)
{
    uint32_t block = claim->zone ? engine_zone_take(engine, claim->zone, claim->index) : ENGINE_NONE;
    return block != ENGINE_NONE ? block : extent_alloc(engine->extents, claim->bytes, claim->index);
}

static uint32_t arena_alloc(struct engine *engine, const struct claim *claim)
{
    uint32_t block = take_free(engine, claim);
    if (block != EXTENT_NONE)
        return block;
    uint32_t victim = find_victim(engine);
    bool cleared = false;
    for (int tries = 0; victim != RESIDENT_NONE && !cleared && tries < WINDOW_VICTIMS; tries++) {
        cleared = clear_around(engine, claim, victim);
        if (!cleared)
            victim = residency_victim_after(engine->prepared, victim);
    }
    if (!cleared && !clear_slot(engine, claim) && !clear_anywhere(engine, claim->bytes))
        return EXTENT_NONE;
    block = take_free(engine, claim);
    CHECK(block != EXTENT_NONE);
    return block;
}

/* What is planned farther ahead than its queue is sure of makes way: what is ready, then what is not under way. */
static uint32_t arena_alloc_sure(struct engine *engine, const struct claim *claim)
{
    static const enum entry_state states[] = {ENTRY_READY, ENTRY_WAITING};
    uint32_t block = arena_alloc(engine, claim);
    for (size_t i = 0; i < sizeof states / sizeof states[0] && block == EXTENT_NONE; i++) {
        engine_loosen(engine, states[i]);
        block = arena_alloc(engine, claim);
    }
    return block;
}

/* As arena_alloc, but clears away only what nobody wants. */
static uint32_t arena_alloc_spare(struct engine *engine, const struct claim *claim)
{
    uint32_t block = take_free(engine, claim), victim = residency_victim(engine->prepared);
    for (int tries = 0; block == EXTENT_NONE && tries < SPARE_VICTIMS; tries++) {
        if (victim == RESIDENT_NONE || residency_want(engine->prepared, victim) > 0)
            return EXTENT_NONE;
        uint32_t after = residency_victim_after(engine->prepared, victim);
        if (!engine->instances[victim].zoned || is_slot_for(engine, claim, victim)) {
            engine_evict_instance(engine, victim);
            block = take_free(engine, claim);
        }
        victim = after;
    }
    return block;
}

/* How hard room is looked for. */
enum effort { EFFORT_SPARE, EFFORT_LOOSE, EFFORT_SURE };

static uint32_t begin_instance(struct engine *engine, uint32_t job, sample_id id, enum effort effort)
{
    uint32_t index = engine_instance_new(engine);
    struct instance *instance = &engine->instances[index];
    const struct job *owner = &engine->jobs[job];
    uint64_t bytes = owner->by_size ? engine->config.sample_bytes(owner->dataset, id) : owner->slot_bytes;
    *instance = (struct instance){.state = INSTANCE_MAKING, .bytes = bytes, .by_size = owner->by_size};
    struct claim claim = {.index = index, .bytes = engine_slot_bytes(&engine->config, bytes), .zone = engine_zone_of(engine, instance)};
    /* evicts, but begins no instance: `instance` holds */
    uint32_t block = effort == EFFORT_SPARE  ? arena_alloc_spare(engine, &claim)
                     : effort == EFFORT_LOOSE ? arena_alloc(engine, &claim)
                                              : arena_alloc_sure(engine, &claim);
    if (block == EXTENT_NONE) {
        engine_instance_drop(engine, index);
        return ENGINE_NONE;
    }
    struct sample_state *sample = &engine->samples[id];
    *instance = (struct instance){.state = INSTANCE_MAKING,
                                  .zoned = instance->zoned,
                                  .next = sample->instances,
                                  .id = id,
                                  .pipeline = owner->pipeline,
                                  .block = block,
                                  .task = ENGINE_NONE,
                                  .waiters = ENGINE_NONE,
                                  .bytes = bytes,
                                  .by_size = owner->by_size,
                                  .ordinal = owner->shuffle == SHUFFLE_STRICT && owner->variant ? 0 : sample->begun++,
                                  .variant = owner->variant,
                                  .in_order = owner->shuffle == SHUFFLE_NONE,
                                  .maker = owner->client};
    sample->instances = index;
    residency_add(engine->prepared, index, 0); /* its first pin is the making's */
    engine->arena_pinned += extent_bytes(engine->extents, block);
    set_want(engine, index, engine_count_want(engine, instance));
    return index;
}

uint32_t engine_begin_instance(struct engine *engine, uint32_t job, sample_id id, bool sure)
{
    return begin_instance(engine, job, id, sure ? EFFORT_SURE : EFFORT_LOOSE);
}

uint32_t engine_begin_spare_instance(struct engine *engine, uint32_t job, sample_id id)
{
    return begin_instance(engine, job, id, EFFORT_SPARE);
}

void engine_pin_instance(struct engine *engine, uint32_t index)
{
    if (residency_pins(engine->prepared, index) == 0)
        engine->arena_pinned += extent_bytes(engine->extents, engine->instances[index].block);
    residency_pin(engine->prepared, index);
}

void engine_unpin_instance(struct engine *engine, uint32_t index)
{
    residency_unpin(engine->prepared, index);
    if (residency_pins(engine->prepared, index) == 0)
        engine->arena_pinned -= extent_bytes(engine->extents, engine->instances[index].block);
    engine->room_changes++;
    if (engine->instances[index].doomed && residency_pins(engine->prepared, index) == 0)
        engine_free_instance(engine, index);
}

void engine_mark_had(struct engine *engine, uint32_t job, uint32_t index)
{
    struct instance *instance = &engine->instances[index];
    if (wants_instance(engine, job, instance))
        shift_want(engine, index, -1);
    jobset_add(&instance->had, job);
}

void engine_clear_had(struct engine *engine, uint32_t job, uint32_t index)
{
    struct instance *instance = &engine->instances[index];
    jobset_remove(&instance->had, job);
    if (wants_instance(engine, job, instance))
        shift_want(engine, index, 1);
}

void engine_forget_pipeline(struct engine *engine, uint32_t pipeline)
{
    for (uint32_t index = 0; index < engine->instance_pool.size; index++) {
        struct instance *instance = &engine->instances[index];
        if (instance->state == INSTANCE_FREE || instance->pipeline != pipeline)
            continue;
        if (instance->state == INSTANCE_READY) {
            engine_evict_instance(engine, index);
        } else { /* its task runs for nobody: the result is not wanted under the number's new meaning */
            CHECK(instance->waiters == ENGINE_NONE);
            instance->doomed = true;
        }
    }
}

/* ── encoded ── */

void engine_free_encoded(struct engine *engine, uint32_t index, bool evicted)
{
    struct encoded *encoded = &engine->encoded[index];
    CHECK(encoded->tasks == ENGINE_NONE);
    if (encoded->handle)
        engine_act(engine, ENGINE_DROP_ENCODED)->drop.encoded = encoded->handle;
    engine->totals.evicted_encoded += evicted;
    engine_fiber_remove_encoded(engine, index);
    if (engine->samples[encoded->id].chunk != ENGINE_NONE)
        engine->groups[engine->chunks[engine->samples[encoded->id].chunk].group].stock--;
    engine->encoded_used -= encoded->bytes;
    if (residency_pins(engine->encodeds, index) > 0) /* its load has failed */
        engine->encoded_pinned -= encoded->bytes;
    if (engine->samples[encoded->id].encoded == index) /* a failed load gives its place up before it ends */
        engine->samples[encoded->id].encoded = ENGINE_NONE;
    residency_remove(engine->encodeds, index);
    engine_encoded_drop(engine, index);
}

static uint64_t beside_records(const struct engine *engine, uint64_t instances)
{
    uint64_t all = engine->config.encoded_bytes, most = all / ENGINE_RECORDS_PART;
    uint64_t records = instances * engine->config.instance_bytes;
    return all - (records < most ? records : most);
}

uint64_t engine_encoded_most(const struct engine *engine)
{
    return beside_records(engine, engine->instance_pool.size);
}

uint64_t engine_encoded_sure(const struct engine *engine)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        const struct job *job = &engine->jobs[place];
        uint64_t slot = job->state != JOB_FREE ? engine_slot_bytes(&engine->config, job->slot_bytes) : least;
        least = slot < least ? slot : least;
    }
    uint64_t sure = beside_records(engine, engine->config.arena_bytes / least), now = engine_encoded_most(engine);
    return sure < now ? sure : now;
}

/* Evicts until `bytes` more fit; false when what is left is pinned and they do not. */
static bool make_room_encoded(struct engine *engine, uint64_t bytes)
{
    while (engine->encoded_used + bytes > engine_encoded_most(engine)) {
        uint32_t victim = residency_victim(engine->encodeds);
        if (victim == RESIDENT_NONE)
            return false;
        engine_free_encoded(engine, victim, true);
    }
    return true;
}

void engine_shed_encoded(struct engine *engine)
{
    (void)make_room_encoded(engine, 0);
}

uint32_t engine_begin_load(struct engine *engine, sample_id id, uint64_t bytes)
{
    /* One alone may have all: else no sample would come that needs what the records take. */
    if (!make_room_encoded(engine, bytes) && (engine->encoded_used > 0 || bytes > engine->config.encoded_bytes))
        return ENGINE_NONE;
    uint32_t index = engine_encoded_new(engine);
    engine->encoded[index] = (struct encoded){.state = ENCODED_LOADING, .id = id, .tasks = ENGINE_NONE, .bytes = bytes};
    engine->samples[id].encoded = index;
    engine_fiber_add_encoded(engine, index);
    if (engine->samples[id].chunk != ENGINE_NONE)
        engine->groups[engine->chunks[engine->samples[id].chunk].group].stock++;
    engine->encoded_used += bytes;
    engine->encoded_pinned += bytes;
    residency_add(engine->encodeds, index, engine_count_encoded_want(engine, id)); /* its first pin is the load's */
    return index;
}

void engine_pin_encoded(struct engine *engine, uint32_t index)
{
    if (residency_pins(engine->encodeds, index) == 0)
        engine->encoded_pinned += engine->encoded[index].bytes;
    residency_pin(engine->encodeds, index);
}

/* A loaded sample that nobody wants this epoch is not kept, unless there is room for all. */
static void encoded_settle(struct engine *engine, uint32_t index)
{
    if (residency_pins(engine->encodeds, index) == 0 && residency_want(engine->encodeds, index) == 0 &&
        !engine_keeps(engine, engine->encoded[index].id))
        engine_free_encoded(engine, index, false);
}

void engine_unpin_encoded(struct engine *engine, uint32_t index)
{
    residency_unpin(engine->encodeds, index);
    if (residency_pins(engine->encodeds, index) == 0)
        engine->encoded_pinned -= engine->encoded[index].bytes;
    encoded_settle(engine, index);
}

/* ── wants ── */

static void shift_wants(struct engine *engine, uint32_t job, sample_id id, int by)
{
    const struct sample_state *sample = &engine->samples[id];
    for (uint32_t index = sample->instances; index != ENGINE_NONE; index = engine->instances[index].next) {
        const struct instance *instance = &engine->instances[index];
        if (engine_suits(engine, job, instance))
            shift_want(engine, index, by);
    }
    if (sample->encoded != ENGINE_NONE)
        residency_set_want(engine->encodeds, sample->encoded, residency_want(engine->encodeds, sample->encoded) + (uint32_t)by);
}

void engine_sample_left(struct engine *engine, uint32_t job, sample_id id)
{
    shift_wants(engine, job, id, -1);
}

void engine_sample_back(struct engine *engine, uint32_t job, sample_id id)
{
    shift_wants(engine, job, id, 1);
}

void engine_settle_sample(struct engine *engine, sample_id id)
{
    if (engine->samples[id].encoded != ENGINE_NONE)
        encoded_settle(engine, engine->samples[id].encoded);
}

/* A job among those of which much more is in memory changes its epoch by its own samples, not by all residents. */
static bool goes_by_samples(const struct engine *engine, uint64_t samples)
{
    return samples * SAMPLE_WORK < (uint64_t)engine->instance_pool.size + engine->encoded_pool.size;
}

/* What is done for each of a job's samples. */
struct visit {
    struct engine *engine;
    uint32_t job;
    int by;
};

static void visit_wants(void *context, sample_id id)
{
    const struct visit *visit = context;
    shift_wants(visit->engine, visit->job, id, visit->by);
}

static void visit_settle(void *context, sample_id id)
{
    engine_settle_sample(((const struct visit *)context)->engine, id);
}

static void visit_had(void *context, sample_id id)
{
    const struct visit *visit = context;
    struct engine *engine = visit->engine;
    for (uint32_t index = engine->samples[id].instances; index != ENGINE_NONE; index = engine->instances[index].next)
        jobset_remove(&engine->instances[index].had, visit->job);
}

/* The job's wants of all that remains to it count once more, or once less. */
static void shift_all_wants(struct engine *engine, uint32_t job, int by)
{
    if (engine->jobs[job].state != JOB_RUNNING)
        return;
    if (goes_by_samples(engine, sampler_remaining(engine->sampler, job))) {
        sampler_each_left(engine->sampler, job, visit_wants, &(struct visit){engine, job, by});
        return;
    }
    for (uint32_t index = 0; index < engine->instance_pool.size; index++) {
        const struct instance *instance = &engine->instances[index];
        if (instance->state != INSTANCE_FREE && wants_instance(engine, job, instance))
            shift_want(engine, index, by);
    }
    for (uint32_t index = 0; index < engine->encoded_pool.size; index++) {
        if (engine->encoded[index].state != ENCODED_FREE && wants_encoded(engine, job, engine->encoded[index].id))
            residency_set_want(engine->encodeds, index, residency_want(engine->encodeds, index) + (uint32_t)by);
    }
}

void engine_withdraw_wants(struct engine *engine, uint32_t job)
{
    shift_all_wants(engine, job, -1);
}

void engine_declare_wants(struct engine *engine, uint32_t job)
{
    shift_all_wants(engine, job, 1);
}

void engine_settle_left(struct engine *engine, uint32_t job)
{
    if (goes_by_samples(engine, sampler_remaining(engine->sampler, job)))
        sampler_each_left(engine->sampler, job, visit_settle, &(struct visit){engine, job, 0});
    else
        engine_settle_encoded(engine);
}

void engine_settle_encoded(struct engine *engine)
{
    uint32_t index = residency_victim(engine->encodeds);
    while (index != RESIDENT_NONE && residency_want(engine->encodeds, index) == 0) { /* the others are wanted */
        uint32_t next = residency_victim_after(engine->encodeds, index);
        encoded_settle(engine, index);
        index = next;
    }
}

void engine_forget_had(struct engine *engine, uint32_t job)
{
    if (goes_by_samples(engine, engine->jobs[job].view_samples)) {
        sampler_each_viewed(engine->sampler, job, visit_had, &(struct visit){engine, job, 0});
        return;
    }
    for (uint32_t index = 0; index < engine->instance_pool.size; index++) {
        if (engine->instances[index].state != INSTANCE_FREE)
            jobset_remove(&engine->instances[index].had, job);
    }
}
