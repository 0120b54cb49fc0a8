/* chunking.c: which samples make a chunk. See chunking.h. */
#include <stdlib.h>

#include "cache/source/chunking.h"
#include "common/check.h"
#include "common/larder_err.h"
#include "common/random.h"
#include "common/vast.h"

int chunking_shuffle(uint32_t count, uint32_t chunk_size, uint64_t seed, struct chunking *out)
{
    CHECK(chunk_size >= 1 && chunk_size <= CHUNK_SAMPLES_MAX);
    struct chunking chunking = {.chunk_size = chunk_size,
                                .seed = seed,
                                .drawn = true,
                                .members = vast_malloc(count * sizeof *chunking.members),
                                .positions = vast_malloc(count * sizeof *chunking.positions)};
    if (!chunking.members || !chunking.positions) {
        chunking_free(&chunking);
        return LARDER_ENOMEM;
    }
    struct rng rng;
    random_seed(&rng, seed);
    for (uint32_t i = 0; i < count; i++)
        chunking.members[i] = i;
    for (uint32_t i = count; i-- > 1;) {
        uint32_t other = (uint32_t)random_below(&rng, (uint64_t)i + 1), moved = chunking.members[i];
        chunking.members[i] = chunking.members[other];
        chunking.members[other] = moved;
    }
    for (uint32_t i = 0; i < count; i++)
        chunking.positions[chunking.members[i]] = i;
    *out = chunking;
    return 0;
}

void chunking_free(struct chunking *chunking)
{
    if (!chunking->borrowed)
        free(chunking->members);
    free(chunking->positions);
    *chunking = (struct chunking){0};
}
