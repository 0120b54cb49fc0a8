/* engine_check.c: what must hold between steps, and what the engine tells about itself. */
#include <stdlib.h>

#include "common/check.h"
#include "server/engine/engine_priv.h"
#include "server/engine/demand.h"
#include "server/engine/encoded.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/sources.h"
#include "server/engine/tasks.h"

static void count_leased(const struct job_queue *queue, uint32_t *users)
{
    for (uint32_t at = 0; at < queue->n_leases; at++) {
        for (uint32_t i = 0; i < queue->leases[at].count; i++)
            users[queue->leases[at].instances[i]]++;
    }
}

/* Counts, for each instance, the entries and the leased samples that pin it. The caller frees. */
static uint32_t *count_users(const struct engine *engine)
{
    uint32_t *users = xcalloc(engine->prepared.slab.size, sizeof *users);
    for (uint32_t index = 0; index < engine->queues.slab.size; index++) {
        if (engine->queues.entries[index].state > ENTRY_UNPLACED)
            users[engine->queues.entries[index].instance]++;
    }
    for (uint32_t place = 0; place < engine->jobs.end; place++) {
        for (uint32_t rank = 0; rank < job_at(&engine->jobs, place)->terms.world_size; rank++)
            count_leased(&job_at(&engine->jobs, place)->queues[rank], users);
    }
    return users;
}

static void check_instances(const struct engine *engine)
{
    uint64_t used = 0, pinned = 0;
    uint32_t *users = count_users(engine), idle = 0;
    for (uint32_t index = 0; index < engine->prepared.slab.size; index++) {
        const struct instance *instance = &engine->prepared.instances[index];
        if (instance->state == INSTANCE_FREE)
            continue;
        bool making = instance->state == INSTANCE_MAKING;
        uint32_t owner;
        CHECK(extent_owner(engine->prepared.extents, instance->block, &owner) && owner == index);
        CHECK(extent_bytes(engine->prepared.extents, instance->block) >= instance->bytes);
        CHECK(residency_pins(engine->prepared.residency, index) == users[index] + making);
        CHECK(residency_want(engine->prepared.residency, index) == demand_count(&engine->jobs, &instance->form));
        CHECK(making == (instance->task != ENGINE_NONE));
        CHECK(making || instance->waiters == ENGINE_NONE);
        CHECK(!making || engine->tasks.tasks[instance->task].state == TASK_RUNNING || instance->waiters != ENGINE_NONE);
        used += extent_bytes(engine->prepared.extents, instance->block);
        pinned += residency_pins(engine->prepared.residency, index) > 0 ? extent_bytes(engine->prepared.extents, instance->block) : 0;
        idle += residency_pins(engine->prepared.residency, index) == 0 && residency_want(engine->prepared.residency, index) == 0;
    }
    free(users);
    CHECK(idle == residency_idle(engine->prepared.residency) && pinned == engine->prepared.pinned_bytes);
    CHECK(used + prepared_zones_free_bytes(&engine->prepared) == extents_used_bytes(engine->prepared.extents));
    CHECK(extents_used_bytes(engine->prepared.extents) <= engine->env.config.arena_bytes);
    CHECK(engine->quota.promised_bytes <= engine->env.config.arena_bytes);
    CHECK(engine->prepared.slab.taken * engine->env.config.slot_least <= engine->env.config.arena_bytes);
}

/* Each zone has the slots that it has promised, in use or free. */
static void check_zones(const struct engine *engine)
{
    for (uint32_t at = 0; at < engine->prepared.n_zones; at++) {
        const struct zone *zone = &engine->prepared.zones[at];
        uint64_t promised = 0, used = 0;
        uint32_t owner;
        for (uint32_t place = 0; place < engine->jobs.end; place++) {
            const struct job *job = job_at(&engine->jobs, place);
            if (job->state != JOB_FREE && job->zoned && engine_slot_bytes(&engine->env.config, job->terms.slot_bytes) == zone->bytes)
                promised += job->quota.ahead_min * job->shape.batch_slots * job->terms.world_size;
        }
        for (uint32_t index = 0; index < engine->prepared.slab.size; index++) {
            const struct instance *instance = &engine->prepared.instances[index];
            used += instance->state != INSTANCE_FREE && instance->zoned && prepared_zone_of(&engine->prepared, instance) == zone;
        }
        for (size_t i = 0; i < zone->n_free; i++)
            CHECK(extent_owner(engine->prepared.extents, zone->free[i], &owner) && owner == ENGINE_NONE);
        CHECK(zone->slots == zone->promised && zone->promised == promised && used + zone->n_free == zone->slots);
        CHECK(at == 0 || engine->prepared.zones[at - 1].bytes > zone->bytes);
    }
}

