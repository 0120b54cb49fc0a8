/* plan.c: picks are dealt to the ranks' queues, and entries get instances. */
#include <stdio.h>

#include "server/engine/engine_priv.h"

/* ── placing ── */

/* An instance of the sample that the job may get: one that is ready before one that is being made. */
static uint32_t find_instance(const struct engine *engine, uint32_t job, sample_id id)
{
    uint32_t making = ENGINE_NONE;
    for (uint32_t index = engine->samples[id].instances; index != ENGINE_NONE; index = engine->instances[index].next) {
        const struct instance *instance = &engine->instances[index];
        if (instance->doomed || !engine_suits(engine, job, instance))
            continue;
        if (instance->state == INSTANCE_READY)
            return index;
        making = index;
    }
    return making;
}

bool engine_place(struct engine *engine, uint32_t index, bool sure)
{
    uint32_t job_index = engine->entries[index].job;
    sample_id id = engine->entries[index].id;
    uint32_t instance = find_instance(engine, job_index, id);
    bool fresh = instance == ENGINE_NONE;
    if (fresh) {
        instance = engine_begin_instance(engine, job_index, id, sure);
        if (instance == ENGINE_NONE)
            return false;
    }
    struct entry *entry = &engine->entries[index];
    entry->instance = instance;
    engine_mark_had(engine, job_index, instance);
    engine_pin_instance(engine, instance);
    if (engine->instances[instance].state == INSTANCE_READY) {
        engine_entry_ready(engine, index);
        return true;
    }
    entry->state = ENTRY_WAITING;
    engine_queue_waits_for(engine, index);
    entry->link = engine->instances[instance].waiters;
    engine->instances[instance].waiters = index;
    if (fresh)
        engine_task_begin(engine, job_index, instance);
    else
        engine_task_joined(engine, engine->instances[instance].task, job_index);
    return true;
}

/* In planned order: when there is no room for one, those behind it wait too. */
static void place_unplaced(struct engine *engine, const struct job *job, struct job_queue *queue)
{
    if (queue->unplaced == 0 || queue->no_room_since == engine->room_changes)
        return;
    uint64_t sure = engine_sure_slots(job, queue), at = 0;
    for (uint32_t index = queue->head, next; queue->unplaced > 0 && index != ENGINE_NONE; index = next, at++) {
        next = engine->entries[index].next; /* what is placed and ready may change places with another rank's */
        if (engine->entries[index].state != ENTRY_UNPLACED)
            continue;
        if (!engine_place(engine, index, at < sure)) {
            queue->no_room_since = engine->room_changes;
            return;
        }
        queue->unplaced--;
    }
}

/* ── bad samples ── */

/* Policy `error`, or no substitute found. Dropping the queue finds the entry whole. */
static void fail_job(struct engine *engine, uint32_t index, int code, const char *text)
{
    struct entry *entry = &engine->entries[index];
    engine_entry_unplaced(engine, index);
    engine_job_fail(engine, entry->job, entry->id, code, text);
}

static void substitute(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    struct job *job = &engine->jobs[entry->job];
    if (entry->substitutes++ == ENGINE_SUBSTITUTES_MAX) {
        fail_job(engine, index, LARDER_ESAMPLE, "this sample and every substitute drawn for it are bad: check the dataset");
        return;
    }
    CHECK(idset_select(job->view, random_below(&engine->rng, job->view_samples), &entry->id));
    engine_entry_unplaced(engine, index); /* placed by the planning that follows */
}

/* One that has lost all of an epoch would train on nothing without a word. */
static void skip(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    struct job *job = &engine->jobs[entry->job];
    struct job_queue *queue = engine_queue_of(engine, entry);
    if (entry->repeat && queue->repeats_lost++ == ENGINE_SUBSTITUTES_MAX) {
        fail_job(engine, index, LARDER_ESAMPLE, "this sample and all others that were to fill a rank's share up are bad: "
                 "check the dataset");
        return;
    }
    job->lost++;
    if (job->world_size == 1 && engine_rank_share(job) == 0) {
        fail_job(engine, index, LARDER_ESAMPLE, "this sample and so many others are bad that nothing is left of the "
                 "epoch: check the dataset");
        return;
    }
    queue->planned--;
    engine_queue_remove(engine, index);
}

