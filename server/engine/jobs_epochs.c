/* jobs_epochs.c: epochs begin and end, batches are delivered and released. engine.h says what ranks owe each other. */
#include <stdio.h>
#include <stdlib.h>

#include "server/engine/engine_priv.h"

/* ── epochs ── */

/* The rank is through with the epoch: it has had its share, or it goes on without the rest. */
static void queue_done(struct engine *engine, struct job *job, struct job_queue *queue)
{
    uint64_t reserved = engine_reserve_count(&queue->reserve);
    queue->planned -= queue->queued;
    job->left += queue->queued + reserved;
    queue->reserve.at = queue->reserve.end = 0;
    engine_queue_drop_all(engine, queue);
    queue->done = true;
    queue->credits = 0;
}

/* What remains (ranks left it, or less than a batch under drop_last) is wanted no more. */
static void epoch_end(struct engine *engine, uint32_t place, enum job_state next)
{
    struct job *job = &engine->jobs[place];
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        queue_done(engine, job, &job->queues[rank]);
    engine_withdraw_wants(engine, place);
    job->state = next;
    engine_settle_left(engine, place);
}

/* Never 0, and no variant's of another epoch. */
static uint64_t variant_of_epoch(uint64_t variant, uint32_t epoch)
{
    struct rng rng;
    random_seed_keys(&rng, variant, epoch, 0, 0);
    return random_u64(&rng) | 1;
}

static void epoch_start(struct engine *engine, uint32_t place, uint32_t epoch)
{
    struct job *job = &engine->jobs[place];
    sampler_start_epoch(engine->sampler, place, epoch);
    if (job->shuffle == SHUFFLE_STRICT && job->variant_seed)
        job->variant = variant_of_epoch(job->variant_seed, epoch);
    job->state = JOB_RUNNING;
    job->began = true;
    job->epoch = epoch;
    job->drawn = job->lost = job->left = job->repeats = 0;
    idset_remove_all(job->bad, job->view);
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        queue->done = queue->waits && queue->wanted_epoch > epoch; /* it left this one out */
        queue->returned = false;
        queue->batch_index = queue->credits = queue->repeats_lost = 0;
        queue->planned = queue->delivered = queue->lost = queue->repeats = 0;
        if (queue->waits && !queue->done) {
            queue->waits = false;
            queue->credits = queue->wanted_credits;
        }
    }
    engine_declare_wants(engine, place);
    engine_read_ahead_again(engine);
    engine->replan = true;
}

/* Has it been given batches of the epoch that it may yet lose? What it has not released is put back should it die; who asks
 * for a later epoch has taken all. (A job of one rank ends with its client.) */
static bool may_lose(const struct job *job, const struct job_queue *queue)
{
    for (uint32_t at = 0; job->world_size > 1 && !queue->waits && at < queue->n_leases; at++) {
        if (queue->leases[at].epoch == job->epoch && queue->leases[at].count > 0)
            return true;
    }
    return false;
}

/* Ends the epoch when every rank is through with it, and begins the lowest that a rank waits for. */
static void turn_epoch(struct engine *engine, uint32_t place)
{
    struct job *job = &engine->jobs[place];
    struct job_queue *first = NULL;
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        if (job->state == JOB_RUNNING && (!queue->done || may_lose(job, queue)))
            return;
        if (queue->waits && (!first || queue->wanted_epoch < first->wanted_epoch))
            first = queue;
    }
    if (job->state == JOB_RUNNING)
        epoch_end(engine, place, JOB_IDLE);
    if (first)
        epoch_start(engine, place, first->wanted_epoch);
}

static struct engine_action *act_error(struct engine *engine, uint32_t place, uint32_t rank)
{
    struct engine_action *action = engine_act_job(engine, ENGINE_JOB_ERROR, place);
    action->rank = rank;
    action->client = engine->jobs[place].queues[rank].client;
    action->error.id = SAMPLE_NONE;
    return action;
}

