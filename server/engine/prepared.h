/* prepared.h: instances in the arena: room, pins, eviction, zones. */
#ifndef LARDER_SERVER_ENGINE_PREPARED_H
#define LARDER_SERVER_ENGINE_PREPARED_H

#include "cache/memory/layout.h"
#include "server/engine/engine_priv.h"

enum {
    REUSE_VICTIMS = 32,  /* of one want, compared by expected reuse */
    WINDOW_VICTIMS = 64, /* victims whose neighbourhood is tried before the whole arena is walked */
    SPARE_VICTIMS = 8,   /* victims that spare room may cost */
    SAMPLE_WORK = 16,    /* residents that are gone through in the time that a sample's take to be found */
};

/* What an instance asks for: a slot of its zone, or so many bytes beside all zones. */
struct claim {
    uint32_t index;
    uint64_t bytes;
    struct zone *zone; /* NULL: there is none of its size */
};

/* prepared.c */
uint32_t instance_new(struct prepared *prepared);
void instance_drop(struct prepared *prepared, uint32_t instance);
void prepared_set_want(struct engine *engine, uint32_t index, uint32_t want);
void prepared_shift_want(struct engine *engine, uint32_t index, int by);
void prepared_free(struct engine *engine, uint32_t instance);
void prepared_evict(struct engine *engine, uint32_t instance); /* ready, and unpinned */
void prepared_pin(struct engine *engine, uint32_t instance);
void prepared_unpin(struct engine *engine, uint32_t instance);
void prepared_mark_had(struct engine *engine, uint32_t job, uint32_t instance);
void prepared_clear_had(struct engine *engine, uint32_t job, uint32_t instance);
void prepared_forget_pipeline(struct engine *engine, uint32_t pipeline);
uint32_t prepared_find(const struct engine *engine, uint32_t job, sample_id id);

/* prepared_room.c */
/* prepared_begin evicts what is wanted less, if there must be. ENGINE_NONE: no room now. */
uint32_t prepared_begin(struct engine *engine, uint32_t job, sample_id id);
uint32_t prepared_begin_spare(struct engine *engine, uint32_t job, sample_id id); /* evicts nothing that is wanted */

/* prepared_zones.c */
struct zone *prepared_find_zone(const struct engine *engine, uint64_t bytes);
struct zone *prepared_zone_of(const struct engine *engine, const struct instance *instance); /* NULL: none has its size */
void prepared_push_free(struct zone *zone, uint32_t block);
uint32_t prepared_zone_take(struct engine *engine, struct zone *zone, uint32_t instance); /* a free slot; ENGINE_NONE: none */
void prepared_zone_give(struct engine *engine, uint32_t instance); /* its slot, which is one of a zone */
uint64_t prepared_zones_free_bytes(const struct engine *engine);
void prepared_zones_destroy(struct engine *engine);
struct layout_block prepared_as_block(const struct engine *engine, uint32_t block, uint32_t owner);
void prepared_survey(const struct engine *engine, const bool *fixed, struct layout *layout);
void prepared_make_slots(struct engine *engine, const struct layout *layout);
struct layout_zone *prepared_promises(const struct engine *engine);
int prepared_compare_blocks(const void *a, const void *b);
struct zone *prepared_insert_zone(struct engine *engine, uint64_t bytes);
void prepared_shrink(struct engine *engine, struct zone *zone, uint64_t by);

#endif
