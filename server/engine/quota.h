/* quota.h: how far ahead queues may plan. */
#ifndef LARDER_SERVER_ENGINE_QUOTA_H
#define LARDER_SERVER_ENGINE_QUOTA_H

#include "server/engine/engine_priv.h"

enum {
    DIVIDE_STEPS = 40,  /* of a bisection */
    WINDOW_BATCHES = 8,
    STEP_KEPT = 16,     /* steps in the moving mean */
    STEP_LONGEST = 4    /* means: a longer step is a pause, and counts as so long */
};

uint64_t quota_least_bytes(const struct engine *engine);  /* of the arena, that the jobs keep whoever comes */
uint64_t quota_wanted_bytes(const struct engine *engine); /* for all that they asked for */
uint64_t quota_ahead_encoded_bytes(const struct engine *engine); /* encoded, of what all may look ahead now */
uint32_t quota_rows_needed(const struct job *job); /* of those that it has, by the rank that needs most */
uint64_t quota_depth_slots(const struct job *job, uint32_t rank); /* that the rank's queue is filled up to */
uint64_t quota_deal(const struct engine *engine, double part, uint32_t *rows);
/* What a rank's need is judged by: an entry that was planned at planned_ns is ready; a batch goes out, when its client has
 * waited for waited_ns in all; its client begins to wait for batch batch_index of the epoch. */
void quota_note_ready(struct engine *engine, struct job *job, uint32_t rank, uint64_t planned_ns);
void quota_note_delivery(struct engine *engine, struct job *job, uint32_t rank, uint64_t waited_ns);
void quota_note_wait(struct engine *engine, struct job *job, uint32_t rank, uint32_t batch_index);

#endif
