/* tasks_load.c: begins loads: of a sample that a task needs, of other samples of its chunk, and of chunks that nobody
 * needs yet. */
#include "server/engine/encoded.h"
#include "server/engine/outbox.h"
#include "server/engine/sources.h"
#include "server/engine/tasks.h"

/* The part of memory that jobs with an order of their own may fill with what they want later. */
static const double LATER_SHARE = 0.9;

enum {
    /* A group that had no chunk worth reading is tried again when the samples of a chunk, divided by this, are used
     * up. */
    AHEAD_PATIENCE = 4,
    AHEAD_LOOK_MAX = 4096, /* useless encodeds looked at before reading ahead is left to another step */
    /* A failed try costs as much as looking at this many chunks, besides those that it looks at. */
    AHEAD_TRY = 64
};

/* is_waited_for tells whether a task waits for a load of the sample, and a read of its chunk may bring it. If the last
 * load failed, only the task itself starts another, for a job whose dataset may have the sample: a read for another job
 * would fail again and again. */
static bool is_waited_for(const struct tasks *tasks, sample_id id)
{
    return encoded_sample(tasks->encoded, id)->pending > 0 && !encoded_sample(tasks->encoded, id)->failed;
}

/* load_chunk loads the rest of a chunk with a read: what a task waits for, then what a stock has room for. It returns
 * how many loads it began. */
static uint32_t load_chunk(struct tasks *tasks, uint32_t job, const struct chunk *chunk, bool ahead)
{
    const struct group *group = &tasks->chunks->groups[chunk->group];
    uint32_t samples = group->chunk_samples, max = group->stock_max, came = 0;
    struct shortage *room = &tasks->encoded->shortage;
    encoded_measure_shortage(tasks->encoded, group);
    encoded_measure_whole(tasks->encoded, chunk, job);
    const uint32_t *slots = encoded_slots(tasks->encoded, chunk);
    for (int stocked = 0; stocked <= 1; stocked++) {
        for (uint32_t i = 0; i < samples && tasks->encoded->loading < tasks->env->config.inflight_loads; i++) {
            sample_id id = chunk->members[slots[i]];
            if (id == SAMPLE_NONE || encoded_sample(tasks->encoded, id)->encoded != ENGINE_NONE)
                continue;
            if (stocked ? !encoded_lacks(tasks->encoded, room, id) : !is_waited_for(tasks, id))
                continue;
            uint64_t bytes = tasks_load_bytes(tasks, job_at(tasks->jobs, job)->terms.dataset, id);
            if (bytes == ENGINE_NOT_THERE || bytes > tasks->env->config.encoded_bytes)
                continue;
            bool fits = (double)bytes <= encoded_room(tasks->encoded, group->kept, 1);
            if (!fits && !(stocked && !ahead && !group->thin && encoded_may_evict(tasks->encoded, room, id, max)))
                continue;
            if (tasks_load(tasks, job, id, bytes)) {
                came++;
                encoded_count_brought(tasks->encoded, room, id);
            }
        }
    }
    return came;
}

/* load_for_later loads the rest of a chunk for a job with an order of its own, which will want every sample of it
 * before its epoch is over. It loads only samples for which there is room without eviction. */
static void load_for_later(struct tasks *tasks, uint32_t job, sample_id first, const struct chunk *chunk)
{
    bool in_order = tasks->encoded->encodeds[encoded_sample(tasks->encoded, first)->encoded].in_order;
    for (uint32_t slot = 0; slot < tasks->chunks->groups[chunk->group].chunk_samples; slot++) {
        sample_id id = chunk->members[slot];
        if (id == SAMPLE_NONE || encoded_sample(tasks->encoded, id)->encoded != ENGINE_NONE ||
            (!is_waited_for(tasks, id) && !encoded_needs_bytes(tasks->encoded, job, id)))
            continue;
        uint64_t bytes = tasks_load_bytes(tasks, job_at(tasks->jobs, job)->terms.dataset, id);
        if (bytes == ENGINE_NOT_THERE || tasks->encoded->loading == tasks->env->config.inflight_loads ||
            ((double)bytes > encoded_room(tasks->encoded, chunk->kept, LATER_SHARE) &&
             !encoded_next_has_way(tasks->encoded, id)))
            continue;
        if (tasks_load(tasks, job, id, bytes))
            tasks->encoded->encodeds[encoded_sample(tasks->encoded, id)->encoded].in_order = in_order;
    }
}

