/* engine_jobs.c: jobs come and go, epochs begin and end, batches are delivered and released. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/engine_priv.h"

/* ── coming ── */

static int refuse(struct engine *engine, const struct engine_job_desc *desc, int code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static int refuse(struct engine *engine, const struct engine_job_desc *desc, int code, const char *fmt, ...)
{
    struct engine_action *action = engine_act(engine, ENGINE_JOB_REFUSED);
    char text[ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    action->client = desc->client;
    action->error.id = SAMPLE_NONE;
    return error_set(&action->error.error, code, "job %s: %s", desc->name, text);
}

static uint32_t free_place(const struct engine *engine)
{
    uint32_t place = 0;
    while (place < JOBS_MAX && engine->jobs[place].state != JOB_FREE)
        place++;
    return place;
}

static const struct job *find_name(const struct engine *engine, const char *name)
{
    for (uint32_t i = 0; i < engine->jobs_end; i++) {
        if (engine->jobs[i].state != JOB_FREE && strcmp(engine->jobs[i].name, name) == 0)
            return &engine->jobs[i];
    }
    return NULL;
}

static bool well_formed(const struct engine_job_desc *desc)
{
    return desc->name && desc->name[0] && strlen(desc->name) < ENGINE_NAME_MAX && desc->pipeline < ENGINE_PIPELINES_MAX &&
           desc->slot_bytes > 0 && desc->batch_size >= 1 && desc->batch_size <= ENGINE_BATCH_MAX && desc->prefetch >= 1 &&
           desc->prefetch <= ENGINE_PREFETCH_MAX && desc->shuffle <= SHUFFLE_NONE && desc->bad_policy <= BAD_ERROR;
}

/* The look-ahead that fits: the batch being made and the one at the client always, `prefetch` more when there is room.
 * Gives the batches the quota holds, or 0 when not even two fit. */
static uint32_t fitting_batches(const struct engine *engine, const struct engine_job_desc *desc, uint64_t batch_bytes)
{
    uint64_t room = engine->config.arena_bytes - engine->quota_bytes;
    uint64_t cap = engine->config.job_quota_bytes;
    if (cap && cap < room)
        room = cap;
    uint64_t batches = room / batch_bytes;
    if (batches > desc->prefetch + 2)
        batches = desc->prefetch + 2;
    return batches < 2 ? 0 : (uint32_t)batches;
}

static int check_job(struct engine *engine, const struct engine_job_desc *desc)
{
    if (engine->draining)
        return refuse(engine, desc, LARDER_EGONE, "the daemon is stopping and takes no new jobs");
    if (!well_formed(desc))
        return refuse(engine, desc, LARDER_EINVAL, "an argument is out of its range");
    if (find_name(engine, desc->name))
        return refuse(engine, desc, LARDER_EBUSY, "another job has this name: choose another, or none and get one");
    if (free_place(engine) == JOBS_MAX)
        return refuse(engine, desc, LARDER_ELIMIT, "%d jobs are running already, which is the limit: stop one first", JOBS_MAX);
    if (idset_count(desc->view) == 0)
        return refuse(engine, desc, LARDER_EINVAL, "its view of the dataset is empty");
    return 0;
}

static void make_room_for_ids(struct engine *engine, const struct idset *view)
{
    sample_id last = 0;
    CHECK(idset_select(view, idset_count(view) - 1, &last));
    if (last < engine->samples_cap)
        return;
    uint64_t cap = engine->samples_cap ? engine->samples_cap : 1024;
    while (cap <= last)
        cap *= 2;
    engine->samples = xrealloc(engine->samples, cap, sizeof *engine->samples);
    for (uint64_t id = engine->samples_cap; id < cap; id++)
        engine->samples[id] = (struct sample_state){
            .instances = ENGINE_NONE, .encoded = ENGINE_NONE, .chunk = ENGINE_NONE, .fiber = ENGINE_NONE};
    engine->samples_cap = cap;
}

static void job_begin(struct engine *engine, uint32_t place, const struct engine_job_desc *desc, uint64_t batch_slots,
                      uint32_t batches)
{
    struct job *job = &engine->jobs[place];
    *job = (struct job){.state = JOB_IDLE,
                        .client = desc->client,
                        .dataset = desc->dataset,
                        .pipeline = desc->pipeline,
                        .slot_bytes = desc->slot_bytes,
                        .batch_size = desc->batch_size,
                        .prefetch = batches - 2,
                        .epochs = desc->epochs,
                        .drop_last = desc->drop_last,
                        .bad_policy = desc->bad_policy,
                        .redirected = engine->config.redirect_width > 0 && desc->shuffle == SHUFFLE_DEPENDENT && desc->places,
                        .view_samples = idset_count(desc->view),
                        .quota_slots = batch_slots * batches,
                        .quota_bytes = batch_slots * batches * extent_round(desc->slot_bytes),
                        .held_max = batches - 1,
                        .head = ENGINE_NONE,
                        .tail = ENGINE_NONE,
                        .first_waiting = ENGINE_NONE,
                        .unplaced_head = ENGINE_NONE,
                        .unplaced_tail = ENGINE_NONE,
                        .to_load = {ENGINE_NONE, ENGINE_NONE, 0},
                        .to_prepare = {ENGINE_NONE, ENGINE_NONE, 0}};
    strcpy(job->name, desc->name); /* bounded by well_formed */
    job->leases = xcalloc(job->held_max, sizeof *job->leases);
    engine->quota_bytes += job->quota_bytes;
    if (place >= engine->jobs_end)
        engine->jobs_end = place + 1;
}

void engine_on_job_add(struct engine *engine, const struct engine_job_desc *desc)
{
    if (check_job(engine, desc))
        return;
    uint64_t view_samples = idset_count(desc->view);
    uint64_t batch_slots = desc->batch_size < view_samples ? desc->batch_size : view_samples;
    uint64_t slot = extent_round(desc->slot_bytes);
    if (slot > engine->config.arena_bytes || batch_slots * slot > engine->config.arena_bytes) {
        refuse(engine, desc, LARDER_EQUOTA, "a batch of %llu samples of %llu bytes is larger than the arena of %llu bytes: lower "
               "batch_size or raise memory.arena", (unsigned long long)batch_slots, (unsigned long long)slot,
               (unsigned long long)engine->config.arena_bytes);
        return;
    }
    uint32_t batches = fitting_batches(engine, desc, batch_slots * slot);
    if (!batches) {
        uint64_t cap = engine->config.job_quota_bytes ? engine->config.job_quota_bytes : engine->config.arena_bytes;
        refuse(engine, desc, LARDER_EQUOTA, "two batches of %llu samples of %llu bytes do not fit into its quota: of the arena's %llu "
               "bytes %llu are promised to other jobs and one job may have %llu: lower batch_size, stop a job, or raise memory.arena",
               (unsigned long long)batch_slots, (unsigned long long)slot, (unsigned long long)engine->config.arena_bytes,
               (unsigned long long)engine->quota_bytes, (unsigned long long)cap);
        return;
    }
    uint32_t place = free_place(engine);
    struct error err;
    struct sampler_job sampled = {.shuffle = desc->shuffle, .seed = desc->seed, .view = desc->view, .order = desc->order};
    struct idset *view = NULL;
    int code = desc->bad_policy == BAD_REPLACE ? idset_copy(desc->view, &view) : 0;
    if (code)
        error_set(&err, code, "no memory for its view");
    else
        code = sampler_add_job(engine->sampler, place, &sampled, &err);
    if (code) {
        idset_destroy(view);
        refuse(engine, desc, code, "%s", err.text);
        return;
    }
    make_room_for_ids(engine, desc->view);
    engine_place_samples(engine, desc);
    job_begin(engine, place, desc, batch_slots, batches);
    struct job *job = &engine->jobs[place];
    job->view = view;
    struct engine_action *action = engine_act_job(engine, ENGINE_JOB_ADDED, place);
    action->job_added.held_max = job->held_max;
    action->job_added.quota_bytes = job->quota_bytes;
    action->job_added.n_batches =
        (uint32_t)((view_samples + (desc->drop_last ? 0 : desc->batch_size - 1)) / desc->batch_size);
}

/* ── epochs ── */

static void epoch_end(struct engine *engine, uint32_t place)
{
    struct job *job = &engine->jobs[place];
    engine_queue_drop_all(engine, place);
    if (sampler_remaining(engine->sampler, place) > 0) { /* broken off, or less than a batch under drop_last */
        engine_withdraw_wants(engine, place);
        job->state = JOB_IDLE;
        engine_settle_encoded(engine);
    }
    job->state = JOB_IDLE;
    job->credits = 0;
}

static void epoch_start(struct engine *engine, uint32_t place, uint32_t epoch)
{
    struct job *job = &engine->jobs[place];
    if (job->state == JOB_RUNNING) {
        engine_queue_drop_all(engine, place);
        engine_withdraw_wants(engine, place);
    }
    sampler_start_epoch(engine->sampler, place, epoch);
    job->state = JOB_RUNNING;
    job->began = true;
    job->epoch = epoch;
    job->batch_index = job->credits = 0;
    job->planned = job->lost = job->epoch_delivered = 0;
    engine_declare_wants(engine, place);
    engine_settle_encoded(engine);
}

void engine_on_next(struct engine *engine, const struct engine_event *event)
{
    struct job *job = &engine->jobs[event->next.job];
    uint32_t epoch = event->next.epoch;
    if (job->state == JOB_FREE || job->state == JOB_FAILED)
        return;
    if (job->epochs && epoch >= job->epochs) {
        struct engine_action *action = engine_act_job(engine, ENGINE_JOB_ERROR, event->next.job);
        action->error.id = SAMPLE_NONE;
        error_set(&action->error.error, LARDER_EINVAL, "job %s: epoch %u was asked for and it has %u", job->name, epoch, job->epochs);
        return;
    }
    if (!job->began || epoch > job->epoch)
        epoch_start(engine, event->next.job, epoch);
    if (epoch == job->epoch && job->state == JOB_RUNNING) {
        uint64_t credits = (uint64_t)job->credits + event->next.credits;
        job->credits = credits < ENGINE_PREFETCH_MAX ? (uint32_t)credits : ENGINE_PREFETCH_MAX;
    }
}

void engine_job_fail(struct engine *engine, uint32_t place, sample_id id, int code, const char *text)
{
    struct job *job = &engine->jobs[place];
    struct engine_action *action = engine_act_job(engine, ENGINE_JOB_ERROR, place);
    action->error.id = id;
    action->error.dataset = job->dataset;
    error_set(&action->error.error, code, "job %s: %s", job->name, text);
    epoch_end(engine, place);
    job->state = JOB_FAILED;
}

/* ── delivery ── */

static void lease_end(struct engine *engine, struct job *job, uint32_t at)
{
    struct lease *lease = &job->leases[at];
    for (uint32_t i = 0; i < lease->count; i++)
        engine_unpin_instance(engine, lease->instances[i]);
    job->held_slots -= lease->count;
    free(lease->instances);
    *lease = job->leases[--job->n_leases];
}

static void deliver_batch(struct engine *engine, uint32_t place, uint32_t count)
{
    struct job *job = &engine->jobs[place];
    struct lease *lease = &job->leases[job->n_leases++];
    *lease = (struct lease){.batch = engine->next_batch++, .count = count, .instances = xmalloc(count * sizeof(uint32_t))};
    if (engine->n_delivered + count > engine->delivered_cap) {
        engine->delivered_cap = engine->delivered_cap * 2 + count;
        engine->delivered = xrealloc(engine->delivered, engine->delivered_cap, sizeof *engine->delivered);
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = job->head;
        const struct entry *entry = &engine->entries[index];
        CHECK(entry->state == ENTRY_READY);
        const struct instance *instance = &engine->instances[entry->instance];
        engine->delivered[engine->n_delivered++] = (struct engine_entry){
            .offset = extent_offset(engine->extents, instance->block), .bytes = instance->bytes, .id = entry->id};
        lease->instances[i] = entry->instance;
        job->samples_shared += instance->maker != job->client;
        engine_queue_remove(engine, index);
        job->held_slots++; /* leased now */
    }
    job->credits--;
    job->epoch_delivered += count;
    job->samples_delivered += count;
    job->batches_delivered++;
    engine->totals.samples_delivered += count;
    struct engine_action *action = engine_act_job(engine, ENGINE_DELIVER, place);
    action->deliver.batch = lease->batch;
    action->deliver.epoch = job->epoch;
    action->deliver.index = job->batch_index++;
    action->deliver.count = count;
    /* What is left, with nothing more to come: nothing, or under drop_last less than a batch. */
    action->deliver.last = !engine_plan_left(engine, job) && (job->drop_last ? job->queued < job->batch_size : job->queued == 0);
    if (action->deliver.last)
        epoch_end(engine, place);
}

/* The next batch's size when it is ready now: whole, or what is left of the epoch. */
static bool next_batch_ready(const struct engine *engine, const struct job *job, uint32_t *count)
{
    if (job->ready_prefix >= job->batch_size) {
        *count = job->batch_size;
        return true;
    }
    if (job->queued >= job->batch_size || engine_plan_left(engine, job))
        return false;
    *count = job->drop_last ? 0 : job->queued;
    return job->drop_last || job->ready_prefix == job->queued;
}

void engine_deliver(struct engine *engine)
{
    for (uint32_t place = 0; place < engine->jobs_end; place++) {
        struct job *job = &engine->jobs[place];
        uint32_t count;
        while (job->state == JOB_RUNNING && job->credits > 0 && job->n_leases < job->held_max && next_batch_ready(engine, job, &count))
            deliver_batch(engine, place, count);
        bool waiting = job->state == JOB_RUNNING && job->credits > 0 && job->n_leases < job->held_max;
        if (waiting && !job->waiting)
            job->waiting_since_ns = engine->now_ns;
        if (!waiting && job->waiting)
            job->wait_ns += engine->now_ns - job->waiting_since_ns;
        job->waiting = waiting;
    }
}

uint32_t engine_ready_batches(const struct engine *engine, const struct job *job)
{
    uint32_t whole = job->ready_prefix / job->batch_size, rest = 0;
    if (job->state == JOB_RUNNING && job->queued && job->ready_prefix == job->queued && !engine_plan_left(engine, job))
        rest = !job->drop_last && job->queued % job->batch_size > 0;
    return whole + rest;
}

void engine_on_release(struct engine *engine, uint32_t place, uint64_t batch)
{
    struct job *job = &engine->jobs[place];
    for (uint32_t at = 0; job->state != JOB_FREE && at < job->n_leases; at++) {
        if (job->leases[at].batch == batch) {
            lease_end(engine, job, at);
            return;
        }
    }
    engine->totals.unknown_releases++;
}

/* ── going ── */

void engine_on_job_gone(struct engine *engine, uint32_t place)
{
    struct job *job = &engine->jobs[place];
    if (job->state == JOB_FREE)
        return;
    engine_queue_drop_all(engine, place);
    while (job->n_leases)
        lease_end(engine, job, job->n_leases - 1);
    CHECK(job->held_slots == 0);
    engine_tasks_leave(engine, place);
    engine_withdraw_wants(engine, place);
    for (uint32_t index = 0; index < engine->instance_pool.size; index++) {
        if (engine->instances[index].state != INSTANCE_FREE)
            jobset_remove(&engine->instances[index].had, place);
    }
    sampler_remove_job(engine->sampler, place);
    struct engine_action *action = engine_act_job(engine, ENGINE_JOB_ENDED, place);
    action->job_ended.dataset = job->dataset;
    action->job_ended.pipeline = job->pipeline;
    engine->quota_bytes -= job->quota_bytes;
    idset_destroy(job->view);
    free(job->leases);
    *job = (struct job){.state = JOB_FREE};
    while (engine->jobs_end && engine->jobs[engine->jobs_end - 1].state == JOB_FREE)
        engine->jobs_end--;
    engine_settle_encoded(engine);
}
