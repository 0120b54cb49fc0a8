/* encoded.h: encoded bytes in memory: loads, pins, stocks of fibers, and what a read brings.
 *
 * Invariant: a sample has at most one encoded. An encoded has one pin for each task that names it, and one while it is
 * LOADING. An encoded without pins is wanted or kept; otherwise it is dropped at once, or little by little when many
 * are unwanted at once. Once it is settled (changes.h), want(encoded) is the number of running jobs with the sample in
 * R_j, and KEPT_WANT more if it is kept. used_bytes is never above encoded_bytes of the configuration, and above
 * encoded_most only while nothing can be evicted. The caller owns the handle, and gets it back once, by DROP_ENCODED.
 * Owner: the encoded_*.c own encodeds, residency, the sums of bytes, `loading`, the kept set and the shortage, and of a
 * sample its `encoded`. Three fields of an encoded have other owners: tasks (tasks), dataset and round (sources). A
 * shortage is valid from encoded_measure_shortage until something is loaded or picked. */
#ifndef LARDER_SERVER_ENGINE_ENCODED_H
#define LARDER_SERVER_ENGINE_ENCODED_H

#include "cache/memory/residency.h"
#include "server/engine/prepared.h"
#include "server/engine/sources.h"

#define ENGINE_TAKERS_MAX 64 /* jobs that a read takes into account */
#define ENGINE_COMPARE_MAX 8 /* Chunks that are compared before one is read; the comparison starts at a random one. */
/* Chunks that are looked at to find these: some bring nothing, or too little. This bounds the work. */
#define ENGINE_LOOK_MAX 64
#define KEPT_WANT JOBS_MAX /* What is kept goes after all that is not, whatever jobs want. */

enum encoded_state { ENCODED_FREE, ENCODED_LOADING, ENCODED_READY };

/* The bytes of one sample. Its number is its index in encoded_store.encodeds. */
struct encoded {
    enum encoded_state state;
    uint32_t next; /* for an unused place: the next unused one */
    sample_id id;
    struct line tasks; /* The tasks that wait for the load; empty once it is READY. Owner: tasks. */
    /* It was read for a job that takes its samples in the dataset's order, so it is no random part of its fiber. */
    bool in_order;
    /* its place in the heap of next.heap, ENGINE_NONE when it is not in it; and when its sample is used next */
    uint32_t heap_at;
    double next_use;
    uint32_t flight;      /* while LOADING: the number of its dataset's flight */
    bool kept;            /* its sample is in the kept set, and it counts as wanted by KEPT_WANT jobs more */
    uint32_t settled;     /* up to which line of the changes it is settled */
    struct jobset wanted; /* the jobs that its want counts */
    /* its neighbours in its fiber's list, while it is in it */
    struct link in_fiber;
    uint32_t round; /* the value of sources.rounds when its load began */
    /* The dataset that it is loaded from. The dataset may have gone when the load ends, so this is only compared. */
    const void *dataset;
    /* The caller's handle of the bytes, from LOADED to DROP_ENCODED; NULL while LOADING. */
    void *handle;
    uint64_t bytes; /* its length; it counts in used_bytes from encoded_begin on */
};

/* Room in the stocks of a group's fibers; see encoded_read.c. Valid until something is loaded or picked. */
struct shortage {
    uint32_t takers[ENGINE_TAKERS_MAX], n_takers, n_fibers;
    /* How many samples each stock still has room for, by fiber of the group, then by taker. The shortage owns the
     * array. */
    uint32_t *left;
    uint32_t most[ENGINE_TAKERS_MAX]; /* how many samples a read of one chunk may bring each taker */
    bool whole[ENGINE_TAKERS_MAX];    /* eviction may fill a whole stock of the taker's; see encoded_measure_whole */
    size_t cap;
    /* How many samples a taker's view has in a chunk of this dataset, on the mean, for the taker that has most. */
    double chunk_samples;
    /* How far the takers with a stock in the group are apart in their epochs: 0 in step, 1 half an epoch. */
    double apart;
    bool one_speed; /* the takers are out of step, and none draws much faster than another */
};

/* What a read of a chunk would bring. */
struct fill {
    uint32_t samples; /* samples that the read would bring for some job */
    uint64_t wants;   /* how many wants of jobs these would answer: at least one each */
};

/* The order of a job that is known: the places of samples in it, by id; UINT32_MAX for those that are not in its
 * view. */
struct known_order {
    uint32_t *now, *next; /* of its epoch and of the one that follows; the order owns them, and they may be the same */
    size_t end;           /* ids below this have places */
    uint32_t epoch;
    bool more; /* another epoch follows */
};

/* The loads of one dataset that are out, and their bytes. Without loads the place is free. */
struct flight {
    const void *dataset;
    uint32_t loads;
    uint64_t bytes;
};

