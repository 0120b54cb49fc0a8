/* fuzz_store.c: proves that no bytes make store_index_parse or store_footer_parse read outside them, and that an index
 * that is taken has every number within its bounds: places, chunks, labels and texts. */
#include <endian.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/sealed.h"
#include "cache/store/format.h"
#include "common/check.h"
#include "tests/fuzz/fuzz.h"

static const uint64_t plan[2] = {11, 22};

/* Mutations of the payload would all die at the checksum: make it fit, as whoever forges a file would. */
static void seal(uint8_t *bytes, size_t size)
{
    if (size < SEALED_HEADER_BYTES)
        return;
    size_t payload = size - SEALED_HEADER_BYTES;
    XXH128_hash_t hash = XXH3_128bits(bytes + SEALED_HEADER_BYTES, payload);
    uint64_t words[3] = {htole64(payload), htole64(hash.low64), htole64(hash.high64)};
    memcpy(bytes + 16, words, sizeof words);
}

static struct store_footer footer_of(uint32_t version)
{
    return (struct store_footer){.plan = {plan[0], plan[1]}, .version = version, .number = 3, .count = 4};
}

static size_t footer_seed(uint32_t version, uint8_t *buf, size_t cap)
{
    const struct store_footer footer = footer_of(version);
    struct store_entry entries[4] = {
        {.size = 10}, {.size = 0, .flags = INDEX_UNREACHABLE}, {.size = 7, .hash = {1, 2}}};
    size_t len = store_footer_bytes(4, version);
    CHECK(len <= cap);
    store_footer_put(buf, &footer, entries);
    CHECK(store_footer_parse(buf, len, &footer, entries, NULL) == 0);
    return len;
}

/* An index of `count` samples of `size` bytes in chunks of three, two chunks a segment. */
static size_t index_seed(uint32_t version, uint32_t count, uint64_t size, uint8_t *buf, size_t cap)
{
    uint32_t max_side = version == STORE_VERSION_SHRUNK || (version == STORE_VERSION_PLANES && count > 7) ? 256 : 0;
    struct index index = {
        .classes = xcalloc(2, 8), .samples = xcalloc(count, sizeof *index.samples), .sample_count = count};
    struct store store = {.plan = {11, 22},
                          .seed = 5,
                          .version = version,
                          .segments = xcalloc(count, sizeof *store.segments),
                          .offsets = xcalloc(count, 8),
                          .hashes = xcalloc(count, sizeof *store.hashes),
                          .checksums = xcalloc(count, sizeof *store.checksums),
                          .source_bytes = xcalloc(count, 8),
                          .forms = xcalloc(count, 1),
                          .packing = {.restart_rows = true, .planes = version == STORE_VERSION_PLANES}};
    if (max_side) {
        store.packing.max_side = max_side;
        store.packing.quality = 90;
    }
    const uint32_t rows = version == STORE_VERSION_PLANES ? STORE_FORM_PLANES : STORE_FORM_RESTART_ROWS;
    const uint32_t forms[] = {0, max_side ? STORE_FORM_SHRUNK | rows : rows, max_side ? STORE_FORM_UNDECODED : 0,
                              STORE_FORM_RESTART_ROWS};
    struct chunking chunking;
    CHECK(chunking_shuffle(count, 3, 7, &chunking) == 0);
    CHECK(index_text(&index, "cat", NULL, &index.classes[0]) == 0 &&
          index_text(&index, "dog", NULL, &index.classes[1]) == 0);
    index.class_count = 2;
    uint64_t offset = STORE_ALIGN;
    for (uint32_t position = 0; position < count; position++) {
        uint32_t number = chunking.members[position];
        struct index_sample *sample = &index.samples[number];
        if (position % 6 == 0) {
            offset = STORE_ALIGN;
            store.segments[store.segment_count++].first_chunk = position / 3;
        }
        struct store_segment *segment = &store.segments[store.segment_count - 1];
        segment->chunk_count += position % 3 == 0;
        *sample = (struct index_sample){
            .size = number % 5 ? size : 0, .label = (int32_t)(number % 2), .flags = number % 5 == 0};
        CHECK(index_text(&index, "cat", "x.jpg", &sample->key) == 0);
        store.offsets[number] = offset;
        store.source_bytes[number] = sample->size + sample->size / 2;
        store.forms[number] = sample->flags ? 0 : (uint8_t)forms[number % 4];
        offset += size;
        segment->file_bytes = offset + store_footer_bytes(position % 6 + 1, version);
    }
    uint8_t *bytes;
    size_t len;
    CHECK(store_index_encode(&index, &chunking, &store, &bytes, &len) == 0 && len <= cap);
    memcpy(buf, bytes, len);
    index_free(&index);
    chunking_free(&chunking);
    store_free(&store);
    CHECK(store_index_parse(bytes, len, &index, &chunking, &store, NULL) == 0); /* a seed must be valid */
    free(bytes);
    index_free(&index);
    chunking_free(&chunking);
    store_free(&store);
    return len;
}

