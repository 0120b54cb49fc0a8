/* live.h: the governor in the daemon: it gets what the engine's thread sees, and moves the pool's threads.
 *
 * Owned by the engine's thread. It watches events, actions and the workers' results; every few hundred milliseconds it
 * decides by what it measured, and which read goes to the pool next is decided by that (reads.h). */
#ifndef LARDER_SERVER_GOVERNOR_LIVE_H
#define LARDER_SERVER_GOVERNOR_LIVE_H

#include "server/control/status.h"
#include "server/engine/engine.h"
#include "server/governor/reads.h"
#include "server/workers/worker.h"

struct governor_live;

/* workers: threads that prepare or load; loaders: further threads that load only. */
int governor_live_create(uint32_t workers, uint32_t loaders, struct governor_live **out, struct error *err);
/* governor_live_destroy drops the reads that still wait. Accepts NULL. */
void governor_live_destroy(struct governor_live *live);
/* governor_live_attach names the threads to move; they outlive every call below. */
void governor_live_attach(struct governor_live *live, struct workers *workers);

/* governor_live_job_begin: a job was added; its end is an action. */
void governor_live_job_begin(struct governor_live *live, const struct reads_job *desc);

/* governor_live_queue names a rank's queue for tasks; results give the name back, also when the job has ended
 * meanwhile: they are nobody's then, whoever has the queue's place. ENGINE_RANK_NONE: the job's queue that has least
 * to load. */
uint32_t governor_live_queue(const struct governor_live *live, uint32_t job, uint32_t rank);
/* governor_live_load takes a read over; task->queue says whose it is. */
void governor_live_load(struct governor_live *live, const struct worker_load *task);

/* What it watches; live: a struct governor_live. An event and a result are told before the engine gets them, an action
 * before it is carried out. */
void governor_live_on_event(void *live, const struct engine_event *event);
void governor_live_on_action(void *live, const struct engine_action *action);
void governor_live_on_read(void *live, const struct worker_read *read);
void governor_live_on_prepared(void *live, const struct worker_cost *cost);

/* governor_live_wait_ms: until the next decision; -1: none is to be made. */
int64_t governor_live_wait_ms(const struct governor_live *live, uint64_t now_ns);
/* governor_live_tick decides, when it is time for it; true when it did. */
bool governor_live_tick(struct governor_live *live, const struct engine *engine, uint64_t now_ns);
/* governor_live_paces gives up to max PACE events for the engine, of the ranks from *cursor (0 to begin with) on. */
size_t governor_live_paces(const struct governor_live *live, uint32_t *cursor, struct engine_event *out, size_t max);

/* governor_live_status fills what the governor decided, and for each of status->jobs its loaders, the look-ahead in
 * batches that would cover the latency of each of its queues (0: not known), and governed[0 … n_queues - 1]. */
void governor_live_status(const struct governor_live *live, struct daemon_status *status);

#endif
