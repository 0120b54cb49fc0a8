#include "server/driver/chunks.h"

#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/random.h"

/* Tells apart how the same samples fall into chunks: the same datasets in stores of other seeds or chunk sizes. */
static uint64_t chunk_layout(const struct dataset *dataset)
{
    uint32_t count;
    const uint32_t *members = dataset_chunk_members(dataset, 0, &count);
    uint64_t layout = random_mix64(dataset_chunk_size(dataset));
    for (uint32_t i = 0; i < count; i++)
        layout = random_mix64(layout ^ members[i]);
    return layout;
}

static struct chunk_range describe(const struct dataset *dataset)
{
    struct chunk_range range = {.layout = chunk_layout(dataset),
                                .first_id = dataset_id(dataset, 0),
                                .count = dataset_count(dataset),
                                .chunks = dataset_chunk_count(dataset)};
    dataset_fingerprint(dataset, range.fingerprint);
    return range;
}

static bool same(const struct chunk_range *a, const struct chunk_range *b)
{
    return a->first_id == b->first_id && a->count == b->count && a->chunks == b->chunks && a->layout == b->layout &&
           memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0;
}

/* ── forgetting ── */

static struct chunk_range *range_of(const struct chunk_numbers *numbers, uint32_t chunk)
{
    size_t low = 0, high = numbers->n_ranges;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (numbers->ranges[middle].base <= chunk)
            low = middle;
        else
            high = middle;
    }
    CHECK(low < numbers->n_ranges && chunk - numbers->ranges[low].base < numbers->ranges[low].chunks);
    return &numbers->ranges[low];
}

static void count_wants(struct chunk_numbers *numbers, const struct engine *engine, const struct dataset *dataset)
{
    const sample_id *ids = dataset_ids(dataset);
    struct chunk_range *range = NULL; /* mostly the same as the last one's */
    for (uint32_t i = 0; i < dataset_count(dataset); i++) {
        uint32_t chunk = engine_chunk_of(engine, ids[i]);
        if (chunk == ENGINE_CHUNK_NONE)
            continue;
        if (!range || chunk < range->base || chunk - range->base >= range->chunks)
            range = range_of(numbers, chunk);
        range->wants++;
    }
}

/* By the part of its samples that are wanted: a small dataset is not worth less than a large one. */
static bool less_wanted(const struct chunk_range *a, const struct chunk_range *b)
{
    uint64_t part_a = a->wants * b->count, part_b = b->wants * a->count;
    return part_a != part_b ? part_a < part_b : a->used < b->used;
}

static void forget_least_wanted(struct chunk_numbers *numbers, struct engine *engine)
{
    size_t least = 0;
    for (size_t i = 1; i < numbers->n_ranges; i++) {
        if (less_wanted(&numbers->ranges[i], &numbers->ranges[least]))
            least = i;
    }
    struct chunk_range *range = &numbers->ranges[least];
    engine_forget_chunks(engine, range->base, range->chunks);
    memmove(range, range + 1, (--numbers->n_ranges - least) * sizeof *range);
}

/* Half of what may be forgotten at once, because to compare the ranges takes a look at each sample in use. */
static void forget_ranges(struct chunk_numbers *numbers, struct engine *engine, const struct dataset *const *in_use,
                          size_t n_in_use)
{
    for (size_t i = 0; i < numbers->n_ranges; i++)
        numbers->ranges[i].wants = 0;
    for (size_t i = 0; i < n_in_use; i++)
        count_wants(numbers, engine, in_use[i]);
    while (numbers->n_ranges > n_in_use + CHUNK_RANGES_SPARE / 2)
        forget_least_wanted(numbers, engine);
}

/* ── numbers ── */

/* The first gap that is long enough. */
static uint32_t insert(struct chunk_numbers *numbers, struct chunk_range *range)
{
    size_t at = 0;
    while (at < numbers->n_ranges && numbers->ranges[at].base - range->base < range->chunks) {
        range->base = numbers->ranges[at].base + numbers->ranges[at].chunks;
        at++;
    }
    if (numbers->n_ranges == numbers->cap) {
        numbers->cap = numbers->cap ? numbers->cap * 2 : 16;
        numbers->ranges = xrealloc(numbers->ranges, numbers->cap, sizeof *numbers->ranges);
    }
    memmove(&numbers->ranges[at + 1], &numbers->ranges[at], (numbers->n_ranges - at) * sizeof *numbers->ranges);
    numbers->ranges[at] = *range;
    numbers->n_ranges++;
    return range->base;
}

uint32_t chunk_numbers_base(struct chunk_numbers *numbers, struct engine *engine, const struct dataset *dataset,
                            const struct dataset *const *in_use, size_t n_in_use)
{
    struct chunk_range range = describe(dataset);
    range.used = ++numbers->uses;
    for (size_t i = 0; i < numbers->n_ranges; i++) {
        if (same(&numbers->ranges[i], &range)) {
            numbers->ranges[i].used = range.used;
            return numbers->ranges[i].base;
        }
    }
    if (numbers->n_ranges >= 2 * n_in_use + CHUNK_RANGES_SPARE)
        forget_ranges(numbers, engine, in_use, n_in_use);
    return insert(numbers, &range);
}

void chunk_numbers_clear(struct chunk_numbers *numbers)
{
    free(numbers->ranges);
    *numbers = (struct chunk_numbers){.ranges = NULL};
}