size_t fuzz_seed(size_t number, uint8_t *buf, size_t cap)
{
    switch (number) {
    case 0: return footer_seed(STORE_VERSION_PLAIN, buf, cap);
    case 1: return index_seed(STORE_VERSION_PLAIN, 1, 100, buf, cap);
    case 2: return index_seed(STORE_VERSION_PLAIN, 7, 5000, buf, cap);
    case 3: return index_seed(STORE_VERSION_PLAIN, 40, 1, buf, cap);
    case 4: return footer_seed(STORE_VERSION_REWRITTEN, buf, cap);
    case 5: return index_seed(STORE_VERSION_REWRITTEN, 7, 5000, buf, cap);
    case 6: return footer_seed(STORE_VERSION_SHRUNK, buf, cap);
    case 7: return index_seed(STORE_VERSION_SHRUNK, 7, 5000, buf, cap);
    case 8: return index_seed(STORE_VERSION_SHRUNK, 40, 1, buf, cap);
    case 9: return footer_seed(STORE_VERSION_PLANES, buf, cap);
    case 10: return index_seed(STORE_VERSION_PLANES, 7, 5000, buf, cap);
    case 11: return index_seed(STORE_VERSION_PLANES, 40, 1, buf, cap);
    default: return 0;
    }
}

static void check_index(const struct index *index, const struct chunking *chunking, const struct store *store)
{
    uint32_t count = (uint32_t)index->sample_count, size = chunking->chunk_size;
    CHECK(count && size && size <= CHUNK_SAMPLES_MAX && store->segment_count && index->class_count);
    const struct packing *packing = &store->packing;
    CHECK(packing->packed && packing->planes == (store->version == STORE_VERSION_PLANES));
    CHECK(packing->planes || (packing->max_side != 0) == (store->version == STORE_VERSION_SHRUNK));
    CHECK(packing->samples_planes <= (packing->planes ? count - packing->samples_restart_rows : 0));
    CHECK(packing->max_side <= STORE_SIDE_MAX && packing->quality <= 100);
    CHECK(packing->samples_shrunk <= count - packing->samples_undecoded && packing->samples_restart_rows <= count);
    for (size_t i = 0; i < index->class_count; i++)
        CHECK(index->classes[i] + strlen(index->strings + index->classes[i]) < index->strings_len_bytes);
    for (uint32_t i = 0; i < count; i++) {
        const struct index_sample *sample = &index->samples[i];
        uint32_t position = chunking->positions[i];
        CHECK(position < count && chunking->members[position] == i);
        CHECK(strlen(index->strings + sample->key) < PATH_MAX && (size_t)sample->label < index->class_count);
        uint32_t number = store_segment_of(store, position / size);
        const struct store_segment *segment = &store->segments[number];
        CHECK(position / size - segment->first_chunk < segment->chunk_count);
        uint32_t samples = store_segment_samples(segment, size, count);
        uint64_t data_end = segment->file_bytes - store_footer_bytes(samples, store->version);
        CHECK(data_end >= STORE_ALIGN && data_end <= segment->file_bytes);
        CHECK(store->offsets[i] >= STORE_ALIGN && store->offsets[i] + sample->size <= data_end);
        if (position % size) {
            uint32_t before = chunking->members[position - 1];
            CHECK(store->offsets[before] + index->samples[before].size <= store->offsets[i]);
        }
    }
}

static void parse(const uint8_t *data, size_t size)
{
    struct index index;
    struct chunking chunking;
    struct store store;
    struct store_entry entries[4];
    struct error err = {0};
    int code = store_index_parse(data, size, &index, &chunking, &store, &err);
    if (code == 0) {
        check_index(&index, &chunking, &store);
        uint8_t *bytes;
        size_t len;
        CHECK(store_index_encode(&index, &chunking, &store, &bytes, &len) == 0);
        CHECK(len == size && memcmp(bytes, data, size) == 0);
        free(bytes);
        index_free(&index);
        chunking_free(&chunking);
        store_free(&store);
    } else {
        CHECK((code == LARDER_EFORMAT || code == LARDER_EVERSION) && err.text[0] && !index.strings && !store.offsets);
    }
    for (uint32_t version = STORE_VERSION_PLAIN; version <= STORE_VERSION_PLANES; version++) {
        const struct store_footer footer = footer_of(version);
        code = store_footer_parse(data, size, &footer, entries, &err);
        CHECK(code == 0 || code == LARDER_EFORMAT || code == LARDER_EVERSION);
        if (size >= STORE_HEADER_BYTES)
            store_header_check(data, plan, version, 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse(data, size);
    uint8_t *sealed = xmalloc(size);
    if (size)
        memcpy(sealed, data, size);
    seal(sealed, size);
    parse(sealed, size);
    free(sealed);
    return 0;
}
