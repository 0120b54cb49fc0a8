#include "server/governor/live.h"

#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/governor/line.h"
#include "server/governor/pace.h"

#define DECIDE_NS (UINT64_C(250) * CLOCK_NS_PER_MS)
#define TAU_S     0.010
#define SHARE     0.5 /* of its fair part of the loaders that a job keeps, whatever waits elsewhere */

enum { LINE_BITS = 10, SOURCE_BITS = 4, LEFT = GOVERNOR_QUEUES_MAX };

_Static_assert(JOBS_MAX <= GOVERNOR_QUEUES_MAX, "each job has a queue at least");
_Static_assert(GOVERNOR_QUEUES_MAX == 1 << LINE_BITS && GOVERNOR_SOURCES_MAX == 1 << SOURCE_BITS, "names have both");

/* A queue of the governor's: a rank, or where they are scarce several. Tasks name it by its number, its source and
 * its owner, so that what ends after its owner is not taken for the next one's. */
struct line {
    bool there;
    uint32_t owner; /* how many have had the place before */
    uint32_t job;
    uint32_t source;
    struct read_line reads; /* that no thread has been given */
    uint32_t samples;       /* of these and of those with the pool */
    uint32_t busy;          /* reads with the pool */
    double stock;           /* batches that lie ready, or whose samples are being read */
};

struct rank {
    uint32_t line;
    struct governor_pace pace;
};

struct job {
    struct rank *ranks; /* NULL: the place is free */
    uint32_t world_size, batch_size, n_lines;
    uint32_t busy; /* reads with the pool */
    double weight;
};

struct device {
    uint64_t number;
    uint64_t used; /* by governor_live.uses: when a job of it last began or ended */
};

struct governor_live {
    struct governor *governor;
    struct workers *workers;
    uint32_t n_workers, n_loaders;
    const struct governor_decision *decision; /* NULL before the first */
    uint32_t preparing;                       /* preparations with the pool */
    uint32_t busy, n_jobs, n_lines;           /* n_lines: taken */
    uint32_t lines_end;                       /* lines at and past it are not in use */
    uint64_t decided_ns;
    struct device devices[GOVERNOR_SOURCES_MAX];
    uint32_t n_devices;
    uint64_t uses;
    uint32_t reading[GOVERNOR_SOURCES_MAX]; /* reads with the pool, by source */
    struct job jobs[JOBS_MAX];
    struct line lines[GOVERNOR_QUEUES_MAX + 1]; /* the last, LEFT: reads whose jobs have ended */
};

static uint32_t name_of(const struct governor_live *live, uint32_t number)
{
    const struct line *line = &live->lines[number];
    return line->owner << (LINE_BITS + SOURCE_BITS) | line->source << LINE_BITS | number;
}

static uint32_t source_in(uint32_t name)
{
    return name >> LINE_BITS & (GOVERNOR_SOURCES_MAX - 1);
}

/* Gives the number of the line with that name; LEFT when its job has ended. */
static uint32_t line_of(const struct governor_live *live, uint32_t name)
{
    uint32_t number = name & (GOVERNOR_QUEUES_MAX - 1);
    return live->lines[number].there && name_of(live, number) == name ? number : LEFT;
}

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
    live->n_loaders = loaders;
    *out = live;
    return 0;
}

void governor_live_attach(struct governor_live *live, struct workers *workers)
{
    live->workers = workers;
}

void governor_live_destroy(struct governor_live *live)
{
    if (!live)
        return;
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        free(live->jobs[i].ranks);
    for (uint32_t i = 0; i <= LEFT; i++)
        read_line_clear(&live->lines[i].reads);
    governor_destroy(live->governor);
    free(live);
}

/* ── jobs ── */

static bool source_in_use(const struct governor_live *live, uint32_t source)
{
    const struct read_line *left = &live->lines[LEFT].reads;
    bool used = live->reading[source] > 0;
    for (uint32_t i = 0; i < live->lines_end && !used; i++)
        used = live->lines[i].there && live->lines[i].source == source;
    for (uint32_t at = 0; at < left->length && !used; at++)
        used = source_in(left->tasks[(left->head + at) % left->cap].queue) == source;
    return used;
}

