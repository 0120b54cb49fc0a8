#include "server/governor/reads.h"

#include <stdlib.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/governor/read_queue.h"

enum { QUEUE_BITS = 10, SOURCE_BITS = 4, LEFT = GOVERNOR_QUEUES_MAX };

_Static_assert(JOBS_MAX <= GOVERNOR_QUEUES_MAX, "each job has a queue at least");
_Static_assert(GOVERNOR_QUEUES_MAX == 1 << QUEUE_BITS && GOVERNOR_SOURCES_MAX == 1 << SOURCE_BITS, "names have both");

/* A queue of the governor's. It serves one rank, or several ranks of a job where queues are scarce. */
struct queue {
    bool there;
    uint32_t owner; /* how many queues have had the place before */
    uint32_t job;
    uint32_t source;
    struct read_queue waiting; /* reads that the pool has not been given */
    uint32_t samples;          /* samples of the waiting reads and of those that the pool has */
    uint32_t busy;             /* reads that the pool has */
    double stock;              /* batches that lie ready, or whose samples are being read */
};

struct job {
    uint32_t *queues; /* by rank; NULL: the place is free */
    uint32_t world_size, batch_size, n_queues;
    uint32_t busy; /* reads that the pool has */
    double weight;
};

struct device {
    uint64_t number;
    uint64_t used; /* the value of reads.uses when a job of the device last began or ended */
};

struct reads {
    struct reads_config config;
    struct workers *workers;
    const struct governor_decision *decision; /* NULL before the first */
    uint32_t preparing;                       /* preparations that the pool has */
    uint32_t busy, n_jobs, n_queues;          /* n_queues: queues that are in use */
    uint32_t queues_end;                      /* no queue with this number or a higher one is in use */
    struct device devices[GOVERNOR_SOURCES_MAX];
    uint32_t n_devices;
    uint64_t uses;
    uint32_t reading[GOVERNOR_SOURCES_MAX]; /* reads that the pool has, by source */
    struct job jobs[JOBS_MAX];
    struct queue queues[GOVERNOR_QUEUES_MAX + 1]; /* the last one, LEFT, has the reads whose jobs have ended */
};

static uint32_t name_of(const struct reads *reads, uint32_t number)
{
    const struct queue *queue = &reads->queues[number];
    return queue->owner << (QUEUE_BITS + SOURCE_BITS) | queue->source << QUEUE_BITS | number;
}

static uint32_t source_in(uint32_t name)
{
    return name >> QUEUE_BITS & (GOVERNOR_SOURCES_MAX - 1);
}

/* named gives the number of the queue with that name. LEFT: its job has ended. */
static uint32_t named(const struct reads *reads, uint32_t name)
{
    uint32_t number = name & (GOVERNOR_QUEUES_MAX - 1);
    return reads->queues[number].there && name_of(reads, number) == name ? number : LEFT;
}

struct reads *reads_create(const struct reads_config *config)
{
    struct reads *reads = xcalloc(1, sizeof *reads);
    reads->config = *config;
    return reads;
}

void reads_attach(struct reads *reads, struct workers *workers)
{
    reads->workers = workers;
}

void reads_destroy(struct reads *reads)
{
    if (!reads)
        return;
    for (uint32_t i = 0; i < JOBS_MAX; i++)
        free(reads->jobs[i].queues);
    for (uint32_t i = 0; i <= LEFT; i++)
        read_queue_clear(&reads->queues[i].waiting);
    free(reads);
}

/* ── sources ── */

static bool source_in_use(const struct reads *reads, uint32_t source)
{
    const struct read_queue *left = &reads->queues[LEFT].waiting;
    bool used = reads->reading[source] > 0;
    for (uint32_t i = 0; i < reads->queues_end && !used; i++)
        used = reads->queues[i].there && reads->queues[i].source == source;
    for (uint32_t at = 0; at < left->length && !used; at++)
        used = source_in(left->tasks[(left->head + at) % left->cap].queue) == source;
    return used;
}

