/* live.h: the governor in the daemon. It observes the engine's events and actions, and assigns work to threads.
 *
 * The engine's thread owns it and makes all calls. It watches events, actions and the workers' results. Every few
 * hundred milliseconds it decides by what it has measured. The decision also says which read goes to the pool next
 * (reads.h). */
#ifndef LARDER_SERVER_GOVERNOR_LIVE_H
#define LARDER_SERVER_GOVERNOR_LIVE_H

#include "server/control/status.h"
#include "server/engine/engine.h"
#include "server/governor/reads.h"
#include "server/workers/worker.h"

struct governor_live;

/* governor_live_create makes a governor for `workers` threads that prepare, and sources that may have `reads` reads at
 * once each. The caller destroys it. LARDER_EINVAL, as governor_create. */
int governor_live_create(uint32_t workers, uint32_t reads, struct governor_live **out, struct error *err);
/* governor_live_destroy drops the reads that still wait, and keeps the rates. Accepts NULL. */
void governor_live_destroy(struct governor_live *live);
/* governor_live_attach names the threads to move. workers is borrowed and outlives every call below. */
void governor_live_attach(struct governor_live *live, struct workers *workers);

/* governor_live_keep names the file that keeps preparing rates between runs, and reads it. It is written when the
 * governor is destroyed. */
void governor_live_keep(struct governor_live *live, const char *path);
/* governor_live_pipeline says what a number means from now on: the fingerprint of a pipeline's normal form. The
 * engine's event PIPELINE_GONE ends that. */
void governor_live_pipeline(struct governor_live *live, uint32_t pipeline, uint64_t fingerprint);

/* governor_live_job_begin says that a job was added. The engine's action JOB_ENDED tells the job's end. */
void governor_live_job_begin(struct governor_live *live, const struct reads_job *desc);

/* governor_live_queue returns the name of a rank's queue, which tasks carry and results return. If the job ends
 * meanwhile, the result belongs to nobody, even if another queue has the place by then. ENGINE_RANK_NONE: the job's
 * queue with least to load. */
uint64_t governor_live_queue(const struct governor_live *live, uint32_t job, uint32_t rank);
/* governor_live_load takes a read over. task->queue is the name of its queue. */
void governor_live_load(struct governor_live *live, const struct worker_load *task);

/* The functions of an observer (driver/observer.h); live is a struct governor_live. Events and results come before the
 * engine gets them, actions before they are carried out. */
void governor_live_on_event(void *live, const struct engine_event *event);
void governor_live_on_action(void *live, const struct engine_action *action);
void governor_live_on_read(void *live, const struct worker_read *read);
void governor_live_on_prepared(void *live, const struct worker_cost *cost);

/* governor_live_wait_ms returns the milliseconds until the next decision. -1: there is no job to decide for. */
int64_t governor_live_wait_ms(const struct governor_live *live, uint64_t now_ns);
/* governor_live_tick makes a decision if it is time for one. It returns whether it did. */
bool governor_live_tick(struct governor_live *live, const struct engine *engine, uint64_t now_ns);
/* governor_live_paces fills up to max PACE events for the engine and returns their number. *cursor is 0 to begin with;
 * each call goes on where the last one stopped. */
size_t governor_live_paces(const struct governor_live *live, uint32_t *cursor, struct engine_event *out, size_t max);

/* governor_live_status fills in the governor's decisions. For each of status->jobs it fills in the loaders, the
 * look-ahead in batches that would cover the latency of each of its queues (0: not known), and governed[0 … n_queues -
 * 1]. */
void governor_live_status(const struct governor_live *live, struct daemon_status *status);

#endif
