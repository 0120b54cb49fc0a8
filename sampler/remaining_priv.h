/* remaining_priv.h: a job's view and what is left of it, made for uniform draws.
 *
 * Chunks of 4096 ids, a bit an id, for those chunks only in which the view has an id; a directory finds a chunk's slot.
 * Counts per slot and per group of 64 slots give the id of any rank in one short scan each, at any density, so a draw
 * is exactly uniform: rank first, then the id that has it. A roaring bitmap does the same with a binary search and a
 * memmove per removal; here a removal is a bit and two counters, and putting the view back is a memcpy of a bit per id.
 *
 * One owner thread. Nothing here allocates after remaining_create. */
#ifndef LARDER_SAMPLER_REMAINING_PRIV_H
#define LARDER_SAMPLER_REMAINING_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/random.h"
#include "common/types.h"
#include "sampler/chunk_priv.h"
#include "sampler/idset.h"
#include "sampler/sampler.h"

#define GROUP_SLOTS 64

struct remaining {
    uint32_t first_chunk, n_chunks; /* what the directory covers */
    uint32_t n_slots, n_groups;
    uint64_t count, view_count;
    uint32_t *slot_of;      /* by chunk - first_chunk; n_slots: a chunk without ids, whose slot is always empty */
    uint32_t *chunk_of;     /* by slot */
    uint64_t *words;        /* by slot, CHUNK_WORDS each; one empty slot at the end */
    uint16_t *counts;       /* by slot, the empty one included */
    uint32_t *groups;       /* by slot / GROUP_SLOTS: sums of counts */
    uint64_t *view_words;   /* the same three for the whole view */
    uint16_t *view_counts;
    uint32_t *view_groups;
    uint16_t *common;       /* by slot: scratch of dependent.c */
};

/* remaining_create takes nothing: the set borrows `view` for the call. Nothing is left at first. LARDER_ENOMEM. */
int remaining_create(const struct idset *view, struct remaining **out);
void remaining_destroy(struct remaining *set); /* accepts NULL */

void remaining_refill(struct remaining *set); /* all of the view */
uint64_t remaining_bytes(const struct remaining *set);
/* remaining_view_ids writes the view's ids, ascending, view_count of them. */
void remaining_view_ids(const struct remaining *set, sample_id *ids);

/* remaining_each calls visit for each id that is left, ascending, or with `all` for each of the view. The set stays as it
 * is meanwhile. */
void remaining_each(const struct remaining *set, bool all, sampler_visit *visit, void *context);

/* remaining_select gives the id of a rank < count; remaining_draw that of a uniform rank (count > 0). */
sample_id remaining_select(const struct remaining *set, uint64_t rank);
sample_id remaining_draw(const struct remaining *set, struct rng *rng);

/* id is in the set (remove), or in the view and not in the set (add): CHECKed. */
void remaining_remove(struct remaining *set, sample_id id);
void remaining_add(struct remaining *set, sample_id id);

/* remaining_slot finds the slot of a chunk, the empty one for a chunk that the view does not touch. */
static inline uint32_t remaining_slot(const struct remaining *set, uint32_t chunk)
{
    uint32_t at = chunk - set->first_chunk;
    return at < set->n_chunks ? set->slot_of[at] : set->n_slots;
}

static inline const uint64_t *remaining_words(const struct remaining *set, uint32_t slot)
{
    return set->words + (size_t)slot * CHUNK_WORDS;
}

static inline bool remaining_has(const struct remaining *set, sample_id id)
{
    const uint64_t *words = remaining_words(set, remaining_slot(set, id >> CHUNK_BITS));
    return words[id / 64 % CHUNK_WORDS] >> (id % 64) & 1;
}

#endif
