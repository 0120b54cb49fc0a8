/* queue.h: a rank's queue: entries in planned order, batches, leases, the reserve, and the exchange between ranks.
 *
 * Invariant: held_slots of a queue is its queued and its leased samples, at most its quota. The place_in_line of its
 * entries ascends. No entry before first_waiting is WAITING. `ready`, `unplaced` and `making` count its entries in
 * these states.
 * Owner: the queue_*.c own entries, line, leases, reserve and held_slots. An entry that leaves its queue leaves what it
 * holds of its instance to the caller: queue_remove neither unpins the instance nor clears `had`. */
#ifndef LARDER_SERVER_ENGINE_QUEUE_H
#define LARDER_SERVER_ENGINE_QUEUE_H

#include "server/engine/prepared.h"
#include "server/engine/quota.h"

enum entry_state { ENTRY_FREE, ENTRY_UNPLACED, ENTRY_WAITING, ENTRY_READY };

/* A sample that has left R_j for one queue. */
struct allotted {
    sample_id id;
    /* the sample of the view that this one counts as: itself, or the bad sample that it replaces; SAMPLE_NONE: a
     * repeat */
    sample_id turn;
    uint32_t number; /* its index in the rank's part of a fixed order; 0 for repeats and dependent jobs */
    bool elsewhere;  /* another node is to give it, and has not yet */
};

/* One sample that is planned for a rank. */
struct entry {
    enum entry_state state;
    uint32_t job, rank;
    /* Its neighbours in its queue. For an unused place, `next` is the next unused one. */
    struct link in_line;
    uint32_t next_waiter; /* the next entry that waits for the same instance; valid while WAITING */
    uint32_t instance;    /* the instance that it waits for or has ready; ENGINE_NONE while UNPLACED */
    /* Under policy `replace`: bad samples in a row since it was planned or last READY. */
    uint32_t bad_in_row;
    sample_id id, turn; /* as in struct allotted, as are `number` and `elsewhere` */
    uint32_t number;
    bool elsewhere;
    uint64_t place_in_line; /* its sequence number among all entries that its queue ever had */
    /* The place_in_line that it would have if it had always been in this queue. Overtaking counts from here. */
    int64_t due_in_line;
    /* When it was planned, or last planned again. Latencies count from this time. */
    uint64_t planned_ns;
    enum engine_level level; /* the level that its instance came from; valid unless UNPLACED */
    bool substitute;         /* Its sample was drawn for one that was bad. */
    bool making;             /* The PREPARE of its instance is out. */
    bool reserved;           /* It comes from the queue's reserve: no other rank gets it. */
};

/* entry_is_repeat tells whether the entry is a repeat, which fills up a rank's share. */
static inline bool entry_is_repeat(const struct entry *entry)
{
    return entry->turn == SAMPLE_NONE;
}

/* One sample in a client's hands. Its instance is pinned by the lease. */
struct leased {
    uint32_t instance;
    sample_id turn; /* as in struct allotted, as is `number` */
    uint32_t number;
};

/* One batch in a client's hands. */
struct lease {
    uint64_t batch; /* the batch's number among all batches; RELEASE names it */
    uint32_t epoch, count;
    uint64_t since_ns;      /* when the client got it */
    struct leased *samples; /* `count` of them. The lease owns the array. */
};

/* Samples that have left R_j and belong to a queue that has no room for them yet: its part of a fixed order, look-ahead
 * that was given back, and samples that a rank had not released when it went away. They are never more than the rank's
 * share. */
struct reserve {
    /* Those at `at` … `end` - 1 are in the reserve. The reserve owns the array of `cap` places. */
    struct allotted *samples;
    uint64_t at, end;
    size_t cap;
};

/* Has the rank a client: not yet, one, or none any more? */
enum presence { RANK_TO_COME, RANK_THERE, RANK_AWAY };

/* A rank's client. */
struct rank_client {
    enum presence presence;
    uint64_t id; /* the caller's name of the connection; valid while presence is RANK_THERE */
    bool died;   /* The last client has gone without a word. */
    bool missed; /* The rank is not there, and has been needed since missed_since_ns. */
    uint64_t missed_since_ns;
};