/* Bad samples of an epoch that the job goes on with. */
static uint64_t bad_max(const struct engine *engine, const struct job *job)
{
    uint64_t share = (uint64_t)(engine->config.bad_share * (double)job->view_samples);
    return share > engine->config.bad_count ? share : engine->config.bad_count;
}

static void fail_too_many(struct engine *engine, uint32_t index)
{
    const struct job *job = &engine->jobs[engine->entries[index].job];
    char text[224];
    snprintf(text, sizeof text, "with this one %llu of %llu samples are bad in this epoch, and limits.bad allows %llu: the "
             "daemon's log names them; repair the dataset, or raise limits.bad", (unsigned long long)idset_count(job->bad),
             (unsigned long long)job->view_samples, (unsigned long long)bad_max(engine, job));
    fail_job(engine, index, LARDER_ESAMPLE, text);
}

/* The entry waited for an instance, which is gone already. */
void engine_entry_bad(struct engine *engine, uint32_t index)
{
    struct entry *entry = &engine->entries[index];
    struct job *job = &engine->jobs[entry->job];
    engine_rank_made(engine, entry);
    job->bad_samples++;
    if (!entry->repeat && entry->substitutes == 0 && !idset_contains(job->bad, entry->id)) {
        idset_add(job->bad, entry->id);
        engine_queue_of(engine, entry)->lost++;
    }
    engine->replan = true;
    if (job->bad_policy != BAD_ERROR && engine->config.bad_limited && idset_count(job->bad) > bad_max(engine, job))
        fail_too_many(engine, index);
    else if (job->bad_policy == BAD_SKIP)
        skip(engine, index);
    else if (job->bad_policy == BAD_REPLACE)
        substitute(engine, index);
    else
        fail_job(engine, index, LARDER_ESAMPLE, "this sample is bad, and the job's policy is `error`: repair it or take it away, or have "
                 "bad samples skipped or replaced");
}

/* The same. Whatever the job's policy: it would train on something else than what it registered. */
void engine_entry_changed(struct engine *engine, uint32_t index)
{
    engine_rank_made(engine, &engine->entries[index]);
    fail_job(engine, index, LARDER_ECHANGED, "this file is not the one that was indexed: it was changed or replaced "
             "since; start the job again, which indexes the dataset anew");
}

/* ── shares ── */

/* Whole batches only under drop_last. One rank alone has the view less what bad samples cost; several have equal shares
 * whatever happens, because they train in step. */
uint64_t engine_rank_share(const struct job *job)
{
    uint64_t share = job->view_samples - job->lost;
    if (job->world_size > 1)
        share = (job->view_samples + (job->drop_last ? 0 : job->world_size - 1)) / job->world_size;
    return job->drop_last ? share / job->batch_size * job->batch_size : share;
}

bool engine_plan_left(const struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    return !queue->done && queue->planned < engine_rank_share(job) &&
           (job->world_size > 1 || engine_reserve_count(&queue->reserve) > 0 ||
            sampler_remaining(engine->sampler, (unsigned)(job - engine->jobs)) > 0);
}

/* May more be planned for the queue, when all that is planned has its place? */
static bool is_short(const struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    return (job->zoned || job->by_size) && queue->attached && queue->held_slots < engine_depth_slots(job, queue) &&
           engine_plan_left(engine, job, queue);
}

static bool has_room(const struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    return queue->unplaced == 0 && is_short(engine, job, queue);
}

/* Which sample fills a rank's share up. In a fixed order the one that DistributedSampler takes: the order's first ones
 * again, dealt on in turn. What more is needed, because samples were bad, follows by ascending id. */
static sample_id choose_repeat(struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    sample_id id;
    uint64_t rank = (uint64_t)(queue - job->queues), world = job->world_size, samples = job->view_samples;
    uint64_t position = (rank + world - samples % world) % world % samples;
    if (job->shuffle == SHUFFLE_DEPENDENT)
        position = random_below(&engine->rng, samples);
    else if (queue->repeats == 0)
        return job->first[position];
    else
        position = (position + queue->repeats) % samples;
    CHECK(idset_select(job->view, position, &id));
    return id;
}

/* ── rounds ── */

enum source { DRAWN, KEPT, REPEAT };

