/* plan.h: picks: what is drawn, redirected, placed, and given back. */
#ifndef LARDER_SERVER_ENGINE_PLAN_H
#define LARDER_SERVER_ENGINE_PLAN_H

#include "server/engine/prepared.h"
#include "server/engine/engine_priv.h"

/* plan.c */
/* Gives the entry an instance; false when a new one is needed and there is no room for it now. */
bool plan_place(struct engine *engine, uint32_t entry, bool sure);
void plan_round(struct engine *engine);

/* plan_give_back.c */
void plan_loosen(struct engine *engine, enum entry_state state); /* all others in this state give up what they have */
void plan_drop_all(struct engine *engine, struct job_queue *queue);
void plan_unplace(struct engine *engine, uint32_t entry);  /* gives up the one it has, ready or waited for */
void plan_shorten(struct engine *engine, uint32_t job, struct job_queue *queue, uint64_t slots); /* to at most */
void plan_put_back(struct engine *engine, uint32_t job, struct job_queue *queue); /* its client has gone */
void plan_divide_arena(struct engine *engine);           /* jobs came or went, or need more or less */

/* plan_redirect.c */
void plan_redirect(struct engine *engine, const struct pick *pick, sample_id target[JOBS_MAX]);

/* plan_zones.c */
void plan_zone_enter(struct engine *engine, struct job *job); /* makes its slots, if that can be done now: job->zoned */
void plan_zone_leave(struct engine *engine, const struct job *job);

#endif
