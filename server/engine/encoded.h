/* encoded.h: encoded bytes in memory: loads, pins, stocks, and what a read brings.
 *
 * A sample is there once at most. It is pinned by its load, and by each task that has it; what is pinned stays. What nobody
 * pins and nobody wants goes at once, unless it is kept for all epochs. used_bytes is at most the budget. */
#ifndef LARDER_SERVER_ENGINE_ENCODED_H
#define LARDER_SERVER_ENGINE_ENCODED_H

#include "cache/memory/residency.h"
#include "server/engine/prepared.h"
#include "server/engine/sources.h"

#define ENGINE_TAKERS_MAX 64 /* jobs that a read has regard to */
#define ENGINE_COMPARE_MAX 8 /* chunks that are compared before one is read, from a random one on */
#define ENGINE_LOOK_MAX 64   /* chunks that are looked at for them: some bring nothing, or too little; bounds the work */


enum encoded_state { ENCODED_FREE, ENCODED_LOADING, ENCODED_READY };

struct encoded {
    enum encoded_state state;
    uint32_t next; /* unused place */
    sample_id id;
    uint32_t tasks; /* the first that waits for the load */
    bool in_order;  /* as of an instance */
    struct link in_fiber;
    uint32_t round;      /* of the sources, when the load began */
    const void *dataset; /* that it is loaded from; when it is loaded only to be compared */
    void *handle;
    uint64_t bytes;
};

/* Room in the stocks of a group's fibers; see encoded_read.c. Valid until something is loaded or picked. */
struct shortage {
    uint32_t takers[ENGINE_TAKERS_MAX], n_takers, n_fibers;
    uint32_t *left; /* by fiber, then taker */
    uint32_t most[ENGINE_TAKERS_MAX]; /* samples that a read may bring each taker */
    size_t cap;
    double chunk_samples; /* that a view has in a chunk, on the mean, by the taker of this dataset that has most */
    double apart; /* how far those with a stock there are from each other in their epochs: 0 in step, 1 half an epoch */
};

/* What a read of a chunk would bring. */
struct fill {
    uint32_t samples;
    uint64_t wants;
};

/* What encoded memory knows of a sample. */
struct encoded_sample {
    uint32_t encoded; /* ENGINE_NONE: it is not there */
    uint32_t pending; /* tasks of it that wait for their load to begin */
    bool failed;      /* Its last load did. Only who waits for it has it loaded again. */
};

/* Encoded bytes. Owners: the encoded_*.c. */
struct encoded_store {
    struct engine_env *env;
    struct outbox *outbox;
    struct jobs *jobs;
    struct chunks *chunks;
    struct prepared *prepared;
    struct sources *sources;
    struct encoded_sample *samples; /* by sample */
    struct encoded *encodeds;
    struct slab slab; /* of these */
    struct residency *residency;
    uint64_t used_bytes, pinned_bytes; /* pinned: being loaded, or waited for by tasks */
    uint32_t loading;
    struct shortage shortage;
    struct idset *kept; /* samples that stay though nobody wants them; NULL: none */
    uint32_t *slots;    /* scratch: of a chunk */
    size_t slots_cap;
};

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
int encoded_make_room(struct encoded_store *store, uint64_t ids); /* for samples below ids; LARDER_ENOMEM */
/* The sample's bytes are in its fiber's list and its group's stock, or no more. */
void encoded_fiber_enter(struct encoded_store *store, uint32_t encoded);
void encoded_fiber_leave(struct encoded_store *store, uint32_t encoded);
void encoded_shift_want(struct encoded_store *store, uint32_t encoded, int by);
void encoded_free(struct encoded_store *store, uint32_t encoded, bool evicted);
/* encoded_most: what encoded samples may take beside the records of instances. encoded_shed evicts what is
 * above it, as far as it is not pinned. */
uint64_t encoded_most(const struct encoded_store *store);
/* encoded_sure: the same when the arena has filled with the jobs' instances: what to plan for. */
uint64_t encoded_sure(const struct encoded_store *store);
void encoded_shed(struct encoded_store *store);
uint32_t encoded_begin(struct encoded_store *store, sample_id id, uint64_t bytes); /* ENGINE_NONE: no room now */
void encoded_pin(struct encoded_store *store, uint32_t encoded);
void encoded_unpin(struct encoded_store *store, uint32_t encoded);
void encoded_drop_if_idle(struct encoded_store *store, sample_id id); /* once those who left it have placed what they picked */
void encoded_drop_idle(struct encoded_store *store); /* what is kept has changed: let all go that nobody wants */
uint64_t encoded_mean_bytes(const struct encoded_store *store); /* of what is in memory; 0: nothing is */
bool encoded_room_for_read(const struct encoded_store *store, sample_id id);
bool encoded_memory_for_read(const struct encoded_store *store, uint32_t job, sample_id id, uint64_t bytes);

bool encoded_keeps(const struct encoded_store *store, sample_id id); /* though nobody wants it */

/* encoded_keep.c */
void encoded_keep_measure(struct encoded_store *store); /* when jobs come and go */

/* encoded_read.c */
const uint32_t *encoded_shuffled_slots(struct encoded_store *store, uint32_t samples);
uint32_t encoded_job_for(const struct encoded_store *store, const struct chunk *chunk, uint32_t chunk_samples);
const struct chunk *encoded_best_chunk(struct encoded_store *store, const struct group *group);
struct group *encoded_hungry_group(const struct encoded_store *store);
bool encoded_room_ahead(const struct encoded_store *store, const struct group *group);
void encoded_read_ahead_again(struct encoded_store *store); /* what is wanted has changed: every group is worth a try */

/* encoded_stock.c */
bool encoded_needs_bytes(const struct encoded_store *store, uint32_t job, sample_id id);
void encoded_measure_shortage(struct encoded_store *store, const struct group *group);
struct fill encoded_fill(const struct encoded_store *store, const struct chunk *chunk);
bool encoded_lacks(const struct encoded_store *store, const struct shortage *room, sample_id id, uint32_t max);
void encoded_count_brought(const struct encoded_store *store, struct shortage *room, sample_id id);
bool encoded_may_evict(const struct encoded_store *store, const struct shortage *room, sample_id id, uint32_t max);
struct fill encoded_most_fill(const struct encoded_store *store, const struct group *group);

/* encoded_check.c; users: for each encoded sample, the tasks that pin it */
void encoded_check(const struct encoded_store *store, const uint32_t *users);

#endif