/* When samples are used next; see encoded_next.c. Owner: encoded_next.c. */
struct next_uses {
    bool known;                 /* All jobs have orders of their own, and memory does not hold all that they want. */
    bool stale;                 /* A job has gone since the heap was made. */
    uint32_t first;             /* the first job then, in whose draws time is counted; ENGINE_NONE: there was none */
    struct known_order *orders; /* by job; JOBS_MAX of them, or NULL */
    uint32_t *heap;             /* While known: the encodeds without pins, `count` of them, the farthest use first. */
    uint32_t count;
    size_t cap;
    uint64_t bytes; /* of the orders; they count against the budget */
};

/* Encoded bytes. Owners: the encoded_*.c. */
/* How many samples of a set each chunk has. The next measure mostly asks for the same set. Owner: encoded_keep.c. */
struct counted {
    struct idset *set;
    uint64_t moves;    /* valid while chunks.moves is so many */
    uint32_t *samples; /* by chunk */
    uint32_t n_chunks;
};

struct encoded_store {
    struct engine_env *env;
    struct outbox *outbox;
    struct jobs *jobs;
    struct chunks *chunks;
    struct prepared *prepared;
    struct sources *sources;
    const struct changes *changes;
    struct encoded *encodeds;
    struct slab slab; /* the numbered places of encodeds */
    struct residency *residency;
    uint64_t used_bytes, pinned_bytes; /* pinned: bytes that are being loaded, or that tasks wait for or read */
    uint32_t loading;                  /* encodeds that are LOADING: the LOADs that are out */
    uint64_t loading_bytes;            /* their bytes */
    struct flight *flights;            /* n_flights of them have these between them */
    uint32_t n_flights;
    size_t flights_cap;
    struct shortage shortage;
    struct idset *kept; /* Samples whose bytes stay over all epochs; NULL when there are none. */
    struct counted counted;
    struct idset *kept_of; /* `kept` is what was chosen of this set when chunks.moves was so many */
    uint64_t kept_moves;
    struct next_uses next;
    /* Gives how many samples of a rank's part were planned in this epoch; UINT64_MAX when the rank is through. It is
     * queue_rank_planned, of a later module. */
    uint64_t (*rank_planned)(const struct job *job, uint32_t rank);
    uint64_t kept_most, kept_bytes; /* about what they have together, and what of that is in memory */
    uint32_t *slots;                /* scratch of encoded_slots: three arrays of a chunk's samples */
    size_t slots_cap;
};

/* encoded.c */
/* encoded_sample returns what encoded memory knows of a sample. */
static inline struct encoded_sample *encoded_sample(const struct encoded_store *store, sample_id id)
{
    return &samples_at(&store->env->samples, id)->encoded;
}

/* encoded_fiber_enter counts an encoded in its fiber's list and its group's stock; encoded_fiber_leave takes it out
 * again. They do nothing when the sample is in no fiber. */
void encoded_fiber_enter(struct encoded_store *store, uint32_t encoded);
void encoded_fiber_leave(struct encoded_store *store, uint32_t encoded);
/* encoded_free frees an encoded for which no task waits, and gives its handle back. `evicted` says whether it counts as
 * evicted. */
void encoded_free(struct encoded_store *store, uint32_t encoded, bool evicted);
/* encoded_drop_handles calls `drop` with the handle of each encoded that is READY. The store may not be used after
 * that. */
void encoded_drop_handles(const struct encoded_store *store, void (*drop)(void *handle));
/* encoded_most returns the bytes that encoded samples may take beside the records of instances. */
uint64_t encoded_most(const struct encoded_store *store);
/* encoded_sure returns what encoded samples may take when the arena is full of the jobs' instances. Plans count on
 * this. */
uint64_t encoded_sure(const struct encoded_store *store);
/* encoded_sure_alone returns the same, without what known orders take now. */
uint64_t encoded_sure_alone(const struct encoded_store *store);
/* encoded_shed evicts what is above encoded_most, as far as it is not pinned. */
void encoded_shed(struct encoded_store *store);
/* encoded_begin begins an encoded for a load from the dataset, with one pin, and evicts what it must; ENGINE_NONE when
 * there is no room now. */
uint32_t encoded_begin(struct encoded_store *store, const void *dataset, sample_id id, uint64_t bytes);
/* encoded_arrived takes the bytes that a load has brought. The load's pin stays until the caller unpins it.
 * encoded_failed frees an encoded whose load has failed. */
void encoded_arrived(struct encoded_store *store, uint32_t encoded, void *handle);
void encoded_failed(struct encoded_store *store, uint32_t encoded);
/* encoded_is_ready tells whether the sample's bytes are in memory. */
static inline bool encoded_is_ready(const struct encoded_store *store, sample_id id)
{
    uint32_t encoded = encoded_sample(store, id)->encoded;
    return encoded != ENGINE_NONE && store->encodeds[encoded].state == ENCODED_READY;
}

