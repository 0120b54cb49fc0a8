/* extent.h: who has which bytes of the arena: an allocator whose records lie outside the memory it divides.
 *
 * Two-level segregated free lists (a good fit, in constant time unless only its own list can hold one), neighbours
 * merged at once. Offsets and sizes are multiples of EXTENT_ALIGN. Blocks are named by small numbers; each used block
 * carries its owner's number, so that a caller can walk neighbours and clear a window when free space is in pieces. One
 * owner thread. */
#ifndef LARDER_CACHE_MEMORY_EXTENT_H
#define LARDER_CACHE_MEMORY_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define EXTENT_ALIGN 64
#define EXTENT_NONE UINT32_MAX

struct extents;

/* extents_create divides [0, bytes), rounded down to EXTENT_ALIGN. LARDER_EINVAL when nothing is left of it. */
int extents_create(uint64_t bytes, struct extents **out);
void extents_destroy(struct extents *extents); /* accepts NULL */

static inline uint64_t extent_round(uint64_t bytes)
{
    return (bytes + EXTENT_ALIGN - 1) / EXTENT_ALIGN * EXTENT_ALIGN;
}

/* extent_alloc returns a block of at least `bytes` (rounded up), or EXTENT_NONE when no free piece is long enough. */
uint32_t extent_alloc(struct extents *extents, uint64_t bytes, uint32_t owner);
void extent_free(struct extents *extents, uint32_t block);
/* extent_alloc_at returns the block [offset, offset + bytes), both multiples of EXTENT_ALIGN, cut from the free block
 * that contains it. */
uint32_t extent_alloc_at(struct extents *extents, uint32_t free_block, uint64_t offset, uint64_t bytes, uint32_t owner);
/* extent_split cuts a block in use behind `bytes`, a multiple of EXTENT_ALIGN below its length. It returns the rest, a
 * block in use with the same owner. */
uint32_t extent_split(struct extents *extents, uint32_t block, uint64_t bytes);
void extent_set_owner(struct extents *extents, uint32_t block, uint32_t owner); /* the block must be in use */

uint64_t extent_offset(const struct extents *extents, uint32_t block);
uint64_t extent_bytes(const struct extents *extents, uint32_t block);
uint64_t extents_used_bytes(const struct extents *extents);

/* Neighbours in address order, EXTENT_NONE past either end. */
uint32_t extent_first(const struct extents *extents);
uint32_t extent_next(const struct extents *extents, uint32_t block);
uint32_t extent_prev(const struct extents *extents, uint32_t block);
/* extent_owner returns a used block's owner; false for a free block. */
bool extent_owner(const struct extents *extents, uint32_t block, uint32_t *owner);

/* extents_check CHECKs every record: order, sums, lists. Linear. */
void extents_check(const struct extents *extents);

#endif
