/* remaining_priv.h: a job's view and what is left of it, made for uniform draws.
 *
 * Ids lie in blocks of 4096, a bit an id. Only blocks in which the view has an id have a slot; a directory finds it.
 * Counts per slot and per group of 64 slots give the id of any rank in one short scan each, at any density. So a
 * draw is exactly uniform: first a rank is drawn, then the id of that rank is found. A roaring bitmap needs a binary
 * search and a memmove for each removal. Here a removal is a bit and two counters, and putting the view back copies
 * a bit an id.
 *
 * One owner thread. Only remaining_create keeps memory. */
#ifndef LARDER_SAMPLER_REMAINING_PRIV_H
#define LARDER_SAMPLER_REMAINING_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/random.h"
#include "common/types.h"
#include "sampler/block_priv.h"
#include "sampler/idset.h"
#include "sampler/sampler.h"

#define GROUP_SLOTS 64

struct remaining {
    uint32_t first_block, n_blocks; /* the blocks that the directory covers */
    uint32_t n_slots, n_groups;
    uint64_t count, view_count;
    /* indexed by block - first_block; a block without ids has n_slots, the slot that is always empty */
    uint32_t *slot_of;
    uint32_t *block_of;   /* indexed by slot */
    uint64_t *words;      /* BLOCK_WORDS for each slot; one empty slot at the end */
    uint16_t *counts;     /* indexed by slot, the empty one included */
    uint32_t *groups;     /* sums of counts, indexed by slot / GROUP_SLOTS */
    uint64_t *view_words; /* the same three for the whole view */
    uint16_t *view_counts;
    uint32_t *view_groups;
    uint16_t *common; /* indexed by slot; scratch of dependent.c during a round */
};

/* remaining_create borrows `view` for the call. Nothing is left of it until remaining_refill. LARDER_ENOMEM. */
int remaining_create(const struct idset *view, struct remaining **out);
void remaining_destroy(struct remaining *set); /* accepts NULL */
/* remaining_like makes one for the same view, with nothing left. LARDER_ENOMEM. */
int remaining_like(const struct remaining *set, struct remaining **out);

void remaining_refill(struct remaining *set); /* all of the view is left again */
void remaining_clear(struct remaining *set);  /* nothing is left */
uint64_t remaining_bytes(const struct remaining *set);
/* remaining_view_ids writes the view's ids, ascending, view_count of them. */
void remaining_view_ids(const struct remaining *set, sample_id *ids);

/* remaining_each calls visit for each id that is left, or with `all` for each id of the view, in ascending order. visit
 * does not change the set. */
void remaining_each(const struct remaining *set, bool all, sampler_visit *visit, void *context);

/* remaining_copy copies what is left. LARDER_ELIMIT, LARDER_ENOMEM. */
int remaining_copy(const struct remaining *set, struct sampler_left *out);

/* remaining_select returns the id of a rank < count. remaining_draw returns the id of a uniform rank; count > 0. */
sample_id remaining_select(const struct remaining *set, uint64_t rank);
sample_id remaining_draw(const struct remaining *set, struct rng *rng);

/* remaining_remove: id is in the set. remaining_add: id is in the view and not in the set. Both are CHECKed. */
void remaining_remove(struct remaining *set, sample_id id);
void remaining_add(struct remaining *set, sample_id id);
/* remaining_remove_all removes the ids, all of which must be in the set (CHECK). LARDER_ENOMEM: none is removed. */
int remaining_remove_all(struct remaining *set, const struct idset *ids);

/* remaining_slot returns the slot of a block. It is the empty slot for a block in which the view has no id. */
static inline uint32_t remaining_slot(const struct remaining *set, uint32_t block)
{
    uint32_t at = block - set->first_block;
    return at < set->n_blocks ? set->slot_of[at] : set->n_slots;
}

static inline const uint64_t *remaining_words(const struct remaining *set, uint32_t slot)
{
    return set->words + (size_t)slot * BLOCK_WORDS;
}

/* remaining_prefetch: remaining_remove comes for the id soon. */
static inline void remaining_prefetch(const struct remaining *set, sample_id id)
{
    __builtin_prefetch(&remaining_words(set, remaining_slot(set, id >> BLOCK_BITS))[id / 64 % BLOCK_WORDS], 1);
}

static inline bool remaining_has(const struct remaining *set, sample_id id)
{
    const uint64_t *words = remaining_words(set, remaining_slot(set, id >> BLOCK_BITS));
    return words[id / 64 % BLOCK_WORDS] >> (id % 64) & 1;
}

#endif
