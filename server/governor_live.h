/* governor_live.h: the governor in the daemon: it gets what the engine's thread sees, and moves the pool's threads.
 *
 * Owned by the engine's thread. Reads pass through here: each job has a line of them, and no more are with the pool at
 * once than there are loaders, so that one job's slow storage cannot occupy all of them. */
#ifndef LARDER_SERVER_GOVERNOR_LIVE_H
#define LARDER_SERVER_GOVERNOR_LIVE_H

#include "server/engine.h"
#include "server/governor.h"
#include "server/status.h"
#include "server/worker.h"

struct governor_live;

/* workers: threads that prepare or load; loaders: further threads that load only. */
int governor_live_create(uint32_t workers, uint32_t loaders, struct governor_live **out, struct error *err);
/* governor_live_destroy drops the reads that still wait. Accepts NULL. */
void governor_live_destroy(struct governor_live *live);
/* governor_live_attach names the threads to move; they outlive every call below. */
void governor_live_attach(struct governor_live *live, struct workers *workers);

void governor_live_job_begin(struct governor_live *live, uint32_t job, double weight);
void governor_live_job_weight(struct governor_live *live, uint32_t job, double weight); /* another from now on */
void governor_live_job_end(struct governor_live *live, uint32_t job);

/* governor_live_load takes a read over; task->job says whose it is. */
void governor_live_load(struct governor_live *live, const struct worker_load *task);
/* governor_live_read: a read that was with the pool has ended. */
void governor_live_read(struct governor_live *live, uint32_t job, uint32_t samples, uint64_t took_ns);
void governor_live_prepared(struct governor_live *live, const struct worker_cost *cost);

/* governor_live_wait_ms: until the next decision; -1: none is to be made. */
int64_t governor_live_wait_ms(const struct governor_live *live, uint64_t now_ns);
/* governor_live_tick decides, when it is time for it. */
void governor_live_tick(struct governor_live *live, const struct engine *engine, uint64_t now_ns);
void governor_live_status(const struct governor_live *live, struct status_governor *out);
/* governor_live_job_status: a job's loaders, and the look-ahead that would cover its latency in batches (0: not known).
 */
void governor_live_job_status(const struct governor_live *live, uint32_t job, uint32_t *loaders, uint32_t *ahead);

#endif