/* The place of a device that nothing uses, and has not for longest; the last one's when all are in use. */
static uint32_t replace_source(struct governor_live *live)
{
    uint32_t best = GOVERNOR_SOURCES_MAX;
    for (uint32_t i = 0; i < GOVERNOR_SOURCES_MAX; i++) {
        bool longer = best == GOVERNOR_SOURCES_MAX || live->devices[i].used < live->devices[best].used;
        if (longer && !source_in_use(live, i))
            best = i;
    }
    if (best == GOVERNOR_SOURCES_MAX)
        return GOVERNOR_SOURCES_MAX - 1;
    governor_source_gone(live->governor, best);
    return best;
}

static uint32_t source_of(struct governor_live *live, uint64_t device)
{
    uint32_t source = 0;
    while (source < live->n_devices && live->devices[source].number != device)
        source++;
    if (source == GOVERNOR_SOURCES_MAX)
        source = replace_source(live);
    else if (source == live->n_devices)
        live->n_devices++;
    live->devices[source] = (struct device){device, ++live->uses};
    return source;
}

static uint32_t free_line(const struct governor_live *live)
{
    uint32_t number = 0;
    while (number < GOVERNOR_QUEUES_MAX && live->lines[number].there)
        number++;
    CHECK(number < GOVERNOR_QUEUES_MAX);
    return number;
}

/* Reads that have not come stay, and are nobody's. */
static void line_end(struct governor_live *live, uint32_t number)
{
    struct line *line = &live->lines[number], *left = &live->lines[LEFT];
    while (line->reads.length) {
        struct worker_load task = read_line_take(&line->reads);
        read_line_put(&left->reads, &task);
    }
    read_line_clear(&line->reads);
    left->samples += line->samples;
    left->busy += line->busy;
    live->devices[line->source].used = ++live->uses;
    *line = (struct line){.owner = line->owner + 1};
    governor_queue_end(live->governor, number);
}

void governor_live_job_begin(struct governor_live *live, const struct governor_live_job *desc)
{
    CHECK(desc->job < JOBS_MAX && !live->jobs[desc->job].ranks && desc->world_size > 0);
    struct job *job = &live->jobs[desc->job];
    uint32_t kept = JOBS_MAX - 1 - live->n_jobs; /* one for each job that may still come */
    uint32_t most = GOVERNOR_QUEUES_MAX - live->n_lines - kept;
    *job = (struct job){.ranks = xcalloc(desc->world_size, sizeof *job->ranks),
                        .world_size = desc->world_size,
                        .batch_size = desc->batch_size,
                        .n_lines = desc->world_size < most ? desc->world_size : most,
                        .weight = desc->weight};
    uint32_t source = source_of(live, desc->device);
    for (uint32_t rank = 0; rank < desc->world_size; rank++) {
        uint32_t number = rank < job->n_lines ? free_line(live) : job->ranks[rank % job->n_lines].line;
        struct line *line = &live->lines[number];
        job->ranks[rank].line = number;
        if (line->there)
            continue;
        live->lines_end = number < live->lines_end ? live->lines_end : number + 1;
        line->there = true;
        line->job = desc->job;
        line->source = source;
        line->stock = 0;
        governor_queue_begin(live->governor, number, &(struct governor_queue){desc->job, source, desc->weight});
    }
    live->n_lines += job->n_lines;
    if (live->n_jobs++ == 0)
        live->decided_ns = clock_now_ns(); /* the first decision waits for measurements */
}

void governor_live_job_weight(struct governor_live *live, uint32_t number, double weight)
{
    struct job *job = &live->jobs[number];
    CHECK(job->ranks);
    job->weight = weight;
    for (uint32_t i = 0; i < job->n_lines; i++)
        governor_queue_weight(live->governor, job->ranks[i].line, weight);
}

