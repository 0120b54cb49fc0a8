/* chunking.h: which samples make a chunk. */
#ifndef LARDER_CACHE_SOURCE_CHUNKING_H
#define LARDER_CACHE_SOURCE_CHUNKING_H

#include <stdbool.h>
#include <stdint.h>

#define CHUNK_SAMPLES_MAX 4096 /* the most samples of one chunk */

/* Maps samples to positions. Position p is slot p % chunk_size of chunk p / chunk_size. Both arrays have one entry for
 * each sample. */
struct chunking {
    uint32_t chunk_size;
    uint32_t *members;   /* index, by position */
    uint32_t *positions; /* position, by index */
    uint64_t seed;       /* what they were drawn by, where they were */
    bool drawn;
    bool borrowed; /* the members are somebody else's */
};

/* chunking_shuffle makes chunks of `count` samples by a seeded shuffle (Fisher and Yates's). The caller frees what *out
 * holds by chunking_free. LARDER_ENOMEM. */
int chunking_shuffle(uint32_t count, uint32_t chunk_size, uint64_t seed, struct chunking *out);
void chunking_free(struct chunking *chunking);

#endif