/* encoded_pin adds a pin; encoded_unpin takes one away. After the last one the encoded is dropped, if nobody wants it
 * and it is not kept. */
void encoded_pin(struct encoded_store *store, uint32_t encoded);
void encoded_unpin(struct encoded_store *store, uint32_t encoded);
/* encoded_drop_if_idle drops the sample's encoded if it has no pin, and nobody wants it and it is not kept, or it is
 * known that nobody will use it again. It is called when the jobs that the sample has left have placed what they
 * picked. */
void encoded_drop_if_idle(struct encoded_store *store, sample_id id);
/* encoded_drop_idle drops encodeds for which the same holds, `most` at the most, and returns how many. It returns less
 * when none that is settled is left. */
uint32_t encoded_drop_idle(struct encoded_store *store, uint32_t most);
/* encoded_victim returns the encoded that fewest jobs want; RESIDENT_NONE when all have pins. */
uint32_t encoded_victim(struct encoded_store *store);
/* encoded_mean_bytes returns the mean length of the encodeds that are there; 0 when there are none. */
uint64_t encoded_mean_bytes(const struct encoded_store *store);

/* encoded_wants.c */
/* encoded_shift_want changes what the encoded's wants count for by `by`, and works out anew when it is used next. */
void encoded_shift_want(struct encoded_store *store, uint32_t encoded, int by);
/* encoded_left counts the job's want of the encoded no more, after its sample has left R_job. encoded_back counts it
 * once the sample is back. */
void encoded_left(struct encoded_store *store, uint32_t encoded, uint32_t job);
void encoded_back(struct encoded_store *store, uint32_t encoded, uint32_t job);
/* encoded_follow has the encoded follow the changes, and returns whether its want has changed. It is settled to all
 * before. */
bool encoded_follow(struct encoded_store *store, uint32_t encoded, const struct change *changes, uint32_t count);
/* encoded_catch_up settles an encoded that is not settled, and encoded_settle does so if need be. Both return what
 * encoded_follow does. */
bool encoded_catch_up(struct encoded_store *store, uint32_t encoded);
static inline bool encoded_settle(struct encoded_store *store, uint32_t encoded)
{
    return store->encodeds[encoded].settled != store->changes->end && encoded_catch_up(store, encoded);
}

/* encoded_bars.c */
/* What keeps a read from beginning. */
enum encoded_bar { ENCODED_FREE_TO_READ, ENCODED_NO_ROOM, ENCODED_NO_SHARE };
/* encoded_bar_to_read says whether a read of the sample's chunk may begin for the job. There must be room for the LOADs
 * and the bytes of what the chunk brings, or nothing of the kind is there. ENCODED_NO_SHARE: others may read, but the
 * job's source has in flight what it may have. */
enum encoded_bar encoded_bar_to_read(const struct encoded_store *store, uint32_t job, sample_id id, uint64_t bytes);
/* encoded_share_for_read tells whether the dataset's source may have so much more in flight. */
bool encoded_share_for_read(const struct encoded_store *store, const void *dataset, uint32_t samples, uint64_t bytes);

/* encoded_flights.c */
/* encoded_flight_begin counts a load of the dataset and gives its flight; encoded_flight_end counts it out again. */
uint32_t encoded_flight_begin(struct encoded_store *store, const void *dataset, uint64_t bytes);
void encoded_flight_end(struct encoded_store *store, const struct encoded *encoded);
/* encoded_flight returns what of the dataset is in flight; NULL: nothing is. Valid until a load begins or ends. */
const struct flight *encoded_flight(const struct encoded_store *store, const void *dataset);

/* encoded_keeps tells whether the sample's bytes stay over all epochs. */
bool encoded_keeps(const struct encoded_store *store, sample_id id);
/* encoded_room returns the bytes that samples which are kept, or others, may yet take without eviction. `share`: the
 * part that may be filled of what is not reserved for kept samples. */
double encoded_room(const struct encoded_store *store, bool kept, double share);

/* encoded_keep.c: encoded_keep_measure finds out which chunks and samples are kept, and drops what is kept no longer.
 * It is called when a job comes or goes. `ahead_bytes`: what the look-ahead of all jobs takes at once. The groups must
 * be made anew after it, if chunks.stale says so. */
void encoded_keep_measure(struct encoded_store *store, uint64_t ahead_bytes);
void encoded_keep_destroy(struct encoded_store *store);

/* encoded_next.c */
/* encoded_next_measure says whether eviction goes by next use from now on. It is called when a job has come or gone.
 * encoded_next_epoch is called when an epoch of a job has begun, and returns whether samples are used next at other
 * times than before: CHANGE_USES. encoded_next_forget is called when the job goes. */
