#include "server/governor_live.h"

#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"

#define DECIDE_NS (UINT64_C(250) * CLOCK_NS_PER_MS)
#define TAU_S     0.010
#define SHARE     0.5 /* of its fair part of the loaders that a job keeps, whatever waits elsewhere */

_Static_assert(JOBS_MAX <= GOVERNOR_QUEUES_MAX, "a job is a queue");

/* A job's reads that no thread has been given, oldest first, in a ring; bounded by the engine's loads in flight. */
struct line {
    bool there; /* the job is */
    double weight;
    struct worker_load *tasks;
    uint32_t head, length, cap;
    uint32_t samples; /* of all of them, and of those with the pool */
    uint32_t busy;    /* reads with the pool */
    /* at the last decision */
    uint64_t batches;
    double wait_s;
};

struct governor_live {
    struct governor *governor;
    struct workers *workers;
    uint32_t n_workers;
    const struct governor_decision *decision; /* NULL before the first */
    uint32_t most;                            /* reads with the pool at once */
    uint32_t busy, n_jobs;
    uint64_t decided_ns;
    struct line lines[JOBS_MAX];
};

int governor_live_create(uint32_t workers, uint32_t loaders, struct governor_live **out, struct error *err)
{
    struct governor *governor;
    struct governor_limits limits = {.workers = workers, .extra_loaders = loaders, .tau_s = TAU_S, .share = SHARE};
    if (governor_create(&limits, &governor))
        return error_set(err, LARDER_EINVAL, "threads.workers and threads.loaders may be at most %d",
                         POOL_THREADS_MAX / 2);
    struct governor_live *live = xcalloc(1, sizeof *live);
    live->governor = governor;
    live->n_workers = workers;
    live->most = loaders ? loaders : 1;
    *out = live;
    return 0;
}

void governor_live_attach(struct governor_live *live, struct workers *workers)
{
    live->workers = workers;
}

void governor_live_job_begin(struct governor_live *live, uint32_t job, double weight)
{
    CHECK(job < JOBS_MAX && !live->lines[job].there);
    live->lines[job].there = true;
    live->lines[job].batches = 0;
    live->lines[job].wait_s = 0;
    if (live->n_jobs++ == 0)
        live->decided_ns = clock_now_ns(); /* the first decision waits for measurements */
    governor_queue_begin(live->governor, job, job, weight);
    live->lines[job].weight = weight;
}

void governor_live_job_weight(struct governor_live *live, uint32_t job, double weight)
{
    CHECK(job < JOBS_MAX && live->lines[job].there);
    live->lines[job].weight = weight;
    governor_queue_weight(live->governor, job, weight);
}

void governor_live_job_end(struct governor_live *live, uint32_t job)
{
    CHECK(job < JOBS_MAX && live->lines[job].there && live->n_jobs > 0);
    live->lines[job].there = false;
    live->n_jobs--;
    governor_queue_end(live->governor, job);
}

/* ── reads ── */

static void line_put(struct line *line, const struct worker_load *task)
{
    if (line->length == line->cap) {
        uint32_t cap = line->cap ? line->cap * 2 : 16;
        struct worker_load *tasks = xcalloc(cap, sizeof *tasks);
        for (uint32_t i = 0; i < line->length; i++)
            tasks[i] = line->tasks[(line->head + i) % line->cap];
        free(line->tasks);
        line->tasks = tasks;
        line->head = 0;
        line->cap = cap;
    }
    line->tasks[(line->head + line->length++) % line->cap] = *task;
    line->samples += task->count;
}

static struct worker_load line_take(struct line *line)
{
    struct worker_load task = line->tasks[line->head];
    line->head = (line->head + 1) % line->cap;
    line->length--;
    return task;
}

static void give_reads(struct governor_live *live)
{
    while (live->busy < live->most) {
        struct governor_candidate candidates[JOBS_MAX];
        uint32_t jobs[JOBS_MAX];
        size_t n = 0;
        for (uint32_t job = 0; job < JOBS_MAX; job++) {
            const struct line *line = &live->lines[job];
            if (!line->length)
                continue;
            jobs[n] = job;
            candidates[n++] = (struct governor_candidate){
                .group = job, .share = live->decision ? live->decision->queue_loaders[job] : line->weight, .busy = line->busy};
        }
        if (n == 0)
            return;
        struct line *line = &live->lines[jobs[governor_next_queue(candidates, n, SHARE)]];
        struct worker_load task = line_take(line);
        line->busy++;
        live->busy++;
        workers_load(live->workers, &task);
    }
}