/* How far a rank is in its job's epoch. */
struct rank_epoch {
    bool done; /* LAST was delivered, or the rank asked for a later epoch. */
    /* This client got the LAST of told_epoch. Its earlier requests for that epoch or one before it are void. */
    bool told;
    uint32_t told_epoch;
    /* The rank came back after it was done. When it asks for the epoch again, an empty LAST is the answer. */
    bool returned;
    /* The rank came back from behind_epoch, which is earlier than the epoch in which the job was begun. When it asks
     * for behind_epoch, the answer is an empty LAST with behind_index. */
    bool behind;
    uint32_t behind_epoch, behind_index;
    uint32_t batch_index, credits;
    uint64_t planned; /* samples of this epoch that are queued or delivered */
    uint64_t delivered;
    uint64_t lost;         /* bad samples of this epoch that were left out */
    uint64_t repeats;      /* repeats that were planned to fill up the share */
    uint32_t repeats_lost; /* bad repeats since the last good one; see queue_repeat_lost */
    uint32_t first_batch;  /* batches of the epoch that the rank received before the epoch was begun here */
    /* In a fixed order: positions of its part that were delivered or bad at the last delivery. */
    uint32_t through;
    /* In a fixed order: the first position that it left behind when it was done; UINT32_MAX: none. */
    uint32_t left_from;
};

/* A later epoch that the rank has asked for. It begins when every rank is done with the present one. */
struct rank_next {
    bool asked;
    uint32_t epoch, credits;
};

/* The rank's entries in planned order. */
struct rank_line {
    struct line entries;
    uint32_t queued;        /* all entries */
    uint32_t ready;         /* entries that are READY */
    uint32_t making;        /* entries that are being prepared */
    uint32_t unplaced;      /* entries that are UNPLACED */
    uint32_t first_waiting; /* No entry before it is WAITING; ENGINE_NONE when no entry is. */
    uint64_t numbered;      /* number of entries that the queue ever had: the place_in_line of the next one */
    /* The value of prepared.room_changes when no unplaced entry found room; 0 when none was tried since one was
     * added. */
    uint64_t no_room_since;
};

/* How long the rank's client has stood still, by enum engine_stall. */
struct rank_stall {
    bool now; /* It stands still, because of `cause`; the time from counted_ns on is not counted yet. */
    enum engine_stall cause;
    uint64_t since_ns, counted_ns;
    uint64_t ns[ENGINE_STALLS];
};

/* What the rank received, and how long its client waited. */
struct rank_tallies {
    uint64_t samples_delivered, batches_delivered;
    uint64_t wait_ns, waiting_since_ns;
    bool waiting;
    struct rank_stall stall;
};

/* A rank's queue. */
struct job_queue {
    uint32_t rank;
    struct rank_client client;
    struct rank_epoch epoch;
    struct rank_next next;
    struct rank_line line;
    struct reserve reserve;
    /* The batches that the client holds, in no order: n_leases of quota.held_max places. The queue owns the array. */
    struct lease *leases;
    uint32_t n_leases;
    uint64_t held_slots; /* queued and leased samples */
    /* When its client began to wait with no work under way for its batch; 0 when this is not so. */
    uint64_t starves_since_ns;
    uint32_t listed[TASK_KINDS]; /* tasks for the rank in the job's lists, by kind */
    uint64_t pace_ns;            /* time that its client trains on a batch; 0: not known */
    struct rank_tallies tallies;
};

/* The state of all queues. Owners: the queue_*.c. */
struct queues {
    struct engine_env *env;
    struct jobs *jobs;
    struct prepared *prepared;
    struct quota *quota;
    struct entry *entries;
    /* the numbered places of entries */
    struct slab slab;
    uint64_t next_batch; /* the number of the next batch that goes out, from 1 on */
};

