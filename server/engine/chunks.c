/* chunks.c: chunks, groups and fibers (Brand and Redox: file redirection), and what memory has of a fiber.
 *
 *              slot 0   1   2   3   4   5 …
 *   chunk 0         ·   ·   ·   ·   ·   ·      a group: n chunks that share one place in memory
 *   chunk 1         ·   ·   ·   ·   ·   ·      a fiber: the samples of one group in w neighbouring slots
 *   chunk 2         ·   ·   ·   ·   ·   ·
 *                  └─ w = 3 ─┘ └─ w = 3 ─┘ */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "server/engine/chunks.h"

#define STOCK_DEPTH 1.5 /* samples that a job may have in a fiber's stock, over w */

enum {
    GROUP_MIN = 6, /* In fibers of fewer samples too few are found that another job has had prepared. */
    GROUP_MAX = 256
};

int chunks_make_room(struct chunks *chunks, uint64_t ids)
{
    struct chunk_place *at = realloc(chunks->at, ids * sizeof *at);
    if (!at)
        return LARDER_ENOMEM;
    chunks->at = at;
    for (uint64_t id = chunks->env->ids; id < ids; id++)
        at[id] = CHUNK_PLACE_NONE;
    return 0;
}

struct fiber *chunks_fiber(const struct chunks *chunks, sample_id id)
{
    uint32_t fiber = chunks->at[id].fiber;
    return fiber == ENGINE_NONE ? NULL : &chunks->fibers[fiber];
}

struct group *chunks_group(const struct chunks *chunks, sample_id id)
{
    uint32_t chunk = chunks->at[id].chunk;
    return chunk == ENGINE_NONE ? NULL : &chunks->groups[chunks->chunks[chunk].group];
}

/* fiber_width gives w, the slots of a fiber, for a dataset with chunks of so many samples. */
static uint32_t fiber_width(const struct chunks *chunks, uint32_t chunk_samples)
{
    if (chunks->env->config.redirect_width != ENGINE_REDIRECT_HALF)
        return chunks->env->config.redirect_width;
    uint32_t half = (chunk_samples + 1) / 2;
    return half < ENGINE_REDIRECT_HALF_MIN   ? ENGINE_REDIRECT_HALF_MIN
           : half > ENGINE_REDIRECT_HALF_MAX ? ENGINE_REDIRECT_HALF_MAX
                                             : half;
}

/* stock_meant gives the samples that a job's stock in a fiber is meant to have. */
static uint32_t stock_meant(uint32_t width)
{
    return width == 1 ? 1 : (uint32_t)(width * STOCK_DEPTH + 0.5);
}

/* group_size gives how many chunks share a place: as many as make their fibers' stocks together what memory holds. */
static uint32_t group_size(const struct chunks *chunks, const struct engine_chunks *dataset, uint32_t width,
                           uint64_t held)
{
    if (chunks->env->config.redirect_group)
        return chunks->env->config.redirect_group;
    uint64_t total = (uint64_t)dataset->count * dataset->samples * stock_meant(width) / width;
    uint64_t size = held ? (total + held - 1) / held : GROUP_MAX; /* a budget below the mean sample holds none */
    return size < GROUP_MIN ? GROUP_MIN : size > GROUP_MAX ? GROUP_MAX : (uint32_t)size;
}

/* stock_size gives the samples of a job's stock in a fiber: its part of what memory holds. That is less than a group
 * was made for if the dataset has too few chunks. It is more if memory holds more than the smallest groups are made
 * for. */
static uint32_t stock_size(uint32_t width, uint64_t fibers, uint64_t held, uint32_t group_chunks)
{
    uint64_t size = (held * group_chunks + fibers - 1) / fibers, all = (uint64_t)width * group_chunks;
    if (width == 1)
        return 1;
    return size < 1 ? 1 : size > all ? (uint32_t)all : (uint32_t)size;
}

/* make_room makes room for chunks up to `end`, and for so many more groups and fibers. It fails with LARDER_ENOMEM. */
static int make_room(struct chunks *chunks, uint32_t end, uint64_t groups, uint64_t fibers)
{
    struct chunk *all = chunks->chunks;
    if (end > chunks->n_chunks) {
        all = realloc(all, end * sizeof *all);
        if (!all)
            return LARDER_ENOMEM;
        chunks->chunks = all;
        for (; chunks->n_chunks < end; chunks->n_chunks++)
            all[chunks->n_chunks] = (struct chunk){.group = ENGINE_NONE};
    }
    struct group *more_groups = realloc(chunks->groups, (chunks->n_groups + groups) * sizeof *more_groups);
    if (!more_groups)
        return LARDER_ENOMEM;
    chunks->groups = more_groups;
    struct fiber *more_fibers = realloc(chunks->fibers, (chunks->n_fibers + fibers) * sizeof *more_fibers);
    if (!more_fibers)
        return LARDER_ENOMEM;
    chunks->fibers = more_fibers;
    return 0;
}

