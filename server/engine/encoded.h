/* encoded.h: encoded bytes in memory: loads, pins, stocks of fibers, and the choice of what a read brings.
 *
 * Invariant: a sample has at most one encoded. An encoded has one pin for each task that names it, and one while it is
 * LOADING. An encoded without pins is wanted or kept; otherwise it is dropped at once, or little by little when many
 * become unwanted at once. Once it is settled (changes.h), want(encoded) is the number of running jobs with the sample
 * in R_j, plus KEPT_WANT if it is kept. used_bytes is never above encoded_bytes of the configuration and what the
 * arena's budget has left, and is above encoded_most only while nothing can be evicted. The caller owns the handle, and
 * gets it back once, by DROP_ENCODED.
 * Owner: the encoded_*.c own encodeds, residency, the sums of bytes, `loading`, the kept set and the shortage, and of a
 * sample its `encoded`. Four fields of an encoded have other owners: tasks and readers (tasks), dataset and round
 * (sources). A shortage is valid from encoded_measure_shortage until something is loaded or picked. */
#ifndef LARDER_SERVER_ENGINE_ENCODED_H
#define LARDER_SERVER_ENGINE_ENCODED_H

#include "cache/memory/residency.h"
#include "server/engine/prepared.h"
#include "server/engine/sources.h"

#define ENGINE_TAKERS_MAX JOBS_MAX /* jobs that a read takes into account */
#define ENGINE_COMPARE_MAX 8 /* Chunks that are compared before one is read; the comparison starts at a random one. */
/* Chunks that are looked at to find these: some bring nothing, or too little. For each a read ahead looks at all
 * takers; if these are more than ENGINE_LOOK_TAKERS, it looks at so many fewer chunks. This bounds the work. */
#define ENGINE_LOOK_MAX 64
#define ENGINE_LOOK_TAKERS 64
/* Victims that one search settles, or whose next use it works out again, before one is taken as it is. */
#define SETTLE_VICTIMS 64
#define KEPT_WANT JOBS_MAX /* added to the want of a kept encoded, so that it is evicted after all others */

enum encoded_state { ENCODED_FREE, ENCODED_LOADING, ENCODED_READY };

/* The bytes of one sample. Its number is its index in encoded_store.encodeds. Picks and reads go through all of a
 * fiber, and most come from memory. So what a look needs lies in the first half, which is one line of the processor's
 * cache. */
struct encoded {
    enum encoded_state state;
    sample_id id;
    /* It was read for a job that takes its samples in the dataset's order, so it is no random part of its fiber. */
    bool in_order;
    bool kept;            /* its sample is in the kept set, so KEPT_WANT is added to its want */
    bool decoded;         /* the handle is that of a decoded form */
    bool formless : 1;    /* no form can be made of it */
    bool planes : 1;      /* the handle is that of its planes, unless it is decoded */
    uint32_t settled;     /* It has followed all changes before this number. */
    struct jobset wanted; /* the jobs that its want counts */
    uint32_t arranged;    /* the value of chunks.arranged when it entered its fiber; 0: it is in none */
    uint32_t flight;      /* the number of its dataset's flight */
    /* The caller's handle of the bytes, from LOADED to DROP_ENCODED; NULL while LOADING. */
    void *handle;
    uint64_t bytes; /* what it takes, with `granted`; it counts in used_bytes from encoded_begin on */
    /* The dataset that it is loaded from. The dataset may have gone when the load ends, so this is only compared. */
    const void *dataset;
    double next_use; /* when its sample is used next */
    union {
        uint32_t heap_at; /* its index in next.heap; ENGINE_NONE when it is not there */
        uint32_t next;    /* the next unused place, if this one is unused */
    };
    union {
        uint32_t round;   /* while LOADING: the value of sources.rounds when its load began */
        uint32_t readers; /* once READY: PREPAREs that are out and read the handle; owner: tasks */
    };
    union {
        struct line tasks;    /* while LOADING: the tasks that wait for the load; owner: tasks */
        struct link in_forms; /* while `decoded`: its neighbours in the list of forms */
    };
    /* Decoded forms. Owner: encoded_forms.c. */
    uint64_t read_bytes; /* the length of the bytes as they were read; valid while `decoded` */
    uint64_t form_bytes; /* what its form takes; 0: not known */
    uint64_t granted;    /* what a task may take for a form that it makes; 0: none does */
};

_Static_assert(sizeof(struct encoded) == 128 && offsetof(struct encoded, bytes) == 64,
               "an encoded is two lines of the cache, and a look at it takes one");