/* replace_source gives the place of the device that nothing has used for longest. If all are in use, it gives the last
 * place. */
static uint32_t replace_source(struct reads *reads)
{
    uint32_t best = GOVERNOR_SOURCES_MAX;
    for (uint32_t i = 0; i < GOVERNOR_SOURCES_MAX; i++) {
        bool longer = best == GOVERNOR_SOURCES_MAX || reads->devices[i].used < reads->devices[best].used;
        if (longer && !source_in_use(reads, i))
            best = i;
    }
    if (best == GOVERNOR_SOURCES_MAX)
        return GOVERNOR_SOURCES_MAX - 1;
    governor_source_gone(reads->config.governor, best);
    return best;
}

static uint32_t source_of(struct reads *reads, uint64_t device)
{
    uint32_t source = 0;
    while (source < reads->n_devices && reads->devices[source].number != device)
        source++;
    if (source == GOVERNOR_SOURCES_MAX)
        source = replace_source(reads);
    else if (source == reads->n_devices)
        reads->n_devices++;
    reads->devices[source] = (struct device){device, ++reads->uses};
    return source;
}

/* ── jobs ── */

static uint32_t free_queue(const struct reads *reads)
{
    uint32_t number = 0;
    while (number < GOVERNOR_QUEUES_MAX && reads->queues[number].there)
        number++;
    CHECK(number < GOVERNOR_QUEUES_MAX);
    return number;
}

/* queue_end ends a queue. Its reads that wait, and those that the pool has, go to LEFT. */
static void queue_end(struct reads *reads, uint32_t number)
{
    struct queue *queue = &reads->queues[number], *left = &reads->queues[LEFT];
    while (queue->waiting.length) {
        struct worker_load task = read_queue_take(&queue->waiting);
        read_queue_put(&left->waiting, &task);
    }
    read_queue_clear(&queue->waiting);
    left->samples += queue->samples;
    left->busy += queue->busy;
    reads->devices[queue->source].used = ++reads->uses;
    *queue = (struct queue){.owner = queue->owner + 1};
    governor_queue_end(reads->config.governor, number);
}

void reads_job_begin(struct reads *reads, const struct reads_job *desc)
{
    CHECK(desc->job < JOBS_MAX && !reads->jobs[desc->job].queues && desc->world_size > 0);
    struct job *job = &reads->jobs[desc->job];
    uint32_t kept = JOBS_MAX - 1 - reads->n_jobs; /* one queue for each job that may still come */
    uint32_t most = GOVERNOR_QUEUES_MAX - reads->n_queues - kept;
    *job = (struct job){.queues = xcalloc(desc->world_size, sizeof *job->queues),
                        .world_size = desc->world_size,
                        .batch_size = desc->batch_size,
                        .n_queues = desc->world_size < most ? desc->world_size : most,
                        .weight = desc->weight};
    uint32_t source = source_of(reads, desc->device);
    for (uint32_t rank = 0; rank < desc->world_size; rank++) {
        uint32_t number = rank < job->n_queues ? free_queue(reads) : job->queues[rank % job->n_queues];
        struct queue *queue = &reads->queues[number];
        job->queues[rank] = number;
        if (queue->there)
            continue;
        reads->queues_end = number < reads->queues_end ? reads->queues_end : number + 1;
        queue->there = true;
        queue->job = desc->job;
        queue->source = source;
        queue->stock = 0;
        governor_queue_begin(reads->config.governor, number, &(struct governor_queue){desc->job, source, desc->weight});
    }
    reads->n_queues += job->n_queues;
    reads->n_jobs++;
}

void reads_job_weight(struct reads *reads, uint32_t number, double weight)
{
    struct job *job = &reads->jobs[number];
    CHECK(job->queues);
    job->weight = weight;
    for (uint32_t i = 0; i < job->n_queues; i++)
        governor_queue_weight(reads->config.governor, job->queues[i], weight);
}

