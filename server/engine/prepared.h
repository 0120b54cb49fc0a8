/* prepared.h: instances in the arena: their room, pins, wants, eviction, and the zones.
 *
 * Invariant: an instance that is not FREE owns one used block of the arena and is on its sample's list. Its pins are
 * one for each entry that waits for it or has it ready, one for each lease that has it, and one while it is MAKING. Its
 * want is demand_count. Only a READY instance without pins may be evicted. A zone has as many slots as it has promised,
 * in use or free.
 * Owner: the prepared_*.c own instances, extents, residency, zones and pinned_bytes, and of a sample its `instances`
 * and `begun`. Two fields of an instance are others': task (tasks) and
 * waiters (queue). */
#ifndef LARDER_SERVER_ENGINE_PREPARED_H
#define LARDER_SERVER_ENGINE_PREPARED_H

#include "cache/memory/extent.h"
#include "cache/memory/layout.h"
#include "cache/memory/residency.h"
#include "server/engine/chunks.h"
#include "server/engine/demand.h"
#include "server/engine/slab.h"

enum instance_state { INSTANCE_FREE, INSTANCE_MAKING, INSTANCE_READY };

struct instance {
    enum instance_state state;
    bool zoned; /* Its block is a slot of the zone of its size. */
    bool raw;   /* It is the encoded bytes themselves. */
    /* It was begun for a job that takes its samples in the dataset's order: no random part of its fiber. */
    bool in_order;
    uint32_t next; /* The next instance of the same sample; of an unused place the next unused one. */
    struct form form;
    uint32_t block;       /* Its block of the arena, which it owns. */
    uint32_t task;        /* that makes it; ENGINE_NONE once it is READY */
    uint32_t waiters;     /* the first of the entries that wait for it, linked by next_waiter */
    struct link in_fiber; /* Its neighbours in its fiber's list, while it is in it. */
    uint64_t bytes;       /* Its length. The block is at least as long. */
    /* How many instances of the sample were begun before it; 0 under SHUFFLE_STRICT with a variant. It keys the
     * random draws. */
    uint64_t draw;
    /* The client of the job that it was begun for: who is given it besides shares it. */
    uint64_t made_for;
};

/* Slots of one size that are nobody else's; see prepared_zones.c. */
struct zone {
    uint64_t bytes;    /* Bytes of one slot, as engine_slot_bytes rounds them. */
    uint64_t promised; /* Slots that jobs are sure of: those whose `zoned` is set. */
    uint64_t slots;    /* Slots that there are, free or in use; equal to promised between steps. */
    /* Blocks of the n_free slots that are in no use. The zone owns the array of `cap` places. */
    uint32_t *free;
    size_t n_free, cap;
};

/* What the arena has of a sample. */
struct prepared_sample {
    uint32_t instances; /* the first of its list */
    uint32_t begun;     /* instances that there ever were: numbers random draws, so it is never set back */
};

/* The arena's instances. Owners: prepared.c, prepared_room.c, prepared_zones.c. */
struct prepared {
    struct engine_env *env;
    struct jobs *jobs;
    struct chunks *chunks;
    struct prepared_sample *samples; /* by sample */
    struct instance *instances;
    struct slab slab;            /* of these */
    struct residency *residency; /* Pins and wants of instances, by their numbers. */
    struct extents *extents;
    struct zone *zones; /* the largest slots first */
    uint32_t n_zones;
    uint64_t room_changes; /* counts what may have made room */
    uint64_t pinned_bytes; /* Bytes of the blocks whose instances have a pin. */
    uint32_t *window;      /* Scratch of prepared_room.c: instances that are to be cleared. */
    size_t window_cap;
};

/* Goes over the instances of a sample. The present one may be pinned and changed, not freed. */
#define INSTANCES_OF(prepared, sample, index)                                          \
    for (uint32_t index = (prepared)->samples[sample].instances; index != ENGINE_NONE; \
         index = (prepared)->instances[index].next)

/* prepared.c */
uint32_t instance_new(struct prepared *prepared);
void instance_drop(struct prepared *prepared, uint32_t instance);
int prepared_make_room(struct prepared *prepared, uint64_t ids); /* for samples below ids; LARDER_ENOMEM */
/* An instance in its fiber's list, or no more: only what somebody wants is. */
void prepared_fiber_enter(struct prepared *prepared, uint32_t instance);
void prepared_fiber_leave(struct prepared *prepared, uint32_t instance);
void prepared_set_want(struct prepared *prepared, uint32_t index, uint32_t want);
void prepared_shift_want(struct prepared *prepared, uint32_t index, int by);
void prepared_free(struct prepared *prepared, uint32_t instance);
void prepared_evict(struct prepared *prepared, uint32_t instance); /* ready, and unpinned */
/* It is READY, and pinned by its making until the caller unpins it. Gives the first of the entries
 * that waited for it. */
uint32_t prepared_made(struct prepared *prepared, uint32_t instance);
void prepared_pin(struct prepared *prepared, uint32_t instance);
void prepared_unpin(struct prepared *prepared, uint32_t instance);
void prepared_mark_had(struct prepared *prepared, uint32_t job, uint32_t instance);
void prepared_clear_had(struct prepared *prepared, uint32_t job, uint32_t instance);
void prepared_forget_pipeline(struct prepared *prepared, uint32_t pipeline);
uint32_t prepared_find(const struct prepared *prepared, uint32_t job, sample_id id);

/* prepared_room.c */
/* prepared_begin evicts what is wanted less, if there must be. ENGINE_NONE: no room now. */
uint32_t prepared_begin(struct prepared *prepared, uint32_t job, sample_id id);
/* evicts nothing that is wanted */
uint32_t prepared_begin_spare(struct prepared *prepared, uint32_t job, sample_id id);

/* prepared_zones.c */
/* NULL: none has its size */
struct zone *prepared_zone_of(const struct prepared *prepared, const struct instance *instance);
/* a free slot; ENGINE_NONE: none */
uint32_t prepared_zone_take(struct prepared *prepared, struct zone *zone, uint32_t instance);
void prepared_zone_give(struct prepared *prepared, uint32_t instance); /* its slot, which is one of a zone */
uint64_t prepared_zones_free_bytes(const struct prepared *prepared);
void prepared_zones_destroy(struct prepared *prepared);
struct layout_block prepared_as_block(const struct prepared *prepared, uint32_t block, uint32_t owner);
void prepared_survey(const struct prepared *prepared, const bool *fixed, struct layout *layout);
/* Zones come to have the slots that the layout leaves them; `goes` is set for each instance that must make way. When
 * these have gone, prepared_make_slots makes the slots that are missing. */
void prepared_clear_slots(struct prepared *prepared, const struct layout *layout, bool *goes);
void prepared_make_slots(struct prepared *prepared, const struct layout *layout);
struct layout_zone *prepared_promises(const struct prepared *prepared);
int prepared_compare_blocks(const void *a, const void *b);
/* So many slots of so many bytes are promised besides, or no more. What is promised is laid out after. */
void prepared_promise(struct prepared *prepared, uint64_t bytes, uint64_t slots);
void prepared_withdraw(struct prepared *prepared, uint64_t bytes, uint64_t slots);

/* prepared_check.c; users: for each instance, the entries and leased samples that pin it */
void prepared_check(const struct prepared *prepared, const uint32_t *users);

#endif
