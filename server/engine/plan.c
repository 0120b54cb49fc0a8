/* plan.c: picks are dealt to the ranks' queues, and entries get instances. */
#include "server/engine/encoded.h"
#include "server/engine/outbox.h"
#include "server/engine/plan.h"
#include "server/engine/prepared.h"
#include "server/engine/queue.h"
#include "server/engine/quota.h"
#include "server/engine/residents.h"
#include "server/engine/tasks.h"

enum source { DRAWN, RESERVED, REPEAT };

/* For an entry that its queue is sure of room for: what is planned farther ahead than its queue is sure of makes way, what is
 * ready first, then what is not under way. */
static uint32_t begin_sure(struct engine *engine, uint32_t job, sample_id id)
{
    static const enum entry_state states[] = {ENTRY_READY, ENTRY_WAITING};
    uint32_t instance = prepared_begin(engine, job, id);
    for (size_t i = 0; i < sizeof states / sizeof states[0] && instance == ENGINE_NONE; i++) {
        plan_loosen(engine, states[i]);
        instance = prepared_begin(engine, job, id);
    }
    return instance;
}

bool plan_place(struct engine *engine, uint32_t index, bool sure)
{
    uint32_t job_index = engine->queues.entries[index].job;
    sample_id id = engine->queues.entries[index].id;
    uint32_t instance = prepared_find(engine, job_index, id);
    bool fresh = instance == ENGINE_NONE;
    if (fresh) {
        instance = sure ? begin_sure(engine, job_index, id) : prepared_begin(engine, job_index, id);
        if (instance == ENGINE_NONE)
            return false;
    }
    struct entry *entry = &engine->queues.entries[index];
    entry->instance = instance;
    prepared_mark_had(engine, job_index, instance);
    prepared_pin(engine, instance);
    if (engine->prepared.instances[instance].state == INSTANCE_READY) {
        tasks_entry_ready(engine, index);
        return true;
    }
    entry->state = ENTRY_WAITING;
    queue_waits_for(engine, index);
    entry->next_waiter = engine->prepared.instances[instance].waiters;
    engine->prepared.instances[instance].waiters = index;
    if (fresh)
        tasks_begin(engine, job_index, instance);
    else
        tasks_joined(engine, engine->prepared.instances[instance].task, job_index);
    return true;
}

/* In planned order: when there is no room for one, those behind it wait too. */
static void place_unplaced(struct engine *engine, const struct job *job, struct job_queue *queue)
{
    if (queue->line.unplaced == 0 || queue->line.no_room_since == engine->plan.room_changes)
        return;
    uint64_t sure = queue_sure_slots(job, queue), at = 0;
    for (uint32_t index = queue->line.entries.head, next; queue->line.unplaced > 0 && index != ENGINE_NONE; index = next, at++) {
        next = engine->queues.entries[index].in_line.next; /* what is placed and ready may change places with another rank's */
        if (engine->queues.entries[index].state != ENTRY_UNPLACED)
            continue;
        if (!plan_place(engine, index, at < sure)) {
            queue->line.no_room_since = engine->plan.room_changes;
            return;
        }
        queue->line.unplaced--;
    }
}

/* May more be planned for the queue, when all that is planned has its place? */
static bool is_short(const struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    return (job->zoned || job->terms.raw) && queue->client.presence == RANK_THERE && queue->held_slots < quota_depth_slots(job, (uint32_t)(queue - job->queues)) &&
           queue_plan_left(engine, job, queue);
}

static bool has_room(const struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    return queue->line.unplaced == 0 && is_short(engine, job, queue);
}

/* Which sample fills a rank's share up. In a fixed order the one that DistributedSampler takes: the order's first ones
 * again, dealt on in turn. What more is needed, because samples were bad, follows by ascending id. */
static sample_id choose_repeat(struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    sample_id id;
    uint64_t rank = (uint64_t)(queue - job->queues), world = job->terms.world_size, samples = job->shape.view_samples;
    uint64_t position = (rank + world - samples % world) % world % samples;
    if (job->terms.shuffle == SHUFFLE_DEPENDENT)
        position = random_below(&engine->rng, samples);
    else if (queue->epoch.repeats == 0)
        return job->progress.first[position];
    else
        position = (position + queue->epoch.repeats) % samples;
    CHECK(idset_select(job->terms.view, position, &id));
    return id;
}

/* ── rounds ── */