static void check_encoded(const struct engine *engine)
{
    uint64_t used = 0, pinned = 0;
    uint32_t loading = 0;
    uint32_t *tasks = xcalloc(engine->encoded.slab.size, sizeof *tasks);
    for (uint32_t task = 0; task < engine->tasks.slab.size; task++) {
        if (engine->tasks.tasks[task].state != TASK_FREE && engine->tasks.tasks[task].encoded != ENGINE_NONE)
            tasks[engine->tasks.tasks[task].encoded]++;
    }
    for (uint32_t index = 0; index < engine->encoded.slab.size; index++) {
        const struct encoded *encoded = &engine->encoded.encodeds[index];
        if (encoded->state == ENCODED_FREE)
            continue;
        CHECK(engine->encoded.samples[encoded->id].encoded == index);
        CHECK(residency_pins(engine->encoded.residency, index) == tasks[index] + (encoded->state == ENCODED_LOADING));
        CHECK(residency_want(engine->encoded.residency, index) == demand_count_encoded(&engine->jobs, encoded->id));
        CHECK(residency_pins(engine->encoded.residency, index) || residency_want(engine->encoded.residency, index) || encoded_keeps(&engine->encoded, encoded->id));
        CHECK((encoded->state == ENCODED_READY) == (encoded->handle != NULL));
        loading += encoded->state == ENCODED_LOADING;
        used += encoded->bytes;
        pinned += residency_pins(engine->encoded.residency, index) ? encoded->bytes : 0;
    }
    free(tasks);
    CHECK(pinned == engine->encoded.pinned_bytes);
    CHECK(used == engine->encoded.used_bytes && used <= engine->env.config.encoded_bytes);
    CHECK(used <= encoded_most(&engine->encoded) || residency_victim(engine->encoded.residency) == RESIDENT_NONE);
    CHECK(loading == engine->encoded.loading && loading <= engine->env.config.inflight_loads);
}

static uint32_t list_length(const struct engine *engine, enum task_kind kind, uint32_t job)
{
    enum task_state state = kind == TASK_LOADS ? TASK_TO_LOAD : TASK_TO_PREPARE;
    uint32_t count = 0, ranks = 0;
    for (uint32_t index = job_at(&engine->jobs, job)->turns.lists[kind].tasks.head; index != ENGINE_NONE; index = engine->tasks.tasks[index].in_list.next) {
        CHECK(engine->tasks.tasks[index].state == state && engine->tasks.tasks[index].job == job);
        count++;
    }
    for (uint32_t rank = 0; rank < job_at(&engine->jobs, job)->terms.world_size; rank++)
        ranks += job_at(&engine->jobs, job)->queues[rank].listed[kind];
    CHECK(ranks == count);
    return count;
}

/* A task that is not under way is in the turn of a job that waits for it. */
static bool is_waited_for(const struct engine *engine, const struct task *task)
{
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        for (uint32_t at = engine->prepared.instances[task->outputs[i]].waiters; at != ENGINE_NONE; at = engine->queues.entries[at].next_waiter) {
            if (engine->queues.entries[at].job == task->job)
                return true;
        }
    }
    return false;
}

static void check_tasks(const struct engine *engine)
{
    uint32_t listed = 0, waiting = 0, running = 0;
    for (uint32_t place = 0; place < engine->jobs.end; place++) {
        if (job_at(&engine->jobs, place)->state == JOB_FREE)
            continue;
        listed += list_length(engine, TASK_LOADS, place);
        listed += list_length(engine, TASK_PREPARES, place);
    }
    for (uint32_t index = 0; index < engine->tasks.slab.size; index++) {
        const struct task *task = &engine->tasks.tasks[index];
        waiting += task->state == TASK_TO_LOAD || task->state == TASK_TO_PREPARE;
        running += task->state == TASK_RUNNING;
        CHECK(task->state == TASK_FREE || task->state == TASK_RUNNING || is_waited_for(engine, task));
        for (uint32_t i = 0; task->state != TASK_FREE && i < task->n_outputs; i++)
            CHECK(engine->prepared.instances[task->outputs[i]].task == index && engine->prepared.instances[task->outputs[i]].form.id == task->id);
    }
    CHECK(listed == waiting);
    CHECK(running == engine->tasks.running && running <= engine->env.config.inflight_prepares);
}