static void plan_entry(struct engine *engine, uint32_t job_index, struct job_queue *queue, sample_id id, enum source source)
{
    struct job *job = &engine->jobs[job_index];
    uint32_t index = engine_entry_new(engine);
    engine->entries[index] = (struct entry){.state = ENTRY_WAITING,
                                            .job = job_index,
                                            .rank = (uint32_t)(queue - job->queues),
                                            .instance = ENGINE_NONE,
                                            .id = id,
                                            .number = queue->numbered,
                                            .due = (int64_t)queue->numbered,
                                            .planned_ns = engine->now_ns,
                                            .repeat = source == REPEAT,
                                            .kept = source == KEPT};
    queue->numbered++;
    engine_queue_append(engine, index);
    queue->planned++;
    if (!engine_place(engine, index, queue->queued <= engine_sure_slots(job, queue)))
        engine_entry_unplaced(engine, index);
}

/* What needs no draw: a rank's own samples, and repeats when nothing is left to draw. */
static void plan_reserved(struct engine *engine, uint32_t job_index)
{
    struct job *job = &engine->jobs[job_index];
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        while (has_room(engine, job, queue)) {
            if (engine_reserve_count(&queue->reserve)) {
                plan_entry(engine, job_index, queue, queue->reserve.ids[queue->reserve.at++], KEPT);
            } else if (sampler_remaining(engine->sampler, job_index) == 0) {
                plan_entry(engine, job_index, queue, choose_repeat(engine, job, queue), REPEAT);
                queue->repeats++;
                job->repeats++;
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
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        bool fits = all ? is_short(engine, job, queue) : has_room(engine, job, queue);
        if (fits && (!best || queue->held_slots < best->held_slots))
            best = queue;
    }
    return best;
}

static void deal(struct engine *engine, uint32_t job_index, sample_id id)
{
    struct job *job = &engine->jobs[job_index];
    uint64_t position = job->drawn++;
    if (job->world_size == 1 || job->shuffle == SHUFFLE_DEPENDENT) {
        struct job_queue *queue = job->world_size == 1 ? &job->queues[0] : neediest(engine, job, false);
        if (!queue) /* since the draw one that was placed has made way for another job's */
            queue = neediest(engine, job, true);
        CHECK(queue); /* else there was no draw for the job */
        plan_entry(engine, job_index, queue, id, DRAWN);
        return;
    }
    if (position < job->world_size)
        job->first[position] = id;
    struct job_queue *owner = &job->queues[position % job->world_size];
    if (owner->done)
        job->left++;
    else
        engine_reserve_add(&owner->reserve, id);
}

static void take_pick(struct engine *engine, const struct pick *pick)
{
    sample_id target[JOBS_MAX];
    engine_redirect(engine, pick, target);
    JOBSET_EACH(job, &pick->jobs)
        deal(engine, job, target[job]);
    engine_settle_sample(engine, pick->id);
    JOBSET_EACH(job, &pick->jobs)
        engine_settle_sample(engine, target[job]);
}

static void find_need(struct engine *engine, struct jobset *need)
{
    for (uint32_t job = 0; job < engine->jobs_end; job++) {
        if (engine->jobs[job].state != JOB_RUNNING)
            continue;
        plan_reserved(engine, job);
        if (sampler_remaining(engine->sampler, job) > 0 && neediest(engine, &engine->jobs[job], false))
            jobset_add(need, job);
    }
}

static void place_all(struct engine *engine)
{
    for (uint32_t job = 0; job < engine->jobs_end; job++) {
        for (uint32_t rank = 0; engine->jobs[job].state == JOB_RUNNING && rank < engine->jobs[job].world_size; rank++)
            place_unplaced(engine, &engine->jobs[job], &engine->jobs[job].queues[rank]);
    }
}

/* Rounds go on until no queue has room, or nothing is left to pick. */
void engine_plan(struct engine *engine)
{
    place_all(engine);
    for (;;) {
        struct jobset need = {{0}};
        find_need(engine, &need);
        if (jobset_empty(&need))
            break;
        size_t count = sampler_round(engine->sampler, &need, engine->picks);
        CHECK(count > 0);
        for (size_t i = 0; i < count; i++) { /* all have left already: what is begun for one counts no want of the others */
            JOBSET_EACH(job, &engine->picks[i].jobs)
                engine_sample_left(engine, job, engine->picks[i].id);
        }
        for (size_t i = 0; i < count; i++)
            take_pick(engine, &engine->picks[i]);
    }
    place_all(engine); /* what a round found no room for may take some: no event need follow */
}
