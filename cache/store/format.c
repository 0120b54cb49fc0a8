/* format.c: a store's index and segments, as bytes. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/sealed.h"
#include "cache/store/format.h"
#include "common/little_endian.h"
#include "common/types.h"
#include "common/vast.h"

#define COUNTS_BYTES 48
#define PACKING_BYTES 16 /* they follow the counts from version 3 on */
#define SEGMENT_BYTES 16
#define SAMPLE_BYTES 56
#define REWRITTEN_BYTES 24 /* added to a sample from version 2 on: a checksum and a size */
#define FORM_BYTES 8       /* added to a footer's entry from version 3 on */
#define ENTRY_BYTES 24
#define FOOTER_COUNTS_BYTES (STORE_FOOTER_BYTES - SEALED_HEADER_BYTES)
#define SEGMENT_MAGIC "LDRCHUNK"
#define UNREADABLE_BIT (UINT64_C(1) << 63)
#define PACKING_RESTART_ROWS 1u
#define PACKING_PLANES 2u

static struct seal index_seal(uint32_t version)
{
    return (struct seal){.magic = "LDRSTORE", .version = version, .what = "the store's index"};
}

static struct seal footer_seal(uint32_t version)
{
    return (struct seal){.magic = "LDRFOOTR", .version = version, .what = "the segment's footer"};
}

/* The version that sealed bytes say they have, or the newest. */
static uint32_t version_of(const uint8_t *bytes, size_t len_bytes)
{
    uint32_t version = len_bytes >= SEALED_HEADER_BYTES ? get_u32(bytes + 8) : 0;
    return version >= STORE_VERSION_PLAIN && version < STORE_VERSION_PLANES ? version : STORE_VERSION_PLANES;
}

/* The forms that samples may have, from version 3 on. */
static uint32_t forms_of(uint32_t version)
{
    uint32_t forms = STORE_FORM_SHRUNK | STORE_FORM_RESTART_ROWS | STORE_FORM_UNDECODED;
    return version >= STORE_VERSION_PLANES ? forms | STORE_FORM_PLANES : forms;
}

static size_t counts_bytes(uint32_t version)
{
    return COUNTS_BYTES + (version >= STORE_VERSION_SHRUNK ? PACKING_BYTES : 0);
}

static size_t sample_bytes(uint32_t version)
{
    return SAMPLE_BYTES + (version >= STORE_VERSION_REWRITTEN ? REWRITTEN_BYTES : 0);
}

static size_t entry_bytes(uint32_t version)
{
    return ENTRY_BYTES + (version >= STORE_VERSION_REWRITTEN ? REWRITTEN_BYTES : 0) +
           (version >= STORE_VERSION_SHRUNK ? FORM_BYTES : 0);
}

void store_free(struct store *store)
{
    if (store->checksums != store->hashes)
        free(store->checksums);
    free(store->source_bytes);
    free(store->forms);
    free(store->segments);
    free(store->offsets);
    free(store->hashes);
    *store = (struct store){0};
}

void store_segment_name(uint32_t number, char name[STORE_NAME_MAX])
{
    snprintf(name, STORE_NAME_MAX, STORE_SEGMENT_FORMAT, number);
}

uint64_t store_footer_bytes(uint32_t samples, uint32_t version)
{
    return STORE_FOOTER_BYTES + samples * (uint64_t)entry_bytes(version);
}

uint32_t store_segment_samples(const struct store_segment *segment, uint32_t chunk_size, uint32_t sample_count)
{
    uint64_t first = (uint64_t)segment->first_chunk * chunk_size;
    uint64_t end = first + (uint64_t)segment->chunk_count * chunk_size;
    return (uint32_t)((end < sample_count ? end : sample_count) - first);
}

