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
    GROUP_MIN = 6, /* In shorter fibers too few samples are found that another job has already had prepared. */
    GROUP_MAX = 256,
    PARTED = 4,    /* times larger groups for parts of trainings at several nodes; see group_size */
    HELD_PARTS = 8 /* Groups are made anew when what memory holds has changed by more than 1/8. */
};

uint32_t chunks_fiber_no(const struct chunks *chunks, sample_id id)
{
    const struct chunk_place *at = chunks_place(chunks, id);
    if (at->chunk == ENGINE_NONE || chunks->chunks[at->chunk].group == ENGINE_NONE)
        return ENGINE_NONE;
    const struct group *group = &chunks->groups[chunks->chunks[at->chunk].group];
    return group->first_fiber + at->slot / group->width;
}

struct fiber *chunks_fiber(const struct chunks *chunks, sample_id id)
{
    uint32_t fiber = chunks_fiber_no(chunks, id);
    return fiber == ENGINE_NONE ? NULL : &chunks->fibers[fiber];
}

struct group *chunks_group(const struct chunks *chunks, sample_id id)
{
    uint32_t chunk = chunks_place(chunks, id)->chunk,
             group = chunk == ENGINE_NONE ? ENGINE_NONE : chunks->chunks[chunk].group;
    return group == ENGINE_NONE ? NULL : &chunks->groups[group];
}

/* fiber_width returns w, the slots of a fiber, for a dataset with chunks of chunk_samples samples. */
static uint32_t fiber_width(const struct chunks *chunks, uint32_t chunk_samples)
{
    if (chunks->env->config.redirect_width != ENGINE_REDIRECT_HALF)
        return chunks->env->config.redirect_width;
    uint32_t half = (chunk_samples + 1) / 2;
    return half < ENGINE_REDIRECT_HALF_MIN   ? ENGINE_REDIRECT_HALF_MIN
           : half > ENGINE_REDIRECT_HALF_MAX ? ENGINE_REDIRECT_HALF_MAX
                                             : half;
}

/* stock_meant returns the samples that a job's stock in a fiber is meant to have. */
static uint32_t stock_meant(uint32_t width)
{
    return width == 1 ? 1 : (uint32_t)(width * STOCK_DEPTH + 0.5);
}

/* parts_of returns into how many parts trainings divide the chunks. */
static uint32_t parts_of(const struct chunk_range *range)
{
    return range->parts ? range->parts : 1;
}

/* group_size returns how many chunks share a place: as many as make their fibers' stocks together what memory holds. A
 * job that wants one in `parts` of the chunks must find its part of them in a group. In a group that is only so much
 * larger, memory has many of one job's chunks and none of another's, by chance, and who finds none must read. So it is
 * PARTED times larger still. */
static uint32_t group_size(const struct chunks *chunks, const struct chunk_range *range, uint64_t samples,
                           uint64_t held)
{
    if (chunks->env->config.redirect_group)
        return chunks->env->config.redirect_group;
    uint64_t total = samples * stock_meant(range->width) / range->width;
    uint64_t size = held ? (total + held - 1) / held : GROUP_MAX; /* a budget below the mean sample holds none */
    size = size < GROUP_MIN ? GROUP_MIN : size;
    size *= parts_of(range) > 1 ? PARTED * parts_of(range) : 1;
    return size > GROUP_MAX ? GROUP_MAX : (uint32_t)size;
}

/* stock_size returns the samples of a job's stock in a fiber: the fiber's share of the samples that memory holds. That
 * is less than a group was made for if the dataset has too few chunks. It is more if memory holds more than the
 * smallest groups are made for. */
static uint32_t stock_size(uint32_t width, uint64_t fibers, uint64_t held, uint32_t group_chunks)
{
    uint64_t size = (held * group_chunks + fibers - 1) / fibers, all = (uint64_t)width * group_chunks;
    if (width == 1)
        return 1;
    return size < 1 ? 1 : size > all ? (uint32_t)all : (uint32_t)size;
}

static uint32_t fibers_of(const struct chunk_range *range)
{
    return (range->samples + range->width - 1) / range->width;
}

/* groups_max returns how many groups the range has at most: two of its groups may have fewer chunks than the others. */
static uint64_t groups_max(const struct chunks *chunks, const struct chunk_range *range)
{
    uint32_t least = chunks->env->config.redirect_group ? chunks->env->config.redirect_group : GROUP_MIN;
    return range->count / least + 2;
}