/* Room in the stocks of a group's fibers; see encoded_read.c. Valid until something is loaded or picked. */
struct shortage {
    uint32_t takers[ENGINE_TAKERS_MAX], n_takers, n_fibers;
    /* How many samples each stock still has room for, by fiber of the group, then by taker. The shortage owns the
     * array. */
    uint32_t *left;
    uint32_t most[ENGINE_TAKERS_MAX];  /* most samples that a read of one chunk may bring each taker */
    uint32_t stock[ENGINE_TAKERS_MAX]; /* largest stock of each taker in a fiber */
    bool whole[ENGINE_TAKERS_MAX];     /* eviction may fill a whole stock of the taker's; see encoded_measure_whole */
    size_t cap;
    /* Mean number of samples of a view in a chunk of this dataset, for the taker with the highest mean. */
    double chunk_samples;
    /* How far the takers with a stock in the group are apart in their epochs: 0 in step, 1 half an epoch. */
    double apart;
    bool one_speed; /* the takers are out of step, and none draws much faster than another */
};

/* The use of a read of a chunk. */
struct fill {
    uint32_t samples; /* samples that the read would bring and some job needs */
    uint64_t wants;   /* wants of jobs that these samples answer: at least one for each sample */
};

/* The known order of a job: the position of each sample in it, by id; UINT32_MAX for samples outside its view. */
struct known_order {
    uint32_t *now, *next; /* the order of its epoch and of the next one; may be the same array, owned */
    size_t end;           /* length of both arrays */
    uint32_t epoch;
    bool more; /* another epoch follows */
};

/* One dataset's loads in flight and their bytes, its samples in memory, those in flight included, and how many of its
 * samples jobs want, and their mean length. An element without samples, of which none is wanted, is free. */
struct flight {
    const void *dataset;
    uint64_t formed, formed_from; /* bytes that forms take, or would take, and those of their samples as read */
    uint32_t loads;
    uint64_t bytes;
    uint64_t samples, wanted, mean_bytes;
    /* Bytes of the loads that had ended at ended_ns, each by how long ago it ended: about what one second brings. */
    double brought;
    uint64_t ended_ns;
};

/* When samples are used next; see encoded_next.c. Owner: encoded_next.c. */
struct next_uses {
    bool known; /* All jobs have orders of their own, and memory does not hold all that they want. */
    bool stale; /* A job has gone since the heap was made. */
    /* Time is counted in draws of this job, the first one when the heap was made; ENGINE_NONE: there was none. */
    uint32_t first;
    struct known_order *orders; /* indexed by job; JOBS_MAX of them, or NULL */
    /* While `known`: the encodeds without pins, farthest next use first; `count` of them. */
    uint32_t *heap;
    uint32_t count;
    size_t cap;
    uint64_t bytes; /* size of the orders; it counts against the budget */
};

/* The decoded forms; see encoded_forms.c. Owner: encoded_forms.c. */
struct forms {
    uint64_t most_bytes; /* forms are made only while encoded memory takes no more than this; 0: none are */
    /* Bytes that forms take, grants included, beyond what their samples took as they were read. */
    int64_t extra_bytes;
    struct line line; /* `count` encodeds with forms, the oldest first */
    uint32_t count;
    uint64_t bytes; /* of these encodeds */
};

/* How many samples of a set each chunk has. The next measure mostly asks for the same set. Owner: encoded_keep.c. */
struct counted {
    struct idset *set;
    uint64_t moves;    /* valid while chunks.moves has this value */
    uint32_t *samples; /* indexed by chunk */
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
    struct idset *kept_of; /* the set from which `kept` was chosen, when chunks.moves was kept_moves */
    uint64_t kept_moves;
    struct next_uses next;
    struct forms forms;
    /* Returns the number of samples planned for a rank in this epoch; UINT64_MAX when the rank has finished it. It is
     * queue_rank_planned, of a later module. */
    uint64_t (*rank_planned)(const struct job *job, uint32_t rank);
    /* Estimated bytes of all kept samples; of those of them that are in memory, as they were read. */
    uint64_t kept_most, kept_bytes;
    uint64_t kept_pinned_bytes; /* the part of kept_bytes that is pinned */
    uint32_t *slots;            /* scratch of encoded_slots: three arrays of a chunk's samples */
    size_t slots_cap;
};

/* encoded.c */
/* encoded_sample returns what encoded memory knows of a sample. */
static inline struct encoded_sample *encoded_sample(const struct encoded_store *store, sample_id id)
{
    return &samples_at(&store->env->samples, id)->encoded;
}