static void add_credits(uint32_t *credits, uint32_t more)
{
    uint64_t sum = (uint64_t)*credits + more;
    *credits = sum < ENGINE_PREFETCH_MAX ? (uint32_t)sum : ENGINE_PREFETCH_MAX;
}

/* A later epoch than the job's: the rank is through with this one, and waits for those that are not. */
static void ask_later(struct engine *engine, uint32_t place, struct job_queue *queue, const struct engine_event *event)
{
    struct job *job = &engine->jobs[place];
    if (queue->waits && event->next.epoch < queue->wanted_epoch)
        return;
    if (job->state == JOB_RUNNING && !queue->done)
        queue_done(engine, job, queue);
    if (!queue->waits || queue->wanted_epoch != event->next.epoch)
        queue->wanted_credits = 0;
    queue->waits = true;
    queue->wanted_epoch = event->next.epoch;
    add_credits(&queue->wanted_credits, event->next.credits);
    turn_epoch(engine, place);
}

static void deliver_batch(struct engine *engine, uint32_t place, struct job_queue *queue, uint32_t count);

void engine_on_next(struct engine *engine, const struct engine_event *event)
{
    uint32_t place = event->next.job, epoch = event->next.epoch;
    struct job *job = &engine->jobs[place];
    if (job->state == JOB_FREE || job->state == JOB_FAILED)
        return;
    CHECK(event->rank < job->world_size);
    struct job_queue *queue = &job->queues[event->rank];
    if (!queue->attached)
        return;
    if (job->epochs && epoch >= job->epochs) {
        struct engine_action *action = act_error(engine, place, event->rank);
        error_set(&action->error.error, LARDER_EINVAL, "job %s: epoch %u was asked for and it has %u", job->name, epoch, job->epochs);
    } else if (!job->began || epoch > job->epoch) {
        ask_later(engine, place, queue, event);
    } else if (epoch < job->epoch) {
        if (job->world_size == 1 || (queue->told && epoch <= queue->told_epoch))
            return;
        struct engine_action *action = act_error(engine, place, event->rank);
        error_set(&action->error.error, LARDER_EINVAL, "job %s: rank %u asks for epoch %u and the job is in epoch %u: a rank that "
                  "comes back goes on there, and ranks leave an epoch together", job->name, event->rank, epoch, job->epoch);
    } else if (!queue->done) {
        add_credits(&queue->credits, event->next.credits);
    } else if (queue->returned && !queue->waits) {
        queue->returned = false;
        deliver_batch(engine, place, queue, 0);
    }
}

void engine_job_fail(struct engine *engine, uint32_t place, sample_id id, int code, const char *text)
{
    struct job *job = &engine->jobs[place];
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        if (!job->queues[rank].attached)
            continue;
        struct engine_action *action = act_error(engine, place, rank);
        action->error.id = id;
        action->error.reason = id == SAMPLE_NONE ? 0 : engine->failing;
        action->error.dataset = job->dataset;
        error_set(&action->error.error, code, "job %s: %s", job->name, text);
    }
    if (job->state == JOB_RUNNING)
        epoch_end(engine, place, JOB_FAILED);
    job->state = JOB_FAILED;
    job->most = job->asked = job->least; /* what its clients may still hold */
    engine->divide = true;
}

/* ── ranks that are away ── */

static bool needed(const struct job *job, const struct job_queue *queue, bool somebody_waits)
{
    return !queue->attached && (somebody_waits || (job->state == JOB_RUNNING && !queue->done));
}

