/* queue.h: a rank's queue: entries in planned order, batches, leases, the reserve, and the exchange between ranks.
 *
 * Invariant: a queue holds queued + leased samples = held_slots, at most its quota. The numbers of its entries grow
 * along the line. No entry before first_waiting is WAITING. ready, unplaced and making count the entries of the line
 * that are so.
 * Owner: the queue_*.c own entries, line, leases, reserve and held_slots. An entry that leaves hands what it holds of
 * its instance to the caller: queue_remove neither unpins nor forgets `had`. */
#ifndef LARDER_SERVER_ENGINE_QUEUE_H
#define LARDER_SERVER_ENGINE_QUEUE_H

#include "server/engine/prepared.h"
#include "server/engine/quota.h"

enum entry_state { ENTRY_FREE, ENTRY_UNPLACED, ENTRY_WAITING, ENTRY_READY };

struct entry {
    enum entry_state state;
    uint32_t job, rank;
    /* Its neighbours in its queue; of an unused place `next` is the next unused one. */
    struct link in_line;
    uint32_t next_waiter; /* The next entry that waits for the same instance; valid while WAITING. */
    uint32_t instance;    /* What it waits for or has ready; ENGINE_NONE while UNPLACED. */
    /* Other samples that were drawn for it because one was bad, under policy `replace`. */
    uint32_t substitutes;
    sample_id id;
    uint64_t place_in_line; /* its number among the entries that its queue ever had */
    /* the number it would have, had it always been in this queue: overtaking counts from there */
    int64_t due_in_line;
    /* When it was planned, or had to be planned again: latencies count from there. */
    uint64_t planned_ns;
    bool repeat;   /* It fills a rank's share up. */
    bool making;   /* Its instance is being prepared, not only planned. */
    bool reserved; /* It is kept for this rank, which had gone: no other rank gets it. */
};

struct lease {
    uint64_t batch; /* Its number among all batches; RELEASE names it. */
    uint32_t epoch, count;
    /* Its instances, `count` of them, each pinned by the lease. The lease owns the array. */
    uint32_t *instances;
};

/* Samples that have left R_j and are a queue's own, before there is room for them: its part of a fixed order, and what
 * a rank that went away had not released. Ids at … end - 1 of an array. Bounded by the rank's share. */
struct reserve {
    /* The ids at `at` … `end` - 1 are in the reserve. The reserve owns the array of `cap` places. */
    sample_id *ids;
    uint64_t at, end;
    size_t cap;
};

/* Has the rank a client: not yet, one, or none any more? */
enum presence { RANK_TO_COME, RANK_THERE, RANK_AWAY };

/* A rank's client. */
struct rank_client {
    enum presence presence;
    uint64_t id; /* The caller's name of the connection; valid while presence is RANK_THERE. */
    bool missed; /* It is away, and has been needed since missed_since_ns. */
    uint64_t missed_since_ns;
};

/* Where a rank is in its job's epoch. */
struct rank_epoch {
    bool done; /* LAST was delivered, or the rank asked for a later epoch. */
    bool told; /* This client got the LAST of told_epoch: what it asked of it before it knew means nothing. */
    uint32_t told_epoch;
    bool returned; /* It came back after it was done: an empty LAST answers when it asks for the epoch again. */
    uint32_t batch_index, credits;
    uint64_t planned;      /* Samples of this epoch that are queued or delivered. */
    uint64_t delivered;    /* of these */
    uint64_t lost;         /* bad samples that were left out */
    uint64_t repeats;      /* samples drawn to fill the share up */
    uint32_t repeats_lost; /* Repeats in a row that were bad. */
};

/* A later epoch that the rank has asked for. It begins when every rank is done with the present one. */
struct rank_next {
    bool asked;
    uint32_t epoch, credits;
};

/* The rank's entries in planned order. */
struct rank_line {
    struct line entries;
    uint32_t queued;        /* entries in the line */
    uint32_t ready;         /* of these, those that are READY */
    uint32_t making;        /* of these, those that are being prepared */
    uint32_t unplaced;      /* of these, those that wait for room */
    uint32_t first_waiting; /* No entry before it is waited for. ENGINE_NONE: all that is waited for has no place. */
    uint64_t numbered;      /* How many entries the queue ever had: the next one's place_in_line. */
    /* The value of room_changes when no unplaced entry found room; 0: none was tried since one was added. */
    uint64_t no_room_since;
};

struct rank_tallies {
    uint64_t samples_delivered, batches_delivered;
    uint64_t wait_ns, waiting_since_ns;
    bool waiting;
};

/* A rank's queue. */
struct job_queue {
    uint32_t rank;
    struct rank_client client;
    struct rank_epoch epoch;
    struct rank_next next;
    struct rank_line line;
    struct reserve reserve;
    /* Batches that the client holds, n_leases of quota.held_max places, in no order. */
    struct lease *leases;
    uint32_t n_leases;
    uint64_t held_slots;         /* queued and leased */
    uint64_t starves_since_ns;   /* Its client waits, and no work is under way that leads to its batch; 0: not so. */
    uint32_t listed[TASK_KINDS]; /* Tasks for the rank in the job's lists, by kind. */
    uint64_t pace_ns;            /* of a batch of its client's training; 0: not known */
    struct rank_tallies tallies;
};