/* encoded_fiber_enter counts an encoded in its fiber's list and its group's stock, unless it is there or the sample is
 * in no fiber. encoded_fiber_leave takes it out again if it is there. */
void encoded_fiber_enter(struct encoded_store *store, uint32_t encoded);
void encoded_fiber_leave(struct encoded_store *store, uint32_t encoded);
/* encoded_member returns member `at` of a fiber that the caller goes through from the last one on. */
static inline struct encoded *encoded_member(const struct encoded_store *store, const struct fiber_members *members,
                                             uint32_t at)
{
    if (at >= MEMBERS_AHEAD)
        __builtin_prefetch(&store->encodeds[members->all[at - MEMBERS_AHEAD]]);
    return &store->encodeds[members->all[at]];
}
/* encoded_fetch has the processor fetch the sample's encoded, which is looked at soon. */
static inline void encoded_fetch(const struct encoded_store *store, sample_id id)
{
    uint32_t index = encoded_sample(store, id)->encoded;
    if (index == ENGINE_NONE)
        return;
    __builtin_prefetch(&store->encodeds[index]);
    residency_fetch(store->residency, index);
}
/* encoded_free frees an encoded for which no task waits, and gives its handle back. `evicted` says whether it counts as
 * evicted. */
void encoded_free(struct encoded_store *store, uint32_t encoded, bool evicted);
/* encoded_drop_handles calls `drop` with the handle of each encoded that is READY. The store may not be used after
 * that. */
void encoded_drop_handles(const struct encoded_store *store, void (*drop)(void *handle));
/* encoded_most returns the bytes that encoded samples may take beside the records of instances. */
uint64_t encoded_most(const struct encoded_store *store);
/* encoded_sure returns the bytes that encoded samples may take when the arena is full of the jobs' instances. Plans
 * count on this. */
uint64_t encoded_sure(const struct encoded_store *store);
/* encoded_sure_alone returns the same, without what known orders take now. */
uint64_t encoded_sure_alone(const struct encoded_store *store);
/* encoded_budget returns the budget, with what instances may not have now of the arena's. */
uint64_t encoded_budget(const struct encoded_store *store);
/* encoded_taken returns the bytes of the budget that encoded samples, records and orders take. */
uint64_t encoded_taken(const struct encoded_store *store);
/* encoded_shed evicts unpinned encodeds until used_bytes is at most encoded_most. */
void encoded_shed(struct encoded_store *store);
/* encoded_begin begins an encoded for a load from the dataset, with one pin, and evicts what it must; ENGINE_NONE when
 * there is no room now. */
uint32_t encoded_begin(struct encoded_store *store, const void *dataset, sample_id id, uint64_t bytes);
/* encoded_arrived takes the bytes that a load has brought. The load's pin stays until the caller unpins it.
 * encoded_failed frees an encoded whose load has failed. */
void encoded_arrived(struct encoded_store *store, uint32_t encoded, void *handle, uint64_t bytes);
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
/* encoded_drop_if_idle drops the sample's encoded if it has no pin, and is either neither wanted nor kept, or known
 * never to be used again. Call it after the jobs whose remaining sets the sample has left have placed their picks. */
void encoded_drop_if_idle(struct encoded_store *store, sample_id id);
/* encoded_forms_victim returns an encoded with a form and without pins, to be evicted before all others; RESIDENT_NONE
 * when there is none. */
uint32_t encoded_forms_victim(const struct encoded_store *store);
/* encoded_drop_idle drops up to `most` encodeds for which the same holds, and returns their number. Fewer than `most`
 * means that no settled one is left. */
uint32_t encoded_drop_idle(struct encoded_store *store, uint32_t most);
/* encoded_victim returns the encoded that fewest jobs want; RESIDENT_NONE when all have pins. */
uint32_t encoded_victim(struct encoded_store *store);
/* encoded_mean_bytes returns the mean length, as read, of the encodeds that are there; 0 when there are none. */
uint64_t encoded_mean_bytes(const struct encoded_store *store);

/* encoded_wants.c */
/* encoded_shift_want adds `by` to the encoded's want, and works out its next use anew. */
void encoded_shift_want(struct encoded_store *store, uint32_t encoded, int by);
/* encoded_left takes the job's want of the encoded away, after the sample has left R_job. encoded_back adds it after
 * the sample has come back. */
