/* prepared.h: instances in the arena: their room, pins, wants, eviction, and the zones.
 *
 * Invariant: an instance that is not FREE owns one used block of the arena and is on its sample's list. It has one pin
 * for each entry that waits for it or has it ready, one for each lease that has it, and one while it is MAKING. Once it
 * is settled (changes.h), its want is demand_count. Only a READY instance without pins may be evicted. A zone has as
 * many slots as it has promised, in use or free, and lists all instances of its size.
 * Owner: the prepared_*.c own instances, extents, residency, zones and pinned_bytes, and of a sample its `instances`
 * and `begun`. Two fields of an instance have other owners: task (tasks) and waiters (queue). */
#ifndef LARDER_SERVER_ENGINE_PREPARED_H
#define LARDER_SERVER_ENGINE_PREPARED_H

#include <stddef.h>

#include "cache/memory/extent.h"
#include "cache/memory/layout.h"
#include "cache/memory/residency.h"
#include "server/engine/changes.h"
#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/outbox.h"
#include "server/engine/slab.h"

enum instance_state { INSTANCE_FREE, INSTANCE_MAKING, INSTANCE_READY };

#define INSTANCE_BYTES_BITS 46 /* as many as the bytes of an address space take */
#define INSTANCE_WANT_BITS 10
#define INSTANCE_WANT_MASK ((1u << INSTANCE_WANT_BITS) - 1)

/* One prepared form of a sample. Its number is its index in prepared.instances. A pick looks at many of them, and in a
 * large arena each look comes from memory. So all that a look needs lies in the first half, which is one line of the
 * processor's cache. */
struct instance {
    uint64_t bytes : INSTANCE_BYTES_BITS; /* its length; the block is at least as long */
    enum instance_state state : 2;
    bool zoned : 1; /* Its block is a slot of the zone of its size. */
    bool raw : 1;   /* It is the encoded bytes themselves. */
    bool sized : 1; /* Others of its pipeline have other lengths. It has no zone. */
    /* It is given for its own sample only, because it is no random sample of its fiber: it was begun for a job in the
     * dataset's order, or lies here since an earlier epoch. */
    bool alone : 1;
    /* Another node prepares it, and may choose another sample for it: until it arrives, no other job can get it. */
    bool expected : 1;
    /* It came for an entry that had no place for it. Until that finds it, nothing pins it, and it may be evicted. */
    bool kept : 1;
    uint16_t want : INSTANCE_WANT_BITS; /* the want that `residency` has of it */
    struct form form;
    uint32_t settled;     /* It has followed all changes before this number. */
    uint32_t next;        /* The next instance of the same sample. For an unused place: the next unused one. */
    struct jobset wanted; /* the jobs that its want counts */
    uint32_t block;       /* Its block of the arena, which it owns. */
    uint32_t arranged;    /* the value of chunks.arranged when it entered its fiber; 0: it is in none */
    uint32_t task;        /* the task that makes it; ENGINE_NONE once it is READY */
    uint32_t waiters;     /* the first entry that waits for it; next_waiter links the others */
    struct link in_zone;  /* unless it is sized: its neighbours in its zone's list `used` or `beside` */
    /* Number of instances of the sample begun before it; 0 under SHUFFLE_STRICT with a variant. It is part of the key
     * of the random draws. */
    uint32_t draw;
    uint32_t made_for; /* The serial of the job that it was begun for. Any other job that gets it shares it. */
};

_Static_assert(sizeof(struct instance) == 128 && offsetof(struct instance, wanted) == 64,
               "an instance is two lines of the cache, and a look at it takes one");
_Static_assert(RESIDENCY_WANT_MAX <= INSTANCE_WANT_MASK, "an instance has room for its want");

/* Slots of one size, into which no other size gets; see prepared_zones.c. Each size that instances have has a zone,
 * perhaps without slots. */
struct zone {
    uint64_t bytes;     /* bytes of one slot, as engine_slot_bytes rounds them */
    uint64_t promised;  /* slots that jobs are sure of: the sum of their zone_slots */
    uint64_t slots;     /* existing slots, free or in use; between steps as many as promised */
    struct line used;   /* the instances in slots */
    struct line beside; /* the instances of this size that lie beside the slots, the oldest first */
    /* The blocks of the n_free slots that are not in use. The zone owns the array of `cap` places. */
    uint32_t *free;
    size_t n_free, cap;
};

