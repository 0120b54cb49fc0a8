/* reads.h: the reads of every queue: those that wait for a thread, those that the readers have, and which comes next.
 *
 * Each rank of each job is a queue of the governor's, with reads of its own. If there would be more than
 * GOVERNOR_QUEUES_MAX queues, ranks of one job share some. All reads pass through here. A read's origin is a source or
 * a storage class. Each origin has its own number of reads at once, by the decision, and no other origin takes these: a
 * slow or silent source costs only those who read from it. Jobs share the reading time of an origin by their weights.
 * Waiting reads stay here, in order of need.
 *
 * A task names its queue by number, source and owner, so that a read which ends after its job is not taken for one of
 * the queue's next owner. Waiting reads of a job that has ended belong to nobody, and are still done. governor_live
 * owns all of this; one thread makes all calls. */
#ifndef LARDER_SERVER_GOVERNOR_READS_H
#define LARDER_SERVER_GOVERNOR_READS_H

#include "common/types.h"
#include "server/control/status.h"
#include "server/engine/engine.h"
#include "server/governor/governor.h"
#include "server/workers/worker.h"

#define READS_SHARE 0.5 /* fraction of its fair share of the loaders that a job always keeps */

struct reads;

/* The most reads at once of all origins together. An origin may have as many as the others leave, and always one. So
 * the first slow one cannot take them all. */
#define READS_MOST 1024
#define READS_ORIGINS (GOVERNOR_SOURCES_MAX + FETCH_CLASSES_MAX)

struct reads_config {
    struct governor *governor; /* borrowed; it is told of the queues and of how long reads took */
    uint32_t most;             /* upper bound on the reads that one origin may have at once */
};

struct reads *reads_create(const struct reads_config *config); /* the caller destroys it */
void reads_destroy(struct reads *reads);                       /* drops the reads that still wait; accepts NULL */
/* reads_attach names the threads that read. workers is borrowed and outlives every call below. */
void reads_attach(struct reads *reads, struct workers *workers);

struct reads_job {
    uint32_t job, world_size, batch_size;
    uint64_t device; /* the device that its dataset is stored on */
    double weight;
};

/* reads_job_begin makes the job's queues. reads_job_weight gives the job another weight. reads_job_end ends its queues;
 * its reads that still wait belong to nobody from then on, and are still done. */
void reads_job_begin(struct reads *reads, const struct reads_job *desc);
void reads_job_weight(struct reads *reads, uint32_t job, double weight);
void reads_job_end(struct reads *reads, uint32_t job);

/* reads_queues returns the number of the job's queues. Its first ranks have one each, and further ranks share these. */
uint32_t reads_queues(const struct reads *reads, uint32_t job);
/* reads_queue returns the number of a rank's queue. */
uint32_t reads_queue(const struct reads *reads, uint32_t job, uint32_t rank);
/* reads_name returns the name of a rank's queue, which tasks carry. ENGINE_RANK_NONE: the job's queue that has least to
 * load. */
uint64_t reads_name(const struct reads *reads, uint32_t job, uint32_t rank);
/* reads_named returns the number of the queue with that name. GOVERNOR_QUEUE_NONE: its job has ended. */
uint32_t reads_named(const struct reads *reads, uint64_t name);

/* reads_put takes a read over. task->queue is the name of its queue. */
void reads_put(struct reads *reads, const struct worker_load *task);
/* reads_ended says that a read, or a piece of it, has ended. It takes over the rest of the read, which is next in its
 * queue unless something is needed sooner. */
void reads_ended(struct reads *reads, const struct worker_read *read);
/* reads_delivered says that a batch goes to the rank's client. */
void reads_delivered(struct reads *reads, uint32_t job, uint32_t rank);
/* reads_decided puts a decision into effect. The governor owns it; it is valid until the governor's next one. */
void reads_decided(struct reads *reads, const struct governor_decision *decision);

/* reads_backlogs fills in the backlog of each of the job's queues, and returns the number of queues. ranks is the
 * engine's status of each rank. */
size_t reads_backlogs(struct reads *reads, uint32_t job, const struct engine_queue_status *ranks,
                      struct governor_backlog *out);
/* reads_status fills in the queue's pending and running reads, and leaves the rest of out as it is. */
void reads_status(const struct reads *reads, uint32_t queue, struct status_queue *out);

#endif