uint32_t store_segment_of(const struct store *store, uint32_t chunk)
{
    uint32_t low = 0, high = store->segment_count - 1;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (store->segments[middle].first_chunk <= chunk)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static int damaged(struct error *err, const char *what)
{
    return error_set(err, LARDER_EFORMAT, "the store's index is damaged: %s", what);
}

/* ── index ── */

struct counts {
    uint64_t strings;
    uint32_t chunk_size, segments, classes, samples;
};

static int parse_packing(const uint8_t *at, struct store *store, struct error *err)
{
    struct packing *packing = &store->packing;
    *packing = (struct packing){.packed = true, .restart_rows = store->version == STORE_VERSION_REWRITTEN};
    if (store->version < STORE_VERSION_SHRUNK)
        return 0;
    uint32_t flags = get_u32(at + 8);
    packing->max_side = get_u32(at);
    packing->quality = get_u32(at + 4);
    packing->restart_rows = flags & PACKING_RESTART_ROWS;
    packing->planes = store->version == STORE_VERSION_PLANES;
    bool good = packing->max_side <= STORE_SIDE_MAX && get_u32(at + 12) == 0;
    if (packing->max_side)
        good = good && packing->quality >= 1 && packing->quality <= 100;
    else
        good = good && packing->planes && packing->quality == 0;
    if (packing->planes)
        good = good && flags == (PACKING_RESTART_ROWS | PACKING_PLANES);
    else
        good = good && !(flags & ~PACKING_RESTART_ROWS);
    return good ? 0 : damaged(err, "what it says of how it was packed is out of its bounds");
}

static int parse_counts(const uint8_t *at, size_t len_bytes, struct store *store, struct counts *out, struct error *err)
{
    size_t before = counts_bytes(store->version);
    if (len_bytes < before)
        return damaged(err, "it is too short");
    store->plan[0] = get_u64(at);
    store->plan[1] = get_u64(at + 8);
    store->seed = get_u64(at + 16);
    struct counts counts = {.strings = get_u64(at + 24),
                            .chunk_size = get_u32(at + 32),
                            .segments = get_u32(at + 36),
                            .classes = get_u32(at + 40),
                            .samples = get_u32(at + 44)};
    uint64_t records = (uint64_t)counts.segments * SEGMENT_BYTES + (uint64_t)counts.classes * 8 +
                       counts.samples * (uint64_t)sample_bytes(store->version); /* cannot wrap */
    len_bytes -= before;
    if (records > len_bytes || counts.strings != len_bytes - records)
        return damaged(err, "its counts do not fit its length");
    if (counts.strings == 0 || at[before + counts.strings - 1] != '\0')
        return damaged(err, "its texts do not end as they must");
    if (counts.chunk_size < 1 || counts.chunk_size > CHUNK_SAMPLES_MAX || counts.samples < 1 ||
        counts.samples > DATASET_SAMPLES_MAX || counts.segments < 1 || counts.classes < 1)
        return damaged(err, "a count is out of its bounds");
    *out = counts;
    return parse_packing(at + COUNTS_BYTES, store, err);
}

static int allocate(const struct counts *counts, struct index *index, struct chunking *chunking, struct store *store)
{
    index->strings = malloc(counts->strings);
    index->classes = malloc(counts->classes * sizeof *index->classes);
    index->samples = malloc(counts->samples * sizeof *index->samples);
    chunking->members = vast_malloc(counts->samples * sizeof *chunking->members);
    chunking->positions = vast_malloc(counts->samples * sizeof *chunking->positions);
    store->segments = malloc(counts->segments * sizeof *store->segments);
    store->offsets = malloc(counts->samples * sizeof *store->offsets);
    store->hashes = malloc(counts->samples * sizeof *store->hashes);
    store->checksums = store->hashes;
    if (store->version >= STORE_VERSION_REWRITTEN) {
        store->checksums = malloc(counts->samples * sizeof *store->checksums);
        store->source_bytes = malloc(counts->samples * sizeof *store->source_bytes);
        if (!store->checksums || !store->source_bytes)
            return LARDER_ENOMEM;
    }
    if (store->version >= STORE_VERSION_SHRUNK && !(store->forms = calloc(counts->samples, sizeof *store->forms)))
        return LARDER_ENOMEM;
    if (!index->strings || !index->classes || !index->samples || !chunking->members || !chunking->positions ||
        !store->segments || !store->offsets || !store->hashes)
        return LARDER_ENOMEM;
    index->strings_len_bytes = index->strings_cap_bytes = counts->strings;
    index->class_count = index->class_cap = counts->classes;
    index->sample_count = index->sample_cap = counts->samples;
    chunking->chunk_size = counts->chunk_size;
    store->segment_count = counts->segments;
    memset(chunking->members, 0xff, counts->samples * sizeof *chunking->members);
    return 0;
}

static int parse_segments(const uint8_t *at, const struct counts *counts, struct store *store, struct error *err)
{
    uint32_t chunks = counts->samples / counts->chunk_size + (counts->samples % counts->chunk_size != 0), next = 0;
    for (uint32_t i = 0; i < counts->segments; i++, at += SEGMENT_BYTES) {
        struct store_segment *segment = &store->segments[i];
        *segment = (struct store_segment){
            .first_chunk = get_u32(at), .chunk_count = get_u32(at + 4), .file_bytes = get_u64(at + 8)};
        uint32_t samples = store_segment_samples(segment, counts->chunk_size, counts->samples);
        if (segment->first_chunk != next || segment->chunk_count < 1 || segment->chunk_count > chunks - next ||
            segment->file_bytes > STORE_SEGMENT_MAX * 2 ||
            segment->file_bytes < STORE_ALIGN + store_footer_bytes(samples, store->version))
            return damaged(err, "a segment is out of its bounds");
        next += segment->chunk_count;
    }
    return next == chunks ? 0 : damaged(err, "its segments do not hold all chunks");
}

/* Reads the fields that samples have only in stores with rewriting. */
static void parse_rewritten(const uint8_t *at, uint32_t number, struct index_sample *sample, struct store *store)
{
    store->checksums[number] = (struct identity){.low = get_u64(at + 56), .high = get_u64(at + 64)};
    store->source_bytes[number] = get_u64(at + 72);
    sample->mtime_ns = store->packing.planes ? STORE_MTIME_PLANES : STORE_MTIME_REWRITTEN;
    if (!store->packing.max_side)
        return;
    sample->mtime_ns = store->packing.planes ? STORE_MTIME_PLANES_SHRUNK : STORE_MTIME_SHRUNK;
}

static bool is_rewritten(const struct store *store, uint32_t number)
{
    return memcmp(&store->hashes[number], &store->checksums[number], sizeof *store->hashes) != 0;
}

/* Notes what became of a sample, and counts it. false: that cannot be. Version 2 marks none: whatever was rewritten has
 * restart rows. */
static bool parse_form(uint32_t form, uint32_t number, const struct index_sample *sample, struct store *store)
{
    struct packing *packing = &store->packing;
    if (store->version < STORE_VERSION_SHRUNK) {
        packing->samples_restart_rows += store->version == STORE_VERSION_REWRITTEN && is_rewritten(store, number);
        return form == 0;
    }
    if (form & ~forms_of(store->version) || (sample->flags && form) ||
        (form & STORE_FORM_UNDECODED && form != STORE_FORM_UNDECODED) ||
        (form & STORE_FORM_RESTART_ROWS && (!packing->restart_rows || form & STORE_FORM_PLANES)) ||
        (form & (STORE_FORM_SHRUNK | STORE_FORM_UNDECODED) && !packing->max_side))
        return false;
    store->forms[number] = (uint8_t)form;
    packing->samples_shrunk += (form & STORE_FORM_SHRUNK) != 0;
    packing->samples_restart_rows += (form & STORE_FORM_RESTART_ROWS) != 0;
    packing->samples_undecoded += (form & STORE_FORM_UNDECODED) != 0;
    packing->samples_planes += (form & STORE_FORM_PLANES) != 0;
    return true;
}

static int parse_sample(const uint8_t *at, uint32_t number, struct index *index, struct chunking *chunking,
                        struct store *store, struct error *err)
{
    struct index_sample *sample = &index->samples[number];
    bool rewritten = store->version >= STORE_VERSION_REWRITTEN;
    *sample = (struct index_sample){.key = get_u64(at),
                                    .size = get_u64(at + 16),
                                    .mtime_ns = STORE_MTIME,
                                    .label = (int32_t)get_u32(at + 44),
                                    .flags = get_u32(at + 48)};
    store->offsets[number] = get_u64(at + 8);
    store->hashes[number] = (struct identity){.low = get_u64(at + 24), .high = get_u64(at + 32)};
    if (rewritten)
        parse_rewritten(at, number, sample, store);
    uint32_t position = get_u32(at + 40);
    if (sample->key >= index->strings_len_bytes)
        return damaged(err, "a sample's name is out of its bounds");
    const char *key = index->strings + sample->key;
    if (strnlen(key, PATH_MAX) == PATH_MAX || !key_is_below(key))
        return damaged(err, "a sample's name is none that a file below a folder can have");
    if (get_u32(at + 44) >= index->class_count || sample->flags & ~INDEX_UNREACHABLE ||
        !parse_form(get_u32(at + 52), number, sample, store) || sample->size > STORE_CHUNK_BYTES_MAX ||
        (sample->flags && sample->size) ||
        (rewritten &&
         (store->source_bytes[number] > STORE_CHUNK_BYTES_MAX || (sample->flags && store->source_bytes[number]))))
        return damaged(err, "a sample is out of its bounds");
    if (position >= index->sample_count || chunking->members[position] != SAMPLE_NONE)
        return damaged(err, "two samples have one place");
    chunking->members[position] = number;
    chunking->positions[number] = position;
    return 0;
}

/* Samples must lie in their segment in slot order, and chunks be of a size that can be read at once. */
static int check_places(const struct index *index, const struct chunking *chunking, const struct store *store,
                        struct error *err)
{
    uint32_t count = (uint32_t)index->sample_count, position = 0;
    for (uint32_t i = 0; i < store->segment_count; i++) {
        const struct store_segment *segment = &store->segments[i];
        uint32_t samples = store_segment_samples(segment, chunking->chunk_size, count);
        uint64_t data_end = segment->file_bytes - store_footer_bytes(samples, store->version);
        uint64_t end = STORE_ALIGN, chunk_start = STORE_ALIGN;
        for (uint32_t j = 0; j < samples; j++, position++) {
            uint32_t number = chunking->members[position];
            uint64_t offset = store->offsets[number], size = index->samples[number].size;
            if (offset < end || offset > data_end || size > data_end - offset)
                return damaged(err, "a sample lies outside its place");
            if (position % chunking->chunk_size == 0)
                chunk_start = end;
            end = offset + size;
            if (end - chunk_start > STORE_CHUNK_BYTES_MAX + STORE_ALIGN)
                return damaged(err, "a chunk is too large");
        }
        if (data_end - chunk_start > STORE_CHUNK_BYTES_MAX + STORE_ALIGN)
            return damaged(err, "a segment is larger than its chunks");
    }
    return 0;
}

static int parse_payload(const uint8_t *at, const struct counts *counts, struct index *index, struct chunking *chunking,
                         struct store *store, struct error *err)
{
    memcpy(index->strings, at, counts->strings);
    at += counts->strings;
    for (uint32_t i = 0; i < counts->classes; i++, at += 8) {
        index->classes[i] = get_u64(at);
        if (index->classes[i] >= counts->strings)
            return damaged(err, "a class is out of its bounds");
    }
    int code = parse_segments(at, counts, store, err);
    at += (size_t)counts->segments * SEGMENT_BYTES;
    for (uint32_t i = 0; !code && i < counts->samples; i++, at += sample_bytes(store->version))
        code = parse_sample(at, i, index, chunking, store, err);
    return code ? code : check_places(index, chunking, store, err);
}

int store_index_parse(const uint8_t *bytes, size_t len_bytes, struct index *index, struct chunking *chunking,
                      struct store *store, struct error *err)
{
    const uint8_t *payload;
    size_t payload_bytes;
    struct counts counts = {0};
    *index = (struct index){0};
    *chunking = (struct chunking){0};
    *store = (struct store){.version = version_of(bytes, len_bytes)};
    const struct seal seal = index_seal(store->version);
    int code = sealed_open(&seal, bytes, len_bytes, &payload, &payload_bytes, err);
    if (!code)
        code = parse_counts(payload, payload_bytes, store, &counts, err);
    if (!code && (code = allocate(&counts, index, chunking, store)))
        error_set(err, code, "out of memory for a store of %u samples", counts.samples);
    if (!code)
        code = parse_payload(payload + counts_bytes(store->version), &counts, index, chunking, store, err);
    if (code) {
        index_free(index);
        chunking_free(chunking);
        store_free(store);
    }
    return code;
}

static uint8_t *put_packing(uint8_t *at, const struct packing *packing)
{
    at = put_u32(at, packing->max_side);
    at = put_u32(at, packing->quality);
    at = put_u32(at, (packing->restart_rows ? PACKING_RESTART_ROWS : 0) | (packing->planes ? PACKING_PLANES : 0));
    return put_u32(at, 0);
}

static uint8_t *put_sample(uint8_t *at, const struct index_sample *sample, uint32_t position, const struct store *store,
                           size_t number)
{
    at = put_u64(at, sample->key);
    at = put_u64(at, store->offsets[number]);
    at = put_u64(at, sample->size);
    at = put_u64(at, store->hashes[number].low);
    at = put_u64(at, store->hashes[number].high);
    at = put_u32(at, position);
    at = put_u32(at, (uint32_t)sample->label);
    at = put_u32(at, sample->flags);
    at = put_u32(at, store->version >= STORE_VERSION_SHRUNK ? store->forms[number] : 0);
    if (store->version < STORE_VERSION_REWRITTEN)
        return at;
    at = put_u64(at, store->checksums[number].low);
    at = put_u64(at, store->checksums[number].high);
    return put_u64(at, store->source_bytes[number]);
}

int store_index_encode(const struct index *index, const struct chunking *chunking, const struct store *store,
                       uint8_t **bytes, size_t *len_bytes)
{
    size_t len = SEALED_HEADER_BYTES + counts_bytes(store->version) + index->strings_len_bytes +
                 index->class_count * 8 + (size_t)store->segment_count * SEGMENT_BYTES +
                 index->sample_count * sample_bytes(store->version);
    uint8_t *buf = malloc(len);
    if (!buf)
        return LARDER_ENOMEM;
    uint8_t *at = put_u64(buf + SEALED_HEADER_BYTES, store->plan[0]);
    at = put_u64(at, store->plan[1]);
    at = put_u64(at, store->seed);
    at = put_u64(at, index->strings_len_bytes);
    at = put_u32(at, chunking->chunk_size);
    at = put_u32(at, store->segment_count);
    at = put_u32(at, (uint32_t)index->class_count);
    at = put_u32(at, (uint32_t)index->sample_count);
    if (store->version >= STORE_VERSION_SHRUNK)
        at = put_packing(at, &store->packing);
    memcpy(at, index->strings, index->strings_len_bytes);
    at += index->strings_len_bytes;
    for (size_t i = 0; i < index->class_count; i++)
        at = put_u64(at, index->classes[i]);
    for (uint32_t i = 0; i < store->segment_count; i++) {
        at = put_u32(at, store->segments[i].first_chunk);
        at = put_u32(at, store->segments[i].chunk_count);
        at = put_u64(at, store->segments[i].file_bytes);
    }
    for (size_t i = 0; i < index->sample_count; i++) {
        const struct index_sample sample = index_sample(index, i);
        at = put_sample(at, &sample, chunking->positions[i], store, i);
    }
    const struct seal seal = index_seal(store->version);
    sealed_close(&seal, buf, len);
    *bytes = buf;
    *len_bytes = len;
    return 0;
}

/* ── segments ── */

void store_header_put(uint8_t *bytes, const uint64_t plan[2], uint32_t version, uint32_t number)
{
    memcpy(bytes, SEGMENT_MAGIC, 8);
    uint8_t *at = put_u32(bytes + 8, version);
    at = put_u32(at, number);
    at = put_u64(at, plan[0]);
    at = put_u64(at, plan[1]);
    put_u64(at, XXH3_64bits(bytes, STORE_HEADER_BYTES - 8));
}

const char *store_header_check(const uint8_t *bytes, const uint64_t plan[2], uint32_t version, uint32_t number)
{
    if (memcmp(bytes, SEGMENT_MAGIC, 8) != 0)
        return "it does not begin as a segment";
    if (get_u64(bytes + STORE_HEADER_BYTES - 8) != XXH3_64bits(bytes, STORE_HEADER_BYTES - 8))
        return "its header is damaged";
    if (get_u32(bytes + 8) != version)
        return "it has another version";
    if (get_u64(bytes + 16) != plan[0] || get_u64(bytes + 24) != plan[1])
        return "it belongs to another store";
    return get_u32(bytes + 12) == number ? NULL : "it is another segment of this store";
}

void store_footer_put(uint8_t *bytes, const struct store_footer *footer, const struct store_entry *entries)
{
    uint8_t *at = put_u64(bytes + SEALED_HEADER_BYTES, footer->plan[0]);
    at = put_u64(at, footer->plan[1]);
    at = put_u32(at, footer->number);
    at = put_u32(at, footer->count);
    at = put_u64(at, 0);
    for (uint32_t i = 0; i < footer->count; i++) {
        at = put_u64(at, entries[i].hash.low);
        at = put_u64(at, entries[i].hash.high);
        at = put_u64(at, entries[i].size | (entries[i].flags & INDEX_UNREACHABLE ? UNREADABLE_BIT : 0));
        if (footer->version >= STORE_VERSION_REWRITTEN) {
            at = put_u64(at, entries[i].checksum.low);
            at = put_u64(at, entries[i].checksum.high);
            at = put_u64(at, entries[i].source_bytes);
        }
        if (footer->version >= STORE_VERSION_SHRUNK)
            at = put_u64(at, entries[i].form);
    }
    const struct seal seal = footer_seal(footer->version);
    sealed_close(&seal, bytes, (size_t)(at - bytes));
}

int store_footer_parse(const uint8_t *bytes, size_t len_bytes, const struct store_footer *footer,
                       struct store_entry *entries, struct error *err)
{
    const uint8_t *at;
    size_t payload_bytes, each_bytes = entry_bytes(footer->version);
    const struct seal seal = footer_seal(footer->version);
    int code = sealed_open(&seal, bytes, len_bytes, &at, &payload_bytes, err);
    if (code)
        return code;
    if (payload_bytes != FOOTER_COUNTS_BYTES + (uint64_t)footer->count * each_bytes || get_u64(at) != footer->plan[0] ||
        get_u64(at + 8) != footer->plan[1] || get_u32(at + 16) != footer->number || get_u32(at + 20) != footer->count)
        return error_set(err, LARDER_EFORMAT, "the segment's footer belongs to another segment");
    at += FOOTER_COUNTS_BYTES;
    for (uint32_t i = 0; i < footer->count; i++, at += each_bytes) {
        uint64_t size = get_u64(at + 16);
        struct store_entry *entry = &entries[i];
        *entry = (struct store_entry){.hash = {.low = get_u64(at), .high = get_u64(at + 8)},
                                      .size = size & ~UNREADABLE_BIT,
                                      .flags = size & UNREADABLE_BIT ? INDEX_UNREACHABLE : 0};
        entry->checksum = entry->hash;
        entry->source_bytes = entry->size;
        if (footer->version >= STORE_VERSION_REWRITTEN) {
            entry->checksum = (struct identity){.low = get_u64(at + 24), .high = get_u64(at + 32)};
            entry->source_bytes = get_u64(at + 40);
        }
        if (footer->version < STORE_VERSION_SHRUNK)
            continue;
        uint64_t form = get_u64(at + 48);
        if (form & ~(uint64_t)forms_of(footer->version))
            return error_set(err, LARDER_EFORMAT, "the segment's footer is damaged: a sample is out of its bounds");
        entry->form = (uint32_t)form;
    }
    return 0;
}
