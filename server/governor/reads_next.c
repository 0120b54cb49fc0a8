/* reads_next.c: which of the reads that wait goes to the pool next. */
#include "server/governor/reads_priv.h"

/* source_full says whether the first read that waits has to wait for others of its source. */
static bool source_full(const struct reads *reads, const struct read_queue *waiting)
{
    const struct worker_load *task = &waiting->tasks[waiting->head];
    uint32_t source = reads_source_in(task->queue);
    return reads->decision && reads_is_sources(task->count, task->classed) &&
           reads->reading[source] >= reads->decision->source_most[source];
}

/* find_candidates fills the queues that have reads waiting, and their numbers, and gives how many they are. The reads
 * that ended jobs have left count as one more queue like the others, because another job may wait for them. */
static size_t find_candidates(const struct reads *reads, struct governor_candidate *candidates, uint32_t *queues)
{
    size_t n = 0;
    for (uint32_t i = 0; i < reads->queues_end; i++) {
        const struct queue *queue = &reads->queues[i];
        if (!queue->waiting.length || source_full(reads, &queue->waiting))
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
    if (left->waiting.length && !source_full(reads, &left->waiting)) {
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

void reads_give(struct reads *reads)
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
        reads->reading[reads_source_in(task.queue)] += reads_is_sources(task.count, task.classed);
        if (queue->there) {
            reads->jobs[queue->job].busy++;
            queue->stock += (double)task.count / reads->jobs[queue->job].batch_size;
        }
        workers_load(reads->workers, &task);
    }
}
