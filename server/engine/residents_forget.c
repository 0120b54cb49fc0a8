/* residents_forget.c: ids that no longer mean a sample, because no job and no dataset has them. Nothing stays under
 * them, so they may be given to other samples. A sample that is still being loaded or prepared for nobody keeps its id
 * until that has ended. */
#include "server/engine/encoded.h"
#include "server/engine/prepared.h"
#include "server/engine/residents.h"

/* is_busy tells whether a load or a task of the sample is under way, or something of it is pinned. */
static bool is_busy(const struct residents *residents, sample_id id)
{
    if (encoded_sample(residents->encoded, id)->pending ||
        (encoded_sample(residents->encoded, id)->encoded != ENGINE_NONE &&
         residency_pins(residents->encoded->residency, encoded_sample(residents->encoded, id)->encoded) > 0))
        return true;
    INSTANCES_OF(residents->prepared, id, index) {
        if (residency_pins(residents->prepared->residency, index) > 0)
            return true;
    }
    return false;
}

/* forget takes away what is kept under the id. Nothing of it may be pinned. */
static void forget(struct residents *residents, sample_id id)
{
    while (prepared_sample(residents->prepared, id)->instances != ENGINE_NONE)
        prepared_evict(residents->prepared, prepared_sample(residents->prepared, id)->instances);
    if (encoded_sample(residents->encoded, id)->encoded != ENGINE_NONE)
        encoded_free(residents->encoded, encoded_sample(residents->encoded, id)->encoded, true);
    if (chunks_place(residents->chunks, id)->chunk != ENGINE_NONE)
        residents->chunks->chunks[chunks_place(residents->chunks, id)->chunk].stale = true;
    *chunks_place(residents->chunks, id) = CHUNK_PLACE_NONE;
    idset_remove(residents->chunks->placed, id);
    residents->chunks->moves++;
    /* `begun` is not set back: its numbers key the random draws, whatever sample comes. */
    encoded_sample(residents->encoded, id)->failed = false;
}

/* sweep_chunks takes those members out of stale chunks that are no longer in them. */
static void sweep_chunks(struct residents *residents)
{
    for (uint32_t number = 0; number < residents->chunks->n_chunks; number++) {
        struct chunk *chunk = &residents->chunks->chunks[number];
        uint32_t samples = chunk->stale ? chunks_range_of(residents->chunks, number)->samples : 0;
        for (uint32_t slot = 0; slot < samples; slot++) {
            if (chunk->members[slot] != SAMPLE_NONE &&
                chunks_place(residents->chunks, chunk->members[slot])->chunk != number)
                chunk->members[slot] = SAMPLE_NONE;
        }
        chunk->stale = false;
    }
}

void residents_forget(struct residents *residents, sample_id *ids, uint32_t count, uint32_t *kept)
{
    *kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        sample_id id = ids[i];
        if (id >= residents->env->samples.ids)
            continue;
        if (!is_busy(residents, id)) {
            forget(residents, id);
            continue;
        }
        ids[i] = ids[*kept];
        ids[(*kept)++] = id;
    }
    sweep_chunks(residents);
}
