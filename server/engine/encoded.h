/* encoded.h: encoded bytes in memory: loads, pins, stocks of fibers, and what a read brings.
 *
 * Invariant: a sample has at most one encoded. Its pins are one for each task that names it, and one while it is
 * LOADING. One without pins is wanted or kept, else it is dropped at once. used_bytes is never above encoded_bytes of
 * the configuration, and above encoded_most only while nothing can be evicted. The handle is the caller's, and is given
 * back once, by DROP_ENCODED.
 * Owner: the encoded_*.c own encodeds, residency, the sums of bytes, `loading`, the kept set and the shortage, and of a
 * sample its `encoded`. Three fields of an encoded are others': tasks (tasks), dataset and round (sources). A shortage
 * is valid from encoded_measure_shortage until something is loaded or picked. */
#ifndef LARDER_SERVER_ENGINE_ENCODED_H
#define LARDER_SERVER_ENGINE_ENCODED_H

#include "cache/memory/residency.h"
#include "server/engine/prepared.h"
#include "server/engine/sources.h"

#define ENGINE_TAKERS_MAX 64 /* jobs that a read has regard to */
#define ENGINE_COMPARE_MAX 8 /* chunks that are compared before one is read, from a random one on */
/* chunks that are looked at for them: some bring nothing, or too little; bounds the work */
#define ENGINE_LOOK_MAX 64

enum encoded_state { ENCODED_FREE, ENCODED_LOADING, ENCODED_READY };

struct encoded {
    enum encoded_state state;
    uint32_t next; /* Of an unused place: the next unused one. */
    sample_id id;
    struct line tasks; /* The tasks that wait for the load; empty once it is READY. Owner: tasks. */
    /* It was read for a job that takes its samples in the dataset's order: no random part of its fiber. */
    bool in_order;
    struct link in_fiber;
    uint32_t round; /* The value of sources.rounds when its load began. */
    /* The dataset that it is loaded from. It may have gone when the load ends: it is only compared. */
    const void *dataset;
    /* The caller's handle of the bytes, from LOADED to DROP_ENCODED; NULL while LOADING. */
    void *handle;
    uint64_t bytes; /* Its length. It counts in used_bytes from encoded_begin on. */
};

/* Room in the stocks of a group's fibers; see encoded_read.c. Valid until something is loaded or picked. */
struct shortage {
    uint32_t takers[ENGINE_TAKERS_MAX], n_takers, n_fibers;
    /* For each fiber of the group and then each taker: how many samples its stock still has room for. The shortage
     * owns it. */
    uint32_t *left;
    uint32_t most[ENGINE_TAKERS_MAX]; /* How many samples a read of one chunk may bring each taker. */
    size_t cap;
    /* How many samples of a chunk the view of the taker that has most of this dataset has on the mean. */
    double chunk_samples;
    /* How far the takers with a stock in the group are apart in their epochs: 0 in step, 1 half an epoch. */
    double apart;
};

/* What a read of a chunk would bring. */
struct fill {
    uint32_t samples; /* Samples that the read would bring for some job. */
    uint64_t wants;   /* Wants of jobs that these would answer; at least as many. */
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
    uint32_t loading;                  /* Encodeds that are LOADING: LOADs that are out. */
    struct shortage shortage;
    struct idset *kept; /* Samples whose bytes stay though nobody wants them; NULL: there are none. */
    uint32_t *slots;    /* Scratch of encoded_read.c: the slots of a chunk in random order. */
    size_t slots_cap;
};

/* encoded.c */
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
/* Its load has brought the bytes, and keeps its pin until the caller unpins it; or it has failed,
 * and its place is free. */
void encoded_arrived(struct encoded_store *store, uint32_t encoded, void *handle);
void encoded_failed(struct encoded_store *store, uint32_t encoded);
void encoded_pin(struct encoded_store *store, uint32_t encoded);
void encoded_unpin(struct encoded_store *store, uint32_t encoded);
/* once those who left it have placed what they picked */
void encoded_drop_if_idle(struct encoded_store *store, sample_id id);
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