/* queue_waited_ns returns how long the rank's client has waited for batches in all, up to now_ns. */
static inline uint64_t queue_waited_ns(const struct job_queue *queue, uint64_t now_ns)
{
    const struct rank_tallies *tallies = &queue->tallies;
    return tallies->wait_ns + (tallies->waiting ? now_ns - tallies->waiting_since_ns : 0);
}

/* queue_of returns the queue that the entry is in. */
static inline struct job_queue *queue_of(const struct queues *queues, const struct entry *entry)
{
    return &job_at(queues->jobs, entry->job)->queues[entry->rank];
}

/* queue_reserve_count returns the number of samples in the reserve. */
static inline uint64_t queue_reserve_count(const struct reserve *reserve)
{
    return reserve->end - reserve->at;
}

/* Goes over the entries that wait for an instance. */
#define WAITERS_OF(queues, instance, index)                                                      \
    for (uint32_t index = (queues)->prepared->instances[instance].waiters; index != ENGINE_NONE; \
         index = (queues)->entries[index].next_waiter)

/* queue.c */
/* queue_begin makes the empty queue of a rank whose client may hold held_max batches. Its reserve has room for
 * `reserved` samples without growing. It fails with LARDER_ENOMEM. queue_end frees what a queue holds, whether it was
 * begun or is all zeros. */
int queue_begin(struct job_queue *queue, uint32_t rank, uint32_t held_max, uint64_t reserved);
void queue_end(struct job_queue *queue);
/* entry_new returns the number of an unused place, all zeros; entry_drop makes the place unused again. See slab.h. */
uint32_t entry_new(struct queues *queues);
void entry_drop(struct queues *queues, uint32_t entry);
/* queue_append puts an entry at the end of the queue of its job and rank. */
void queue_append(struct queues *queues, uint32_t entry);
/* queue_unplaced makes the entry UNPLACED: it has no instance any more, and waits for room. */
void queue_unplaced(struct queues *queues, uint32_t entry);
/* queue_placed gives the entry the instance and makes it WAITING. */
void queue_placed(struct queues *queues, uint32_t entry, uint32_t instance);
/* queue_waiter_remove takes the entry off the list of those that wait for its instance. */
void queue_waiter_remove(struct queues *queues, uint32_t index);
/* queue_remove takes the entry out of its queue and frees it. Its pin of an instance, and its mark in `had`, pass to
 * the caller. */
void queue_remove(struct queues *queues, uint32_t entry);
/* queue_clear frees all entries of the queue. The caller must have given their pins and marks back. */
void queue_clear(struct queues *queues, struct job_queue *queue);
/* queue_lease_begin makes an empty lease for `count` entries that are READY. queue_lease_take removes one of them from
 * its queue: the lease gets its instance, with the pin. */
struct lease *queue_lease_begin(struct queues *queues, struct job_queue *queue, uint32_t epoch, uint32_t count);
void queue_lease_take(struct queues *queues, struct lease *lease, uint32_t entry);
/* queue_lease_end unpins the instances of the lease at this place, and frees the lease. Another lease may move to the
 * place. */
void queue_lease_end(struct queues *queues, struct job_queue *queue, uint32_t at);
/* queue_reserve_add adds a sample at the end of the reserve. */
void queue_reserve_add(struct reserve *reserve, struct allotted sample);
/* queue_reserve_put_first puts the samples of `back` before those of the reserve, and frees back's array. */
void queue_reserve_put_first(struct reserve *reserve, struct reserve *back);
/* queue_oldest_lease returns the place of the lease with the lowest batch number from `least` on; n_leases when there
 * is none. */
uint32_t queue_oldest_lease(const struct job_queue *queue, uint64_t least);
/* queue_lease_put_back adds the samples of a lease of this epoch to `back`. They count as neither planned, delivered
 * nor received. The lease stays until queue_lease_end. */
void queue_lease_put_back(struct queues *queues, uint32_t job, struct job_queue *queue, const struct lease *lease,
                          struct reserve *back);
/* queue_overtakers_max returns the number of later planned samples that may overtake a sample. */
uint64_t queue_overtakers_max(const struct job *job);
/* queue_through is for a queue that is not done, in a fixed order. It returns the number of positions of its part that
 * were delivered or bad: those dealt to it that are neither entries nor in its reserve. It returns 0 for dependent
 * jobs. */