void reads_job_end(struct reads *reads, uint32_t number)
{
    CHECK(number < JOBS_MAX && reads->jobs[number].queues);
    struct job *job = &reads->jobs[number];
    for (uint32_t i = 0; i < job->n_queues; i++)
        queue_end(reads, job->queues[i]);
    while (reads->queues_end && !reads->queues[reads->queues_end - 1].there)
        reads->queues_end--;
    reads->n_queues -= job->n_queues;
    reads->n_jobs--;
    free(job->queues);
    *job = (struct job){.queues = NULL};
}

static const struct job *job_of(const struct reads *reads, uint32_t number)
{
    CHECK(number < JOBS_MAX && reads->jobs[number].queues);
    return &reads->jobs[number];
}

uint32_t reads_queues(const struct reads *reads, uint32_t job)
{
    return job_of(reads, job)->n_queues;
}

uint32_t reads_queue(const struct reads *reads, uint32_t number, uint32_t rank)
{
    const struct job *job = job_of(reads, number);
    CHECK(rank < job->world_size);
    return job->queues[rank];
}

uint32_t reads_name(const struct reads *reads, uint32_t number, uint32_t rank)
{
    const struct job *job = job_of(reads, number);
    if (rank != ENGINE_RANK_NONE)
        return name_of(reads, reads_queue(reads, number, rank));
    uint32_t best = job->queues[0];
    for (uint32_t i = 1; i < job->n_queues; i++) {
        if (reads->queues[job->queues[i]].samples < reads->queues[best].samples)
            best = job->queues[i];
    }
    return name_of(reads, best);
}

uint32_t reads_named(const struct reads *reads, uint32_t name)
{
    uint32_t number = named(reads, name);
    return number == LEFT ? GOVERNOR_QUEUE_NONE : number;
}

/* ── what is read next ── */

static bool source_full(const struct reads *reads, uint32_t source)
{
    return reads->decision && reads->reading[source] >= reads->decision->source_most[source];
}

/* find_candidates fills the queues that have reads waiting, and their numbers, and gives how many they are. The reads
 * that ended jobs have left count as one more queue like the others, because another job may wait for them. */
static size_t find_candidates(const struct reads *reads, struct governor_candidate *candidates, uint32_t *queues)
{
    size_t n = 0;
    for (uint32_t i = 0; i < reads->queues_end; i++) {
        const struct queue *queue = &reads->queues[i];
        if (!queue->waiting.length || source_full(reads, queue->source))
            continue;
        const struct job *job = &reads->jobs[queue->job];
        queues[n] = i;
        candidates[n++] = (struct governor_candidate){.job = queue->job,
                                                      .job_part = (1.0 + job->busy) / job->weight,
                                                      .share = reads->decision ? reads->decision->queue_loaders[i]
                                                                               : job->weight / job->n_queues,
                                                      .busy = queue->busy,
                                                      .ahead = queue->stock};
    }
    const struct queue *left = &reads->queues[LEFT];
    if (left->waiting.length && !source_full(reads, source_in(left->waiting.tasks[left->waiting.head].queue))) {
        queues[n] = LEFT;
        candidates[n++] = (struct governor_candidate){.job = JOBS_MAX, .job_part = 1.0 + left->busy};
    }
    return n;
}

/* reads_most gives how many reads the pool may have: one for each loader, and one for each worker that has nothing to
 * prepare. */
static uint32_t reads_most(const struct reads *reads)
{
    if (!reads->decision)
        return reads->config.loaders ? reads->config.loaders : 1;
    uint32_t workers = reads->config.workers;
    uint32_t idle = reads->config.loaders + (workers > reads->preparing ? workers - reads->preparing : 0);
    uint32_t most = idle < reads->decision->loaders_most ? idle : reads->decision->loaders_most;
    return most > reads->decision->loaders ? most : reads->decision->loaders;
}