void encoded_next_measure(struct encoded_store *store, bool known);
bool encoded_next_epoch(struct encoded_store *store, const struct job *job);
void encoded_next_forget(struct encoded_store *store, uint32_t job);
/* encoded_next_note works out when an encoded without pins is used next. encoded_next_remove is for one that gets a
 * pin, or goes. */
void encoded_next_note(struct encoded_store *store, uint32_t index);
void encoded_next_remove(struct encoded_store *store, uint32_t index);
/* encoded_next_victim returns the encoded to evict first; RESIDENT_NONE when all have pins. */
uint32_t encoded_next_victim(struct encoded_store *store);
/* encoded_next_is_never tells whether it is known that nobody will use the encoded again. */
bool encoded_next_is_never(const struct encoded_store *store, uint32_t index);
/* encoded_next_has_way tells whether the sample, which is wanted in this epoch, may be read ahead in place of one that
 * is not, and is used later. */
bool encoded_next_has_way(struct encoded_store *store, sample_id id);
void encoded_next_destroy(struct encoded_store *store);
void encoded_next_check(const struct encoded_store *store); /* CHECKs the heap */

/* encoded_read.c */
/* encoded_slots returns the slots of a chunk in the order in which a read is to bring them, after
 * encoded_measure_shortage; valid until the next call. */
const uint32_t *encoded_slots(struct encoded_store *store, const struct chunk *chunk);
/* encoded_job_for returns a job that needs something of the chunk and whose source answers, and may read it now;
 * ENGINE_NONE when there is none. */
uint32_t encoded_job_for(const struct encoded_store *store, const struct chunk *chunk, uint32_t chunk_samples);
/* encoded_best_chunk returns the chunk of the group whose read brings most, by chance among equals. NULL when no chunk
 * that fits brings enough. */
const struct chunk *encoded_best_chunk(struct encoded_store *store, const struct group *group);
/* encoded_hungry_group returns the group that has least in memory for its size, of those that are worth a try and whose
 * source may read a chunk; NULL when none is. */
struct group *encoded_hungry_group(const struct encoded_store *store);
/* encoded_room_ahead tells whether a chunk of the group may be read ahead: memory and the loads in flight have room. */
bool encoded_room_ahead(const struct encoded_store *store, const struct group *group);
/* encoded_read_ahead_again makes every group worth a try again. It is called when what jobs want has changed. */
void encoded_read_ahead_again(struct encoded_store *store);

/* encoded_stock.c */
/* encoded_needs_bytes tells whether the sample's bytes would serve the job. */
bool encoded_needs_bytes(const struct encoded_store *store, uint32_t job, sample_id id);
/* encoded_measure_shortage fills in store->shortage for the group. */
void encoded_measure_shortage(struct encoded_store *store, const struct group *group);
/* encoded_measure_for does the same for a read that these jobs need. When a home's memory has no room for a chunk, the
 * others count with what eviction would fill for them. */
void encoded_measure_for(struct encoded_store *store, const struct group *group, const struct jobset *jobs);
/* encoded_measure_whole finds out whose stocks a read of the chunk for the job may fill whole, after
 * encoded_measure_shortage. */
void encoded_measure_whole(struct encoded_store *store, const struct chunk *chunk, uint32_t job);
/* encoded_fill tells what a read of the chunk would bring, after encoded_measure_shortage of its group. */
struct fill encoded_fill(const struct encoded_store *store, const struct chunk *chunk);
/* encoded_count_wants returns how many takers need the sample. */
uint32_t encoded_count_wants(const struct encoded_store *store, sample_id id);
/* encoded_lacks tells whether some taker that may still get something of this read needs the sample and has fewer than
 * `max` samples in the stock of its fiber. */
bool encoded_lacks(const struct encoded_store *store, const struct shortage *room, sample_id id, uint32_t max);
/* encoded_count_brought counts the sample, which a read brings, against what the read may bring each taker. */
void encoded_count_brought(const struct encoded_store *store, struct shortage *room, sample_id id);
/* encoded_may_evict tells whether the sample may take the place of the one that would be evicted next, after
 * encoded_measure_whole. */
bool encoded_may_evict(struct encoded_store *store, const struct shortage *room, sample_id id, uint32_t max);
/* encoded_most_fill returns the most that a read of any chunk of the group could bring, after
 * encoded_measure_shortage. */
struct fill encoded_most_fill(const struct encoded_store *store, const struct group *group);

/* encoded_check.c: encoded_check CHECKs the invariants above. users[i] is the number of tasks that pin encoded i.
 * `sweeping`: some may be there yet that nobody wants. */
void encoded_check(const struct encoded_store *store, const uint32_t *users, bool sweeping);

#endif