void governor_live_job_end(struct governor_live *live, uint32_t number)
{
    CHECK(number < JOBS_MAX && live->jobs[number].ranks);
    struct job *job = &live->jobs[number];
    for (uint32_t i = 0; i < job->n_lines; i++)
        line_end(live, job->ranks[i].line);
    while (live->lines_end && !live->lines[live->lines_end - 1].there)
        live->lines_end--;
    live->n_lines -= job->n_lines;
    live->n_jobs--;
    free(job->ranks);
    *job = (struct job){.ranks = NULL};
}

static const struct job *job_of(const struct governor_live *live, uint32_t number)
{
    CHECK(number < JOBS_MAX && live->jobs[number].ranks);
    return &live->jobs[number];
}

uint32_t governor_live_queue(const struct governor_live *live, uint32_t number, uint32_t rank)
{
    const struct job *job = job_of(live, number);
    CHECK(rank < job->world_size || rank == ENGINE_RANK_NONE);
    if (rank != ENGINE_RANK_NONE)
        return name_of(live, job->ranks[rank].line);
    uint32_t best = job->ranks[0].line;
    for (uint32_t i = 1; i < job->n_lines; i++) {
        if (live->lines[job->ranks[i].line].samples < live->lines[best].samples)
            best = job->ranks[i].line;
    }
    return name_of(live, best);
}

/* ── reads ── */

static bool source_full(const struct governor_live *live, uint32_t source)
{
    return live->decision && live->reading[source] >= live->decision->source_most[source];
}

/* Fills the queues that have reads waiting, and their lines; gives how many. What jobs that have ended left counts as
 * one more queue like the others: another job may wait for it. */
static size_t find_candidates(const struct governor_live *live, struct governor_candidate *candidates, uint32_t *lines)
{
    size_t n = 0;
    for (uint32_t i = 0; i < live->lines_end; i++) {
        const struct line *line = &live->lines[i];
        if (!line->reads.length || source_full(live, line->source))
            continue;
        const struct job *job = &live->jobs[line->job];
        lines[n] = i;
        candidates[n++] = (struct governor_candidate){
            .group = line->job,
            .job_part = (1.0 + job->busy) / job->weight,
            .share = live->decision ? live->decision->queue_loaders[i] : job->weight / job->n_lines,
            .busy = line->busy,
            .ahead = line->stock};
    }
    const struct line *left = &live->lines[LEFT];
    if (left->reads.length && !source_full(live, source_in(left->reads.tasks[left->reads.head].queue))) {
        lines[n] = LEFT;
        candidates[n++] = (struct governor_candidate){.group = JOBS_MAX, .job_part = 1.0 + left->busy};
    }
    return n;
}

/* Reads that the pool may have: the loaders', and those of workers that have nothing to prepare. */
static uint32_t reads_most(const struct governor_live *live)
{
    if (!live->decision)
        return live->n_loaders ? live->n_loaders : 1;
    uint32_t idle = live->n_loaders + (live->n_workers > live->preparing ? live->n_workers - live->preparing : 0);
    uint32_t most = idle < live->decision->loaders_most ? idle : live->decision->loaders_most;
    return most > live->decision->loaders ? most : live->decision->loaders;
}

static void give_reads(struct governor_live *live)
{
    while (live->busy < reads_most(live)) {
        struct governor_candidate candidates[GOVERNOR_QUEUES_MAX + 1];
        uint32_t lines[GOVERNOR_QUEUES_MAX + 1];
        size_t n = find_candidates(live, candidates, lines);
        if (n == 0)
            return;
        struct line *line = &live->lines[lines[governor_next_queue(candidates, n, SHARE)]];
        struct worker_load task = read_line_take(&line->reads);
        line->busy++;
        live->busy++;
        live->reading[source_in(task.queue)]++;
        if (line->there) {
            live->jobs[line->job].busy++;
            line->stock += (double)task.count / live->jobs[line->job].batch_size;
        }
        workers_load(live->workers, &task);
    }
}

void governor_live_load(struct governor_live *live, const struct worker_load *task)
{
    struct line *line = &live->lines[line_of(live, task->queue)];
    read_line_put(&line->reads, task);
    line->samples += task->count;
    give_reads(live);
}

