/* quota.h: how far ahead each queue may plan. A row is one batch for each rank of a job.
 *
 * Invariant: ahead_min ≤ ahead_now ≤ ahead_max and held_max ≤ ahead_min for each job. The bytes of all jobs together
 * are quota.promised_bytes, at most the arena. A job keeps its ahead_min rows for as long as it is there. A job that
 * has just failed may have more than ahead_max until the next division.
 * Owner: quota.c owns a job's `quota` and the `needs` of its ranks. plan_give_back.c has entries make way for the rows
 * that quota_divide gives. `divide` says that a need has changed since the last division. */
#ifndef LARDER_SERVER_ENGINE_QUOTA_H
#define LARDER_SERVER_ENGINE_QUOTA_H

#include "server/engine/job.h"

/* The measurements behind a queue's need for look-ahead; see quota.c. */
struct look_ahead {
    uint32_t rows; /* Rows that the queue has use for; 0: all that it may have. */
    /* The longest time from plan to ready in each window, the present window first. */
    uint64_t worst_ns[ENGINE_AHEAD_WINDOWS];
    uint32_t windows;  /* finished windows, at most ENGINE_AHEAD_WINDOWS */
    uint64_t began_ns; /* when the present window began */
    uint32_t batches;  /* batches that were delivered in the present window */
    double step_ns;    /* The moving mean of the client's time from batch to batch, without its waiting. */
    uint32_t steps;    /* number of steps in the mean, at most STEP_KEPT */
    /* When the last batch was delivered, and how long the client had waited by then in all. */
    uint64_t delivered_ns, waited_ns;
};

/* How the arena is divided among jobs. Owner: quota.c. */
struct quota {
    struct engine_env *env;
    struct jobs *jobs;
    uint64_t promised_bytes; /* the sum of all jobs' quota.bytes */
    bool divide;             /* The need of some job has changed, so the arena is to be divided again. */
};

/* quota_least_bytes returns the bytes of the arena that the jobs keep, whichever job comes. */
uint64_t quota_least_bytes(const struct quota *quota);
/* quota_wanted_bytes returns the bytes of the arena that all that the jobs asked for would take. */
uint64_t quota_wanted_bytes(const struct quota *quota);
/* quota_ahead_encoded_bytes returns the bytes of encoded memory that the present look-ahead of all jobs takes at
 * once. */
uint64_t quota_ahead_encoded_bytes(const struct quota *quota);
/* quota_rows_needed returns how many of the rows that the job has are of use to the rank with the greatest need. */
uint32_t quota_rows_needed(const struct job *job);
/* quota_depth_slots returns the samples up to which the rank's queue is filled. */
uint64_t quota_depth_slots(const struct job *job, uint32_t rank);
/* quota_room sets *promise to the number of rows of row_bytes that can be promised for good beside those of the other
 * jobs. It sets *most to the most rows that a job may have. */
void quota_room(const struct quota *quota, uint64_t row_bytes, uint64_t *promise, uint64_t *most);
/* quota_begin works out the job's quota from its terms and shape. The job has no rows yet, and owns its needs. */
void quota_begin(const struct quota *quota, struct job *job);
/* quota_divide sets rows[] to the rows that each job should have now, by job number. quota_set_rows gives them to one
 * job. The caller must then make entries give up their place if they have no room any more. */
void quota_divide(struct quota *quota, uint32_t *rows);
void quota_set_rows(struct quota *quota, struct job *job, uint32_t rows);
/* quota_keep_least leaves a job that has failed only its least rows, which its clients may still hold. */
void quota_keep_least(struct quota *quota, struct job *job);
/* These three report the measurements that decide a rank's need. quota_note_ready: an entry that was planned at
 * planned_ns is ready. quota_note_delivery: a batch goes out to a client that has waited for waited_ns in all.
 * quota_note_wait: the client begins to wait for batch batch_index of the epoch. */
void quota_note_ready(struct quota *quota, struct job *job, uint32_t rank, uint64_t planned_ns);
void quota_note_delivery(struct quota *quota, struct job *job, uint32_t rank, uint64_t waited_ns);
void quota_note_wait(struct quota *quota, struct job *job, uint32_t rank, uint32_t batch_index);

#endif