static void give_reads(struct reads *reads)
{
    while (reads->busy < reads_most(reads)) {
        struct governor_candidate candidates[GOVERNOR_QUEUES_MAX + 1];
        uint32_t queues[GOVERNOR_QUEUES_MAX + 1];
        size_t n = find_candidates(reads, candidates, queues);
        if (n == 0)
            return;
        struct queue *queue = &reads->queues[queues[governor_next_queue(candidates, n, READS_SHARE)]];
        struct worker_load task = read_queue_take(&queue->waiting);
        queue->busy++;
        reads->busy++;
        reads->reading[source_in(task.queue)]++;
        if (queue->there) {
            reads->jobs[queue->job].busy++;
            queue->stock += (double)task.count / reads->jobs[queue->job].batch_size;
        }
        workers_load(reads->workers, &task);
    }
}

void reads_put(struct reads *reads, const struct worker_load *task)
{
    struct queue *queue = &reads->queues[named(reads, task->queue)];
    read_queue_put(&queue->waiting, task);
    queue->samples += task->count;
    give_reads(reads);
}

void reads_ended(struct reads *reads, const struct worker_read *read)
{
    uint32_t number = named(reads, read->queue);
    struct queue *queue = &reads->queues[number];
    uint32_t *reading = &reads->reading[source_in(read->queue)];
    CHECK(queue->busy > 0 && reads->busy > 0 && queue->samples >= read->samples && *reading > 0);
    struct governor_read measured = {(double)read->took_ns / (double)CLOCK_NS_PER_S, read->samples, *reading};
    if (number != LEFT) {
        governor_loaded(reads->config.governor, number, &measured);
        reads->jobs[queue->job].busy--;
    }
    queue->busy--;
    reads->busy--;
    --*reading;
    queue->samples -= read->samples;
    give_reads(reads);
}

void reads_prepare_begins(struct reads *reads)
{
    reads->preparing++;
}

void reads_prepare_ends(struct reads *reads)
{
    CHECK(reads->preparing > 0);
    reads->preparing--;
    give_reads(reads);
}

void reads_delivered(struct reads *reads, uint32_t job, uint32_t rank)
{
    struct queue *queue = &reads->queues[reads_queue(reads, job, rank)];
    queue->stock -= queue->stock > 1 ? 1 : queue->stock;
}

void reads_decided(struct reads *reads, const struct governor_decision *decision)
{
    reads->decision = decision;
    workers_set_split(reads->workers, reads->config.workers - decision->preparers, decision->preparers_most);
    give_reads(reads);
}

/* ── what it knows ── */

size_t reads_backlogs(struct reads *reads, uint32_t number, const struct engine_queue_status *ranks,
                      struct governor_backlog *out)
{
    const struct job *job = job_of(reads, number);
    for (uint32_t i = 0; i < job->n_queues; i++) {
        struct queue *queue = &reads->queues[job->queues[i]];
        uint32_t ready = 0, waiting = 0;
        for (uint32_t rank = i; rank < job->world_size; rank += job->n_queues)
            ready += ranks[rank].delivery.ready_batches;
        for (uint32_t at = 0; at < queue->waiting.length; at++)
            waiting += queue->waiting.tasks[(queue->waiting.head + at) % queue->waiting.cap].count;
        queue->stock = ready + (double)(queue->samples - waiting) / job->batch_size;
        out[i] = (struct governor_backlog){.queue = job->queues[i],
                                           .batch_size = job->batch_size,
                                           .pending_loads = queue->samples,
                                           .pending_reads = queue->waiting.length + queue->busy,
                                           .ready_batches = ready};
    }
    return job->n_queues;
}

void reads_status(const struct reads *reads, uint32_t number, struct status_queue *out)
{
    const struct queue *queue = &reads->queues[number];
    *out = (struct status_queue){.line = number,
                                 .pending_reads = queue->waiting.length + queue->busy,
                                 .pending_samples = queue->samples,
                                 .reading = queue->busy};
}
