/* actions.c: what the engine asks for, done: tasks to the workers, messages to the clients. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "preprocess/prepare.h"
#include "server/driver/driver_priv.h"


void driver_job_clear(struct driver_job *job)
{
    for (uint32_t rank = 0; job->reg && rank < job->reg->world_size; rank++)
        free(job->ranks[rank].client_name);
    free(job->ranks);
    free(job->source_said);
    registration_destroy(job->reg);
    *job = (struct driver_job){.reg = NULL};
}

static void seat_rank(struct driver_job *job, const struct registration *reg)
{
    struct driver_rank *rank = &job->ranks[reg->rank];
    free(rank->client_name);
    *rank = (struct driver_rank){
        .there = true, .client = reg->client, .pid = reg->pid, .client_name = xstrdup(reg->client_name)};
}

/* Says what would help: a larger arena where that is short, else a larger share of it for one job. */
static void log_shortened(const struct driver *driver, const struct registration *reg, uint32_t from, uint32_t to,
                          uint64_t wanted_bytes)
{
    uint64_t quota_bytes = driver->config.engine.job_quota_bytes;
    if (wanted_bytes > driver->config.engine.arena_bytes)
        log_warn_limited("msg=\"look-ahead shortened from %u to %u batches: the arena has no room for all that the jobs ask "
                         "for; raise memory.arena to %llu MiB\" job=\"%s\"",
                         from, to, (unsigned long long)(wanted_bytes >> 20) + 1, reg->name);
    else
        log_warn_limited("msg=\"look-ahead shortened from %u to %u batches: one job may have %llu MiB of the arena; raise "
                         "jobs.quota or memory.arena\" job=\"%s\"",
                         from, to, (unsigned long long)(quota_bytes >> 20), reg->name);
}

/* Look-ahead stays as it is then, and reads wait: each brings fewer samples of its chunk. Said when it becomes worse. */
static void log_short_reads(struct driver *driver, uint64_t needed_bytes)
{
    uint64_t budget_bytes = driver->config.engine.encoded_bytes;
    if (needed_bytes > budget_bytes && needed_bytes > driver->short_told_bytes)
        log_warn_limited("msg=\"encoded memory of %llu MiB is less than what the jobs look ahead, %llu MiB: reads wait for "
                         "room and bring fewer samples each; raise memory.encoded to %llu MiB, or lower prefetch\"",
                         (unsigned long long)(budget_bytes >> 20), (unsigned long long)(needed_bytes >> 20),
                         (unsigned long long)(needed_bytes >> 20) + 1);
    if (needed_bytes <= budget_bytes)
        driver->short_told_bytes = 0;
    else if (needed_bytes > driver->short_told_bytes)
        driver->short_told_bytes = needed_bytes;
}

/* The records of small instances would take more than encoded memory has for them: each takes more of the arena instead. */
static void log_small_slots(const struct driver *driver, const struct registration *reg)
{
    const struct engine_config *config = &driver->config.engine;
    if (engine_slot_bytes(config, reg->slot_bytes) < 2 * reg->slot_bytes)
        return;
    log_info("msg=\"prepared samples of %llu bytes take %llu of the arena each, because their bookkeeping counts against "
             "memory.encoded: raise it to have more of them in memory\" job=\"%s\"",
             (unsigned long long)reg->slot_bytes, (unsigned long long)engine_slot_bytes(config, reg->slot_bytes), reg->name);
}

static void ahead_changed(struct driver *driver, const struct engine_action *action)
{
    const struct registration *reg = driver->jobs[action->job].reg;
    if (action->ahead.failed) /* that has been told */
        return;
    if (action->ahead.to < action->ahead.from)
        log_shortened(driver, reg, action->ahead.from, action->ahead.to, action->ahead.wanted_bytes);
    else
        log_info_limited("msg=\"look-ahead extended from %u to %u batches\" job=\"%s\"", action->ahead.from,
                         action->ahead.to, reg->name);
}