/* make_room makes room for the range's chunks, groups and fibers. It fails with LARDER_ENOMEM. */
static int make_room(struct chunks *chunks, const struct chunk_range *range)
{
    uint32_t end = range->base + range->count;
    uint64_t groups = groups_max(chunks, range), fibers = groups * fibers_of(range);
    if (end > chunks->n_chunks) {
        struct chunk *all = realloc(chunks->chunks, end * sizeof *all);
        if (!all)
            return LARDER_ENOMEM;
        chunks->chunks = all;
        uint32_t *order = realloc(chunks->order, end * sizeof *order);
        if (!order)
            return LARDER_ENOMEM;
        chunks->order = order;
        for (; chunks->n_chunks < end; chunks->n_chunks++)
            all[chunks->n_chunks] = (struct chunk){.group = ENGINE_NONE};
    }
    struct group *more_groups = realloc(chunks->groups, (chunks->groups_cap + groups) * sizeof *more_groups);
    if (!more_groups)
        return LARDER_ENOMEM;
    chunks->groups = more_groups;
    struct fiber *more_fibers = realloc(chunks->fibers, (chunks->fibers_cap + fibers) * sizeof *more_fibers);
    if (!more_fibers)
        return LARDER_ENOMEM;
    chunks->fibers = more_fibers;
    return 0;
}

/* make_members has no samples in the range's chunks. It fails with LARDER_ENOMEM. Most chunks get members of their own
 * one by one, when a sample comes into them. */
static int make_members(struct chunks *chunks, struct chunk_range *range)
{
    range->none = malloc(range->samples * sizeof *range->none);
    if (!range->none)
        return LARDER_ENOMEM;
    for (uint32_t slot = 0; slot < range->samples; slot++)
        range->none[slot] = SAMPLE_NONE;
    for (uint32_t chunk = range->base; chunk < range->base + range->count; chunk++)
        chunks->chunks[chunk].members = range->none;
    return 0;
}

/* make_order gives the range's chunks their order. It depends on the dataset alone, so that the same chunks are kept
 * whenever as much is kept. */
static int make_order(struct chunk_range *range)
{
    struct rng rng;
    range->order = malloc(range->count * sizeof *range->order);
    if (!range->order)
        return LARDER_ENOMEM;
    random_seed_keys(&rng, range->key[0], range->key[1], range->key[2], range->count);
    for (uint32_t i = 0; i < range->count; i++) {
        uint32_t j = (uint32_t)random_below(&rng, i + 1);
        range->order[i] = range->order[j];
        range->order[j] = i;
    }
    return 0;
}

int chunks_enter(struct chunks *chunks, const struct engine_chunks *dataset, struct chunk_range *range)
{
    range->samples = dataset->samples;
    range->width = fiber_width(chunks, dataset->samples);
    if (make_order(range) || make_room(chunks, range) || make_members(chunks, range)) {
        free(range->order);
        range->order = NULL;
        return LARDER_ENOMEM;
    }
    chunks->groups_cap += groups_max(chunks, range);
    chunks->fibers_cap += groups_max(chunks, range) * fibers_of(range);
    chunks->stale = true;
    return 0;
}

int chunks_put(struct chunks *chunks, const struct chunk_range *range, sample_id id, struct chunk_slot place)
{
    struct chunk *chunk = &chunks->chunks[range->base + place.chunk];
    if (chunk->members == range->none) {
        sample_id *members = malloc(range->samples * sizeof *members);
        if (!members)
            return LARDER_ENOMEM;
        memcpy(members, range->none, range->samples * sizeof *members);
        chunk->members = members;
    }
    chunk->members[place.slot] = id;
    chunks->moves++;
    *chunks_place(chunks, id) = (struct chunk_place){range->base + place.chunk, place.slot};
    return 0;
}

/* free_members frees the members that the range's chunks have, each its own or all the same. */
static void free_members(struct chunks *chunks, const struct chunk_range *range)
{
    for (uint32_t chunk = range->base; chunk < range->base + range->count; chunk++) {
        if (chunks->chunks[chunk].members != range->none)
            free(chunks->chunks[chunk].members);
    }
    free(range->none);
    free(range->order);
}

void chunks_leave(struct chunks *chunks, struct chunk_range *range)
{
    free_members(chunks, range);
    for (uint32_t i = 0; i < range->count; i++)
        chunks->chunks[range->base + i] = (struct chunk){.group = ENGINE_NONE};
    chunks->stale = true;
    chunks->groups_cap -= groups_max(chunks, range);
    chunks->fibers_cap -= groups_max(chunks, range) * fibers_of(range);
}

void chunks_hold(struct chunks *chunks, struct chunk_range *range, uint64_t held)
{
    uint64_t change = held > range->held ? held - range->held : range->held - held;
    if (change * HELD_PARTS <= range->held)
        return;
    range->held = held;
    chunks->stale = true;
}

void chunks_part(struct chunks *chunks, struct chunk_range *range, uint32_t parts)
{
    if (parts == parts_of(range) || (parts < range->parts && parts * 2 > range->parts))
        return;
    range->parts = parts;
    chunks->stale = true;
}

