/* reads.h: the reads of every queue that wait for a thread, those with the pool, and which is next.
 *
 * Every rank of every job is a queue of the governor's, with reads of its own; where there are more than
 * GOVERNOR_QUEUES_MAX of them, ranks of one job share some. Reads pass through here: the pool has no more of them at
 * once than there are loaders and workers that have nothing to prepare. So what waits is in order of need, and one
 * job's slow storage cannot occupy all threads.
 *
 * A task names its queue by number, source and owner, so that what ends after its owner is not taken for the next
 * one's. The reads of jobs that have ended are nobody's, and are read nevertheless. Owned by governor_live. One
 * thread. */
#ifndef LARDER_SERVER_GOVERNOR_READS_H
#define LARDER_SERVER_GOVERNOR_READS_H

#include "common/types.h"
#include "server/control/status.h"
#include "server/engine/engine.h"
#include "server/governor/governor.h"
#include "server/workers/worker.h"

#define READS_SHARE 0.5 /* of its fair part of the loaders that a job keeps, whatever waits elsewhere */

struct reads;

struct reads_config {
    struct governor *governor; /* borrowed: gets to know queues, and how long reads took */
    uint32_t workers, loaders; /* the pool's */
};

struct reads *reads_create(const struct reads_config *config);
void reads_destroy(struct reads *reads); /* drops the reads that still wait; accepts NULL */
/* reads_attach names the threads that read; they outlive every call below. */
void reads_attach(struct reads *reads, struct workers *workers);

struct reads_job {
    uint32_t job, world_size, batch_size;
    uint64_t device; /* that its dataset lies on */
    double weight;
};

void reads_job_begin(struct reads *reads, const struct reads_job *desc);
void reads_job_weight(struct reads *reads, uint32_t job, double weight);
void reads_job_end(struct reads *reads, uint32_t job);

/* reads_queues gives how many queues a job has: its first so many ranks have one each. */
uint32_t reads_queues(const struct reads *reads, uint32_t job);
/* reads_queue gives the number of a rank's queue. */
uint32_t reads_queue(const struct reads *reads, uint32_t job, uint32_t rank);
/* reads_name gives the name of a rank's queue for tasks; ENGINE_RANK_NONE: of the job's queue with least to load. */
uint32_t reads_name(const struct reads *reads, uint32_t job, uint32_t rank);
/* reads_named gives the number of the queue with that name; GOVERNOR_QUEUE_NONE: its job has ended. */
uint32_t reads_named(const struct reads *reads, uint32_t name);

void reads_put(struct reads *reads, const struct worker_load *task);   /* takes it over; task->queue: a name */
void reads_ended(struct reads *reads, const struct worker_read *read); /* one that was with the pool */
void reads_prepare_begins(struct reads *reads);                        /* a thread, which does not read meanwhile */
void reads_prepare_ends(struct reads *reads);
void reads_delivered(struct reads *reads, uint32_t job, uint32_t rank); /* a batch goes to the rank's client */
/* reads_decided: the decision holds from now on; the governor's, valid until its next. */
void reads_decided(struct reads *reads, const struct governor_decision *decision);

/* reads_backlogs fills what waits for each of the job's queues, and gives how many they are. ranks: the engine's, by
 * rank. */
size_t reads_backlogs(struct reads *reads, uint32_t job, const struct engine_queue_status *ranks,
                      struct governor_backlog *out);
/* reads_status fills what is pending and being read for a queue, and nothing else. */
void reads_status(const struct reads *reads, uint32_t queue, struct status_queue *out);

#endif