void governor_live_read(struct governor_live *live, uint32_t queue, uint32_t samples, uint64_t took_ns)
{
    uint32_t number = line_of(live, queue);
    struct line *line = &live->lines[number];
    uint32_t *reading = &live->reading[source_in(queue)];
    CHECK(line->busy > 0 && live->busy > 0 && line->samples >= samples && *reading > 0);
    struct governor_read read = {(double)took_ns / (double)CLOCK_NS_PER_S, samples, *reading};
    if (number != LEFT) {
        governor_loaded(live->governor, number, &read);
        live->jobs[line->job].busy--;
    }
    line->busy--;
    live->busy--;
    --*reading;
    line->samples -= samples;
    give_reads(live);
}

void governor_live_prepare(struct governor_live *live)
{
    live->preparing++;
}

void governor_live_prepared(struct governor_live *live, const struct worker_cost *cost)
{
    CHECK(live->preparing > 0);
    live->preparing--;
    give_reads(live);
    if (!cost->took_ns)
        return;
    struct governor_preparation preparation = {.pipeline = cost->pipeline,
                                               .busy = cost->busy,
                                               .encoded_bytes = cost->encoded_bytes,
                                               .seconds = (double)cost->took_ns / (double)CLOCK_NS_PER_S};
    uint32_t number = line_of(live, cost->queue);
    governor_prepared(live->governor, number == LEFT ? GOVERNOR_QUEUE_NONE : number, &preparation);
}

void governor_live_pipeline_gone(struct governor_live *live, uint32_t pipeline)
{
    governor_pipeline_gone(live->governor, pipeline);
}

/* ── clients ── */

static struct rank *rank_of(struct governor_live *live, uint32_t job, uint32_t rank)
{
    CHECK(job < JOBS_MAX && live->jobs[job].ranks && rank < live->jobs[job].world_size);
    return &live->jobs[job].ranks[rank];
}

void governor_live_attached(struct governor_live *live, uint32_t job, uint32_t rank)
{
    rank_of(live, job, rank)->pace = (struct governor_pace){.acted_ns = 0};
}

void governor_live_delivered(struct governor_live *live, uint32_t job, uint32_t rank, uint64_t now_ns)
{
    struct rank *of = rank_of(live, job, rank);
    struct line *line = &live->lines[of->line];
    governor_pace_came(&of->pace, now_ns);
    line->stock -= line->stock > 1 ? 1 : line->stock;
}

void governor_live_acted(struct governor_live *live, uint32_t job, uint32_t rank, uint32_t batches, uint64_t now_ns)
{
    struct rank *of = rank_of(live, job, rank);
    double train_s = governor_pace_acted(&of->pace, now_ns, batches);
    if (train_s > 0)
        governor_trained(live->governor, of->line, train_s);
}

/* ── decisions ── */

int64_t governor_live_wait_ms(const struct governor_live *live, uint64_t now_ns)
{
    if (live->n_jobs == 0)
        return -1;
    uint64_t due_ns = live->decided_ns + DECIDE_NS;
    return due_ns > now_ns ? (int64_t)((due_ns - now_ns) / CLOCK_NS_PER_MS) + 1 : 0;
}

/* Fills the job's backlogs, one a line; gives how many. */
static size_t measure_job(struct governor_live *live, const struct engine *engine, uint32_t number, uint64_t now_ns,
                          struct governor_backlog *out)
{
    const struct job *job = &live->jobs[number];
    struct engine_queue_status queues[ENGINE_RANKS_MAX];
    size_t n = engine_queue_statuses(engine, number, now_ns, queues, ENGINE_RANKS_MAX);
    CHECK(n == job->world_size);
    for (uint32_t i = 0; i < job->n_lines; i++) {
        struct line *line = &live->lines[job->ranks[i].line];
        uint32_t ready = 0;
        for (uint32_t rank = i; rank < job->world_size; rank += job->n_lines)
            ready += queues[rank].ready_batches;
        uint32_t waiting = 0;
        for (uint32_t at = 0; at < line->reads.length; at++)
            waiting += line->reads.tasks[(line->reads.head + at) % line->reads.cap].count;
        line->stock = ready + (double)(line->samples - waiting) / job->batch_size;
        out[i] = (struct governor_backlog){.queue = job->ranks[i].line,
                                           .batch_size = job->batch_size,
                                           .pending_loads = line->samples,
                                           .pending_reads = line->reads.length + line->busy,
                                           .ready_batches = ready};
    }
    return job->n_lines;
}

