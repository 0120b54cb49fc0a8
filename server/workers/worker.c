#include "server/workers/worker.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/blocks.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/storage/origins.h"

struct workers {
    struct worker_config config;
    struct pool *readers, *preparers;
    atomic_uint preparing; /* threads that prepare, for worker_cost.busy; relaxed, no partner */
    struct fetch fetch;
};

/* Results of preparations that take less than HOLD_NS are reported together: a message for each would cost more than
 * they do. A result waits no longer than that, except for the preparation that its thread is running. None waits for
 * one that will take longer, which is judged by the time and bytes of the last one, or for one of another pipeline. */
#define HOLD_NS (CLOCK_NS_PER_MS / 10)

/* Room for a read, one element for each of its samples. */
struct load_room {
    struct sample_read *reads;
    struct worker_loaded *loaded;
    uint32_t *slot; /* the sample that each read is for */
};

enum { LOAD_ROOM = 64 }; /* samples of a read that a thread always has room for: a chunk's by default */

/* The own state of a thread that reads: room for LOAD_ROOM samples. */
struct reader {
    struct load_room room;
};

/* The own state of a thread that prepares. */
struct local {
    struct prepare_scratch *scratch;
    struct watch_thread *watched;
    struct prepare_keep keep;                        /* of the preparation that is running */
    struct worker_prepared held[WORKER_RESULTS_MAX]; /* results that are not told yet */
    /* a reference to each result's dataset: its ids keep their meaning until then */
    struct dataset *datasets[WORKER_RESULTS_MAX];
    uint32_t n_held;
    uint64_t held_ns; /* when the first of them was made */
    uint64_t core_ns; /* the thread's CPU time when the last preparation ended; 0: other work came since */
};

static struct load_room load_room_make(uint32_t count)
{
    struct load_room room;
    room.reads = xcalloc(count, sizeof *room.reads);
    room.loaded = xcalloc(count, sizeof *room.loaded);
    room.slot = xcalloc(count, sizeof *room.slot);
    return room;
}

static void load_room_free(struct load_room *room)
{
    free(room->reads);
    free(room->loaded);
    free(room->slot);
}

static int reader_create(void *ctx, void **out, struct error *err)
{
    (void)ctx;
    (void)err;
    struct reader *reader = xcalloc(1, sizeof *reader);
    reader->room = load_room_make(LOAD_ROOM);
    *out = reader;
    return 0;
}

static void reader_destroy(void *ctx, void *opaque)
{
    (void)ctx;
    struct reader *reader = opaque;
    load_room_free(&reader->room);
    free(reader);
}

static int local_create(void *ctx, void **out, struct error *err)
{
    struct workers *workers = ctx;
    struct local *local = xcalloc(1, sizeof *local);
    int code = prepare_scratch_create(&workers->config.limits, &local->scratch);
    if (code) {
        free(local);
        return error_set(err, code, "a worker thread got no scratch memory");
    }
    local->watched = watch_thread_begin(workers->config.watch);
    *out = local;
    return 0;
}

static void local_destroy(void *ctx, void *opaque)
{
    (void)ctx;
    struct local *local = opaque;
    watch_thread_end(local->watched);
    prepare_scratch_destroy(local->scratch);
    free(local);
}

static void log_bad(const struct dataset *dataset, sample_id id, enum bad_reason reason, const char *text)
{
    uint32_t index = 0;
    const char *key = dataset_index(dataset, id, &index) ? dataset_key(dataset, index) : "?";
    log_warn_limited("msg=\"bad sample\" file=\"%s/%s\" reason=%s err=\"%s\"", dataset_path(dataset), key,
                     bad_reason_name(reason), text);
}

/* not_read is the result for a sample that nobody waits for any more. */
static struct worker_loaded not_read(const struct worker_sample *sample)
{
    return (struct worker_loaded){.id = sample->id, .bytes = sample->bytes, .reason = BAD_UNREADABLE};
}

/* fate_of returns what the error of a read means for its sample. */
static enum engine_fate fate_of(int code)
{
    switch (code) {
    case LARDER_EIO:
    case LARDER_EPERM:
    case LARDER_ENOMEM: return ENGINE_FATE_SOURCE;
    case LARDER_ECHANGED: return ENGINE_FATE_CHANGED;
    default: return ENGINE_FATE_SAMPLE;
    }
}

