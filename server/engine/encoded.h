/* encoded.h: encoded bytes in memory: loads, pins, stocks, and what a read brings. */
#ifndef LARDER_SERVER_ENGINE_ENCODED_H
#define LARDER_SERVER_ENGINE_ENCODED_H

#include "server/engine/engine_priv.h"

enum {
    AHEAD_PATIENCE = 4, /* a group that had no such chunk is tried again when a chunk's samples over this are used up */
    SHARED_STOCKS = 2   /* stocks that jobs out of step may fill by eviction, all together */
};
/* Jobs in step (or one alone), and jobs half an epoch apart; between them in proportion. */
static const double AHEAD_SHARE[] = {0.9, 0.85}; /* of the budget that reads ahead may fill: the rest is for reads on demand */
static const double AHEAD_LEAST[] = {0.5, 0.8};  /* of what views have of a chunk: with less it is not read ahead */
static const double IN_STEP = 0.02;   /* of half an epoch: jobs that are no farther apart */
static const double READ_PART = 0.75; /* of what a view has in a chunk: what two visits bring, with some to spare */
static const double LIKE_SPEED = 0.1; /* a job slower by no more than this finds most of what a faster one's read brings */

/* encoded.c */
uint32_t encoded_new(struct encoded_store *encoded_store);
void encoded_drop(struct encoded_store *encoded_store, uint32_t encoded);
void encoded_free(struct engine *engine, uint32_t encoded, bool evicted);
/* encoded_most: what encoded samples may take beside the records of instances. encoded_shed evicts what is
 * above it, as far as it is not pinned. */
uint64_t encoded_most(const struct engine *engine);
/* encoded_sure: the same when the arena has filled with the jobs' instances: what to plan for. */
uint64_t encoded_sure(const struct engine *engine);
void encoded_shed(struct engine *engine);
uint32_t encoded_begin(struct engine *engine, sample_id id, uint64_t bytes); /* ENGINE_NONE: no room now */
void encoded_pin(struct engine *engine, uint32_t encoded);
void encoded_unpin(struct engine *engine, uint32_t encoded);
void encoded_drop_if_idle(struct engine *engine, sample_id id); /* once those who left it have placed what they picked */
void encoded_drop_idle(struct engine *engine); /* what is kept has changed: let all go that nobody wants */
bool encoded_room_for_read(const struct engine *engine, sample_id id);
bool encoded_memory_for_read(const struct engine *engine, uint32_t job, sample_id id, uint64_t bytes);

/* encoded_keep.c */
void encoded_keep_measure(struct engine *engine); /* when jobs come and go */
bool encoded_keeps(const struct engine *engine, sample_id id);

/* encoded_read.c */
const uint32_t *encoded_shuffled_slots(struct engine *engine, uint32_t samples);
uint32_t encoded_job_for(const struct engine *engine, const struct chunk *chunk, uint32_t chunk_samples);
const struct chunk *encoded_best_chunk(struct engine *engine, const struct group *group);
struct group *encoded_hungry_group(const struct engine *engine);
bool encoded_room_ahead(const struct engine *engine, const struct group *group);
void encoded_read_ahead_again(struct engine *engine); /* what is wanted has changed: every group is worth a try */

/* encoded_stock.c */
bool encoded_needs_bytes(const struct engine *engine, uint32_t job, sample_id id);
void encoded_measure_shortage(struct engine *engine, const struct group *group);
struct fill encoded_fill(const struct engine *engine, const struct chunk *chunk);
bool encoded_lacks(const struct engine *engine, const struct shortage *room, sample_id id, uint32_t max);
void encoded_count_brought(const struct engine *engine, struct shortage *room, sample_id id);
bool encoded_may_evict(const struct engine *engine, const struct shortage *room, sample_id id, uint32_t max);
struct fill encoded_most_fill(const struct engine *engine, const struct group *group);

#endif
