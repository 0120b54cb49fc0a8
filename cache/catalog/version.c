/* version.c: a dataset's version (dataset_version.h): the hash of its times, and which samples' content stands for
 * all: its witnesses. */
#include <endian.h>
#include <stdlib.h>
#include <xxhash.h>

#include "cache/catalog/catalog_priv.h"
#include "common/random.h"

#define WITNESS_BYTES_MAX (UINT64_C(64) << 20) /* all witnesses but the first, which is the shortest */
#define HASHES_SEED 1                          /* so that no hash of contents is that of times */
#define HASHED_AT_ONCE 512

/* packed_content returns the hash of a sample's content as it was packed, before any rewriting, which the fingerprint
 * covers. A sample that could not be read when it was packed has none. */
static struct identity packed_content(const struct source *source, size_t i)
{
    return index_flags(&source->index, i) & INDEX_UNREACHABLE ? (struct identity){0} : source->hashes[i];
}

int version_times(const struct source *source, uint64_t out[2])
{
    const struct index *index = &source->index;
    uint64_t words[HASHED_AT_ONCE];
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return LARDER_ENOMEM;
    XXH3_128bits_reset_withSeed(state, source->hashes ? HASHES_SEED : 0);
    for (size_t i = 0, n = 0; i < index->sample_count; i++) {
        if (source->hashes) {
            struct identity content = packed_content(source, i);
            words[n++] = htole64(content.low);
            words[n++] = htole64(content.high);
        } else {
            words[n++] = htole64((uint64_t)index_sample(index, i).mtime_ns);
        }
        if (n == HASHED_AT_ONCE || i + 1 == index->sample_count) {
            XXH3_128bits_update(state, words, n * sizeof *words);
            n = 0;
        }
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    out[0] = hash.low64;
    out[1] = hash.high64;
    return 0;
}

struct candidate {
    uint64_t size;
    uint32_t index;
};

static int compare_candidates(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return x->size != y->size ? (x->size > y->size) - (x->size < y->size)
                              : (x->index > y->index) - (x->index < y->index);
}

/* One of each of WITNESSES_MAX equal parts, by the fingerprint, and of these the shortest, as far as their bytes go. A
 * folder and its store choose the same, because sizes are those of what was packed. */
uint32_t version_witnesses(const struct dataset *dataset, uint32_t witnesses[WITNESSES_MAX])
{
    struct candidate candidates[WITNESSES_MAX];
    const uint64_t *sizes = dataset->source->packed_bytes;
    uint64_t count = dataset->count, parts = count < WITNESSES_MAX ? count : WITNESSES_MAX;
    struct rng rng;
    random_seed_keys(&rng, dataset->fingerprint[0], dataset->fingerprint[1], 0, 0);
    for (uint64_t i = 0; i < parts; i++) {
        uint64_t first = count * i / parts, end = count * (i + 1) / parts;
        uint32_t index = (uint32_t)(first + random_below(&rng, end - first));
        candidates[i] = (struct candidate){sizes ? sizes[index] : index_size(&dataset->source->index, index), index};
    }
    qsort(candidates, parts, sizeof *candidates, compare_candidates);
    uint32_t n = 0;
    for (uint64_t bytes = 0; n < parts; n++) {
        bytes += candidates[n].size;
        if (n && bytes > WITNESS_BYTES_MAX)
            break;
        witnesses[n] = candidates[n].index;
    }
    return n;
}

void version_content(const uint32_t *witnesses, const struct identity *hashes, uint32_t n, uint64_t out[2])
{
    uint64_t words[WITNESSES_MAX * 3];
    for (uint32_t i = 0; i < n; i++) {
        words[i * 3] = htole64(witnesses[i]);
        words[i * 3 + 1] = htole64(hashes[i].low);
        words[i * 3 + 2] = htole64(hashes[i].high);
    }
    XXH128_hash_t hash = XXH3_128bits(words, (size_t)n * 3 * sizeof *words);
    out[0] = hash.low64;
    out[1] = hash.high64;
}

void version_of_hashes(const struct dataset *dataset, uint64_t out[2])
{
    uint32_t witnesses[WITNESSES_MAX], n = version_witnesses(dataset, witnesses);
    struct identity hashes[WITNESSES_MAX];
    for (uint32_t i = 0; i < n; i++)
        hashes[i] = packed_content(dataset->source, witnesses[i]);
    version_content(witnesses, hashes, n, out);
}