/* A rank's registration is needed until it is answered; the first rank's is the job's. */
static void job_added(struct driver *driver, const struct engine_action *action)
{
    struct registration *reg = driver->adding;
    struct driver_job *job = &driver->jobs[action->job];
    CHECK(reg && !job->reg == !action->job_added.attached);
    if (!job->reg) {
        driver->adding = NULL;
        job->reg = reg;
        job->weight = reg->weight;
        job->ranks = xcalloc(reg->world_size, sizeof *job->ranks);
        job->pipeline = driver->adding_pipeline;
        driver->pipelines[job->pipeline].jobs++;
        governor_live_job_begin(driver->governor, &(struct governor_live_job){.job = action->job,
                                                                             .world_size = reg->world_size,
                                                                             .batch_size = reg->batch_size,
                                                                             .device = reg->device,
                                                                             .weight = reg->weight});
    }
    governor_live_attached(driver->governor, action->job, reg->rank);
    seat_rank(job, reg);

    struct sample_shape shape = pipeline_shape(reg->pipeline);
    struct wire_message message = {.type = WIRE_REGISTERED,
                                   .seq = reg->seq,
                                   .registered = {.job = action->job,
                                                  .n_samples = reg->view.count,
                                                  .n_batches = action->job_added.n_batches,
                                                  .n_classes = reg->classes ? reg->n_classes : dataset_classes(reg->dataset),
                                                  .height = shape.height,
                                                  .width = shape.width,
                                                  .channels = shape.channels,
                                                  .dtype = shape.dtype,
                                                  .layout = shape.layout,
                                                  .held_max = action->job_added.held_max,
                                                  .epoch = action->job_added.epoch,
                                                  .batch = action->job_added.batch,
                                                  .sample_bytes = reg->sample_bytes,
                                                  .name = {reg->name, (uint32_t)strlen(reg->name)}}};
    dataset_fingerprint(reg->dataset, message.registered.fingerprint);
    session_send(driver->session, reg->client, &message);
    if (action->job_added.attached) {
        log_info_limited("msg=\"rank attached\" job=\"%s\" rank=%u epoch=%u", reg->name, reg->rank,
                         action->job_added.epoch);
        return;
    }
    log_info_limited("msg=\"job registered\" job=\"%s\" rank=%u ranks=%u dataset=\"%s\" samples=%u batch_size=%u "
                     "quota_mib=%llu pipeline=\"%s\"",
                     reg->name, reg->rank, reg->world_size, dataset_path(reg->dataset), message.registered.n_samples,
                     reg->batch_size, (unsigned long long)(action->job_added.quota_bytes >> 20),
                     pipeline_canonical(reg->pipeline));
    if (action->job_added.ahead < reg->prefetch)
        log_shortened(driver, reg, reg->prefetch, action->job_added.ahead, action->job_added.wanted_bytes);
    log_short_reads(driver, action->job_added.encoded_bytes);
    log_small_slots(driver, reg);
    view_result_clear(&reg->view); /* the engine has what it needs of both */
    free(reg->places);
    reg->places = NULL;
}

static void job_refused(struct driver *driver, const struct engine_action *action)
{
    const struct registration *reg = driver->adding;
    CHECK(reg);
    log_warn_limited("msg=\"job refused\" job=\"%s\" code=%s err=\"%s\"", reg->name,
                     larder_err_name(action->error.error.code), action->error.error.text);
    session_send_error(driver->session, reg->client, reg->seq, action->error.error.code, true, action->error.error.text);
}