static void check_queue(const struct engine *engine, uint32_t place, uint32_t rank)
{
    const struct job *job = job_at(&engine->jobs, place);
    const struct job_queue *queue = &job->queues[rank];
    uint64_t leased = 0;
    uint32_t queued = 0, ready = 0, unplaced = 0, making = 0, prev = ENGINE_NONE;
    bool open = false;
    for (uint32_t index = queue->line.entries.head; index != ENGINE_NONE; prev = index, index = engine->queues.entries[index].in_line.next) {
        const struct entry *entry = &engine->queues.entries[index];
        CHECK(entry->job == place && entry->rank == rank && entry->state != ENTRY_FREE && entry->in_line.prev == prev);
        CHECK(entry->place_in_line < queue->line.numbered && (prev == ENGINE_NONE || engine->queues.entries[prev].place_in_line < entry->place_in_line));
        open = open || index == queue->line.first_waiting;
        CHECK(open || entry->state != ENTRY_WAITING);
        queued++;
        ready += entry->state == ENTRY_READY;
        unplaced += entry->state == ENTRY_UNPLACED;
        making += entry->making;
        CHECK(!entry->making || entry->state == ENTRY_WAITING);
    }
    for (uint32_t at = 0; at < queue->n_leases; at++)
        leased += queue->leases[at].count;
    CHECK(prev == queue->line.entries.tail && (open || queue->line.first_waiting == ENGINE_NONE));
    CHECK(queued == queue->line.queued && ready == queue->line.ready && unplaced == queue->line.unplaced && making == queue->line.making);
    CHECK(queue->held_slots == queued + leased && queue->held_slots <= job->quota.slots);
    CHECK(queue->n_leases <= job->quota.held_max && job->quota.held_max <= job->quota.ahead_min && job->quota.ahead_min <= job->quota.ahead_now);
    CHECK(queued == 0 || job->zoned || job->terms.raw);
    CHECK((job->state == JOB_RUNNING && !queue->epoch.done) || (queued == 0 && reserve_count(&queue->reserve) == 0));
    CHECK(queue->client.presence == RANK_THERE || (queue->held_slots == 0 && queue->epoch.credits == 0 && !queue->next.asked));
    CHECK(job->state != JOB_RUNNING || queue->epoch.planned == queued + queue->epoch.delivered);
    CHECK(job->terms.world_size == 1 || job->state != JOB_RUNNING || queue->epoch.planned <= job_rank_share(job));
}

/* Nothing is lost: what was planned in this epoch is queued or delivered, and the rest is kept for a rank or still to be
 * picked; but for what ranks left behind. */
static void check_job(const struct engine *engine, uint32_t place)
{
    const struct job *job = job_at(&engine->jobs, place);
    uint64_t planned = 0, reserved = 0;
    uint32_t attached = 0;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        check_queue(engine, place, rank);
        planned += job->queues[rank].epoch.planned;
        reserved += reserve_count(&job->queues[rank].reserve);
        attached += job->queues[rank].client.presence == RANK_THERE;
    }
    CHECK(attached == job->attached && (attached > 0 || job->terms.world_size > 1));
    if (job->state == JOB_RUNNING)
        CHECK(planned + reserved + job->progress.lost + job->progress.abandoned + sampler_remaining(engine->env.sampler, place) ==
              job->shape.view_samples + job->progress.repeats);
}

/* Nothing is read from a source that is away but to see whether it answers, and nothing waits for it that another has. */
static void check_sources(const struct engine *engine)
{
    uint32_t users[JOBS_MAX] = {0}, away = 0;
    for (uint32_t place = 0; place < engine->jobs.end; place++) {
        const struct job *job = job_at(&engine->jobs, place);
        if (job->state == JOB_FREE)
            continue;
        users[job->source.at]++;
        CHECK(engine->sources.all[job->source.at].dataset == job->terms.dataset);
        for (uint32_t index = job->turns.lists[TASK_LOADS].tasks.head; index != ENGINE_NONE; index = engine->tasks.tasks[index].in_list.next) {
            uint32_t heir = tasks_heir(&engine->tasks, &engine->tasks.tasks[index], place);
            CHECK(!sources_away(&engine->sources, place) || sources_away(&engine->sources, heir));
        }
    }
    for (uint32_t i = 0; i < JOBS_MAX; i++) {
        const struct data_source *source = &engine->sources.all[i];
        CHECK(source->users == users[i]);
        away += source->away;
        CHECK(source->probe == SAMPLE_NONE || (source->away && engine->encoded.samples[source->probe].encoded != ENGINE_NONE));
    }
    CHECK(engine->sources.n_away == away);
}

void engine_check(const struct engine *engine)
{
    CHECK_MAGIC(engine, ENGINE_MAGIC);
    uint64_t quota = 0;
    extents_check(engine->prepared.extents);
    check_instances(engine);
    check_zones(engine);
    check_encoded(engine);
    check_tasks(engine);
    check_sources(engine);
    for (uint32_t place = 0; place < engine->jobs.end; place++) {
        if (job_at(&engine->jobs, place)->state != JOB_FREE)
            check_job(engine, place);
        quota += job_at(&engine->jobs, place)->quota.bytes;
    }
    CHECK(quota == engine->quota.promised_bytes);
}