/* failed is the result for a sample that could not be read. When its source did not answer, the engine judges what that
 * means, and the worker writes no line about it. */
static struct worker_loaded failed(const struct dataset *dataset, const struct worker_sample *sample,
                                   enum bad_reason reason, const struct error *err)
{
    struct worker_loaded loaded = {
        .id = sample->id, .bytes = sample->bytes, .reason = reason, .fate = fate_of(err->code), .dataset = dataset};
    if (loaded.fate == ENGINE_FATE_SOURCE)
        loaded.text = xstrdup(err->text);
    else if (loaded.fate == ENGINE_FATE_CHANGED)
        log_warn_limited("msg=\"changed file\" err=\"%s\"", err->text);
    else
        log_bad(dataset, sample->id, reason, err->text);
    return loaded;
}

/* load_end reports the outcomes of `count` of the task's samples, and the part of them that came from storage classes.
 * The rest of the task goes back with the report. took_ns is 0 if the read was not begun. */
static void load_end(struct workers *workers, struct worker_load *task, const struct worker_loaded *loaded,
                     uint32_t count, uint64_t took_ns, struct fetch_classed came)
{
    const struct worker_results *results = &workers->config.results;
    for (uint32_t at = 0; at < count; at += WORKER_RESULTS_MAX) {
        uint32_t left = count - at;
        results->on_loaded(results->ctx, loaded + at, left < WORKER_RESULTS_MAX ? left : WORKER_RESULTS_MAX);
    }
    struct worker_read read = {.queue = task->queue,
                               .origin = task->origin,
                               .samples = count,
                               .class = task->class,
                               .classed = task->classed,
                               .took_ns = took_ns,
                               .came = came};
    task->count -= count;
    task->class = task->classed = 0;
    if (task->count) {
        read.rest = *task;
    } else {
        free(task->samples);
        dataset_unref(&task->dataset);
    }
    results->on_read(results->ctx, &read);
}

/* result_of returns what a read has brought of the sample. */
static struct worker_loaded result_of(const struct worker_load *task, const struct worker_sample *sample,
                                      const struct sample_read *read)
{
    if (read->err.code)
        blocks_give(read->buf);
    if (read->err.code == LARDER_ELIMIT)
        return not_read(sample);
    if (read->err.code)
        return failed(task->dataset, sample, BAD_UNREADABLE, &read->err);
    return (struct worker_loaded){.id = sample->id,
                                  .encoded = read->buf,
                                  .bytes = read->planes_bytes ? read->planes_bytes
                                                              : dataset_size(task->dataset, read->index),
                                  .planes = read->planes_bytes > 0};
}

/* begin_reads takes memory for the samples' bytes. It returns the number of samples that got some; the others have
 * their results. */
static uint32_t begin_reads(const struct worker_load *task, const struct load_room *room)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < task->count; i++) {
        const struct worker_sample *sample = &task->samples[i];
        room->reads[n] = (struct sample_read){.buf = blocks_take(sample->bytes),
                                              .room = task->as_read ? 0 : sample->bytes};
        CHECK(dataset_index(task->dataset, sample->id, &room->reads[n].index));
        room->slot[n] = i;
        if (room->reads[n].buf) {
            n++;
        } else {
            struct error err = {.code = LARDER_ENOMEM};
            snprintf(err.text, sizeof err.text, "no memory for a sample's %llu bytes",
                     (unsigned long long)sample->bytes);
            room->loaded[i] = failed(task->dataset, sample, BAD_NO_MEMORY, &err);
        }
    }
    return n;
}

/* keep_left moves the samples that were left to the front of the task's, and the results of the others together. It
 * returns how many have results. */
static uint32_t keep_left(struct worker_load *task, const struct load_room *room, uint32_t n)
{
    bool left[CHUNK_SAMPLES_MAX] = {false};
    uint32_t told = 0, kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        left[room->slot[i]] = room->reads[i].left;
        if (room->reads[i].left)
            blocks_give(room->reads[i].buf);
        else
            room->loaded[room->slot[i]] = result_of(task, &task->samples[room->slot[i]], &room->reads[i]);
    }
    for (uint32_t i = 0; i < task->count; i++) {
        if (left[i])
            task->samples[kept++] = task->samples[i];
        else
            room->loaded[told++] = room->loaded[i];
    }
    return told;
}

