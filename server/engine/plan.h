/* plan.h: picks are drawn, redirected, placed and given back. Zones are laid out here too, because entries make way for
 * them.
 *
 * Invariant: a sample of a running job's view is in R_j, in a reserve, an entry, delivered, lost or left behind, or in
 * the base that the epoch was begun from. Except for repeats it is in one of these only; queues_check adds them up. An
 * entry has an instance, pinned and marked as had, exactly while it is WAITING or READY. A queue's sure entries always
 * find room, if need be that of loose ones.
 * Owner: the plan_*.c own `plan`. They move samples between the sampler, reserves and entries. With jobs, they own
 * `planned`, `drawn`, `samples`, `repeats` and `abandoned`. */
#ifndef LARDER_SERVER_ENGINE_PLAN_H
#define LARDER_SERVER_ENGINE_PLAN_H

#include "server/engine/residents.h"
#include "server/engine/tasks.h"

/* The modules that planning works on, and its own state between steps. Owners: the plan_*.c. */
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
    /* Queues have got room since this step's planning, because a sample was bad or an epoch began. */
    bool again;
    uint32_t dealt;              /* samples that were drawn for jobs in this step */
    bool goes_on;                /* Queues have room yet, and get more in another step. */
    uint64_t zone_again_ns;      /* No job gets slots of a zone before this time. */
    uint32_t zone_turn;          /* the job that was tried last */
    bool zone_goes_on;           /* It has got some slots, and goes on at that time, before all others. */
    struct pick picks[JOBS_MAX]; /* scratch: the picks of one round */
};

/* plan.c */
/* plan_step begins a step. plan_round places entries that have no instance, then draws rounds of picks until no queue
 * has room, nothing is left to draw, or the step has drawn enough; then plan.goes_on. */
void plan_step(struct plan *plan);
void plan_round(struct plan *plan);
/* plan_place places the queue's UNPLACED entries in planned order. When there is no room for one, those behind it wait
 * too. */
void plan_place(struct plan *plan, const struct job *job, struct job_queue *queue);
/* plan_any_sample returns a random sample of the view, or of this epoch's share of it. */
sample_id plan_any_sample(struct plan *plan, const struct job *job);
/* plan_allot gives the sample at this position of what the epoch deals in a fixed order to the reserve of its rank. If
 * the rank has left the epoch, the sample is left behind. */
void plan_allot(struct job *job, uint64_t position, sample_id id);

/* plan_copies.c: where copies are dealt together */
/* plan_next_copy returns the rank that gets the next copy, and notes it: the one with least, of those that have not had
 * one; of all when each has. When the shares have no more room, it is `otherwise`, which may be NULL. */
struct job_queue *plan_next_copy(const struct job *job, struct job_queue *otherwise, bool had[ENGINE_RANKS_MAX]);
/* plan_deal_later deals copies to the ranks' reserves. It returns for how many the shares have no room. */
uint32_t plan_deal_later(struct plan *plan, struct job *job, struct allotted sample, uint32_t copies);
/* plan_set_whole sets how many copies of a sample that is elsewhere have been dealt, if all of them have: 0 as soon as
 * one has come. */
void plan_set_whole(struct job *job, sample_id id, uint32_t copies);

/* plan_elsewhere.c */
/* plan_elsewhere_begin is called just after the epoch was begun whole. It takes the samples that are elsewhere out of
 * R_j, but for those that were had before the job was made. Of a multiset `counts` has how often each sample comes to
 * the ranks here, else it is NULL; its contents are lost. *changed tells whether the samples drawn here differ from
 * before. LARDER_ENOMEM. */
int plan_elsewhere_begin(struct plan *plan, struct job *job, uint32_t *counts, bool *changed);
/* plan_goes_elsewhere draws whether the job's next sample is one that is elsewhere. plan_draw_elsewhere draws that. */
bool plan_goes_elsewhere(struct plan *plan, const struct job *job);
sample_id plan_draw_elsewhere(struct plan *plan, uint32_t job);
/* plan_on_arrived takes the event ARRIVED, plan_on_back the event BACK; LARDER_ENOMEM: nothing has come back. */
void plan_on_arrived(struct plan *plan, const struct engine_event *event);
int plan_on_back(struct plan *plan, const struct engine_event *event);
/* plan_on_away takes the event AWAY. It returns whether other samples than before are drawn here. Without memory it
 * does nothing. */
bool plan_on_away(struct plan *plan, const struct engine_event *event);

/* plan_parted.c */
/* plan_deal_parted is called when an epoch goes on where others left it, and what they had is out of both samplers. Of
 * each sample of which not all copies have come, `had` lists those that came, as far as it is known which rank had
 * them. It deals the other copies to the reserves of ranks that had none, or least: before all else, so that shares
 * have room for the rest. The list is sorted. */
void plan_deal_parted(struct plan *plan, struct job *job, struct engine_copy *had, size_t n_had);

/* plan_restore.c */
/* plan_restore is called just after the epoch was begun whole, before it declares wants. It moves the epoch on to where
 * job->resume says that it was. Ranks that told of an earlier epoch have received nothing of this one. On LARDER_ENOMEM
 * the job cannot go on. */
int plan_restore(struct plan *plan, struct job *job);

/* plan_give_back.c */
/* plan_loosen takes the instances of all loose entries in this state, except those whose task runs. The entries become
 * UNPLACED. */
void plan_loosen(struct plan *plan, enum entry_state state);
/* plan_loosening_helps tells whether a free range of `bytes` beside the zones could be made if all loose entries,
 * except those whose task runs, gave their instances up. */
bool plan_loosening_helps(const struct plan *plan, uint64_t bytes);
/* plan_drop_entries gives back what the queue's entries hold, and frees them. The caller decides what becomes of their
 * samples. */
void plan_drop_entries(struct plan *plan, struct job_queue *queue);
/* plan_unplace takes the entry's instance, whether it is READY or the entry waits for it. The entry becomes
 * UNPLACED. */
void plan_unplace(struct plan *plan, uint32_t entry);
/* plan_put_back puts the samples of this epoch that the rank's client did not release, or that are planned for it, back
 * into the rank's reserve. All its leases end. It is called when the client has gone. */
void plan_put_back(struct plan *plan, uint32_t job, struct job_queue *queue);
/* plan_divide_arena divides the arena among the jobs. It is called when jobs came or went, or need more or less. */
void plan_divide_arena(struct plan *plan);

/* plan_redirect.c */
/* plan_redirect sets target[j], for each job j of the pick, to the sample that the job gets. R_j follows. The caller
 * has the wants follow, once for each job. */
void plan_redirect(struct plan *plan, const struct pick *pick, sample_id target[JOBS_MAX]);

/* plan_zones.c */
/* plan_zone_enter gives the zone of the job's slot size the slots that the job keeps, if that can be done now; then
 * job->zoned is set. plan_zone_leave takes them away. */
void plan_zone_enter(struct plan *plan, struct job *job);
void plan_zone_leave(struct plan *plan, const struct job *job);
/* plan_sized_enter finds room for the first entries of a sized job's queue, and places them there at once. All zones
 * are laid out anew for that. It returns whether it placed one; none when what nothing moves leaves no room. */
bool plan_sized_enter(struct plan *plan, const struct job *job, struct job_queue *queue);

#endif