void governor_live_load(struct governor_live *live, const struct worker_load *task)
{
    CHECK(task->job < JOBS_MAX);
    line_put(&live->lines[task->job], task);
    give_reads(live);
}

void governor_live_read(struct governor_live *live, uint32_t job, uint32_t samples, uint64_t took_ns)
{
    struct line *line = &live->lines[job];
    CHECK(job < JOBS_MAX && line->busy > 0 && live->busy > 0 && line->samples >= samples);
    line->busy--;
    live->busy--;
    line->samples -= samples;
    governor_loaded(live->governor, job, (double)took_ns / (double)CLOCK_NS_PER_S, samples);
    give_reads(live);
}

void governor_live_prepared(struct governor_live *live, const struct worker_cost *cost)
{
    governor_prepared(live->governor, cost->pipeline, cost->encoded_bytes, cost->busy,
                      (double)cost->took_ns / (double)CLOCK_NS_PER_S);
}

/* ── decisions ── */

int64_t governor_live_wait_ms(const struct governor_live *live, uint64_t now_ns)
{
    if (live->n_jobs == 0)
        return -1;
    uint64_t due_ns = live->decided_ns + DECIDE_NS;
    return due_ns > now_ns ? (int64_t)((due_ns - now_ns) / CLOCK_NS_PER_MS) + 1 : 0;
}

/* The training step as the queue shows it: time in which the client did not wait, by batches it got. */
static void note_training(struct governor_live *live, const struct engine_job_status *row, double passed_s)
{
    struct line *line = &live->lines[row->job];
    double busy_s = passed_s - (row->wait_s - line->wait_s) / (row->world_size > 1 ? row->world_size : 1);
    uint64_t batches = row->batches_delivered - line->batches;
    if (batches && busy_s > 0)
        governor_trained(live->governor, row->job, busy_s / (double)batches);
    line->batches = row->batches_delivered;
    line->wait_s = row->wait_s;
}

void governor_live_tick(struct governor_live *live, const struct engine *engine, uint64_t now_ns)
{
    if (live->n_jobs == 0 || now_ns < live->decided_ns + DECIDE_NS)
        return;
    struct governor_backlog backlogs[JOBS_MAX];
    struct engine_job_status *rows = xcalloc(JOBS_MAX, sizeof *rows);
    size_t n = 0, n_rows = engine_job_statuses(engine, now_ns, rows, JOBS_MAX);
    for (size_t i = 0; i < n_rows; i++) {
        const struct line *line = &live->lines[rows[i].job];
        if (!line->there)
            continue;
        note_training(live, &rows[i], (double)(now_ns - live->decided_ns) / (double)CLOCK_NS_PER_S);
        backlogs[n++] = (struct governor_backlog){.queue = rows[i].job,
                                                  .batch_size = rows[i].batch_size,
                                                  .pending_loads = line->samples,
                                                  .pending_reads = line->length + line->busy,
                                                  .ready_batches = rows[i].ready_batches};
    }
    free(rows);
    live->decision = governor_decide(live->governor, backlogs, n);
    live->decided_ns = now_ns;
    live->most = live->decision->loaders ? live->decision->loaders : 1;
    workers_set_loaders(live->workers, live->n_workers - live->decision->preparers);
    give_reads(live);
}

void governor_live_status(const struct governor_live *live, struct status_governor *out)
{
    *out = (struct status_governor){.preparers = live->n_workers, .loaders = live->most};
    if (live->decision)
        *out = (struct status_governor){.preparers = live->decision->preparers,
                                        .loaders = live->decision->loaders,
                                        .prepare_rate = live->decision->prepare_rate,
                                        .load_rate = live->decision->load_rate,
                                        .moves = live->decision->moves};
}

void governor_live_job_status(const struct governor_live *live, uint32_t job, uint32_t *loaders, uint32_t *ahead)
{
    *loaders = live->decision ? live->decision->queue_loaders[job] : 0;
    *ahead = live->decision ? live->decision->ahead[job] : 0;
}

void governor_live_destroy(struct governor_live *live)
{
    if (!live)
        return;
    for (uint32_t job = 0; job < JOBS_MAX; job++) {
        struct line *line = &live->lines[job];
        while (line->length) {
            struct worker_load task = line_take(line);
            free(task.samples);
            dataset_unref(&task.dataset);
        }
        free(line->tasks);
    }
    governor_destroy(live->governor);
    free(live);
}