static void run_load(void *ctx, void *opaque, void *data)
{
    struct workers *workers = ctx;
    const struct reader *reader = opaque;
    struct worker_load *task = data;
    uint64_t began_ns = clock_now_ns();
    bool large = task->count > LOAD_ROOM;
    struct load_room room = large ? load_room_make(task->count) : reader->room;
    uint32_t n = begin_reads(task, &room);
    struct fetch_classed came;
    const struct fetch_read wanted = {task->dataset, task->device, room.reads, n, began_ns + WORKER_PIECE_NS};
    uint64_t waited_ns = fetch_samples(&workers->fetch, &wanted, &came);
    uint32_t told = keep_left(task, &room, n);
    load_end(workers, task, room.loaded, told, clock_now_ns() - began_ns - waited_ns, came);
    if (large)
        load_room_free(&room);
}

/* tell_held tells the results that the thread has held. */
static void tell_held(struct workers *workers, struct local *local)
{
    if (local->n_held)
        workers->config.results.on_prepared(workers->config.results.ctx, local->held, local->n_held);
    for (uint32_t i = 0; i < local->n_held; i++)
        dataset_unref(&local->datasets[i]);
    local->n_held = 0;
}

/* hold keeps the result until more have come, if more come soon. It takes over the reference to the dataset. */
static void hold(struct workers *workers, struct local *local, const struct worker_prepared *prepared,
                 struct dataset *dataset)
{
    uint64_t now_ns = clock_now_ns();
    if (local->n_held == 0)
        local->held_ns = now_ns;
    local->datasets[local->n_held] = dataset;
    local->held[local->n_held++] = *prepared;
    if (prepared->cost.took_ns >= HOLD_NS || now_ns - local->held_ns >= HOLD_NS || local->n_held == WORKER_RESULTS_MAX)
        tell_held(workers, local);
}

/* may_wait tells whether the results that the thread has held may wait for the task. */
static bool may_wait(const struct local *local, const struct worker_prepare *task)
{
    const struct worker_cost *last = &local->held[local->n_held - 1].cost;
    return last->pipeline == task->pipeline &&
           (double)last->took_ns * (double)task->bytes <= (double)HOLD_NS * (double)last->encoded_bytes;
}

/* prepare_end returns the task's result, and drops its references except the dataset's. It fills in those members of
 * `cost` that come from the task. */
static struct worker_prepared prepare_end(struct worker_prepare *task, const uint8_t reasons[ENGINE_OUTPUTS_MAX],
                                          struct worker_cost cost)
{
    cost.pipeline = task->pipeline;
    cost.queue = task->queue;
    cost.encoded_bytes = task->bytes;
    struct worker_prepared prepared = {.task = task->task, .id = task->id, .cost = cost};
    memcpy(prepared.reasons, reasons, sizeof prepared.reasons);
    for (uint32_t i = 0; i < task->n_outputs; i++)
        pipeline_unref(&task->outputs[i].pipeline);
    return prepared;
}

/* log_bad_outputs logs why outputs failed. A reason for which several of them failed is logged once. */
static void log_bad_outputs(const struct worker_prepare *task, const struct prepare_output *outputs)
{
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        uint32_t before = 0;
        while (before < i && (outputs[before].reason != outputs[i].reason ||
                              strcmp(outputs[before].err.text, outputs[i].err.text) != 0))
            before++;
        if (outputs[i].reason && before == i)
            log_bad(task->dataset, task->id, outputs[i].reason, outputs[i].err.text);
    }
}

/* beyond_of says which limit of the daemon's an output exceeds, as what prepared it has told. */
static char *beyond_of(const struct prepare_output *outputs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (outputs[i].reason == BAD_TOO_LARGE)
            return xstrdup(outputs[i].err.text);
    }
    return NULL;
}

static void make(struct local *local, const struct worker_prepare *task, struct prepare_output *outputs, size_t n)
{
    enum bad_reason first;
    const struct prepare_source source = {.bytes = task->encoded,
                                          .len_bytes = task->bytes,
                                          .decoded = task->decoded,
                                          .keep = task->form_bytes ? &local->keep : NULL};
    local->keep.most_bytes = task->form_bytes;
    prepare_image(local->scratch, &source, outputs, n, &first, NULL);
}