static void job_error(struct driver *driver, const struct engine_action *action)
{
    struct error err = action->error.error;
    uint32_t index;
    const char *said = driver->jobs[action->job].source_said;
    if (action->error.of_source && said)
        error_set(&err, err.code, "%s; it said: %s", action->error.error.text, said);
    else if (err.code == LARDER_ECHANGED && dataset_index(action->error.dataset, action->error.id, &index))
        error_prefix(&err, err.code, "%s/%s", dataset_path(action->error.dataset), dataset_key(action->error.dataset, index));
    else if (action->error.id != SAMPLE_NONE && dataset_index(action->error.dataset, action->error.id, &index))
        error_prefix(&err, err.code, "%s/%s (%s)", dataset_path(action->error.dataset), dataset_key(action->error.dataset, index),
                     bad_reason_name((enum bad_reason)action->error.reason));
    log_warn_limited("msg=\"job failed\" job=\"%s\" rank=%u code=%s err=\"%s\"", driver->jobs[action->job].reg->name,
                     action->rank, larder_err_name(err.code), err.text);
    session_send_error(driver->session, action->client, 0, err.code, false, err.text);
}

/* What one of the dataset's jobs was told last. */
static const char *source_said(const struct driver *driver, const void *dataset)
{
    for (uint32_t place = 0; place < JOBS_MAX; place++) {
        const struct driver_job *job = &driver->jobs[place];
        if (job->reg && job->reg->dataset == dataset && job->source_said)
            return job->source_said;
    }
    return "?";
}

static void source_news(const struct driver *driver, const struct engine_action *action)
{
    const struct dataset *dataset = action->source.dataset;
    const char *path = dataset_path(dataset), *said = source_said(driver, dataset);
    uint32_t index;
    switch (action->source.news) {
    case ENGINE_SOURCE_AWAY:
        log_warn_limited("msg=\"storage does not answer, its reads are tried again\" dataset=\"%s\" err=\"%s\"", path, said);
        break;
    case ENGINE_SOURCE_BACK:
        log_info_limited("msg=\"storage answers again\" dataset=\"%s\" after_s=%.3f retried=%llu", path,
                         (double)action->source.waited_ns / 1e9, (unsigned long long)action->source.retries);
        break;
    case ENGINE_SOURCE_GAVE_UP:
        if (dataset_index(dataset, action->source.id, &index))
            log_warn_limited("msg=\"bad sample\" file=\"%s/%s\" reason=%s err=\"it cannot be read while others can: %s\"", path,
                             dataset_key(dataset, index), bad_reason_name((enum bad_reason)action->source.reason), said);
        break;
    }
}

static void job_ended(struct driver *driver, const struct engine_action *action)
{
    struct driver_job *job = &driver->jobs[action->job];
    log_info_limited("msg=\"job ended\" job=\"%s\"", job->reg->name);
    driver->pipelines[job->pipeline].jobs--;
    governor_live_job_end(driver->governor, action->job);
    driver_job_clear(job);
}

/* The LOADs of one read are one task. What is dropped to make room for them lies between. Gives how many actions it took. */
static size_t load(struct driver *driver, const struct engine_action *actions, size_t count)
{
    struct worker_load task = {.dataset = dataset_ref((struct dataset *)actions[0].load.dataset),
                               .queue = governor_live_queue(driver->governor, actions[0].job, actions[0].rank)};
    uint32_t cap = 0;
    size_t at = 0;
    for (; at < count; at++) {
        const struct engine_action *action = &actions[at];
        if (action->type == ENGINE_DROP_ENCODED) {
            free(action->drop.encoded);
            continue;
        }
        if (action->type != ENGINE_LOAD || action->load.read != actions[0].load.read)
            break;
        if (task.count == cap) {
            cap = cap ? cap * 2 : 64;
            task.samples = xrealloc(task.samples, cap, sizeof *task.samples);
        }
        task.samples[task.count++] = (struct worker_sample){.id = action->load.id, .bytes = action->load.bytes};
    }
    governor_live_load(driver->governor, &task);
    return at;
}

/* What an instance's random draws depend on. One that belongs to a job (a variant) goes by the sample's index in its dataset,
 * which is the same in another daemon; a sample's id is not. */
static struct worker_output worker_output(struct driver *driver, const struct engine_output *output, sample_id id)
{
    const struct driver_pipeline *row = &driver->pipelines[output->pipeline];
    uint32_t index = id;
    if (output->variant)
        CHECK(dataset_index(output->dataset, id, &index));
    return (struct worker_output){.pipeline = pipeline_ref(row->pipeline),
                                  .key = {row->seed ^ output->variant, index, output->instance},
                                  .offset = output->offset};
}