/* make_members makes the lists of members of all chunks of the dataset, or of none. It fails with LARDER_ENOMEM. */
static int make_members(struct chunks *chunks, const struct engine_chunks *dataset, uint32_t base)
{
    uint32_t chunk = base, end = base + dataset->count;
    for (; chunk < end; chunk++) {
        chunks->chunks[chunk].members = malloc(dataset->samples * sizeof(sample_id));
        if (!chunks->chunks[chunk].members)
            break;
    }
    if (chunk == end)
        return 0;
    while (chunk-- > base) {
        free(chunks->chunks[chunk].members);
        chunks->chunks[chunk].members = NULL;
    }
    return LARDER_ENOMEM;
}

int chunks_enter(struct chunks *chunks, const struct engine_chunks *dataset, uint32_t base, uint64_t held)
{
    uint32_t width = fiber_width(chunks, dataset->samples);
    uint32_t end = base + dataset->count, size = group_size(chunks, dataset, width, held);
    size = size < dataset->count ? size : dataset->count;
    uint32_t groups = (dataset->count + size - 1) / size;
    uint64_t fibers = (dataset->samples + width - 1) / width; /* fibers of one group */
    uint32_t stock_max = stock_size(width, dataset->count * fibers, held, size);
    if (make_room(chunks, end, groups, groups * fibers) || make_members(chunks, dataset, base))
        return LARDER_ENOMEM;
    for (uint32_t i = 0; i < groups; i++) {
        uint32_t first = base + i * size;
        chunks->groups[chunks->n_groups] = (struct group){.first_chunk = first,
                                                          .n_chunks = end - first < size ? end - first : size,
                                                          .chunk_samples = dataset->samples,
                                                          .width = width,
                                                          .first_fiber = chunks->n_fibers,
                                                          .stock_max = stock_max,
                                                          .thin = held * size < dataset->count * fibers,
                                                          .ahead_below = UINT32_MAX};
        for (uint32_t chunk = first; chunk < first + chunks->groups[chunks->n_groups].n_chunks; chunk++) {
            chunks->chunks[chunk].group = chunks->n_groups;
            for (uint32_t slot = 0; slot < dataset->samples; slot++)
                chunks->chunks[chunk].members[slot] = SAMPLE_NONE;
        }
        for (uint64_t fiber = 0; fiber < fibers; fiber++)
            chunks->fibers[chunks->n_fibers++] = (struct fiber){LINE_EMPTY, LINE_EMPTY};
        chunks->n_groups++;
    }
    return 0;
}

void chunks_drop_groups(struct chunks *chunks, uint32_t first, uint32_t end)
{
    uint32_t groups = end - first, first_fiber = chunks->groups[first].first_fiber;
    uint32_t end_fiber = end < chunks->n_groups ? chunks->groups[end].first_fiber : chunks->n_fibers;
    uint32_t fibers = end_fiber - first_fiber;
    for (uint32_t fiber = first_fiber; fiber < end_fiber; fiber++)
        CHECK(chunks->fibers[fiber].instances.head == ENGINE_NONE && chunks->fibers[fiber].encoded.head == ENGINE_NONE);
    chunks->n_groups -= groups;
    chunks->n_fibers -= fibers;
    memmove(&chunks->groups[first], &chunks->groups[end], (chunks->n_groups - first) * sizeof *chunks->groups);
    memmove(&chunks->fibers[first_fiber], &chunks->fibers[end_fiber],
            (chunks->n_fibers - first_fiber) * sizeof *chunks->fibers);
    for (uint32_t i = first; i < chunks->n_groups; i++)
        chunks->groups[i].first_fiber -= fibers;
    for (uint32_t chunk = 0; chunk < chunks->n_chunks; chunk++) {
        if (chunks->chunks[chunk].group != ENGINE_NONE && chunks->chunks[chunk].group >= end)
            chunks->chunks[chunk].group -= groups;
    }
    for (uint64_t id = 0; id < chunks->env->ids; id++) {
        if (chunks->at[id].fiber != ENGINE_NONE && chunks->at[id].fiber >= end_fiber)
            chunks->at[id].fiber -= fibers;
    }
}

void chunks_destroy(struct chunks *chunks)
{
    for (uint32_t chunk = 0; chunk < chunks->n_chunks; chunk++)
        free(chunks->chunks[chunk].members);
    free(chunks->chunks);
    free(chunks->groups);
    free(chunks->fibers);
    free(chunks->ranges);
}

bool chunks_is_here(const struct job *job, const struct group *group)
{
    return group->first_chunk >= job->shape.chunk_base &&
           group->first_chunk - job->shape.chunk_base < job->shape.chunk_count;
}