void tasks_load_mates(struct tasks *tasks, uint32_t job, sample_id id)
{
    if (!chunks_group(tasks->chunks, id))
        return;
    const struct chunk *chunk = &tasks->chunks->chunks[chunks_place(tasks->chunks, id)->chunk];
    if (job_at(tasks->jobs, job)->terms.redirected)
        load_chunk(tasks, job, chunk, false);
    else
        load_for_later(tasks, job, id, chunk);
}

/* A try in vain takes a look at the group's stock for each job. When an epoch begins, all groups are worth a try. While
 * residents have still to enter their fibers, stocks are not known. */
void tasks_read_ahead(struct tasks *tasks)
{
    struct group *group;
    uint64_t looked = 0;
    if (tasks->chunks->arranging) {
        tasks->ahead_left = true;
        return;
    }
    while (tasks->env->config.redirect_width > 1 && (group = encoded_hungry_group(tasks->encoded)) != NULL &&
           encoded_room_ahead(tasks->encoded, group)) {
        if (looked > AHEAD_LOOK_MAX) {
            tasks->ahead_left = true;
            return;
        }
        const struct chunk *chunk = encoded_best_chunk(tasks->encoded, group);
        uint32_t job = chunk ? encoded_job_for(tasks->encoded, chunk, group->chunk_samples) : ENGINE_NONE;
        if (job != ENGINE_NONE && load_chunk(tasks, job, chunk, true)) {
            tasks->env->counts.reads++;
            continue;
        }
        looked += AHEAD_TRY + (uint64_t)group->stock * tasks->jobs->end;
        uint32_t used_up = group->chunk_samples / AHEAD_PATIENCE;
        group->ahead_below = group->stock > used_up ? group->stock - used_up : 0;
    }
}

/* route_pending routes the tasks of a sample whose load has begun: they wait for that load, not for one of their
 * own. */
static void route_pending(struct tasks *tasks, sample_id id)
{
    INSTANCES_OF(tasks->prepared, id, index) {
        if (tasks->prepared->instances[index].state != INSTANCE_MAKING)
            continue;
        uint32_t task = tasks->prepared->instances[index].task;
        if (tasks->tasks[task].state == TASK_TO_LOAD) {
            tasks_remove_to_load(tasks, task);
            tasks_route(tasks, task);
        }
    }
}

/* act_load adds the LOAD of a sample; it belongs to the present read. */
static void act_load(struct tasks *tasks, uint32_t job, sample_id id, uint64_t bytes)
{
    struct engine_action *action = job_act(tasks->outbox, ENGINE_LOAD, job_at(tasks->jobs, job));
    action->rank = tasks_load_rank(tasks, job, id);
    action->load.dataset = job_at(tasks->jobs, job)->terms.dataset;
    action->load.id = id;
    action->load.bytes = bytes;
    action->load.read = tasks->env->counts.reads;
}

bool tasks_load(struct tasks *tasks, uint32_t job, sample_id id, uint64_t bytes)
{
    uint32_t encoded = encoded_begin(tasks->encoded, job_at(tasks->jobs, job)->terms.dataset, id, bytes);
    if (encoded == ENGINE_NONE)
        return false;
    tasks->encoded->encodeds[encoded].round = tasks->sources->rounds;
    act_load(tasks, job, id, bytes);
    tasks_charge_load(tasks, id);
    route_pending(tasks, id);
    return true;
}