static bool is_encoded(const struct prepare_output *output)
{
    return pipeline_layout(output->pipeline)->n == 0;
}

/* make_undecoded makes what a poisonous sample still is good for: its bytes as they are. */
static void make_undecoded(struct local *local, const struct worker_prepare *task, struct prepare_output *outputs)
{
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        if (is_encoded(&outputs[i])) {
            make(local, task, &outputs[i], 1);
            continue;
        }
        outputs[i].reason = BAD_POISONOUS;
        error_set(&outputs[i].err, LARDER_EFORMAT,
                  "daemons have died while they prepared it: `larder poison list` says more");
    }
}

static void make_watched(struct local *local, const struct worker_prepare *task, struct prepare_output *outputs)
{
    uint32_t encoded = 0;
    for (uint32_t i = 0; i < task->n_outputs; i++)
        encoded += is_encoded(&outputs[i]);
    if (encoded == task->n_outputs) {
        make(local, task, outputs, task->n_outputs); /* nothing is decoded */
    } else if (watch_begin(local->watched, task->dataset, task->id)) {
        make(local, task, outputs, task->n_outputs);
        watch_end(local->watched);
    } else {
        make_undecoded(local, task, outputs);
    }
}

static void run_prepare(void *ctx, void *opaque, void *data)
{
    struct workers *workers = ctx;
    struct local *local = opaque;
    struct worker_prepare *task = data;
    if (local->n_held && !may_wait(local, task))
        tell_held(workers, local);
    uint64_t began_ns = clock_now_ns(), core_ns = local->core_ns ? local->core_ns : clock_thread_ns();
    uint32_t busy = atomic_fetch_add_explicit(&workers->preparing, 1, memory_order_relaxed) + 1;
    struct prepare_output outputs[ENGINE_OUTPUTS_MAX];
    for (uint32_t i = 0; i < task->n_outputs; i++) {
        const struct worker_output *output = &task->outputs[i];
        outputs[i] = (struct prepare_output){.pipeline = output->pipeline,
                                             .key = {output->key[0], output->key[1], output->key[2]},
                                             .dst = (char *)arena_base(workers->config.arena) + output->offset,
                                             .room = output->bytes};
    }
    uint8_t reasons[ENGINE_OUTPUTS_MAX] = {BAD_NONE};
    local->keep = (struct prepare_keep){0};
    make_watched(local, task, outputs);
    log_bad_outputs(task, outputs);
    for (uint32_t i = 0; i < task->n_outputs; i++)
        reasons[i] = (uint8_t)outputs[i].reason;
    atomic_fetch_sub_explicit(&workers->preparing, 1, memory_order_relaxed);
    local->core_ns = clock_thread_ns();
    struct worker_prepared prepared = prepare_end(
        task, reasons,
        (struct worker_cost){.busy = busy, .took_ns = clock_now_ns() - began_ns, .core_ns = local->core_ns - core_ns});
    for (uint32_t i = 0; i < task->n_outputs; i++)
        prepared.bytes[i] = (uint32_t)outputs[i].bytes;
    for (uint32_t i = 0; i < task->n_outputs; i++)
        prepared.own_ns[i] = outputs[i].own_ns < UINT32_MAX ? (uint32_t)outputs[i].own_ns : UINT32_MAX;
    prepared.beyond = beyond_of(outputs, task->n_outputs);
    prepared.decoded = local->keep.form;
    prepared.decoded_bytes = local->keep.bytes;
    hold(workers, local, &prepared, task->dataset);
    origins_hold(workers->config.origins, -1);
}

static void idle(void *ctx, void *opaque)
{
    struct local *local = opaque;
    tell_held(ctx, local);
    local->core_ns = 0;
}

static void discard_load(void *ctx, void *data)
{
    struct worker_load *task = data;
    struct worker_loaded *loaded = xcalloc(task->count, sizeof *loaded);
    for (uint32_t i = 0; i < task->count; i++)
        loaded[i] = not_read(&task->samples[i]);
    load_end(ctx, task, loaded, task->count, 0, (struct fetch_classed){.class = 0});
    free(loaded);
}

