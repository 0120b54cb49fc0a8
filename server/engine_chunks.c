/* engine_chunks.c: chunks, groups and fibers (Brand and Redox: file redirection), and what of a fiber is in memory.
 *
 *              slot 0   1   2   3   4   5 …
 *   chunk 0         ·   ·   ·   ·   ·   ·      a group: n chunks that share one place in memory
 *   chunk 1         ·   ·   ·   ·   ·   ·      a fiber: the samples of one group in w neighbouring slots
 *   chunk 2         ·   ·   ·   ·   ·   ·
 *                  └─ w = 3 ─┘ └─ w = 3 ─┘
 */
#include <stdlib.h>

#include "server/engine_priv.h"

enum {
    GROUP_MIN = 6,   /* fibers of fewer samples find too little that another job has had prepared */
    GROUP_MAX = 256,
    MEAN_OF = 256    /* samples whose sizes tell how many the encoded budget holds */
};

static uint64_t fibers_per_group(const struct engine *engine, uint32_t chunk_samples)
{
    return (chunk_samples + engine->config.redirect_width - 1) / engine->config.redirect_width;
}

/* How many of the dataset's samples the encoded budget holds. */
static uint64_t samples_held(const struct engine *engine, const struct engine_job_desc *desc)
{
    uint64_t count = idset_count(desc->view), step = count / MEAN_OF + 1, sum = 0, n = 0;
    for (uint64_t rank = 0; rank < count; rank += step, n++) {
        sample_id id = 0;
        CHECK(idset_select(desc->view, rank, &id));
        sum += engine->config.sample_bytes(desc->dataset, id);
    }
    return engine->config.encoded_bytes / ((sum + n - 1) / n + !sum);
}

/* How many chunks share a place: so many that their fibers' stocks together are what memory holds. */
static uint32_t group_size(const struct engine *engine, const struct engine_job_desc *desc, uint64_t held)
{
    if (engine->config.redirect_group)
        return engine->config.redirect_group;
    uint64_t total = (uint64_t)desc->chunk_count * desc->chunk_samples * engine_stock_max(engine) / engine->config.redirect_width;
    uint64_t size = held ? (total + held - 1) / held : GROUP_MAX; /* a budget below the mean sample holds none */
    return size < GROUP_MIN ? GROUP_MIN : size > GROUP_MAX ? GROUP_MAX : (uint32_t)size;
}

/* A job's stock in a fiber, its part of what memory holds: less than a group was made for where the dataset has not the
 * chunks for it, more where memory holds more than the smallest groups are made for. */
static uint32_t stock_size(const struct engine *engine, const struct engine_job_desc *desc, uint64_t held, uint32_t group_chunks)
{
    uint64_t fibers = desc->chunk_count * fibers_per_group(engine, desc->chunk_samples);
    uint64_t size = (held * group_chunks + fibers - 1) / fibers, all = (uint64_t)engine->config.redirect_width * group_chunks;
    if (engine->config.redirect_width == 1)
        return 1;
    return size < 1 ? 1 : size > all ? (uint32_t)all : (uint32_t)size;
}

static void add_chunks(struct engine *engine, const struct engine_job_desc *desc)
{
    uint64_t held = samples_held(engine, desc);
    uint32_t end = desc->chunk_base + desc->chunk_count, size = group_size(engine, desc, held);
    size = size < desc->chunk_count ? size : desc->chunk_count;
    uint32_t groups = (desc->chunk_count + size - 1) / size;
    uint64_t fibers = fibers_per_group(engine, desc->chunk_samples);
    if (end > engine->n_chunks) {
        engine->chunks = xrealloc(engine->chunks, end, sizeof *engine->chunks);
        for (uint32_t chunk = engine->n_chunks; chunk < end; chunk++)
            engine->chunks[chunk] = (struct chunk){.group = ENGINE_NONE};
        engine->n_chunks = end;
    }
    engine->groups = xrealloc(engine->groups, engine->n_groups + groups, sizeof *engine->groups);
    engine->fibers = xrealloc(engine->fibers, engine->n_fibers + groups * fibers, sizeof *engine->fibers);
    for (uint32_t i = 0; i < groups; i++) {
        uint32_t first = desc->chunk_base + i * size;
        engine->groups[engine->n_groups] = (struct group){.first_chunk = first,
                                                          .n_chunks = end - first < size ? end - first : size,
                                                          .chunk_samples = desc->chunk_samples,
                                                          .first_fiber = engine->n_fibers,
                                                          .stock_max = stock_size(engine, desc, held, size),
                                                          .thin = held * size < desc->chunk_count * fibers,
                                                          .ahead_below = UINT32_MAX};
        for (uint32_t chunk = first; chunk < first + engine->groups[engine->n_groups].n_chunks; chunk++) {
            engine->chunks[chunk] = (struct chunk){.members = xcalloc(desc->chunk_samples, sizeof(sample_id)), .group = engine->n_groups};
            for (uint32_t slot = 0; slot < desc->chunk_samples; slot++)
                engine->chunks[chunk].members[slot] = SAMPLE_NONE;
        }
        for (uint64_t fiber = 0; fiber < fibers; fiber++)
            engine->fibers[engine->n_fibers++] = (struct fiber){.instances = ENGINE_NONE, .encoded = ENGINE_NONE};
        engine->n_groups++;
    }
}

