/* pack_rewrite.c: a pack whose samples are rewritten. How long a chunk is, is known once its samples are. So chunks get
 * their places in order, each after the one before it in its segment. Threads take chunks in order too, so the one that
 * all others wait for waits for nobody. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/store/pack_priv.h"

static int make_room(struct rewritten *rewritten, size_t more, struct error *err)
{
    if (more > STORE_CHUNK_BYTES_MAX - rewritten->len_bytes)
        return error_set(err, LARDER_ELIMIT,
                         "a chunk of rewritten samples would have more than 1 GiB: choose fewer samples a chunk");
    size_t needed = rewritten->len_bytes + more;
    if (needed <= rewritten->cap_bytes)
        return 0;
    size_t cap = rewritten->cap_bytes * 2 > needed ? rewritten->cap_bytes * 2 : needed;
    uint8_t *bytes = realloc(rewritten->bytes, cap);
    if (!bytes)
        return pack_no_memory(err);
    rewritten->bytes = bytes;
    rewritten->cap_bytes = cap;
    return 0;
}

int pack_rewrite_sample(const struct pack *pack, const uint8_t *bytes, struct store_entry *entry,
                        struct rewritten *rewritten, struct error *err)
{
    size_t len_bytes = entry->source_bytes;
    uint8_t *made = pack->options->rewrite(bytes, len_bytes, &len_bytes);
    int code = make_room(rewritten, len_bytes, err);
    if (!code && len_bytes)
        memcpy(rewritten->bytes + rewritten->len_bytes, made ? made : bytes, len_bytes);
    if (!code && made) {
        XXH128_hash_t hash = XXH3_128bits(made, len_bytes);
        entry->checksum = (struct identity){.low = hash.low64, .high = hash.high64};
        entry->size = len_bytes;
        rewritten->samples += memcmp(&entry->checksum, &entry->hash, sizeof entry->hash) != 0;
    }
    rewritten->len_bytes += code ? 0 : len_bytes;
    free(made);
    return code;
}

bool pack_place(struct pack *pack, uint32_t chunk, uint64_t len_bytes)
{
    uint32_t number = pack->layout.chunks[chunk].segment, first = pack->layout.segments[number].first_chunk;
    pthread_mutex_lock(&pack->lock);
    while (pack->chunks_placed[number] != chunk - first && !pack->error.code)
        pthread_cond_wait(&pack->placed, &pack->lock);
    bool turn = pack->chunks_placed[number] == chunk - first;
    if (turn) {
        layout_move(&pack->layout, chunk, len_bytes);
        pack->chunks_placed[number]++;
        pthread_cond_broadcast(&pack->placed);
    }
    pthread_mutex_unlock(&pack->lock);
    return turn;
}

void pack_place_entries(struct layout *layout, uint32_t segment, const struct store_entry *entries)
{
    uint32_t first = layout->segments[segment].first_chunk, end = first + layout->segments[segment].chunk_count;
    for (uint32_t chunk = first; chunk < end; chunk++) {
        uint64_t len_bytes = 0;
        for (uint32_t i = layout_chunk_samples(layout, chunk); i; i--)
            len_bytes += (entries++)->size;
        layout_move(layout, chunk, len_bytes);
    }
}