/* the owner of a block that has no memory */
#define PREPARED_AWAY (ENGINE_NONE - 1)

enum { LINGER_PARTS = 8 };

/* How much of the arena is reserved. Owners: prepared_limit.c of the first three members, prepared_grow.c of the rest;
 * prepared.c resets vain_bytes. */
struct growth {
    uint64_t limit; /* Nothing is placed above. */
    /* Up to here the arena grows for instances that jobs can do without, and above it these go. It is below
     * config.arena_bytes only where encoded samples have what is above; owner: split. */
    uint64_t most_bytes;
    bool yields;           /* The limit goes down to most_bytes, and what jobs want goes with it. */
    bool held_up;          /* Encoded samples must give memory back before more of the arena can be asked for. */
    uint32_t above;        /* the block that begins there; EXTENT_NONE: it is the arena's end */
    uint64_t away_bytes;   /* bytes of all blocks without memory */
    uint64_t asked_bytes;  /* bytes asked for by the RESERVE that is out; 0: none is out */
    uint64_t owed_bytes;   /* bytes that went away while it is out: they are returned after its answer */
    uint64_t wanted_bytes; /* the limit that is aimed at */
    uint64_t lacked_bytes; /* limit that was lacked last, whether it came or not, and when */
    uint64_t lacked_ns;
    /* Length of the free range that was not found even in the whole arena. Reserving all of it again is useless for
     * that length until something is freed. UINT64_MAX: no search failed. */
    uint64_t vain_bytes;
    uint64_t leftovers_most; /* number of leftovers that may grow the arena */
    bool refused;            /* The last RESERVE got less than it asked for. */
    bool pressed;            /* Memory was short since. */
    /* When the RESERVE that is out is answered, memory above the limit is returned once more. */
    bool returns_again;
    bool shrinks; /* The limit goes down to keep_bytes. */
    uint64_t keep_bytes;
    uint64_t again_ns; /* Nothing is asked for before this time. */
    uint64_t came_ns;  /* when more came last */
    /* The most that was needed in each part of config.linger_ns. The present one ends at part_ends_ns. */
    uint64_t needed_bytes[LINGER_PARTS];
    uint32_t part;
    uint64_t part_ends_ns;
    bool settled; /* The need was the same all the time, and is: waiting changes nothing. */
};

#define PREPARED_RECENT 1024 /* a power of two */

/* The arena's instances. Owners: the prepared_*.c. */
struct prepared {
    struct engine_env *env;
    struct outbox *outbox;
    struct jobs *jobs;
    struct chunks *chunks;
    const struct changes *changes;
    struct instance *instances;
    struct slab slab;            /* the numbered places of instances */
    struct residency *residency; /* pins and wants of instances, by their numbers */
    struct extents *extents;
    struct zone *zones; /* n_zones of them, the largest slots first */
    uint32_t n_zones;
    uint64_t room_changes; /* counts each change that may have made room */
    uint64_t pinned_bytes; /* bytes of the blocks whose instances have a pin */
    struct growth growth;
    /* The instances begun last: the i-th that was ever begun is at recent[i % PREPARED_RECENT], unless it is gone. */
    uint32_t recent[PREPARED_RECENT];
    uint64_t n_begun;
    uint32_t *window; /* scratch of prepared_room.c: instances that are to be cleared */
    size_t window_cap;
};

/* prepared_sample returns what the arena has of a sample. */
static inline struct prepared_sample *prepared_sample(const struct prepared *prepared, sample_id id)
{
    return &samples_at(&prepared->env->samples, id)->prepared;
}

/* prepared_fetch has the processor fetch an instance that is looked at soon. */
static inline void prepared_fetch(const struct prepared *prepared, uint32_t index)
{
    __builtin_prefetch(&prepared->instances[index]);
}

/* Goes over the instances of a sample. The present one may be pinned and changed, but not freed. */
#define INSTANCES_OF(prepared, sample, index)                                                 \
    for (uint32_t index = prepared_sample(prepared, sample)->instances; index != ENGINE_NONE; \
         index = (prepared)->instances[index].next)