static void prepare(struct driver *driver, const struct engine_action *action)
{
    struct worker_prepare task = {.task = action->prepare.task,
                                  .dataset = dataset_ref((struct dataset *)action->prepare.dataset),
                                  .id = action->prepare.id,
                                  .encoded = action->prepare.encoded,
                                  .bytes = action->prepare.encoded_bytes,
                                  .pipeline = action->prepare.outputs[0].pipeline,
                                  .queue = governor_live_queue(driver->governor, action->job, action->rank),
                                  .n_outputs = action->prepare.n_outputs};
    for (uint32_t i = 0; i < task.n_outputs; i++)
        task.outputs[i] = worker_output(driver, &action->prepare.outputs[i], action->prepare.id);
    governor_live_prepare(driver->governor);
    workers_prepare(driver->workers, &task);
}

static void deliver(struct driver *driver, const struct engine_action *action)
{
    const struct registration *reg = driver->jobs[action->job].reg;
    size_t bytes = (size_t)action->deliver.count * WIRE_ENTRY_BYTES;
    if (bytes > driver->entries_cap) {
        driver->entries = xrealloc(driver->entries, bytes, 1);
        driver->entries_cap = bytes;
    }
    for (uint32_t i = 0; i < action->deliver.count; i++) {
        const struct engine_entry *from = &action->deliver.entries[i];
        struct wire_entry entry = {.offset = from->offset, .len_bytes = (uint32_t)from->bytes, .id = from->id};
        CHECK(dataset_index(reg->dataset, from->id, &entry.index));
        entry.label = dataset_label(reg->dataset, entry.index);
        if (reg->dense_label)
            entry.label = reg->dense_label[entry.label];
        wire_entry_put(driver->entries, i, &entry);
    }
    struct wire_message message = {.type = WIRE_BATCH,
                                   .batch = {.batch = action->deliver.batch,
                                             .epoch = action->deliver.epoch,
                                             .index = action->deliver.index,
                                             .flags = action->deliver.last ? WIRE_BATCH_LAST : 0,
                                             .weight = driver->jobs[action->job].weight,
                                             .count = action->deliver.count,
                                             .lost = (uint32_t)action->deliver.lost,
                                             .entries = driver->entries}};
    session_send(driver->session, action->client, &message);
    governor_live_delivered(driver->governor, action->job, action->rank, clock_now_ns());
}

static void carry_out(struct driver *driver, const struct engine_action *action)
{
    switch (action->type) {
    case ENGINE_JOB_ADDED:
        job_added(driver, action);
        break;
    case ENGINE_JOB_REFUSED:
        job_refused(driver, action);
        break;
    case ENGINE_LOAD: /* taken together, see driver_step */
        break;
    case ENGINE_PREPARE:
        prepare(driver, action);
        break;
    case ENGINE_DROP_ENCODED:
        free(action->drop.encoded);
        break;
    case ENGINE_DELIVER:
        deliver(driver, action);
        break;
    case ENGINE_JOB_ERROR:
        job_error(driver, action);
        break;
    case ENGINE_AHEAD:
        ahead_changed(driver, action);
        break;
    case ENGINE_SOURCE:
        source_news(driver, action);
        break;
    case ENGINE_JOB_ENDED:
        job_ended(driver, action);
        break;
    }
}

void driver_step(struct driver *driver, const struct engine_event *events, size_t count)
{
    const struct engine_action *actions;
    size_t n = count ? engine_step_all(driver->engine, clock_now_ns(), events, count, &actions) : 0;
    for (size_t i = 0; i < n;) {
        if (actions[i].type == ENGINE_LOAD) {
            i += load(driver, &actions[i], n - i);
        } else {
            carry_out(driver, &actions[i]);
            i++;
        }
    }
}