void encoded_left(struct encoded_store *store, uint32_t encoded, uint32_t job);
void encoded_back(struct encoded_store *store, uint32_t encoded, uint32_t job);
/* encoded_follow applies the changes to the encoded, and returns whether its want has changed. The encoded must have
 * followed all earlier changes. */
bool encoded_follow(struct encoded_store *store, uint32_t encoded, const struct change *changes, uint32_t count);
/* encoded_catch_up settles an encoded that is not settled; encoded_settle also accepts a settled one. Both return
 * whether its want has changed. */
bool encoded_catch_up(struct encoded_store *store, uint32_t encoded);
static inline bool encoded_settle(struct encoded_store *store, uint32_t encoded)
{
    return store->encodeds[encoded].settled != store->changes->end && encoded_catch_up(store, encoded);
}

/* encoded_bars.c */
/* Whether a read may begin, or why not. */
enum encoded_bar { ENCODED_FREE_TO_READ, ENCODED_NO_ROOM, ENCODED_NO_SHARE };
/* encoded_bar_to_read says whether a read of the sample's chunk may begin for the job. Memory must have room for the
 * bytes that the chunk brings, unless nothing is pinned. The limit of LOADs must have room for its samples, unless the
 * job's source has no load in flight. ENCODED_NO_SHARE: other sources may read, but the job's source already has its
 * share in flight. */
enum encoded_bar encoded_bar_to_read(const struct encoded_store *store, uint32_t job, sample_id id, uint64_t bytes);
/* encoded_share_for_read tells whether the dataset's source may have these samples and bytes in flight as well. */
bool encoded_share_for_read(const struct encoded_store *store, const void *dataset, uint32_t samples, uint64_t bytes);

/* encoded_flights.c */
/* encoded_flight_begin counts a load of the dataset and returns the number of its flight. encoded_flight_end ends the
 * load, and encoded_flight_free counts the sample as in memory no longer. encoded_flight_brings returns about how many
 * bytes the flight's loads have brought in the last second; it is less the longer none has ended. */
uint32_t encoded_flight_begin(struct encoded_store *store, const void *dataset, uint64_t bytes);
void encoded_flight_end(struct encoded_store *store, const struct encoded *encoded);
void encoded_flight_free(struct encoded_store *store, const struct encoded *encoded);
double encoded_flight_brings(const struct encoded_store *store, const struct flight *flight);
/* encoded_flight_want counts samples of the job's dataset that are wanted; encoded_flight_want_none sets all counts to
 * 0. */
void encoded_flight_want(struct encoded_store *store, const struct job *job, uint64_t samples);
void encoded_flight_want_none(struct encoded_store *store);
/* encoded_flight returns the dataset's loads in flight; NULL when there are none. Valid until a load begins or ends. */
const struct flight *encoded_flight(const struct encoded_store *store, const void *dataset);

/* encoded_keeps tells whether the sample's bytes stay over all epochs. */
bool encoded_keeps(const struct encoded_store *store, sample_id id);
/* encoded_room returns the bytes that kept samples, or others, may still take without eviction of anything but forms.
 * `share`: the fraction of the memory not reserved for kept samples that may be filled. */
double encoded_room(const struct encoded_store *store, bool kept, double share);

/* encoded_keep.c: encoded_keep_measure chooses which chunks and samples are kept, and drops those kept no longer. Call
 * it when a job comes or goes. `ahead_bytes`: the memory that the look-ahead of all jobs takes at once. If it sets
 * chunks.stale, the groups must be made anew. */
void encoded_keep_measure(struct encoded_store *store, uint64_t ahead_bytes);
void encoded_keep_destroy(struct encoded_store *store);

/* encoded_next.c */
/* encoded_next_measure sets whether eviction goes by next use from now on. Call it when a job has come or gone. Call
 * encoded_next_epoch when an epoch of a job has begun. It returns whether next uses have changed; then the caller adds
 * CHANGE_USES. Call encoded_next_forget when the job goes. */
void encoded_next_measure(struct encoded_store *store, bool known);
bool encoded_next_epoch(struct encoded_store *store, const struct job *job);
void encoded_next_forget(struct encoded_store *store, uint32_t job);
/* encoded_next_note puts an encoded without pins into the heap, by its next use. encoded_next_remove takes it out when
 * it gets a pin or is freed. */
void encoded_next_note(struct encoded_store *store, uint32_t index);
void encoded_next_remove(struct encoded_store *store, uint32_t index);
/* encoded_next_victim returns the encoded to evict first; RESIDENT_NONE when all have pins. */
uint32_t encoded_next_victim(struct encoded_store *store);
/* encoded_next_is_never tells whether it is known that nobody will use the encoded again. */
bool encoded_next_is_never(const struct encoded_store *store, uint32_t index);
/* encoded_next_has_way tells whether the sample, which is wanted in this epoch, may be read ahead and evict one that is
 * not wanted in it and is used later. */