static void watch_job(struct engine *engine, uint32_t place)
{
    struct job *job = &engine->jobs[place];
    bool waits = false;
    for (uint32_t rank = 0; rank < job->world_size; rank++)
        waits = waits || job->queues[rank].waits;
    for (uint32_t rank = 0; rank < job->world_size; rank++) {
        struct job_queue *queue = &job->queues[rank];
        bool missed = needed(job, queue, waits);
        if (missed && !queue->missed)
            queue->missed_since_ns = engine->now_ns;
        queue->missed = missed;
        if (!missed || engine->now_ns - queue->missed_since_ns < engine->config.rank_timeout_ns)
            continue;
        char text[160];
        snprintf(text, sizeof text, "rank %u of %u %s within %.3g s (limits.rank_timeout): look why it stopped, and start all "
                 "ranks again", rank, job->world_size, queue->came ? "has not come back" : "has not come",
                 (double)engine->config.rank_timeout_ns / 1e9);
        engine_job_fail(engine, place, SAMPLE_NONE, LARDER_ETIMEOUT, text);
        return;
    }
}

/* With nobody there to be told, a job ends. */
void engine_watch_ranks(struct engine *engine)
{
    for (uint32_t place = 0; engine->config.rank_timeout_ns && place < engine->jobs_end; place++) {
        const struct job *job = &engine->jobs[place];
        if (job->state == JOB_FREE || job->state == JOB_FAILED || job->world_size == 1)
            continue;
        if (job->attached > 0)
            watch_job(engine, place);
        else if (engine->now_ns - job->empty_since_ns >= engine->config.rank_timeout_ns)
            engine_job_end(engine, place);
    }
}

/* ── delivery ── */

/* The entry and its instance become the lease's. */
static void lease_entry(struct engine *engine, struct job *job, struct job_queue *queue, struct lease *lease, uint32_t index)
{
    const struct entry *entry = &engine->entries[index];
    const struct instance *instance = &engine->instances[entry->instance];
    engine->delivered[engine->n_delivered++] = (struct engine_entry){
        .offset = extent_offset(engine->extents, instance->block), .bytes = instance->bytes, .id = entry->id};
    lease->instances[lease->count++] = entry->instance;
    job->samples_shared += instance->maker != job->client;
    engine_queue_remove(engine, index);
    queue->held_slots++; /* leased now */
}

static void deliver_batch(struct engine *engine, uint32_t place, struct job_queue *queue, uint32_t count)
{
    struct job *job = &engine->jobs[place];
    struct lease *lease = &queue->leases[queue->n_leases++];
    *lease = (struct lease){.batch = engine->next_batch++, .epoch = job->epoch, .instances = xmalloc(count * sizeof(uint32_t))};
    if (engine->n_delivered + count > engine->delivered_cap) {
        engine->delivered_cap = engine->delivered_cap * 2 + count;
        engine->delivered = xrealloc(engine->delivered, engine->delivered_cap, sizeof *engine->delivered);
    }
    for (uint32_t index = queue->head, next; lease->count < count; index = next) {
        CHECK(index != ENGINE_NONE);
        next = engine->entries[index].next;
        if (engine->entries[index].state == ENTRY_READY)
            lease_entry(engine, job, queue, lease, index);
    }
    queue->credits -= queue->credits > 0;
    queue->delivered += count;
    queue->samples_delivered += count;
    queue->batches_delivered++;
    engine_note_delivery(engine, job, queue);
    engine->totals.samples_delivered += count;
    struct engine_action *action = engine_act_job(engine, ENGINE_DELIVER, place);
    action->rank = (uint32_t)(queue - job->queues);
    action->client = queue->client;
    action->deliver.batch = lease->batch;
    action->deliver.epoch = job->epoch;
    action->deliver.index = queue->batch_index++;
    action->deliver.count = count;
    action->deliver.lost = queue->lost;
    /* What is left, with nothing more to come: nothing, or under drop_last less than a batch. */
    action->deliver.last = !engine_plan_left(engine, job, queue) && (job->drop_last ? queue->queued < job->batch_size : queue->queued == 0);
    queue->told = queue->told || action->deliver.last;
    queue->told_epoch = action->deliver.last ? job->epoch : queue->told_epoch;
    if (action->deliver.last && !queue->done) {
        queue_done(engine, job, queue);
        turn_epoch(engine, place);
    }
}

/* What the queue may look ahead, two batches at the least. */
uint64_t engine_overtakers_max(const struct job *job)
{
    uint64_t least = 2 * (uint64_t)job->batch_size;
    return job->quota_slots > least ? job->quota_slots : least;
}