/* What all queues hold. Owners: the queue_*.c. */
struct queues {
    struct engine_env *env;
    struct jobs *jobs;
    struct prepared *prepared;
    struct quota *quota;
    struct entry *entries;
    struct slab slab;    /* of these */
    uint64_t next_batch; /* The number of the next batch that goes out; from 1 on. */
};

/* How long the rank's client has waited for batches in all, up to now_ns. */
static inline uint64_t queue_waited_ns(const struct job_queue *queue, uint64_t now_ns)
{
    const struct rank_tallies *tallies = &queue->tallies;
    return tallies->wait_ns + (tallies->waiting ? now_ns - tallies->waiting_since_ns : 0);
}

static inline struct job_queue *queue_of(const struct queues *queues, const struct entry *entry)
{
    return &job_at(queues->jobs, entry->job)->queues[entry->rank];
}

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
 * `reserved` samples without growing. LARDER_ENOMEM. queue_end frees what a queue holds, whether begun or zeroed. */
int queue_begin(struct job_queue *queue, uint32_t rank, uint32_t held_max, uint64_t reserved);
void queue_end(struct job_queue *queue);
uint32_t entry_new(struct queues *queues);
void entry_drop(struct queues *queues, uint32_t entry);
void queue_append(struct queues *queues, uint32_t entry);
void queue_unplaced(struct queues *queues, uint32_t entry); /* it has no instance: it waits for room */
/* it has the instance now, and waits for it */
void queue_placed(struct queues *queues, uint32_t entry, uint32_t instance);
void queue_waiter_remove(struct queues *queues, uint32_t index);
void queue_remove(struct queues *queues, uint32_t entry); /* what it holds of an instance stays with the caller */
/* queue_clear drops all entries; what they hold of instances is the caller's to give back before. */
void queue_clear(struct queues *queues, struct job_queue *queue);
/* A lease for so many entries that are ready; queue_lease_take makes one of them the lease's, with its pin. */
struct lease *queue_lease_begin(struct queues *queues, struct job_queue *queue, uint32_t epoch, uint32_t count);
void queue_lease_take(struct queues *queues, struct lease *lease, uint32_t entry);
void queue_lease_end(struct queues *queues, struct job_queue *queue, uint32_t at);
void queue_reserve_add(struct reserve *reserve, sample_id id);
void queue_reserve_put_first(struct reserve *reserve, struct reserve *back);
uint32_t queue_oldest_lease(const struct job_queue *queue, uint64_t least);
void queue_lease_put_back(struct queues *queues, uint32_t job, struct job_queue *queue, const struct lease *lease,
                          struct reserve *back);
/* Of the samples planned behind one so many may overtake it. */
uint64_t queue_overtakers_max(const struct job *job);
uint64_t queue_share(const struct job *job); /* samples that the epoch has for each rank */
/* will more be planned? */
bool queue_has_more_to_plan(const struct queues *queues, const struct job *job, const struct job_queue *queue);
/* The queue is sure of room for so many of its entries, the first. */
uint64_t queue_sure_slots(const struct job *job, const struct job_queue *queue);
uint64_t queue_slots_of(const struct job *job);
uint32_t queue_batches_held(const struct job *job);
void queue_making_begun(struct queues *queues, uint32_t instance);   /* its making runs */
void queue_making_ended(struct queues *queues, struct entry *entry); /* what it waits for is there, or has failed */
/* Nanoseconds until the rank's client has used up `begun` samples; below 0 when it has asked for more than these. */
double queue_dry_ns(const struct job *job, const struct job_queue *queue, uint64_t begun);

/* queue_batch.c */
void queue_add_credits(uint32_t *credits, uint32_t more);
bool queue_next_batch_ready(const struct queues *queues, const struct job *job, const struct job_queue *queue,
                            uint32_t *count);
/* the next */
bool queue_batch_ready(const struct queues *queues, const struct job *job, const struct job_queue *queue);
bool queue_may_have_batch(const struct job *job, const struct job_queue *queue);
uint32_t queue_ready_batches(const struct queues *queues, const struct job *job, const struct job_queue *queue);

/* queue_exchange.c */
void queue_waiter_add(struct queues *queues, uint32_t entry); /* it waits for its instance, from now on */
/* The entry's instance is ready. Gives an entry that waits in another rank's queue from now on;
 * ENGINE_NONE: none does. */
uint32_t queue_ready(struct queues *queues, uint32_t entry);

/* queue_check.c */
uint32_t *queues_count_users(const struct queues *queues); /* see prepared_check; the caller frees */
void queues_check(const struct queues *queues, uint32_t job);

#endif