/* add_group adds a group of the chunks that chunks.order has from `first` on, and its fibers. */
static void add_group(struct chunks *chunks, const struct group *group, uint32_t fibers)
{
    for (uint32_t i = 0; i < group->n_chunks; i++)
        chunks->chunks[chunks->order[group->first + i]].group = chunks->n_groups;
    chunks->groups[chunks->n_groups] = *group;
    chunks->groups[chunks->n_groups++].first_fiber = chunks->n_fibers;
    for (uint32_t end = chunks->n_fibers + fibers; chunks->n_fibers < end; chunks->n_fibers++) {
        struct fiber *fiber = &chunks->fibers[chunks->n_fibers];
        if (chunks->n_fibers == chunks->fibers_end)
            chunks->fibers[chunks->fibers_end++] = (struct fiber){{NULL, 0, 0}, {NULL, 0, 0}};
        fiber->instances.count = fiber->encoded.count = 0;
    }
}

/* free_fibers frees the arrays of fibers that are no more. */
static void free_fibers(struct chunks *chunks)
{
    for (uint32_t fiber = chunks->n_fibers; fiber < chunks->fibers_end; fiber++) {
        free(chunks->fibers[fiber].instances.all);
        free(chunks->fibers[fiber].encoded.all);
    }
    chunks->fibers_end = chunks->n_fibers;
}

/* arrange makes the groups of the range's kept chunks, or of the others, and returns the number of these chunks.
 * chunks.order has them from `first` on. The groups are as nearly of one size as they can be. */
static uint32_t arrange(struct chunks *chunks, const struct chunk_range *range, bool kept, uint32_t first)
{
    uint32_t count = 0, fibers = fibers_of(range);
    for (uint32_t i = 0; i < range->count; i++) {
        if (chunks->chunks[range->base + range->order[i]].kept == kept)
            chunks->order[first + count++] = range->base + range->order[i];
    }
    uint64_t samples = (uint64_t)count * range->samples, held = kept ? samples : range->held;
    uint32_t size = group_size(chunks, range, samples, held), groups = (count + size - 1) / size;
    uint32_t first_alike = chunks->n_groups, stock;
    size = size < count ? size : count;
    stock = count ? stock_size(range->width, (uint64_t)count * fibers, held, size) : 0;
    for (uint32_t i = 0; i < groups; i++) {
        uint32_t from = (uint32_t)((uint64_t)count * i / groups), to = (uint32_t)((uint64_t)count * (i + 1) / groups);
        add_group(chunks,
                  &(struct group){.first = first + from,
                                  .n_chunks = to - from,
                                  .chunk_samples = range->samples,
                                  .width = range->width,
                                  .stock_max = stock,
                                  .stock_part = (stock + parts_of(range) - 1) / parts_of(range),
                                  .thin = held * size < (uint64_t)count * fibers,
                                  .ample = kept || range->held * 2 >= range->rest || range->width == 1,
                                  .kept = kept,
                                  .first_alike = first_alike,
                                  .n_alike = groups,
                                  .most_chunks = (count + groups - 1) / groups,
                                  .ahead_below = UINT32_MAX},
                  fibers);
    }
    return count;
}

void chunks_arrange(struct chunks *chunks)
{
    chunks->n_groups = chunks->n_fibers = 0;
    chunks->stale = false;
    chunks->arranged++;
    for (size_t i = 0; i < chunks->n_ranges; i++) {
        struct chunk_range *range = &chunks->ranges[i];
        range->n_kept = arrange(chunks, range, true, range->base);
        arrange(chunks, range, false, range->base + range->n_kept);
    }
    CHECK(chunks->n_groups <= chunks->groups_cap && chunks->n_fibers <= chunks->fibers_cap);
    free_fibers(chunks);
}

void chunks_add_member(struct fiber_members *members, uint32_t number)
{
    size_t cap = members->cap;
    members->all = xgrow(members->all, sizeof *members->all, &cap, (size_t)members->count + 1);
    members->cap = (uint32_t)cap;
    members->all[members->count++] = number;
}

void chunks_remove_member(struct fiber_members *members, uint32_t number)
{
    uint32_t at = members->count;
    do
        CHECK(at-- > 0);
    while (members->all[at] != number);
    memmove(members->all + at, members->all + at + 1, (--members->count - at) * sizeof *members->all);
}

void chunks_destroy(struct chunks *chunks)
{
    for (size_t i = 0; i < chunks->n_ranges; i++)
        free_members(chunks, &chunks->ranges[i]);
    chunks->n_fibers = 0;
    free_fibers(chunks);
    idset_destroy(chunks->placed);
    free(chunks->chunks);
    free(chunks->order);
    free(chunks->groups);
    free(chunks->fibers);
    free(chunks->ranges);
}

bool chunks_is_here(const struct job *job, const struct group *group)
{
    return group->first >= job->shape.chunk_base && group->first - job->shape.chunk_base < job->shape.chunk_count;
}
