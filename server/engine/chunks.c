/* chunks.c: chunks, groups and fibers (Brand and Redox: file redirection), and what of a fiber is in memory.
 *
 *              slot 0   1   2   3   4   5 …
 *   chunk 0         ·   ·   ·   ·   ·   ·      a group: n chunks that share one place in memory
 *   chunk 1         ·   ·   ·   ·   ·   ·      a fiber: the samples of one group in w neighbouring slots
 *   chunk 2         ·   ·   ·   ·   ·   ·
 *                  └─ w = 3 ─┘ └─ w = 3 ─┘
 */
#include <stdlib.h>
#include <string.h>

#include "server/engine/chunks.h"
#include "server/engine/encoded.h"

enum {
    GROUP_MIN = 6,   /* fibers of fewer samples find too little that another job has had prepared */
    GROUP_MAX = 256,
    MEAN_OF = 256    /* samples whose sizes tell how many the encoded budget holds */
};

/* The fiber that the sample has its place in; NULL: none. */
static struct fiber *fiber_of(const struct engine *engine, sample_id id)
{
    uint32_t fiber = engine->samples.all[id].fiber;
    return fiber == ENGINE_NONE ? NULL : &engine->chunks.fibers[fiber];
}

void chunks_fiber_add_instance(struct engine *engine, uint32_t index)
{
    struct fiber *fiber = fiber_of(engine, engine->prepared.instances[index].form.id);
    if (fiber)
        line_prepend(&fiber->instances, LINKS(engine->prepared.instances, in_fiber), index);
}

void chunks_fiber_remove_instance(struct engine *engine, uint32_t index)
{
    struct fiber *fiber = fiber_of(engine, engine->prepared.instances[index].form.id);
    if (fiber)
        line_remove(&fiber->instances, LINKS(engine->prepared.instances, in_fiber), index);
}

void chunks_fiber_add_encoded(struct engine *engine, uint32_t index)
{
    struct fiber *fiber = fiber_of(engine, engine->encoded.encodeds[index].id);
    if (fiber)
        line_prepend(&fiber->encoded, LINKS(engine->encoded.encodeds, in_fiber), index);
}

void chunks_fiber_remove_encoded(struct engine *engine, uint32_t index)
{
    struct fiber *fiber = fiber_of(engine, engine->encoded.encodeds[index].id);
    if (fiber)
        line_remove(&fiber->encoded, LINKS(engine->encoded.encodeds, in_fiber), index);
}

static uint32_t fiber_width(const struct engine *engine, uint32_t chunk_samples)
{
    if (engine->config.redirect_width != ENGINE_REDIRECT_HALF)
        return engine->config.redirect_width;
    uint32_t half = (chunk_samples + 1) / 2;
    return half < ENGINE_REDIRECT_HALF_MIN   ? ENGINE_REDIRECT_HALF_MIN
           : half > ENGINE_REDIRECT_HALF_MAX ? ENGINE_REDIRECT_HALF_MAX
                                             : half;
}

uint64_t chunks_mean_bytes(const struct engine *engine, const struct engine_job_desc *desc)
{
    uint64_t count = idset_count(desc->view), step = count / MEAN_OF + 1, sum = 0, n = 0;
    for (uint64_t rank = 0; rank < count; rank += step, n++) {
        sample_id id = 0;
        CHECK(idset_select(desc->view, rank, &id));
        sum += engine->config.sample_bytes(desc->dataset, id);
    }
    return (sum + n - 1) / n + !sum;
}

/* How many of the dataset's samples the encoded budget holds. */
uint64_t chunks_samples_held(const struct engine *engine, const struct engine_job_desc *desc)
{
    return encoded_sure(engine) / chunks_mean_bytes(engine, desc);
}

