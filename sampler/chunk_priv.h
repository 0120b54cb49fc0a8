/* chunk_priv.h: a chunk is 4096 bits in 64 words. Sets of ids are made of chunks (remaining_priv.h). All functions are
 * pure. */
#ifndef LARDER_SAMPLER_CHUNK_PRIV_H
#define LARDER_SAMPLER_CHUNK_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#define CHUNK_BITS 12
#define CHUNK_WORDS 64

/* chunk_count gives the number of set bits. */
uint32_t chunk_count(const uint64_t words[CHUNK_WORDS]);
bool chunk_empty(const uint64_t words[CHUNK_WORDS]);

/* chunk_intersect makes acc the intersection of both and returns how many bits are left. */
uint32_t chunk_intersect(uint64_t *restrict acc, const uint64_t *restrict words);

/* chunk_select gives the position, below 4096, of the rank-th set bit; rank is below the number of set bits. */
unsigned chunk_select(const uint64_t words[CHUNK_WORDS], uint32_t rank);

#endif
