/* jobs.h: jobs come and go, their epochs, batches and results. */
#ifndef LARDER_SERVER_ENGINE_JOBS_H
#define LARDER_SERVER_ENGINE_JOBS_H

#include "server/engine/engine_priv.h"

#define ENGINE_SUBSTITUTES_MAX 16 /* bad samples in a row before policy `replace` gives up */

/* jobs_come.c */
void job_free(struct job *job); /* its own memory */
void jobs_on_add(struct engine *engine, const struct engine_job_desc *desc);
void jobs_on_weight(struct engine *engine, uint32_t job, double weight);
void jobs_on_cancel(struct engine *engine, uint32_t job);
void jobs_end(struct engine *engine, uint32_t job);
void jobs_on_gone(struct engine *engine, uint32_t job, uint32_t rank);

/* jobs_deliver.c */
void jobs_deliver_batch(struct engine *engine, uint32_t place, struct job_queue *queue, uint32_t count);
void jobs_deliver(struct engine *engine);

/* jobs_epochs.c */
struct engine_action *jobs_act_error(struct engine *engine, uint32_t place, uint32_t rank); /* the text is the caller's */
void jobs_queue_done(struct engine *engine, struct job *job, struct job_queue *queue);
void jobs_turn_epoch(struct engine *engine, uint32_t place);
void jobs_fail(struct engine *engine, uint32_t job, sample_id id, int code, const char *text);
void jobs_on_release(struct engine *engine, const struct engine_event *event);

/* jobs_loaded.c */
void jobs_on_loaded(struct engine *engine, const struct engine_event *event);

/* jobs_next.c */
void jobs_on_next(struct engine *engine, const struct engine_event *event);

/* jobs_results.c */
void jobs_entry_bad(struct engine *engine, uint32_t entry);
void jobs_entry_changed(struct engine *engine, uint32_t entry); /* its file is not the one that was indexed */
void jobs_task_failed(struct engine *engine, uint32_t index, int reason);
void jobs_on_prepared(struct engine *engine, const struct engine_event *event);

/* jobs_watch.c */
void jobs_watch_ranks(struct engine *engine); /* fails the jobs that have waited too long for a rank */
void jobs_watch_room(struct engine *engine); /* jobs that wait for room: they begin, or fail */
void jobs_watch_sources(struct engine *engine); /* fails the jobs that have waited too long for theirs */

#endif
