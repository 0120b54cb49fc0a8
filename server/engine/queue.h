/* queue.h: a rank's queue: entries, batches, leases, and exchange between ranks. */
#ifndef LARDER_SERVER_ENGINE_QUEUE_H
#define LARDER_SERVER_ENGINE_QUEUE_H

#include "server/engine/engine_priv.h"

enum {
    RANK_LOOK = 256 /* tasks of a list that are looked at */
};
#define STRAGGLE_NS 10e6 /* the governor's τ */
#define PACE_FIRST_NS 100e6 /* a batch, before anything was measured */

static inline uint64_t reserve_count(const struct reserve *reserve)
{
    return reserve->end - reserve->at;
}

/* queue.c */
uint32_t entry_new(struct queues *queues);
void entry_drop(struct queues *queues, uint32_t entry);
void queue_append(struct engine *engine, uint32_t entry);
void queue_unplaced(struct engine *engine, uint32_t entry); /* it has no instance: it waits for room */
void queue_waiter_remove(struct engine *engine, uint32_t index);
void queue_remove(struct engine *engine, uint32_t entry); /* what it holds of an instance stays with the caller */
void queue_lease_end(struct engine *engine, struct job_queue *queue, uint32_t at);
void reserve_add(struct reserve *reserve, sample_id id);
void queue_reserve_put_first(struct reserve *reserve, struct reserve *back);
uint32_t queue_oldest_lease(const struct job_queue *queue, uint64_t least);
void queue_lease_put_back(struct engine *engine, uint32_t job, struct job_queue *queue, const struct lease *lease, struct reserve *back);
/* Of the samples planned behind one so many may overtake it. */
uint64_t queue_overtakers_max(const struct job *job);
uint64_t job_rank_share(const struct job *job); /* samples that the epoch has for each rank */
bool queue_plan_left(const struct engine *engine, const struct job *job, const struct job_queue *queue); /* will more be planned? */
/* The queue is sure of room for so many of its entries, the first. */
uint64_t queue_sure_slots(const struct job *job, const struct job_queue *queue);
uint64_t queue_slots_of(const struct job *job);
uint32_t queue_batches_held(const struct job *job);
void queue_rank_begun(struct engine *engine, const struct task *task); /* it runs */
void queue_rank_made(struct engine *engine, struct entry *entry); /* what it waits for is there, or has failed */
/* Nanoseconds until the rank's client has used up `begun` samples; below 0 when it has asked for more than these. */
double queue_dry_ns(const struct job *job, const struct job_queue *queue, uint64_t begun);

/* queue_batch.c */
void queue_add_credits(uint32_t *credits, uint32_t more);
bool queue_next_batch_ready(const struct engine *engine, const struct job *job, const struct job_queue *queue, uint32_t *count);
bool queue_batch_ready(const struct engine *engine, const struct job *job, const struct job_queue *queue); /* the next */
bool queue_may_have_batch(const struct job *job, const struct job_queue *queue);
uint32_t queue_ready_batches(const struct engine *engine, const struct job *job, const struct job_queue *queue);

/* queue_exchange.c */
void queue_waits_for(struct engine *engine, uint32_t entry); /* it is, from now on */
/* The entry's instance is ready. Gives an entry that waits in another rank's queue from now on; ENGINE_NONE: none does. */
uint32_t queue_ready(struct engine *engine, uint32_t entry);

#endif
