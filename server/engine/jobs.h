/* jobs.h: what events do: jobs come and go, their epochs, batches and results, and what time brings.
 *
 * Invariant: an epoch gives every rank its share; a rank that is away has no entry, no lease, no credit and asks for
 * nothing. An IDLE or FAILED job has no entries, and wants nothing. Each JOB_ADD has one answer, and each JOB_ADDED of
 * a job's first rank one JOB_ENDED.
 * Owner: jobs_come.c makes and frees a job with its queues; jobs_epochs.c and jobs_next.c own state, progress, epoch
 * and next; jobs_deliver.c the tallies; jobs_watch.c missed, starves_since_ns and source.waits. */
#ifndef LARDER_SERVER_ENGINE_JOBS_H
#define LARDER_SERVER_ENGINE_JOBS_H

#include "server/engine/engine_priv.h"

/* jobs_come.c */
void jobs_free(struct job *job); /* its own memory */
void jobs_on_add(struct engine *engine, const struct engine_job_desc *desc);
void jobs_on_weight(const struct jobs *jobs, uint32_t job, double weight);
void jobs_on_cancel(struct engine *engine, uint32_t job);
void jobs_end(struct engine *engine, uint32_t job);
void jobs_on_gone(struct engine *engine, uint32_t job, uint32_t rank);

/* jobs_deliver.c */
void jobs_deliver_batch(struct engine *engine, uint32_t no, struct job_queue *queue, uint32_t count);
void jobs_deliver(struct engine *engine);

/* jobs_epochs.c */
/* the text is the caller's */
struct engine_action *jobs_act_error(struct outbox *outbox, const struct job *job, uint32_t rank);
void jobs_rank_through(struct plan *plan, struct job *job, struct job_queue *queue);
void jobs_turn_epoch(struct engine *engine, uint32_t no);
/* What a job fails over, besides the text that says so. */
struct failure {
    sample_id id; /* SAMPLE_NONE: no sample of its own */
    int reason;   /* enum bad_reason of that sample */
    bool of_source;
};
#define FAILURE_OTHER (&(struct failure){.id = SAMPLE_NONE})
void jobs_fail(struct engine *engine, uint32_t job, const struct failure *failure, int code, const char *text);
void jobs_on_release(struct engine *engine, const struct engine_event *event);

/* jobs_next.c */
void jobs_on_next(struct engine *engine, const struct engine_event *event);

/* jobs_results.c */
void jobs_judge(struct engine *engine); /* what the tasks have as results: entries whose samples failed */

/* jobs_watch.c */
void jobs_watch_ranks(struct engine *engine);   /* fails the jobs that have waited too long for a rank */
void jobs_watch_room(struct engine *engine);    /* jobs that wait for room: they begin, or fail */
void jobs_watch_sources(struct engine *engine); /* fails the jobs that have waited too long for theirs */

#endif
