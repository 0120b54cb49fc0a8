/* content.c: what tells one file's content from another's: (device, inode, size, modification time), and in a packed
 * store the content's hash, which lies where others have device and inode.
 *
 * A name that outlives the daemon has the change time too. Device numbers are given anew when a machine starts, and
 * files that were unpacked from an archive may have the size and the modification time of others. No program can set a
 * change time. */
#include <string.h>
#include <xxhash.h>

#include "cache/store/store.h"
#include "common/check.h"

struct identity content_identity(const struct index_sample *sample, const struct store *store, uint64_t apart,
                                 uint64_t seed)
{
    uint64_t facts[8] = {sample->device, sample->inode, sample->size, (uint64_t)sample->mtime_ns, apart};
    if (store && store->foreign) {
        facts[5] = store->index_device;
        facts[6] = store->index_inode;
        facts[7] = store->owner + 1; /* never 0, which all others have here */
    }
    XXH128_hash_t hash = XXH3_128bits_withSeed(facts, sizeof facts, seed);
    return (struct identity){.low = hash.low64, .high = hash.high64};
}

bool dataset_content_id(const struct dataset *dataset, uint32_t index, uint64_t seed, uint64_t out[2])
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    CHECK(index < dataset->count);
    const struct index_sample *sample = &dataset->samples[index];
    if (sample->flags & INDEX_UNREACHABLE)
        return false;
    struct identity identity = content_identity(sample, dataset->store, (uint64_t)sample->ctime_ns, seed);
    out[0] = identity.low;
    out[1] = identity.high;
    return true;
}
