#include "server/governor/reads_priv.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"

static uint64_t name_of(const struct reads *reads, uint32_t number)
{
    const struct queue *queue = &reads->queues[number];
    return (uint64_t)queue->owner << (QUEUE_BITS + SOURCE_BITS) | queue->source << QUEUE_BITS | number;
}

/* named returns the number of the queue with that name. If its job has ended, it is the one of what was left. */
static uint32_t named(const struct reads *reads, uint64_t name)
{
    uint32_t number = name & (GOVERNOR_QUEUES_MAX - 1);
    return reads->queues[number].there && name_of(reads, number) == name ? number : LEFT + reads_source_in(name);
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
    for (uint32_t i = 0; i < LEFT + GOVERNOR_SOURCES_MAX; i++)
        read_queue_clear(&reads->queues[i].waiting);
    free(reads);
}

/* ── sources ── */

static bool source_in_use(const struct reads *reads, uint32_t source)
{
    bool used = reads->queues[LEFT + source].samples > 0;
    for (uint32_t i = 0; i < reads->queues_end && !used; i++)
        used = reads->queues[i].there && reads->queues[i].source == source;
    return used;
}

/* replace_source returns the place of the least recently used device. If all are in use, it returns the last place. */
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

/* queue_end ends a queue. Its reads that wait, and those under way, are left. */
static void queue_end(struct reads *reads, uint32_t number)
{
    struct queue *queue = &reads->queues[number], *left = &reads->queues[LEFT + queue->source];
    while (queue->waiting.length) {
        struct worker_load task = read_queue_take(&queue->waiting);
        read_queue_put(&left->waiting, &task);
    }
    read_queue_clear(&queue->waiting);
    left->samples += queue->samples;
    for (uint32_t tier = 0; tier < GOVERNOR_TIERS_MAX; tier++)
        left->tiers[tier] += queue->tiers[tier];
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
    uint32_t source = reads->queues[job->queues[0]].source;
    for (uint32_t i = 0; i <= FETCH_CLASSES_MAX; i++)
        reads->origins[i ? GOVERNOR_SOURCES_MAX + i - 1 : source].left.busy += job->parts[i].busy;
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

uint64_t reads_name(const struct reads *reads, uint32_t number, uint32_t rank)
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

uint32_t reads_named(const struct reads *reads, uint64_t name)
{
    uint32_t number = named(reads, name);
    return number >= LEFT ? GOVERNOR_QUEUE_NONE : number;
}

/* ── reads that come and end ── */

/* begin_turn moves a job that had nothing to read from the origin up to the virtual time of the others: it has saved
 * nothing up. */
static void begin_turn(struct reads *reads, uint32_t queue, uint32_t origin)
{
    struct part *part = reads_part(reads, queue, origin);
    if (part->busy == 0 && part->turn < reads->origins[origin].turn && !reads->queues[queue].waiting.length)
        part->turn = reads->origins[origin].turn;
}

void reads_put(struct reads *reads, const struct worker_load *task)
{
    uint32_t number = named(reads, task->queue);
    struct queue *queue = &reads->queues[number];
    struct worker_load expected = *task;
    workers_expect(reads->workers, &expected);
    begin_turn(reads, number, reads_origin(&expected));
    read_queue_put(&queue->waiting, &expected);
    queue->samples += task->count;
    queue->tiers[expected.class] += expected.classed;
    reads_give(reads);
}

/* note_read tells the governor how long a read took: what classes brought of it, and what its source did. */
static void note_read(struct reads *reads, uint32_t number, const struct worker_read *read, uint32_t busy)
{
    const struct fetch_classed *came = &read->came;
    uint64_t source_ns = read->took_ns > came->took_ns ? read->took_ns - came->took_ns : 0;
    struct governor_read source = {(double)source_ns / (double)CLOCK_NS_PER_S, read->samples - came->samples,
                                   busy ? busy : 1, 0};
    struct governor_read class = {(double)came->took_ns / (double)CLOCK_NS_PER_S, came->samples, 1, came->class};
    governor_loaded(reads->config.governor, number, &source); /* without samples neither counts */
    governor_loaded(reads->config.governor, number, &class);
}

/* put_rest makes what is left of a read the next in its queue. Files that come slowly one after another come faster
 * beside each other: where their origin may have more reads at once and none waits, they become two reads. */
static void put_rest(struct reads *reads, struct queue *queue, const struct worker_load *rest)
{
    struct worker_load first = *rest;
    if (rest->apart && rest->count > 1 && !queue->waiting.length && !reads_full(reads, reads_origin(rest))) {
        struct worker_load second = workers_halve(&first);
        read_queue_put_first(&queue->waiting, &second);
    }
    read_queue_put_first(&queue->waiting, &first);
}

void reads_ended(struct reads *reads, const struct worker_read *read)
{
    uint32_t number = named(reads, read->queue);
    struct queue *queue = &reads->queues[number];
    struct part *part = reads_part(reads, number, read->origin);
    struct origin *origin = &reads->origins[read->origin];
    CHECK(queue->busy > 0 && part->busy > 0 && reads->busy > 0 && origin->reading > 0);
    CHECK(queue->samples >= read->samples && queue->tiers[read->class] >= read->classed);
    CHECK(read->came.samples <= read->samples);
    double weight = number < LEFT ? reads->jobs[queue->job].weight : 1;
    if (number < LEFT)
        note_read(reads, number, read, reads->origins[reads_source_in(read->queue)].reading);
    part->turn += (double)read->took_ns / (double)CLOCK_NS_PER_S / weight;
    part->busy--;
    queue->busy--;
    reads->busy--;
    origin->reading--;
    queue->samples -= read->samples;
    queue->tiers[read->class] -= read->classed;
    if (read->rest.count) {
        double again = number < LEFT ? (double)read->rest.count / reads->jobs[queue->job].batch_size : 0;
        queue->stock -= queue->stock > again ? again : queue->stock;
        put_rest(reads, queue, &read->rest);
    }
    reads_give(reads);
}

void reads_delivered(struct reads *reads, uint32_t job, uint32_t rank)
{
    struct queue *queue = &reads->queues[reads_queue(reads, job, rank)];
    queue->stock -= queue->stock > 1 ? 1 : queue->stock;
}

void reads_decided(struct reads *reads, const struct governor_decision *decision)
{
    reads->decision = decision;
    workers_set_preparers(reads->workers, decision->preparers_most);
    reads_give(reads);
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
        memcpy(out[i].pending_tiers, queue->tiers, sizeof out[i].pending_tiers);
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
