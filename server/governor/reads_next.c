/* reads_next.c: which of the reads that wait goes to the readers next. */
#include "common/clock.h"
#include "server/governor/reads_priv.h"

/* The assumed cost of a read that has just begun, until its cost is known. */
static const double PIECE_S = (double)WORKER_PIECE_NS / (double)CLOCK_NS_PER_S;

bool reads_full(const struct reads *reads, uint32_t origin)
{
    uint32_t reading = reads->origins[origin].reading, most = reads->config.most;
    if (origin < GOVERNOR_SOURCES_MAX && reads->decision)
        most = reads->decision->source_most[origin];
    uint32_t others_leave = reads->busy < READS_MOST ? READS_MOST - reads->busy : 0;
    return reading > 0 && (reading >= most || reading >= others_leave);
}

/* A queue whose oldest read may begin. The reads that ended jobs have left count as one more job at their source,
 * because another job may wait for them. */
struct candidates {
    struct governor_candidate all[GOVERNOR_QUEUES_MAX + GOVERNOR_SOURCES_MAX];
    uint32_t queues[GOVERNOR_QUEUES_MAX + GOVERNOR_SOURCES_MAX];
    size_t n;
};

static void add_candidate(struct reads *reads, uint32_t number, struct candidates *candidates)
{
    const struct queue *queue = &reads->queues[number];
    if (!queue->waiting.length)
        return;
    uint32_t origin = reads_origin(&queue->waiting.tasks[queue->waiting.head]);
    if (reads_full(reads, origin))
        return;
    const struct part *part = reads_part(reads, number, origin);
    struct governor_candidate candidate = {
        .job = JOBS_MAX + number, .job_part = part->turn + (1.0 + part->busy) * PIECE_S, .ahead = queue->stock};
    if (number < LEFT) {
        const struct job *job = &reads->jobs[queue->job];
        candidate.job = queue->job;
        candidate.job_part = part->turn + (1.0 + part->busy) * PIECE_S / job->weight;
        candidate.share = reads->decision ? reads->decision->queue_loaders[number] : job->weight / job->n_queues;
        candidate.busy = queue->busy;
    }
    candidates->queues[candidates->n] = number;
    candidates->all[candidates->n++] = candidate;
}

void reads_give(struct reads *reads)
{
    for (;;) {
        struct candidates candidates;
        candidates.n = 0;
        for (uint32_t i = 0; i < reads->queues_end; i++)
            add_candidate(reads, i, &candidates);
        for (uint32_t i = 0; i < reads->n_devices; i++)
            add_candidate(reads, LEFT + i, &candidates);
        if (candidates.n == 0)
            return;
        uint32_t number = candidates.queues[governor_next_queue(candidates.all, candidates.n, READS_SHARE)];
        struct queue *queue = &reads->queues[number];
        struct worker_load task = read_queue_take(&queue->waiting);
        task.origin = reads_origin(&task);
        struct part *part = reads_part(reads, number, task.origin);
        struct origin *origin = &reads->origins[task.origin];
        origin->turn = part->turn > origin->turn ? part->turn : origin->turn;
        origin->reading++;
        part->busy++;
        queue->busy++;
        reads->busy++;
        if (queue->there)
            queue->stock += (double)task.count / reads->jobs[queue->job].batch_size;
        workers_load(reads->workers, &task);
    }
}
