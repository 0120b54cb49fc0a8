/* chunks_ranges.c: the numbers that datasets' chunks have.
 *
 * Each dataset gets a range of its own, and gets the same one when it comes again. A copy of a dataset has other ids,
 * and so another range. A folder that changes is another dataset each time. Its samples have mostly kept their places
 * in the range of an earlier one. So when there are many ranges, those are forgotten of which the jobs want the
 * smallest part (residents_places.c). */
#include <string.h>

#include "common/check.h"
#include "server/engine/chunks.h"

struct chunk_range *chunks_find_range(const struct chunks *chunks, const uint64_t key[ENGINE_CHUNK_KEY])
{
    for (size_t i = 0; i < chunks->n_ranges; i++) {
        if (memcmp(chunks->ranges[i].key, key, sizeof chunks->ranges[i].key) == 0)
            return &chunks->ranges[i];
    }
    return NULL;
}

struct chunk_range *chunks_range_of(const struct chunks *chunks, uint32_t chunk)
{
    size_t low = 0, high = chunks->n_ranges;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (chunks->ranges[middle].base <= chunk)
            low = middle;
        else
            high = middle;
    }
    CHECK(low < chunks->n_ranges && chunk - chunks->ranges[low].base < chunks->ranges[low].count);
    return &chunks->ranges[low];
}

struct chunk_range *chunks_add_range(struct chunks *chunks, const uint64_t key[ENGINE_CHUNK_KEY], uint32_t count)
{
    struct chunk_range range = {.count = count};
    size_t at = 0;
    memcpy(range.key, key, sizeof range.key);
    while (at < chunks->n_ranges && chunks->ranges[at].base - range.base < count) {
        range.base = chunks->ranges[at].base + chunks->ranges[at].count;
        at++;
    }
    chunks->ranges = xgrow(chunks->ranges, sizeof *chunks->ranges, &chunks->ranges_cap, chunks->n_ranges + 1);
    memmove(&chunks->ranges[at + 1], &chunks->ranges[at], (chunks->n_ranges++ - at) * sizeof range);
    chunks->ranges[at] = range;
    return &chunks->ranges[at];
}

void chunks_drop_range(struct chunks *chunks, struct chunk_range *range)
{
    size_t at = (size_t)(range - chunks->ranges);
    memmove(range, range + 1, (--chunks->n_ranges - at) * sizeof *range);
}

/* less_wanted compares ranges by the part of them that is wanted: a small dataset is not worth less than a large
 * one. */
static bool less_wanted(const struct chunk_range *a, const struct chunk_range *b)
{
    uint64_t part_a = a->wants * b->count, part_b = b->wants * a->count;
    return part_a != part_b ? part_a < part_b : a->used < b->used;
}

struct chunk_range *chunks_least_wanted(const struct chunks *chunks)
{
    struct chunk_range *least = chunks->ranges;
    for (size_t i = 1; i < chunks->n_ranges; i++)
        least = less_wanted(&chunks->ranges[i], least) ? &chunks->ranges[i] : least;
    return least;
}