/* prepared.c */
/* instance_new returns the number of an unused place, all zeros; instance_drop makes the place unused again. See
 * slab.h. */
uint32_t instance_new(struct prepared *prepared);
void instance_drop(struct prepared *prepared, uint32_t instance);
/* prepared_idle returns how many instances have no pin and are wanted by nobody now. */
uint32_t prepared_idle(const struct prepared *prepared);
/* prepared_free frees an instance for which no entry waits, and its block. */
void prepared_free(struct prepared *prepared, uint32_t instance);
/* prepared_evict frees an instance that is READY and has no pin, and counts it as evicted. */
void prepared_evict(struct prepared *prepared, uint32_t instance);
/* prepared_made makes the instance READY. The pin of its making stays until the caller unpins it. It returns the first
 * of the entries that waited for the instance; ENGINE_NONE when none did. */
uint32_t prepared_made(struct prepared *prepared, uint32_t instance);
/* prepared_trim frees the end of a sized instance that has been made, and is `bytes` long. */
void prepared_trim(struct prepared *prepared, uint32_t instance, uint64_t bytes);
/* prepared_expect has an instance that has just begun come from another node. prepared_rename makes it one of another
 * sample. prepared_arrived makes it READY, as prepared_made does. prepared_keep keeps one that has arrived, and that an
 * entry has a pin of, until the job finds it. */
void prepared_expect(struct prepared *prepared, uint32_t instance);
void prepared_rename(struct prepared *prepared, uint32_t instance, sample_id id);
uint32_t prepared_arrived(struct prepared *prepared, uint32_t instance);
void prepared_keep(struct prepared *prepared, uint32_t instance);
/* prepared_pin adds a pin; prepared_unpin takes one away. The last unpin frees an instance whose pipeline has gone. */
void prepared_pin(struct prepared *prepared, uint32_t instance);
void prepared_unpin(struct prepared *prepared, uint32_t instance);
/* prepared_mark_had notes that the job has planned or got the instance, and no longer wants it. prepared_clear_had
 * takes the note back. */
void prepared_mark_had(struct prepared *prepared, uint32_t job, uint32_t instance);
void prepared_clear_had(struct prepared *prepared, uint32_t job, uint32_t instance);
/* prepared_find returns an instance of the sample that the job may get, one that is READY before one that is MAKING;
 * ENGINE_NONE when there is none. */
uint32_t prepared_find(struct prepared *prepared, uint32_t job, sample_id id);

/* prepared_wants.c */
/* prepared_fiber_enter puts an instance into its fiber's list, unless it is there or the sample is in no fiber.
 * prepared_fiber_leave takes it out if it is there. Only instances that are listed are in it. */
void prepared_fiber_enter(struct prepared *prepared, uint32_t instance);
void prepared_fiber_leave(struct prepared *prepared, uint32_t instance);
/* prepared_is_wanted tells whether some job wants the instance now. */
bool prepared_is_wanted(const struct prepared *prepared, uint32_t index);
/* prepared_is_listed tells whether another sample's pick may get the instance: somebody wants it, and it is not alone.
 * prepared_set_alone has it given for its own sample only from now on. */
bool prepared_is_listed(const struct prepared *prepared, uint32_t index);
void prepared_set_alone(struct prepared *prepared, uint32_t index);
/* prepared_set_want sets the instance's want. The list of its fiber follows. */
void prepared_set_want(struct prepared *prepared, uint32_t index, uint32_t want);
/* prepared_count_wants counts the wants of a settled instance anew. */
void prepared_count_wants(struct prepared *prepared, uint32_t index);
/* prepared_left takes the job's want of the instance away: the job may not get it any longer. prepared_back adds it if
 * the job wants the instance. */
void prepared_left(struct prepared *prepared, uint32_t index, uint32_t job);
void prepared_back(struct prepared *prepared, uint32_t index, uint32_t job);
/* prepared_follow applies the changes to the instance, and returns whether its want has changed or it has become alone.
 * The instance must have followed all earlier changes. */
bool prepared_follow(struct prepared *prepared, uint32_t index, const struct change *changes, uint32_t count);
/* prepared_catch_up settles an instance that is not settled; prepared_settle also accepts a settled one. Both return
 * what prepared_follow does. */
