/* plan.h: picks: what is drawn, redirected, placed, and given back; zones are laid out here, because entries make way
 * for them.
 *
 * Invariant: a sample of a running job's view is in R_j, in a reserve, an entry, delivered, lost or left behind, and
 * but for repeats in one of them only; check_job adds them up. An entry has an instance, pinned and marked as had,
 * exactly while it is WAITING or READY. A queue's sure entries always find room, if need be that of loose ones.
 * Owner: the plan_*.c own `plan`. They move samples between the sampler, reserves and entries, and own `planned`,
 * `drawn`, `repeats` and `abandoned` with jobs. */
#ifndef LARDER_SERVER_ENGINE_PLAN_H
#define LARDER_SERVER_ENGINE_PLAN_H

#include "server/engine/residents.h"
#include "server/engine/tasks.h"

/* Owners: the plan_*.c. */
struct plan {
    struct engine_env *env;
    struct outbox *outbox;
    struct jobs *jobs;
    struct chunks *chunks;
    struct prepared *prepared;
    struct encoded_store *encoded;
    struct residents *residents;
    struct quota *quota;
    struct queues *queues;
    struct tasks *tasks;
    /* Queues have got room since this step's planning: a sample was bad, or an epoch began. */
    bool again;
    uint64_t zone_again_ns;      /* No zone is laid out before then. */
    uint32_t zone_turn;          /* The job that was the last to have its zone tried. */
    struct pick picks[JOBS_MAX]; /* Scratch: the picks of one round. */
};

/* plan.c */
void plan_round(struct plan *plan);

/* plan_give_back.c */
void plan_loosen(struct plan *plan, enum entry_state state); /* all others in this state give up what they have */
void plan_drop_entries(struct plan *plan, struct job_queue *queue);
void plan_unplace(struct plan *plan, uint32_t entry); /* gives up the one it has, ready or waited for */
void plan_put_back(struct plan *plan, uint32_t job, struct job_queue *queue); /* its client has gone */
void plan_divide_arena(struct plan *plan); /* jobs came or went, or need more or less */

/* plan_redirect.c */
void plan_redirect(struct plan *plan, const struct pick *pick, sample_id target[JOBS_MAX]);

/* plan_zones.c */
void plan_zone_enter(struct plan *plan, struct job *job); /* makes its slots, if that can be done now: job->zoned */
void plan_zone_leave(struct plan *plan, const struct job *job);

#endif
