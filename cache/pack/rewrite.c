/* rewrite.c: a pack whose samples are rewritten. How long a chunk is, is known once its samples are. So chunks get
 * their places in order, each after the one before it in its segment. Threads take chunks in order too, so the one that
 * all others wait for waits for nobody. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/pack/pack_priv.h"
#include "common/log.h"

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

static bool is_in_planes(const struct dataset *dataset, uint32_t index)
{
    const struct store *store = store_of(dataset_source(dataset));
    return store && store->forms && store->forms[index] & STORE_FORM_PLANES;
}

int pack_rewrite_sample(const struct pack *pack, struct sample_read *read, struct store_entry *entry,
                        struct rewritten *rewritten, struct error *err)
{
    struct store_made made = {0};
    struct shown shown;
    const char *key = path_shown(dataset_key(pack->dataset, read->index), &shown);
    uint64_t source_bytes = dataset_size(pack->dataset, read->index);
    int code = pack->options->rewrite(pack->options, read->buf, source_bytes, &made, err);
    if (code)
        return error_prefix(err, code, "%s", key);
    if (made.broken && is_in_planes(pack->dataset, read->index)) {
        error_set(&read->err, LARDER_EFORMAT, "%s: its planes are damaged, and give no image", key);
        free(made.bytes);
        return 0;
    }
    if (made.form & STORE_FORM_UNDECODED)
        log_warn("msg=\"packed as it is: it cannot be decoded\" file=\"%s\" err=\"%s\"", key, made.why.text);
    size_t len_bytes = made.bytes ? made.len_bytes : source_bytes;
    code = make_room(rewritten, len_bytes, err);
    if (!code && len_bytes)
        memcpy(rewritten->bytes + rewritten->len_bytes, made.bytes ? made.bytes : read->buf, len_bytes);
    if (!code && made.bytes) {
        XXH128_hash_t hash = XXH3_128bits(made.bytes, len_bytes);
        entry->checksum = (struct identity){.low = hash.low64, .high = hash.high64};
        entry->size = len_bytes;
    }
    entry->form = made.form;
    rewritten->len_bytes += code ? 0 : len_bytes;
    free(made.bytes);
    return code;
}

/* Whether a sample has other bytes than those that were read. */
static bool is_rewritten(const struct pack *pack, uint32_t position)
{
    const struct store_entry *entry = &pack->entries[position];
    const struct store *store = store_of(dataset_source(pack->dataset));
    const struct identity *read = store ? &store->checksums[pack->chunking.members[position]] : &entry->hash;
    return !(entry->flags & INDEX_UNREACHABLE) && memcmp(read, &entry->checksum, sizeof *read) != 0;
}

void pack_count(struct pack *pack, uint32_t first, uint32_t count)
{
    struct store_progress *progress = &pack->progress;
    for (uint32_t i = first; i < first + count; i++) {
        const struct store_entry *entry = &pack->entries[i];
        progress->samples_skipped += (entry->flags & INDEX_UNREACHABLE) != 0;
        progress->samples_rewritten += is_rewritten(pack, i);
        progress->samples_shrunk += (entry->form & STORE_FORM_SHRUNK) != 0;
        progress->samples_undecoded += (entry->form & STORE_FORM_UNDECODED) != 0;
        progress->samples_planes += (entry->form & STORE_FORM_PLANES) != 0;
    }
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

static uint64_t entries_bytes(const struct store_entry *entries, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += entries[i].size;
    return sum;
}

bool pack_place_entries(struct layout *layout, uint32_t segment, const struct store_entry *entries, uint64_t file_bytes)
{
    uint32_t first = layout->segments[segment].first_chunk, end = first + layout->segments[segment].chunk_count;
    uint64_t place = STORE_ALIGN;
    const struct store_entry *next = entries;
    for (uint32_t chunk = first; chunk < end; chunk++) {
        uint32_t samples = layout_chunk_samples(layout, chunk);
        place = layout_align(place) + entries_bytes(next, samples);
        next += samples;
    }
    if (place + store_footer_bytes((uint32_t)(next - entries), layout->version) != file_bytes)
        return false;
    for (uint32_t chunk = first; chunk < end; chunk++) {
        uint32_t samples = layout_chunk_samples(layout, chunk);
        layout_move(layout, chunk, entries_bytes(entries, samples));
        entries += samples;
    }
    return true;
}