bool encoded_next_has_way(struct encoded_store *store, sample_id id);
void encoded_next_destroy(struct encoded_store *store);
void encoded_next_check(const struct encoded_store *store); /* CHECKs the heap */

/* encoded_forms.c */
/* encoded_is_other tells whether the sample's decoded form, or its planes, are in memory, in place of its bytes. */
bool encoded_is_other(const struct encoded_store *store, sample_id id);
/* encoded_handle_bytes returns the length of what the encoded's handle is for. */
static inline uint64_t encoded_handle_bytes(const struct encoded_store *store, uint32_t encoded)
{
    return store->encodeds[encoded].bytes - store->encodeds[encoded].granted;
}

/* encoded_as_read returns the length of the encoded's bytes as they were read. */
static inline uint64_t encoded_as_read(const struct encoded *encoded)
{
    return encoded->decoded ? encoded->read_bytes : encoded->bytes - encoded->granted;
}

/* encoded_forms_measure finds out whether forms may be made, and up to how much memory. Call it when a job comes or
 * goes, after encoded_flight_want. */
void encoded_forms_measure(struct encoded_store *store);
/* encoded_form_grant returns how much a preparation of the encoded, which is about to go out, may take for a form; 0:
 * it is to make none. Otherwise the caller calls encoded_form_made when the preparation has ended: with the form's
 * handle, or NULL, and what it takes, or 0. */
uint64_t encoded_form_grant(struct encoded_store *store, uint32_t encoded);
void encoded_form_made(struct encoded_store *store, uint32_t encoded, void *form, uint64_t bytes);
/* encoded_forms_shed evicts some forms, if none may be there. */
void encoded_forms_shed(struct encoded_store *store);

/* encoded_read.c */
/* encoded_slots returns the slots of a chunk in the order in which a read is to bring them, after
 * encoded_measure_shortage; valid until the next call. */
const uint32_t *encoded_slots(struct encoded_store *store, const struct chunk *chunk);
/* encoded_job_for returns a job that needs a sample of the chunk, and whose source answers and may read the chunk now;
 * ENGINE_NONE when there is none. */
uint32_t encoded_job_for(const struct encoded_store *store, const struct chunk *chunk, uint32_t chunk_samples);
/* encoded_best_chunk returns the chunk of the group whose read brings most; among equals one at random. NULL when no
 * chunk that fits brings enough. */
const struct chunk *encoded_best_chunk(struct encoded_store *store, const struct group *group);
/* encoded_hungry_group returns the group with the least in memory for its size, among groups that are worth a try and
 * whose source may read a chunk; NULL when there is none. */
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
/* encoded_measure_whole finds out whose stocks a read of the chunk for the job may fill whole, after
 * encoded_measure_shortage. */
void encoded_measure_whole(struct encoded_store *store, const struct chunk *chunk, uint32_t job);
/* encoded_fill tells what a read of the chunk would bring, after encoded_measure_shortage of its group. */
struct fill encoded_fill(const struct encoded_store *store, const struct chunk *chunk);
/* encoded_count_wants returns how many takers need the sample. */
uint32_t encoded_count_wants(const struct encoded_store *store, sample_id id);
/* encoded_lacks tells whether some taker that may still get something of this read needs the sample, and its stock of
 * the fiber has room. */
bool encoded_lacks(const struct encoded_store *store, const struct shortage *room, sample_id id);
/* encoded_count_brought counts the sample, which a read brings, against what the read may bring each taker. */
void encoded_count_brought(const struct encoded_store *store, struct shortage *room, sample_id id);
/* encoded_may_evict tells whether the sample may replace the next victim of eviction. It is called after
 * encoded_measure_whole. */
bool encoded_may_evict(struct encoded_store *store, const struct shortage *room, sample_id id, uint32_t max);
/* encoded_most_fill returns the most that a read of any chunk of the group could bring, after
 * encoded_measure_shortage. */
struct fill encoded_most_fill(const struct encoded_store *store, const struct group *group);

/* encoded_check.c: encoded_check CHECKs the invariants above. users[i] is the number of tasks that pin encoded i.
 * `sweeping`: some may be there yet that nobody wants. */
void encoded_check(const struct encoded_store *store, const uint32_t *users, bool sweeping);

#endif