/* Are batch_size entries ready that the next batch may take? In planned order, or in a window of two batches, which goes
 * on past one that is not ready until all have overtaken it that may. */
static bool whole_batch_ready(const struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    if (queue->ready < job->batch_size)
        return false;
    int64_t last = INT64_MAX, most = (int64_t)engine_overtakers_max(job);
    uint32_t window = job->ordered ? job->batch_size : 2 * job->batch_size, ready = 0;
    for (uint32_t index = queue->head; index != ENGINE_NONE && window > 0; index = engine->entries[index].next, window--) {
        const struct entry *entry = &engine->entries[index];
        if ((int64_t)entry->number > last || (entry->state != ENTRY_READY && job->ordered))
            return false;
        if (entry->state != ENTRY_READY && entry->due + most < last)
            last = entry->due + most;
        ready += entry->state == ENTRY_READY;
        if (ready == job->batch_size)
            return true;
        if (ready + window - 1 < job->batch_size) /* not if all the rest were */
            return false;
    }
    return false;
}

/* The next batch's size when it is ready now: whole, or what is left of the epoch. */
static bool next_batch_ready(const struct engine *engine, const struct job *job, const struct job_queue *queue, uint32_t *count)
{
    if (queue->queued >= job->batch_size) {
        *count = job->batch_size;
        return whole_batch_ready(engine, job, queue);
    }
    if (engine_plan_left(engine, job, queue))
        return false;
    *count = job->drop_last ? 0 : queue->queued;
    return job->drop_last || queue->ready == queue->queued;
}

bool engine_batch_ready(const struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    uint32_t count;
    return next_batch_ready(engine, job, queue, &count);
}

static bool may_have_batch(const struct job *job, const struct job_queue *queue)
{
    return job->state == JOB_RUNNING && queue->credits > 0 && queue->n_leases < job->held_max;
}

static void deliver_queue(struct engine *engine, uint32_t place, struct job_queue *queue)
{
    struct job *job = &engine->jobs[place];
    uint32_t count;
    while (may_have_batch(job, queue) && !engine->replan && next_batch_ready(engine, job, queue, &count))
        deliver_batch(engine, place, queue, count);
    bool waiting = may_have_batch(job, queue);
    if (waiting && !queue->waiting) {
        queue->waiting_since_ns = engine->now_ns;
        engine_note_wait(engine, job, queue);
    }
    if (!waiting && queue->waiting)
        queue->wait_ns += engine->now_ns - queue->waiting_since_ns;
    queue->waiting = waiting;
}

void engine_deliver(struct engine *engine)
{
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        for (uint32_t rank = 0; engine->jobs[place].state != JOB_FREE && rank < engine->jobs[place].world_size; rank++)
            deliver_queue(engine, place, &engine->jobs[place].queues[rank]);
    }
}

uint32_t engine_ready_batches(const struct engine *engine, const struct job *job, const struct job_queue *queue)
{
    uint32_t whole = queue->ready / job->batch_size, rest = 0;
    if (job->state == JOB_RUNNING && queue->queued && queue->ready == queue->queued && !engine_plan_left(engine, job, queue))
        rest = !job->drop_last && queue->queued % job->batch_size > 0;
    return whole + rest;
}

void engine_on_release(struct engine *engine, const struct engine_event *event)
{
    const struct job *job = &engine->jobs[event->release.job];
    if (job->state != JOB_FREE) {
        CHECK(event->rank < job->world_size);
        struct job_queue *queue = &job->queues[event->rank];
        for (uint32_t at = 0; at < queue->n_leases; at++) {
            if (queue->leases[at].batch == event->release.batch) {
                engine_lease_end(engine, queue, at);
                if (job->state == JOB_RUNNING && queue->done)
                    turn_epoch(engine, event->release.job);
                return;
            }
        }
    }
    engine->totals.unknown_releases++;
}
