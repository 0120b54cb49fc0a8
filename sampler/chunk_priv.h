/* chunk_priv.h: 4096 bits as 64 words: what sets of ids are made of (remaining_priv.h). Pure. */
#ifndef LARDER_SAMPLER_CHUNK_PRIV_H
#define LARDER_SAMPLER_CHUNK_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#define CHUNK_BITS 12
#define CHUNK_WORDS 64

uint32_t chunk_count(const uint64_t words[CHUNK_WORDS]);
bool chunk_empty(const uint64_t words[CHUNK_WORDS]);

/* chunk_intersect makes acc the intersection of both and returns how many bits are left. */
uint32_t chunk_intersect(uint64_t *restrict acc, const uint64_t *restrict words);

/* chunk_select gives the position, below 4096, of the rank-th set bit; rank is below the number of set bits. */
unsigned chunk_select(const uint64_t words[CHUNK_WORDS], uint32_t rank);

#endif
