/* chunk_key.c: see chunk_key.h. */
#include "server/registration/chunk_key.h"

#include "common/random.h"

/* chunk_layout returns a number for how the samples fall into chunks: the chunk size and the members of the first chunk
 * decide it. */
static uint64_t chunk_layout(const struct dataset *dataset)
{
    uint32_t count;
    const uint32_t *members = dataset_chunk_members(dataset, 0, &count);
    uint64_t layout = random_mix64(dataset_chunk_size(dataset));
    for (uint32_t i = 0; i < count; i++)
        layout = random_mix64(layout ^ members[i]);
    return layout;
}

void chunk_key(const struct dataset *dataset, uint64_t key[ENGINE_CHUNK_KEY])
{
    uint64_t fingerprint[2];
    dataset_fingerprint(dataset, fingerprint);
    key[0] = fingerprint[0];
    key[1] = fingerprint[1];
    key[2] = chunk_layout(dataset);
    key[3] = (uint64_t)dataset_id(dataset, 0) << 32 | dataset_count(dataset);
    key[4] = (uint64_t)dataset_chunk_count(dataset) << 32 | dataset_chunk_size(dataset); /* exact: the engine CHECKs */
}
