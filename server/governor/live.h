/* live.h: the governor in the daemon: it gets what the engine's thread sees, and moves the pool's threads.
 *
 * Owned by the engine's thread. Every rank of every job is a queue of the governor's, with measurements and a line of
 * reads of its own; where there are more than GOVERNOR_QUEUES_MAX of them, ranks of one job share some. Reads pass
 * through here: no more are with the pool at once than there are loaders, and workers that have nothing to prepare, so
 * that what waits is in order of need, and one job's slow storage cannot occupy all of them. */
#ifndef LARDER_SERVER_GOVERNOR_LIVE_H
#define LARDER_SERVER_GOVERNOR_LIVE_H

#include "server/engine/engine.h"
#include "server/governor/governor.h"
#include "server/control/status.h"
#include "server/workers/worker.h"

struct governor_live;

/* workers: threads that prepare or load; loaders: further threads that load only. */
int governor_live_create(uint32_t workers, uint32_t loaders, struct governor_live **out, struct error *err);
/* governor_live_destroy drops the reads that still wait. Accepts NULL. */
void governor_live_destroy(struct governor_live *live);
/* governor_live_attach names the threads to move; they outlive every call below. */
void governor_live_attach(struct governor_live *live, struct workers *workers);

struct governor_live_job {
    uint32_t job, world_size, batch_size;
    uint64_t device; /* that its dataset lies on */
    double weight;
};

void governor_live_job_begin(struct governor_live *live, const struct governor_live_job *desc);
void governor_live_job_weight(struct governor_live *live, uint32_t job, double weight); /* another from now on */
void governor_live_job_end(struct governor_live *live, uint32_t job);

/* governor_live_queue names a rank's queue for tasks; results give the name back, also when the job has ended
 * meanwhile: they are nobody's then, whoever has the queue's place. ENGINE_RANK_NONE: the job's queue that has least
 * to load. */
uint32_t governor_live_queue(const struct governor_live *live, uint32_t job, uint32_t rank);

/* governor_live_load takes a read over; task->queue says whose it is. */
void governor_live_load(struct governor_live *live, const struct worker_load *task);
/* governor_live_read: a read that was with the pool has ended. */
void governor_live_read(struct governor_live *live, uint32_t queue, uint32_t samples, uint64_t took_ns);
/* governor_live_prepare, governor_live_prepared: a preparation goes to the pool, and has ended; one that cost no time
 * was not begun. */
void governor_live_prepare(struct governor_live *live);
void governor_live_prepared(struct governor_live *live, const struct worker_cost *cost);
/* governor_live_pipeline_gone: the number, which no job uses, will mean another pipeline. */
void governor_live_pipeline_gone(struct governor_live *live, uint32_t pipeline);
/* governor_live_attached: another client is the rank now. */
void governor_live_attached(struct governor_live *live, uint32_t job, uint32_t rank);
/* governor_live_delivered: a batch goes to the rank's client. */
void governor_live_delivered(struct governor_live *live, uint32_t job, uint32_t rank, uint64_t now_ns);
/* governor_live_acted: the rank's client asked for so many batches; 0: it gave one back. */
void governor_live_acted(struct governor_live *live, uint32_t job, uint32_t rank, uint32_t batches, uint64_t now_ns);

/* governor_live_wait_ms: until the next decision; -1: none is to be made. */
int64_t governor_live_wait_ms(const struct governor_live *live, uint64_t now_ns);
/* governor_live_tick decides, when it is time for it; true when it did. */
bool governor_live_tick(struct governor_live *live, const struct engine *engine, uint64_t now_ns);
/* governor_live_paces gives up to max PACE events for the engine, of the ranks from *cursor (0 to begin with) on. */
size_t governor_live_paces(const struct governor_live *live, uint32_t *cursor, struct engine_event *out, size_t max);

void governor_live_status(const struct governor_live *live, struct status_governor *out);
/* governor_live_job_status: a job's loaders, and the look-ahead that would cover the latency of each of its queues in
 * batches (0: not known). */
void governor_live_job_status(const struct governor_live *live, uint32_t job, uint32_t *loaders, uint32_t *ahead);
void governor_live_queue_status(const struct governor_live *live, uint32_t job, uint32_t rank,
                                struct status_queue *out);

#endif
