/* tasks_load.c: loads begin: of a sample, of what else its chunk brings, and ahead of all need. */
#include "server/engine/encoded.h"
#include "server/engine/outbox.h"
#include "server/engine/sources.h"
#include "server/engine/tasks.h"

/* Of the budget that jobs in an order of their own may fill with what they want later. */
enum { LATER_TENTHS = 9 };

/* The rest of the chunk comes with a read: what a task waits for, then what a stock has room for. Returns how many came. */
static uint32_t load_chunk(struct engine *engine, uint32_t job, const struct chunk *chunk, bool ahead)
{
    const struct group *group = &engine->chunks.groups[chunk->group];
    uint32_t samples = group->chunk_samples, max = group->stock_max, came = 0;
    struct shortage *room = &engine->encoded.shortage;
    const uint32_t *slots = encoded_shuffled_slots(engine, samples);
    encoded_measure_shortage(engine, group);
    for (int stocked = 0; stocked <= 1; stocked++) {
        for (uint32_t i = 0; i < samples && engine->encoded.loading < engine->config.inflight_loads; i++) {
            sample_id id = chunk->members[slots[i]];
            if (id == SAMPLE_NONE || engine->samples.all[id].encoded != ENGINE_NONE)
                continue;
            if (stocked ? !encoded_lacks(engine, room, id, max) : engine->samples.all[id].pending == 0)
                continue;
            uint64_t bytes = engine->config.sample_bytes(engine->jobs.all[job].terms.dataset, id);
            if (bytes == ENGINE_NOT_THERE || bytes > engine->config.encoded_bytes)
                continue;
            bool fits = engine->encoded.used_bytes + bytes <= encoded_most(engine);
            if (!fits && !(stocked && !ahead && !group->thin && encoded_may_evict(engine, room, id, max)))
                continue;
            if (tasks_load(engine, job, id, bytes)) {
                came++;
                encoded_count_brought(engine, room, id);
            }
        }
    }
    return came;
}

/* A job with an order of its own will want every sample of the chunk before its epoch is out: those come for which there
 * is room that nothing must leave. */
static void load_for_later(struct engine *engine, uint32_t job, sample_id first, const struct chunk *chunk)
{
    bool in_order = engine->encoded.encodeds[engine->samples.all[first].encoded].in_order;
    uint64_t most = engine->encoded.kept ? encoded_most(engine) : encoded_most(engine) / 10 * LATER_TENTHS;
    for (uint32_t slot = 0; slot < engine->chunks.groups[chunk->group].chunk_samples; slot++) {
        sample_id id = chunk->members[slot];
        if (id == SAMPLE_NONE || engine->samples.all[id].encoded != ENGINE_NONE ||
            (engine->samples.all[id].pending == 0 && !encoded_needs_bytes(engine, job, id)))
            continue;
        uint64_t bytes = engine->config.sample_bytes(engine->jobs.all[job].terms.dataset, id);
        if (bytes == ENGINE_NOT_THERE || bytes > most || engine->encoded.used_bytes > most - bytes ||
            engine->encoded.loading == engine->config.inflight_loads)
            continue;
        if (tasks_load(engine, job, id, bytes))
            engine->encoded.encodeds[engine->samples.all[id].encoded].in_order = in_order;
    }
}

void tasks_load_mates(struct engine *engine, uint32_t job, sample_id id)
{
    if (engine->samples.all[id].chunk == ENGINE_NONE)
        return;
    const struct chunk *chunk = &engine->chunks.chunks[engine->samples.all[id].chunk];
    if (engine->jobs.all[job].terms.redirected)
        load_chunk(engine, job, chunk, false);
    else
        load_for_later(engine, job, id, chunk);
}

/* Reads chunks that nobody waits for yet. */
void tasks_read_ahead(struct engine *engine)
{
    struct group *group;
    while (engine->config.redirect_width > 1 && (group = encoded_hungry_group(engine)) != NULL && encoded_room_ahead(engine, group)) {
        const struct chunk *chunk = encoded_best_chunk(engine, group);
        uint32_t job = chunk ? encoded_job_for(engine, chunk, group->chunk_samples) : ENGINE_NONE;
        if (job != ENGINE_NONE && load_chunk(engine, job, chunk, true)) {
            engine->totals.reads++;
            continue;
        }
        uint32_t used_up = group->chunk_samples / AHEAD_PATIENCE;
        group->ahead_below = group->stock > used_up ? group->stock - used_up : 0;
    }
}

/* The load of a sample has begun: its tasks wait for that, not for a load of their own. */
static void route_pending(struct engine *engine, sample_id id)
{
    for (uint32_t index = engine->samples.all[id].instances; index != ENGINE_NONE; index = engine->prepared.instances[index].next) {
        if (engine->prepared.instances[index].state != INSTANCE_MAKING)
            continue;
        uint32_t task = engine->prepared.instances[index].task;
        if (engine->tasks.tasks[task].state == TASK_TO_LOAD) {
            tasks_remove_to_load(engine, task);
            tasks_route(engine, task);
        }
    }
}

static void act_load(struct engine *engine, uint32_t job, sample_id id, uint64_t bytes)
{
    engine->encoded.loading++;
    struct engine_action *action = outbox_add_job(engine, ENGINE_LOAD, job);
    action->rank = tasks_load_rank(engine, job, id);
    action->load.dataset = engine->jobs.all[job].terms.dataset;
    action->load.id = id;
    action->load.bytes = bytes;
    action->load.read = engine->totals.reads;
}

bool tasks_load(struct engine *engine, uint32_t job, sample_id id, uint64_t bytes)
{
    uint32_t encoded = encoded_begin(engine, id, bytes);
    if (encoded == ENGINE_NONE)
        return false;
    sources_load(engine, job, encoded);
    act_load(engine, job, id, bytes);
    tasks_charge_load(engine, id);
    route_pending(engine, id);
    return true;
}