bool governor_live_tick(struct governor_live *live, const struct engine *engine, uint64_t now_ns)
{
    if (live->n_jobs == 0 || now_ns < live->decided_ns + DECIDE_NS)
        return false;
    struct governor_backlog backlogs[GOVERNOR_QUEUES_MAX];
    size_t n = 0;
    for (uint32_t job = 0; job < JOBS_MAX; job++)
        n += live->jobs[job].ranks ? measure_job(live, engine, job, now_ns, &backlogs[n]) : 0;
    live->decision = governor_decide(live->governor, backlogs, n);
    live->decided_ns = now_ns;
    workers_set_split(live->workers, live->n_workers - live->decision->preparers, live->decision->preparers_most);
    give_reads(live);
    return true;
}

size_t governor_live_paces(const struct governor_live *live, uint32_t *cursor, struct engine_event *out, size_t max)
{
    size_t n = 0;
    while (live->decision && *cursor < JOBS_MAX * ENGINE_RANKS_MAX && n < max) {
        uint32_t number = *cursor / ENGINE_RANKS_MAX, rank = *cursor % ENGINE_RANKS_MAX;
        const struct job *job = &live->jobs[number];
        if (!job->ranks || job->world_size == 1 || rank == job->world_size) {
            *cursor = (number + 1) * ENGINE_RANKS_MAX;
            continue;
        }
        ++*cursor;
        double train_s = live->decision->views[job->ranks[rank].line].train_s;
        out[n++] = (struct engine_event){
            .type = ENGINE_PACE, .rank = rank, .pace = {number, (uint64_t)(train_s * (double)CLOCK_NS_PER_S)}};
    }
    return n;
}

/* ── status ── */

void governor_live_status(const struct governor_live *live, struct status_governor *out)
{
    *out = (struct status_governor){.preparers = live->n_workers, .loaders = live->n_loaders};
    if (live->decision)
        *out = (struct status_governor){.preparers = live->decision->preparers,
                                        .loaders = live->decision->loaders,
                                        .prepare_rate = live->decision->prepare_rate,
                                        .load_rate = live->decision->load_rate,
                                        .moves = live->decision->moves};
}

void governor_live_job_status(const struct governor_live *live, uint32_t number, uint32_t *loaders, uint32_t *ahead)
{
    const struct job *job = &live->jobs[number];
    *loaders = *ahead = 0;
    for (uint32_t i = 0; live->decision && i < job->n_lines; i++) {
        uint32_t line = job->ranks[i].line, its = live->decision->ahead[line];
        *loaders += live->decision->queue_loaders[line];
        *ahead = its > *ahead ? its : *ahead;
    }
}

void governor_live_queue_status(const struct governor_live *live, uint32_t job, uint32_t rank,
                                struct status_queue *out)
{
    CHECK(rank < job_of(live, job)->world_size);
    uint32_t number = live->jobs[job].ranks[rank].line;
    const struct line *line = &live->lines[number];
    *out = (struct status_queue){.line = number,
                                 .pending_reads = line->reads.length + line->busy,
                                 .pending_samples = line->samples,
                                 .reading = line->busy};
    if (!live->decision)
        return;
    const struct governor_view *view = &live->decision->views[number];
    out->loaders = live->decision->queue_loaders[number];
    out->ahead = live->decision->ahead[number];
    out->load_s = view->load_s;
    out->prepare_s = view->prepare_s;
    out->train_s = view->train_s;
    out->late_s = view->late_s;
}