bool prepared_catch_up(struct prepared *prepared, uint32_t index);
static inline bool prepared_settle(struct prepared *prepared, uint32_t index)
{
    return prepared->instances[index].settled != prepared->changes->end && prepared_catch_up(prepared, index);
}

/* prepared_room.c */
/* prepared_begin begins an instance of the sample for the job, with one pin for its making; `expected` says that
 * another node makes it. If need be it evicts instances that are wanted less. ENGINE_NONE when there is no room now. */
uint32_t prepared_begin(struct prepared *prepared, uint32_t job, sample_id id, bool expected);
/* prepared_begin_spare begins an instance like prepared_begin, but evicts only instances that nobody wants. */
uint32_t prepared_begin_spare(struct prepared *prepared, uint32_t job, sample_id id);
/* prepared_extend promises up to `slots` more slots of `bytes`, and returns how many it found without evicting
 * anything: in free space, and in blocks of instances of this size. prepared_extend_clearing evicts unpinned victims
 * for the rest. *more: it stopped because it has evicted as many as one step may. */
uint64_t prepared_extend(struct prepared *prepared, uint64_t bytes, uint64_t slots);
uint64_t prepared_extend_clearing(struct prepared *prepared, uint64_t bytes, uint64_t slots, bool *more);

/* prepared_limit.c */
/* prepared_limit_begin is called once, when the extents are there. */
void prepared_limit_begin(struct prepared *prepared);
/* prepared_is_free tells whether the block is free, prepared_is_away whether there is no memory for it. Both take
 * EXTENT_NONE. */
bool prepared_is_free(const struct prepared *prepared, uint32_t block);
bool prepared_is_away(const struct prepared *prepared, uint32_t block);
/* prepared_release frees a block in use, whose owner has no more use for it. */
void prepared_release(struct prepared *prepared, uint32_t block);
/* prepared_there_bytes returns the bytes that there is memory for. */
uint64_t prepared_there_bytes(const struct prepared *prepared);
/* prepared_used_bytes returns the bytes of all blocks in use, free slots of zones among them. */
uint64_t prepared_used_bytes(const struct prepared *prepared);
/* prepared_last_below returns the block that ends where the limit is; EXTENT_NONE when the limit is 0. */
uint32_t prepared_last_below(const struct prepared *prepared);
/* prepared_cut lowers the limit to `from`, which lies in that block, or begins it. The block must be free. The memory
 * above `from` goes back to the system. prepared_leave_island lowers the limit to the beginning of that block, which is
 * in use. */
void prepared_cut(struct prepared *prepared, uint32_t block, uint64_t from);
void prepared_leave_island(struct prepared *prepared, uint32_t block);
/* prepared_lift raises the limit to `bytes`, up to which the arena is reserved now, or to the end of an island that
 * lies across it. */
void prepared_lift(struct prepared *prepared, uint64_t bytes);
/* prepared_return_all returns all that is away once more. */
void prepared_return_all(struct prepared *prepared);

/* prepared_grow.c */
/* prepared_growth_begin is called once, when the extents are there. */
void prepared_growth_begin(struct prepared *prepared);
/* prepared_may_grow tells whether more of the arena can be expected to come, or has come in this step. */
bool prepared_may_grow(const struct prepared *prepared);
/* prepared_count_leftovers works out how many leftovers may grow the arena. It is called when jobs came or went. */
void prepared_count_leftovers(struct prepared *prepared);
/* prepared_lack notes that an instance which found no room would find it with a limit of `bytes`. */
void prepared_lack(struct prepared *prepared, uint64_t bytes);
/* prepared_note_room notes whether an instance of `bytes` has found room. It may raise the limit that is aimed at.
 * `spare`: nobody waits for the instance. */
void prepared_note_room(struct prepared *prepared, uint64_t bytes, bool spare, bool found);
/* prepared_set_most has instances that jobs can do without stay within `bytes` of the arena. prepared_taken_bytes
 * returns how much of the arena is there, or is to come. */
void prepared_set_most(struct prepared *prepared, uint64_t bytes);
uint64_t prepared_taken_bytes(const struct prepared *prepared);
/* prepared_room_comes tells whether an instance of `bytes` that finds no room is to wait, because memory has been or
 * will be asked for in this step. */
