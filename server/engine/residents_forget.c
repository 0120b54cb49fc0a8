/* residents_forget.c: ids that mean no sample any more, because no job and no dataset has them: nothing stays under them, so
 * that they may be given to other samples. What is still being loaded or prepared for nobody keeps its id for now. */
#include "server/engine/encoded.h"
#include "server/engine/prepared.h"
#include "server/engine/residents.h"

static bool is_busy(const struct engine *engine, const struct sample_state *sample)
{
    if (sample->pending || (sample->encoded != ENGINE_NONE && residency_pins(engine->encoded.residency, sample->encoded) > 0))
        return true;
    for (uint32_t index = sample->instances; index != ENGINE_NONE; index = engine->prepared.instances[index].next) {
        if (residency_pins(engine->prepared.residency, index) > 0)
            return true;
    }
    return false;
}

static void forget(struct engine *engine, struct sample_state *sample)
{
    while (sample->instances != ENGINE_NONE)
        prepared_evict(engine, sample->instances);
    if (sample->encoded != ENGINE_NONE)
        encoded_free(engine, sample->encoded, true);
    if (sample->chunk != ENGINE_NONE)
        engine->chunks.chunks[sample->chunk].stale = true;
    sample->chunk = sample->fiber = ENGINE_NONE;
    sample->failed = false; /* `begun` goes on: its numbers key the random draws, whatever sample comes */
}

/* A chunk has no member that is not in it. */
static void sweep_chunks(struct engine *engine)
{
    for (uint32_t number = 0; number < engine->chunks.n_chunks; number++) {
        struct chunk *chunk = &engine->chunks.chunks[number];
        uint32_t samples = chunk->stale ? engine->chunks.groups[chunk->group].chunk_samples : 0;
        for (uint32_t slot = 0; slot < samples; slot++) {
            if (chunk->members[slot] != SAMPLE_NONE && engine->samples.all[chunk->members[slot]].chunk != number)
                chunk->members[slot] = SAMPLE_NONE;
        }
        chunk->stale = false;
    }
}

void residents_forget(struct engine *engine, sample_id *ids, uint32_t count, uint32_t *kept)
{
    *kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        sample_id id = ids[i];
        if (id >= engine->samples.cap)
            continue;
        if (!is_busy(engine, &engine->samples.all[id])) {
            forget(engine, &engine->samples.all[id]);
            continue;
        }
        ids[i] = ids[*kept];
        ids[(*kept)++] = id;
    }
    sweep_chunks(engine);
}