static void plan_entry(struct engine *engine, uint32_t job_index, struct job_queue *queue, sample_id id, enum source source)
{
    struct job *job = &engine->jobs.all[job_index];
    uint32_t index = entry_new(&engine->queues);
    engine->queues.entries[index] = (struct entry){.state = ENTRY_WAITING,
                                            .job = job_index,
                                            .rank = (uint32_t)(queue - job->queues),
                                            .instance = ENGINE_NONE,
                                            .id = id,
                                            .place_in_line = queue->line.numbered,
                                            .due_in_line = (int64_t)queue->line.numbered,
                                            .planned_ns = engine->now_ns,
                                            .repeat = source == REPEAT,
                                            .reserved = source == RESERVED};
    queue->line.numbered++;
    queue_append(engine, index);
    queue->epoch.planned++;
    if (!plan_place(engine, index, queue->line.queued <= queue_sure_slots(job, queue)))
        queue_unplaced(engine, index);
}

/* What needs no draw: a rank's own samples, and repeats when nothing is left to draw. */
static void plan_reserved(struct engine *engine, uint32_t job_index)
{
    struct job *job = &engine->jobs.all[job_index];
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        while (has_room(engine, job, queue)) {
            if (reserve_count(&queue->reserve)) {
                plan_entry(engine, job_index, queue, queue->reserve.ids[queue->reserve.at++], RESERVED);
            } else if (sampler_remaining(engine->sampler, job_index) == 0) {
                plan_entry(engine, job_index, queue, choose_repeat(engine, job, queue), REPEAT);
                queue->epoch.repeats++;
                job->progress.repeats++;
            } else {
                break;
            }
        }
    }
}

/* The emptiest of the queues that have room, or with `all` of those that are short: the pick is its. NULL: none is. */
static struct job_queue *neediest(const struct engine *engine, const struct job *job, bool all)
{
    struct job_queue *best = NULL;
    for (uint32_t rank = 0; rank < job->terms.world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        bool fits = all ? is_short(engine, job, queue) : has_room(engine, job, queue);
        if (fits && (!best || queue->held_slots < best->held_slots))
            best = queue;
    }
    return best;
}

static void deal(struct engine *engine, uint32_t job_index, sample_id id)
{
    struct job *job = &engine->jobs.all[job_index];
    uint64_t position = job->progress.drawn++;
    if (job->terms.world_size == 1 || job->terms.shuffle == SHUFFLE_DEPENDENT) {
        struct job_queue *queue = job->terms.world_size == 1 ? &job->queues[0] : neediest(engine, job, false);
        if (!queue) /* since the draw one that was placed has made way for another job's */
            queue = neediest(engine, job, true);
        CHECK(queue); /* else there was no draw for the job */
        plan_entry(engine, job_index, queue, id, DRAWN);
        return;
    }
    if (position < job->terms.world_size)
        job->progress.first[position] = id;
    struct job_queue *owner = &job->queues[position % job->terms.world_size];
    if (owner->epoch.done)
        job->progress.abandoned++;
    else
        reserve_add(&owner->reserve, id);
}

static void take_pick(struct engine *engine, const struct pick *pick)
{
    sample_id target[JOBS_MAX];
    plan_redirect(engine, pick, target);
    JOBSET_EACH(job, &pick->jobs)
        deal(engine, job, target[job]);
    encoded_drop_if_idle(engine, pick->id);
    JOBSET_EACH(job, &pick->jobs)
        encoded_drop_if_idle(engine, target[job]);
}

static void find_need(struct engine *engine, struct jobset *need)
{
    for (uint32_t job = 0; job < engine->jobs.end; job++) {
        if (engine->jobs.all[job].state != JOB_RUNNING)
            continue;
        plan_reserved(engine, job);
        if (sampler_remaining(engine->sampler, job) > 0 && neediest(engine, &engine->jobs.all[job], false))
            jobset_add(need, job);
    }
}

static void place_all(struct engine *engine)
{
    for (uint32_t job = 0; job < engine->jobs.end; job++) {
        for (uint32_t rank = 0; engine->jobs.all[job].state == JOB_RUNNING && rank < engine->jobs.all[job].terms.world_size; rank++)
            place_unplaced(engine, &engine->jobs.all[job], &engine->jobs.all[job].queues[rank]);
    }
}

/* Rounds go on until no queue has room, or nothing is left to pick. */
void plan_round(struct engine *engine)
{
    place_all(engine);
    for (;;) {
        struct jobset need = {{0}};
        find_need(engine, &need);
        if (jobset_empty(&need))
            break;
        size_t count = sampler_round(engine->sampler, &need, engine->plan.picks);
        CHECK(count > 0);
        for (size_t i = 0; i < count; i++) { /* all have left already: what is begun for one counts no want of the others */
            JOBSET_EACH(job, &engine->plan.picks[i].jobs)
                residents_left(engine, job, engine->plan.picks[i].id);
        }
        for (size_t i = 0; i < count; i++)
            take_pick(engine, &engine->plan.picks[i]);
    }
    place_all(engine); /* what a round found no room for may take some: no event need follow */
}