bool prepared_room_comes(const struct prepared *prepared, uint64_t bytes);
/* prepared_on_reserved takes the answer to a RESERVE. */
void prepared_on_reserved(struct prepared *prepared, uint64_t bytes, bool refused);
/* prepared_press has what no running job wants go, because memory is short. */
void prepared_press(struct prepared *prepared);
/* Both end a step. prepared_tend gives back what was not needed for long. prepared_ask then asks for what is wanted.
 * `room_bytes`: the arena may have so many bytes, because encoded samples have none of them. */
void prepared_tend(struct prepared *prepared);
void prepared_ask(struct prepared *prepared, uint64_t room_bytes);
/* prepared_wakes_ns returns the time at which one of these has something to do without an event; UINT64_MAX: never. */
uint64_t prepared_wakes_ns(const struct prepared *prepared);

/* prepared_zones.c */
/* prepared_zone_of returns the zone of the instance's size, whether its block is a slot or not; NULL when it is
 * sized. */
struct zone *prepared_zone_of(const struct prepared *prepared, const struct instance *instance);
/* prepared_zone_for returns the zone with slots of `bytes`, and makes it if there is none. Making one invalidates
 * pointers to zones. */
struct zone *prepared_zone_for(struct prepared *prepared, uint64_t bytes);
/* prepared_zone_take returns a free slot of the zone to the instance; ENGINE_NONE when there is none. */
uint32_t prepared_zone_take(struct prepared *prepared, struct zone *zone, uint32_t instance);
/* prepared_zone_enter puts an instance that has its block into the list of its zone. prepared_zone_leave takes it out
 * if it has a zone, and gives up its block: a slot becomes a free one. */
void prepared_zone_enter(struct prepared *prepared, struct zone *zone, uint32_t instance);
void prepared_zone_leave(struct prepared *prepared, uint32_t instance);
/* prepared_zone_add turns a block in use that nobody owns into a free slot of the zone. prepared_zone_adopt turns the
 * block of the oldest instance beside the slots into a slot; false: there is none. */
void prepared_zone_add(struct zone *zone, uint32_t block);
bool prepared_zone_adopt(struct prepared *prepared, struct zone *zone);
/* prepared_zones_free_bytes returns the bytes of all free slots of all zones. */
uint64_t prepared_zones_free_bytes(const struct prepared *prepared);
/* prepared_zones_destroy frees the zones. */
void prepared_zones_destroy(struct prepared *prepared);
/* prepared_as_block describes a block for a layout. `owner` is the instance in it, ENGINE_NONE when there is none. */
struct layout_block prepared_as_block(const struct prepared *prepared, uint32_t block, uint32_t owner);
/* prepared_survey fills the layout's blocks with the present arena. `fixed` tells whether an instance must stay. The
 * caller frees layout->blocks. */
void prepared_survey(const struct prepared *prepared, const bool *fixed, struct layout *layout);
/* prepared_clear_slots makes the slots that the layout leaves the slots of the zones. It sets `goes` for each instance
 * that must make way. When the caller has freed these, prepared_make_slots makes the slots that are missing. */
void prepared_clear_slots(struct prepared *prepared, const struct layout *layout, bool *goes);
void prepared_make_slots(struct prepared *prepared, const struct layout *layout);
/* prepared_promises returns for each zone what a layout must have: slot size and promised slots. The caller frees the
 * array. */
struct layout_zone *prepared_promises(const struct prepared *prepared);
/* prepared_compare_blocks orders two struct layout_block by their offsets, for qsort. */
int prepared_compare_blocks(const void *a, const void *b);
/* prepared_has_zone tells whether slots or instances of `bytes` exist. */
bool prepared_has_zone(const struct prepared *prepared, uint64_t bytes);
/* prepared_promise promises `slots` more slots of `bytes`; they must be laid out afterwards. prepared_withdraw takes
 * the promise back, and gives up surplus slots. */
void prepared_promise(struct prepared *prepared, uint64_t bytes, uint64_t slots);
void prepared_withdraw(struct prepared *prepared, uint64_t bytes, uint64_t slots);

/* prepared_check.c: prepared_check CHECKs the invariants above. users[i] is the number of entries and leased samples
 * that pin instance i. */
void prepared_check(const struct prepared *prepared, const uint32_t *users);

#endif