/* How many chunks share a place: so many that their fibers' stocks together are what memory holds. */
static uint32_t group_size(const struct engine *engine, const struct engine_job_desc *desc, uint32_t width, uint64_t held)
{
    if (engine->config.redirect_group)
        return engine->config.redirect_group;
    uint64_t total = (uint64_t)desc->chunk_count * desc->chunk_samples * chunks_stock_max(width) / width;
    uint64_t size = held ? (total + held - 1) / held : GROUP_MAX; /* a budget below the mean sample holds none */
    return size < GROUP_MIN ? GROUP_MIN : size > GROUP_MAX ? GROUP_MAX : (uint32_t)size;
}

/* A job's stock in a fiber, its part of what memory holds: less than a group was made for where the dataset has not the
 * chunks for it, more where memory holds more than the smallest groups are made for. */
static uint32_t stock_size(uint32_t width, uint64_t fibers, uint64_t held, uint32_t group_chunks)
{
    uint64_t size = (held * group_chunks + fibers - 1) / fibers, all = (uint64_t)width * group_chunks;
    if (width == 1)
        return 1;
    return size < 1 ? 1 : size > all ? (uint32_t)all : (uint32_t)size;
}

/* Room for what is known of chunks up to `end`, and of so many groups and fibers more. */
static int make_room(struct engine *engine, uint32_t end, uint64_t groups, uint64_t fibers)
{
    struct chunk *chunks = engine->chunks.chunks;
    if (end > engine->chunks.n_chunks) {
        chunks = realloc(chunks, end * sizeof *chunks);
        if (!chunks)
            return LARDER_ENOMEM;
        engine->chunks.chunks = chunks;
        for (; engine->chunks.n_chunks < end; engine->chunks.n_chunks++)
            chunks[engine->chunks.n_chunks] = (struct chunk){.group = ENGINE_NONE};
    }
    struct group *more_groups = realloc(engine->chunks.groups, (engine->chunks.n_groups + groups) * sizeof *more_groups);
    if (!more_groups)
        return LARDER_ENOMEM;
    engine->chunks.groups = more_groups;
    struct fiber *more_fibers = realloc(engine->chunks.fibers, (engine->chunks.n_fibers + fibers) * sizeof *more_fibers);
    if (!more_fibers)
        return LARDER_ENOMEM;
    engine->chunks.fibers = more_fibers;
    return 0;
}

/* The lists of members of all of the dataset's chunks, or of none. */
static int make_members(struct engine *engine, const struct engine_job_desc *desc)
{
    uint32_t chunk = desc->chunk_base, end = desc->chunk_base + desc->chunk_count;
    for (; chunk < end; chunk++) {
        engine->chunks.chunks[chunk].members = malloc(desc->chunk_samples * sizeof(sample_id));
        if (!engine->chunks.chunks[chunk].members)
            break;
    }
    if (chunk == end)
        return 0;
    while (chunk-- > desc->chunk_base) {
        free(engine->chunks.chunks[chunk].members);
        engine->chunks.chunks[chunk].members = NULL;
    }
    return LARDER_ENOMEM;
}

