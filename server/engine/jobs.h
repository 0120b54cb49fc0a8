/* jobs.h: handles events: jobs come and go, their epochs, batches and results, and timeouts.
 *
 * Invariant: an epoch gives every rank its share. A rank that is away has no entry, no lease and no credit, and asks
 * for nothing. An IDLE or FAILED job has no entries, and wants nothing. Each JOB_ADD has one answer. For each JOB_ADDED
 * of a job's first rank there is one JOB_ENDED.
 * Owner: jobs_come.c makes and frees a job with its queues. jobs_epochs.c and jobs_next.c own state, progress, epoch
 * and next; jobs_deliver.c and jobs_stall.c own the tallies; jobs_watch.c owns missed, starves_since_ns and
 * source.waits; an entry that is placed sets starves_since_ns back (queue.c). */
#ifndef LARDER_SERVER_ENGINE_JOBS_H
#define LARDER_SERVER_ENGINE_JOBS_H

#include "server/engine/engine_priv.h"

/* jobs_attach.c */
/* jobs_refuse answers a JOB_ADD with JOB_REFUSED, and returns the code. */
__attribute__((format(printf, 4, 5))) int jobs_refuse(struct outbox *outbox, const struct engine_job_desc *desc,
                                                      int code, const char *fmt, ...);
/* jobs_answer answers a JOB_ADD with JOB_ADDED: the rank's client is there. */
void jobs_answer(struct engine *engine, uint32_t no, const struct engine_job_desc *desc, bool attached);
/* jobs_attach attaches a rank to its job, or refuses. */
void jobs_attach(struct engine *engine, uint32_t no, const struct engine_job_desc *desc);

/* jobs_come.c */
void jobs_free(struct job *job); /* jobs_free frees the job's own memory and makes it FREE. */
/* jobs_on_add takes the event JOB_ADD: it adds a job, attaches a rank to one, or refuses. */
void jobs_on_add(struct engine *engine, const struct engine_job_desc *desc);
/* jobs_on_weight takes the event WEIGHT. It does nothing when the job is FREE. */
void jobs_on_weight(const struct jobs *jobs, uint32_t job, double weight);
/* jobs_on_cancel takes the event JOB_CANCEL. */
void jobs_on_cancel(struct engine *engine, uint32_t job);
/* jobs_end ends a job that no client is attached to: its wants, room and number become free. */
void jobs_end(struct engine *engine, uint32_t job);
/* jobs_on_gone takes the event JOB_GONE. */
void jobs_on_gone(struct engine *engine, uint32_t job, uint32_t rank, bool died);

/* jobs_deliver.c */
/* jobs_deliver_batch delivers a batch of `count` ready entries, the first of the queue. After the rank's last batch of
 * the epoch, the rank has finished it, and the job's epoch may end. An empty batch takes no entry. */
void jobs_deliver_batch(struct engine *engine, uint32_t no, struct job_queue *queue, uint32_t count);
/* jobs_deliver delivers all batches that are ready and that clients may have, and notes which clients wait. */
void jobs_deliver(struct engine *engine);

/* jobs_stall.c: clients that stand still */
/* jobs_stall_asked is called when the rank's client has asked for batches, or says how many it awaits (ENGINE_NEXT): if
 * none is on its way to it, it stands still from now on. */
void jobs_stall_asked(const struct engine *engine, const struct job *job, struct job_queue *queue, uint32_t awaited);
/* jobs_stall_watch counts the time up to now, and looks for the cause of the time that comes. */
void jobs_stall_watch(struct engine *engine, const struct job *job, struct job_queue *queue);
/* jobs_stall_end counts the time up to now: the client gets a batch, or asks for none any more. It returns how long it
 * stood still; 0 if it did not. */
uint64_t jobs_stall_end(struct engine *engine, struct job_queue *queue);

/* jobs_resume.c: jobs that are restoring */
/* jobs_resume_ready tells whether all ranks are there. Then those that ask for an earlier epoch than the job begins in
 * are told that nothing of it is left for them. */
bool jobs_resume_ready(struct engine *engine, const struct job *job);
/* jobs_resume_epoch returns the epoch that a restoring job begins when somebody asks for one: the one that its ranks
 * were in; a later one when all of them ask for later ones. */
uint32_t jobs_resume_epoch(const struct job *job);
/* Both are called just after the job's epoch was begun whole. jobs_resume_elsewhere tells whether its ranks received
 * samples of the epoch that belong to ranks at other nodes. jobs_resume_begin ends restoring; with `restores`, ranks
 * that were in that epoch go on where they stopped. On LARDER_ENOMEM the job cannot go on. */
bool jobs_resume_elsewhere(const struct job *job);
int jobs_resume_begin(struct plan *plan, struct job *job, bool restores);
/* jobs_resume_end_behind answers a rank that is behind and asks for an earlier epoch than the job's. */
void jobs_resume_end_behind(struct engine *engine, const struct job *job, struct job_queue *queue, uint32_t epoch);

/* jobs_epochs.c */
/* jobs_act_error adds a JOB_ERROR for the rank's client. The caller fills in the text. */
struct engine_action *jobs_act_error(struct outbox *outbox, const struct job *job, uint32_t rank);
/* jobs_rank_through ends the epoch for a rank, which has received its share or goes on without the rest. Its entries
 * and its reserve are left behind. */
void jobs_rank_through(struct plan *plan, struct job *job, struct job_queue *queue);
/* jobs_turn_epoch ends the epoch if every rank has finished it and can lose nothing of it. Then it begins the lowest
 * epoch that a rank waits for. */
void jobs_turn_epoch(struct engine *engine, uint32_t no);
/* The cause of a job's failure, besides its text. */
struct failure {
    sample_id id; /* the bad sample; SAMPLE_NONE when the job fails over something else */
    int reason;   /* enum bad_reason of that sample */
    bool of_source;
    bool of_all_bad; /* not of that sample alone: others of the epoch are named beside it */
};
#define FAILURE_OTHER (&(struct failure){.id = SAMPLE_NONE})
/* jobs_fail makes the job FAILED. Each rank that is there gets a JOB_ERROR with the code and the text. */
void jobs_fail(struct engine *engine, uint32_t job, const struct failure *failure, int code, const char *text);
/* jobs_on_release takes the event RELEASE. */
void jobs_on_release(struct engine *engine, const struct engine_event *event);

/* jobs_next.c */
/* jobs_on_next takes the event NEXT. */
void jobs_on_next(struct engine *engine, const struct engine_event *event);

/* jobs_results.c */
/* jobs_judge treats all results of tasks, which are entries whose samples failed, by the policies of their jobs. */
void jobs_judge(struct engine *engine);

/* jobs_watch.c */
/* jobs_watch_ranks fails jobs that have waited too long for a rank, and ends those that no rank came back to. */
void jobs_watch_ranks(struct engine *engine);
/* jobs_watch_room gives slots of zones to jobs that wait for room, and fails those that have waited too long. */
void jobs_watch_room(struct engine *engine);
/* jobs_watch_sources fails jobs that have waited too long for their source. */
void jobs_watch_sources(struct engine *engine);

#endif
