/* encoded_check.c: what must hold of encoded memory between steps. */
#include <string.h>

#include "common/check.h"
#include "server/engine/chunks.h"
#include "server/engine/encoded.h"

/* The stored want equals the number of jobs that it counts. If the entry is settled, that number is also right. */
static void check_want(const struct encoded_store *store, uint32_t index)
{
    const struct encoded *encoded = &store->encodeds[index];
    uint32_t want = residency_want(store->residency, index) - (encoded->kept ? KEPT_WANT : 0);
    struct jobset wanted;
    CHECK(want == jobset_count(&encoded->wanted));
    CHECK(encoded->settled >= store->changes->first && encoded->settled <= store->changes->end);
    if (encoded->settled == store->changes->end)
        CHECK(want == demand_count_encoded(store->jobs, encoded->id, &wanted) &&
              memcmp(&wanted, &encoded->wanted, sizeof wanted) == 0);
}

/* The fibers have all encodeds that belong to a chunk, each its own. While the sweep goes on, some may not have entered
 * theirs. */
static void check_fibers(const struct encoded_store *store, bool sweeping)
{
    const struct chunks *chunks = store->chunks;
    uint32_t in_chunks = 0, listed = 0;
    for (uint32_t index = 0; index < store->slab.size; index++) {
        const struct encoded *encoded = &store->encodeds[index];
        bool entered = encoded->state != ENCODED_FREE && encoded->arranged == chunks->arranged;
        bool in_chunk = encoded->state != ENCODED_FREE && chunks_fiber(chunks, encoded->id);
        CHECK(entered ? in_chunk : !in_chunk || sweeping);
        in_chunks += entered;
    }
    for (uint32_t fiber = 0; fiber < chunks->n_fibers; fiber++) {
        const struct fiber_members *encoded = &chunks->fibers[fiber].encoded;
        for (uint32_t i = 0; i < encoded->count; i++)
            CHECK(chunks_fiber_no(chunks, store->encodeds[encoded->all[i]].id) == fiber);
        listed += encoded->count;
    }
    CHECK(listed == in_chunks);
}

void encoded_check(const struct encoded_store *store, const uint32_t *users, bool sweeping)
{
    uint64_t used = 0, pinned = 0, kept = 0, kept_pinned = 0;
    int64_t extra = 0;
    uint32_t loading = 0, forms = 0;
    for (uint32_t index = 0; index < store->slab.size; index++) {
        const struct encoded *encoded = &store->encodeds[index];
        if (encoded->state == ENCODED_FREE)
            continue;
        CHECK(encoded_sample(store, encoded->id)->encoded == index);
        CHECK(residency_pins(store->residency, index) == users[index] + (encoded->state == ENCODED_LOADING));
        check_want(store, index);
        CHECK(encoded->kept == encoded_keeps(store, encoded->id));
        CHECK(residency_pins(store->residency, index) || residency_want(store->residency, index) || sweeping);
        CHECK((encoded->state == ENCODED_READY) == (encoded->handle != NULL));
        CHECK(!encoded->granted || (encoded->readers > 0 && !encoded->decoded));
        CHECK(encoded->state == ENCODED_LOADING || encoded->readers <= users[index]);
        forms += encoded->decoded;
        extra += encoded->decoded ? (int64_t)(encoded->bytes - encoded->read_bytes) : (int64_t)encoded->granted;
        loading += encoded->state == ENCODED_LOADING;
        used += encoded->bytes;
        kept += encoded->kept ? encoded_as_read(encoded) : 0;
        pinned += residency_pins(store->residency, index) ? encoded->bytes : 0;
        kept_pinned += encoded->kept && residency_pins(store->residency, index) ? encoded_as_read(encoded) : 0;
    }
    CHECK(pinned == store->pinned_bytes && kept == store->kept_bytes && kept_pinned == store->kept_pinned_bytes);
    const struct engine_config *config = &store->env->config;
    uint64_t left = config->arena_bytes - prepared_there_bytes(store->prepared);
    CHECK(used == store->used_bytes && used <= config->encoded_bytes + config->lent_bytes);
    CHECK(used <= config->encoded_bytes + left);
    CHECK(extra == store->forms.extra_bytes && forms == store->forms.count);
    CHECK(used <= encoded_most(store) || residency_victim(store->residency) == RESIDENT_NONE);
    encoded_next_check(store);
    check_fibers(store, sweeping);
    CHECK(loading == store->loading && loading <= store->env->config.inflight_loads);
}