uint32_t queue_through(const struct queues *queues, const struct job *job, const struct job_queue *queue);
/* queue_share_of returns the number of samples for each rank in an epoch of `samples`. queue_share returns that number
 * for this epoch. */
uint64_t queue_share_of(const struct job *job, uint64_t samples);
uint64_t queue_share(const struct job *job);
/* queue_rank_planned returns the number of samples planned for the rank in this epoch; UINT64_MAX when it has finished
 * it. */
uint64_t queue_rank_planned(const struct job *job, uint32_t rank);
/* queue_lost_many tells whether many repeats were bad since the last good one. Then more are planned one at a time. */
bool queue_lost_many(const struct job_queue *queue);
/* queue_repeat_lost counts a bad repeat, whose entry still exists. It tells whether too many were bad to fill up the
 * rank's share. */
bool queue_repeat_lost(struct job_queue *queue);
/* queue_has_more_to_plan tells whether more will be planned for the queue in this epoch. */
bool queue_has_more_to_plan(const struct queues *queues, const struct job *job, const struct job_queue *queue);
/* queue_sure_slots returns how many of its first entries the queue is sure to have room for. */
uint64_t queue_sure_slots(const struct job *job, const struct job_queue *queue);
/* queue_slots_of returns the slots that the job keeps for good, for all its ranks. */
uint64_t queue_slots_of(const struct job *job);
/* queue_batches_held returns the batches that the job's clients hold; 0 when the job is FREE. */
uint32_t queue_batches_held(const struct job *job);
/* queue_making_begun notes in each entry that waits for the instance that its PREPARE is out. */
void queue_making_begun(struct queues *queues, uint32_t instance);
/* queue_making_ended notes in the entry that the PREPARE it waited for is over. It does nothing when none was out. */
void queue_making_ended(struct queues *queues, struct entry *entry);
/* queue_dry_ns returns the nanoseconds until the rank's client has used up `begun` samples; negative when it has asked
 * for more. */
double queue_dry_ns(const struct job *job, const struct job_queue *queue, uint64_t begun);

/* queue_batch.c */
/* queue_add_credits adds credits, up to ENGINE_PREFETCH_MAX in all. */
void queue_add_credits(uint32_t *credits, uint32_t more);
/* queue_next_batch_ready tells whether the next batch is ready. Then *count is its size: a whole batch, or what is left
 * of the epoch. */
bool queue_next_batch_ready(const struct queues *queues, const struct job *job, const struct job_queue *queue,
                            uint32_t *count);
/* queue_batch_ready tells whether the next batch is ready. */
bool queue_batch_ready(const struct queues *queues, const struct job *job, const struct job_queue *queue);
/* queue_may_have_batch tells whether the queue's client has credits and may hold one more batch. */
bool queue_may_have_batch(const struct job *job, const struct job_queue *queue);
/* queue_ready_batches returns how many batches the entries that are ready make, for the status. */
uint32_t queue_ready_batches(const struct queues *queues, const struct job *job, const struct job_queue *queue);

/* queue_first_waiting returns the first entry that is WAITING; ENGINE_NONE when none is. It notes which one. */
uint32_t queue_first_waiting(const struct queues *queues, struct job_queue *queue);

/* queue_exchange.c */
/* queue_waiter_add puts the entry on the list of those that wait for its instance. */
void queue_waiter_add(struct queues *queues, uint32_t entry);
/* queue_ready makes the entry READY, because its instance is. The entry may change places with one that still waits;
 * then the function returns that one, otherwise ENGINE_NONE. */
uint32_t queue_ready(struct queues *queues, uint32_t entry);

/* queue_check.c */
/* queues_count_users counts for each instance the entries and leased samples that pin it. The caller frees the
 * array. */
uint32_t *queues_count_users(const struct queues *queues);
/* queues_check CHECKs the invariants of the job's queues, and that no sample of a running job is lost. */
void queues_check(const struct queues *queues, uint32_t job);

#endif