void engine_place_samples(struct engine *engine, const struct engine_job_desc *desc)
{
    if (!desc->places || !desc->chunk_count || !engine->config.redirect_width)
        return;
    if (desc->chunk_base >= engine->n_chunks || engine->chunks[desc->chunk_base].group == ENGINE_NONE)
        add_chunks(engine, desc);
    uint64_t count = idset_count(desc->view);
    sample_id *ids = xcalloc(count, sizeof *ids);
    idset_to_array(desc->view, ids);
    for (uint64_t i = 0; i < count; i++) {
        struct sample_state *sample = &engine->samples[ids[i]];
        const struct engine_place *place = &desc->places[i];
        CHECK(place->chunk >= desc->chunk_base && place->chunk - desc->chunk_base < desc->chunk_count &&
              place->slot < desc->chunk_samples);
        if (sample->chunk != ENGINE_NONE || sample->instances != ENGINE_NONE || sample->encoded != ENGINE_NONE || sample->pending)
            continue;
        struct chunk *chunk = &engine->chunks[place->chunk];
        sample->chunk = place->chunk;
        sample->fiber = engine->groups[chunk->group].first_fiber + place->slot / engine->config.redirect_width;
        chunk->members[place->slot] = ids[i];
    }
    free(ids);
}

void engine_chunks_destroy(struct engine *engine)
{
    for (uint32_t chunk = 0; chunk < engine->n_chunks; chunk++)
        free(engine->chunks[chunk].members);
    free(engine->chunks);
    free(engine->groups);
    free(engine->fibers);
    free(engine->room.left);
}

#define FIBER_LIST(kind, array, head_field)                                                           \
    void engine_fiber_add_##kind(struct engine *engine, uint32_t index)                                \
    {                                                                                                  \
        uint32_t fiber = engine->samples[engine->array[index].id].fiber;                               \
        if (fiber == ENGINE_NONE)                                                                      \
            return;                                                                                    \
        uint32_t *head = &engine->fibers[fiber].head_field;                                            \
        engine->array[index].fiber_prev = ENGINE_NONE;                                                 \
        engine->array[index].fiber_next = *head;                                                       \
        if (*head != ENGINE_NONE)                                                                      \
            engine->array[*head].fiber_prev = index;                                                   \
        *head = index;                                                                                 \
    }                                                                                                  \
                                                                                                       \
    void engine_fiber_remove_##kind(struct engine *engine, uint32_t index)                             \
    {                                                                                                  \
        uint32_t fiber = engine->samples[engine->array[index].id].fiber;                               \
        if (fiber == ENGINE_NONE)                                                                      \
            return;                                                                                    \
        uint32_t prev = engine->array[index].fiber_prev, next = engine->array[index].fiber_next;       \
        if (prev != ENGINE_NONE)                                                                       \
            engine->array[prev].fiber_next = next;                                                     \
        else                                                                                           \
            engine->fibers[fiber].head_field = next;                                                   \
        if (next != ENGINE_NONE)                                                                       \
            engine->array[next].fiber_prev = prev;                                                     \
    }

FIBER_LIST(instance, instances, instances)
FIBER_LIST(encoded, encoded, encoded)