int chunks_enter(struct engine *engine, const struct engine_job_desc *desc)
{
    uint64_t held = chunks_samples_held(engine, desc);
    uint32_t width = fiber_width(engine, desc->chunk_samples);
    uint32_t end = desc->chunk_base + desc->chunk_count, size = group_size(engine, desc, width, held);
    size = size < desc->chunk_count ? size : desc->chunk_count;
    uint32_t groups = (desc->chunk_count + size - 1) / size;
    uint64_t fibers = (desc->chunk_samples + width - 1) / width; /* of a group */
    if (make_room(engine, end, groups, groups * fibers) || make_members(engine, desc))
        return LARDER_ENOMEM;
    for (uint32_t i = 0; i < groups; i++) {
        uint32_t first = desc->chunk_base + i * size;
        engine->chunks.groups[engine->chunks.n_groups] = (struct group){.first_chunk = first,
                                                          .n_chunks = end - first < size ? end - first : size,
                                                          .chunk_samples = desc->chunk_samples,
                                                          .width = width,
                                                          .first_fiber = engine->chunks.n_fibers,
                                                          .stock_max = stock_size(width, desc->chunk_count * fibers, held, size),
                                                          .thin = held * size < desc->chunk_count * fibers,
                                                          .ahead_below = UINT32_MAX};
        for (uint32_t chunk = first; chunk < first + engine->chunks.groups[engine->chunks.n_groups].n_chunks; chunk++) {
            engine->chunks.chunks[chunk].group = engine->chunks.n_groups;
            for (uint32_t slot = 0; slot < desc->chunk_samples; slot++)
                engine->chunks.chunks[chunk].members[slot] = SAMPLE_NONE;
        }
        for (uint64_t fiber = 0; fiber < fibers; fiber++)
            engine->chunks.fibers[engine->chunks.n_fibers++] = (struct fiber){LINE_EMPTY, LINE_EMPTY};
        engine->chunks.n_groups++;
    }
    return 0;
}

uint32_t engine_chunk_of(const struct engine *engine, sample_id id)
{
    return id < engine->samples.cap ? engine->samples.all[id].chunk : ENGINE_CHUNK_NONE;
}

/* Closes the gap that groups first … end - 1 leave, and their fibers. */
void chunks_drop_groups(struct engine *engine, uint32_t first, uint32_t end)
{
    uint32_t groups = end - first, first_fiber = engine->chunks.groups[first].first_fiber;
    uint32_t end_fiber = end < engine->chunks.n_groups ? engine->chunks.groups[end].first_fiber : engine->chunks.n_fibers;
    uint32_t fibers = end_fiber - first_fiber;
    for (uint32_t fiber = first_fiber; fiber < end_fiber; fiber++)
        CHECK(engine->chunks.fibers[fiber].instances.head == ENGINE_NONE && engine->chunks.fibers[fiber].encoded.head == ENGINE_NONE);
    engine->chunks.n_groups -= groups;
    engine->chunks.n_fibers -= fibers;
    memmove(&engine->chunks.groups[first], &engine->chunks.groups[end], (engine->chunks.n_groups - first) * sizeof *engine->chunks.groups);
    memmove(&engine->chunks.fibers[first_fiber], &engine->chunks.fibers[end_fiber],
            (engine->chunks.n_fibers - first_fiber) * sizeof *engine->chunks.fibers);
    for (uint32_t i = first; i < engine->chunks.n_groups; i++)
        engine->chunks.groups[i].first_fiber -= fibers;
    for (uint32_t chunk = 0; chunk < engine->chunks.n_chunks; chunk++) {
        if (engine->chunks.chunks[chunk].group != ENGINE_NONE && engine->chunks.chunks[chunk].group >= end)
            engine->chunks.chunks[chunk].group -= groups;
    }
    for (uint64_t id = 0; id < engine->samples.cap; id++) {
        if (engine->samples.all[id].fiber != ENGINE_NONE && engine->samples.all[id].fiber >= end_fiber)
            engine->samples.all[id].fiber -= fibers;
    }
}

void chunks_destroy(struct engine *engine)
{
    for (uint32_t chunk = 0; chunk < engine->chunks.n_chunks; chunk++)
        free(engine->chunks.chunks[chunk].members);
    free(engine->chunks.chunks);
    free(engine->chunks.groups);
    free(engine->chunks.fibers);
    free(engine->encoded.shortage.left);
}

uint32_t chunks_stock_max(uint32_t width)
{
    return width == 1 ? 1 : (uint32_t)(width * ENGINE_STOCK_DEPTH + 0.5);
}

/* Is the group of the job's dataset? */
bool chunks_is_here(const struct job *job, const struct group *group)
{
    return group->first_chunk >= job->shape.chunk_base && group->first_chunk - job->shape.chunk_base < job->shape.chunk_count;
}