static void discard_prepare(void *ctx, void *data)
{
    struct workers *workers = ctx;
    uint8_t reasons[ENGINE_OUTPUTS_MAX];
    memset(reasons, BAD_CORRUPT, sizeof reasons);
    struct worker_prepare *prepare = data;
    struct worker_prepared prepared = prepare_end(prepare, reasons, (struct worker_cost){0});
    origins_hold(workers->config.origins, -1);
    workers->config.results.on_prepared(workers->config.results.ctx, &prepared, 1);
    dataset_unref(&prepare->dataset);
}

int workers_create(const struct worker_config *config, struct workers **out, struct error *err)
{
    struct workers *workers = xcalloc(1, sizeof *workers);
    workers->config = *config;
    workers->fetch = (struct fetch){.origins = config->origins, .delay_ms = config->load_delay_ms};
    struct pool_config preparers = {.name = "larder-work",
                                    .threads = config->workers,
                                    .begin = config->workers,
                                    .capacity = config->inflight_prepares,
                                    .task_bytes = sizeof(struct worker_prepare),
                                    .ctx = workers,
                                    .local_create = local_create,
                                    .local_destroy = local_destroy,
                                    .run = run_prepare,
                                    .idle = idle,
                                    .discard = discard_prepare};
    struct pool_config readers = {.name = "larder-read",
                                  .threads = config->readers,
                                  .begin = 1,
                                  .capacity = config->inflight_loads,
                                  .task_bytes = sizeof(struct worker_load),
                                  .ctx = workers,
                                  .local_create = reader_create,
                                  .local_destroy = reader_destroy,
                                  .run = run_load,
                                  .discard = discard_load};
    int code = pool_create(&preparers, &workers->preparers, err);
    if (!code)
        code = pool_create(&readers, &workers->readers, err);
    if (code) {
        pool_destroy(workers->preparers);
        free(workers);
        return code;
    }
    *out = workers;
    return 0;
}

void workers_load(struct workers *workers, const struct worker_load *task)
{
    /* The pool is stopped and refuses the task. The caller is the thread that takes results, so it must not wait for
     * room for them: nothing is reported. */
    if (pool_submit(workers->readers, task, 1)) {
        struct dataset *dataset = task->dataset;
        free(task->samples);
        dataset_unref(&dataset);
    }
}

struct worker_load workers_halve(struct worker_load *task)
{
    CHECK(task->count > 1);
    uint32_t count = task->count;
    struct worker_load half = *task;
    half.dataset = dataset_ref(task->dataset);
    half.samples = xcalloc(count / 2, sizeof *half.samples);
    half.count = task->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct worker_load *to = i % 2 ? &half : task;
        to->samples[to->count++] = task->samples[i];
    }
    return half;
}

void workers_expect(struct workers *workers, struct worker_load *task)
{
    task->class = task->classed = 0;
    if (!workers->config.origins)
        return;
    uint32_t *indexes = xcalloc(task->count + 1, sizeof *indexes);
    for (uint32_t i = 0; i < task->count; i++)
        CHECK(dataset_index(task->dataset, task->samples[i].id, &indexes[i]));
    struct origins_classed expected = origins_expect(workers->config.origins, task->dataset, indexes, task->count,
                                                     task->as_read);
    task->class = expected.class;
    task->classed = expected.samples;
    free(indexes);
}

void workers_prepare(struct workers *workers, struct worker_prepare *tasks, uint32_t count)
{
    origins_hold(workers->config.origins, (int)count);
    if (pool_submit(workers->preparers, tasks, count)) {
        for (uint32_t i = 0; i < count; i++)
            discard_prepare(workers, &tasks[i]);
    }
}

void workers_set_preparers(struct workers *workers, uint32_t most)
{
    pool_set_most(workers->preparers, most);
}

void workers_counts(struct workers *workers, struct workers_counts *out)
{
    pool_counts(workers->readers, &out->read);
    pool_counts(workers->preparers, &out->prepare);
}

void workers_stop(struct workers *workers)
{
    atomic_store(&workers->fetch.stopping, true);
    pool_stop(workers->readers);
    pool_stop(workers->preparers);
}

void workers_destroy(struct workers *workers)
{
    if (!workers)
        return;
    pool_destroy(workers->readers);
    pool_destroy(workers->preparers);
    free(workers);
}
