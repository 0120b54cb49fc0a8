/* quota.h: how far ahead queues may plan: rows of the arena for each job. Owner of job->quota. */
#ifndef LARDER_SERVER_ENGINE_QUOTA_H
#define LARDER_SERVER_ENGINE_QUOTA_H

#include "server/engine/job.h"

/* What a queue's look-ahead must cover; see quota.c. */
struct look_ahead {
    uint32_t rows; /* of use; 0: all that it may have */
    uint64_t worst_ns[ENGINE_AHEAD_WINDOWS]; /* longest time from plan to ready, by window: the present one first */
    uint32_t windows;                        /* of these that are over */
    uint64_t began_ns;
    uint32_t batches; /* delivered in the present window */
    double step_ns;   /* of its client, between two batches, waiting left out */
    uint32_t steps;   /* measured */
    uint64_t delivered_ns, waited_ns; /* when a batch was delivered last; what it had waited then in all */
};

struct quota {
    struct engine_env *env;
    struct jobs *jobs;
    uint64_t promised_bytes; /* to jobs */
    bool divide;             /* the need of some job has changed: the arena is to be divided again */
};

enum {
    DIVIDE_STEPS = 40,  /* of a bisection */
    WINDOW_BATCHES = 8,
    STEP_KEPT = 16,     /* steps in the moving mean */
    STEP_LONGEST = 4    /* means: a longer step is a pause, and counts as so long */
};

uint64_t quota_least_bytes(const struct quota *quota);  /* of the arena, that the jobs keep whoever comes */
uint64_t quota_wanted_bytes(const struct quota *quota); /* for all that they asked for */
uint64_t quota_ahead_encoded_bytes(const struct quota *quota); /* encoded, of what all may look ahead now */
uint32_t quota_rows_needed(const struct job *job); /* of those that it has, by the rank that needs most */
uint64_t quota_depth_slots(const struct job *job, uint32_t rank); /* that the rank's queue is filled up to */
uint64_t quota_deal(const struct quota *quota, double part, uint32_t *rows);
/* What a rank's need is judged by: an entry that was planned at planned_ns is ready; a batch goes out, when its client has
 * waited for waited_ns in all; its client begins to wait for batch batch_index of the epoch. */
void quota_note_ready(struct quota *quota, struct job *job, uint32_t rank, uint64_t planned_ns);
void quota_note_delivery(struct quota *quota, struct job *job, uint32_t rank, uint64_t waited_ns);
void quota_note_wait(struct quota *quota, struct job *job, uint32_t rank, uint32_t batch_index);

#endif
