/* block_priv.h: a block is 4096 bits in 64 words. Sets of ids are made of blocks (remaining_priv.h). All functions are
 * pure. */
#ifndef LARDER_SAMPLER_BLOCK_PRIV_H
#define LARDER_SAMPLER_BLOCK_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#define BLOCK_BITS 12
#define BLOCK_WORDS 64

/* block_count returns the number of set bits. */
uint32_t block_count(const uint64_t words[BLOCK_WORDS]);
bool block_empty(const uint64_t words[BLOCK_WORDS]);

/* block_intersect makes acc the intersection of both and returns how many bits are left. */
uint32_t block_intersect(uint64_t *restrict acc, const uint64_t *restrict words);

/* block_select returns the position, below 4096, of the rank-th set bit; rank is below the number of set bits. */
unsigned block_select(const uint64_t words[BLOCK_WORDS], uint32_t rank);

#endif
