/* fuzz_checkpoint.c: proves that no bytes make checkpoint_parse, or whoever reads the index that it gives, read outside
 * them or find a label or path out of its bounds, and that an index it gives encodes to a checkpoint that parses to the
 * same. */
#include <endian.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/catalog/catalog_priv.h"
#include "cache/sealed.h"
#include "common/check.h"
#include "tests/fuzz/fuzz.h"

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

/* Two blobs with half of the samples each. */
static void add_blobs(struct index *index)
{
    index->blobs = xcalloc(2, sizeof *index->blobs);
    index->places = xcalloc(index->sample_count, sizeof *index->places);
    for (; index->blob_count < 2; index->blob_count++) {
        struct index_blob *blob = &index->blobs[index->blob_count];
        *blob = (struct index_blob){.first = index->blob_count * index->sample_count / 2, .size = 10240, .inode = 3};
        if (index->blob_count)
            blob->pixels = (struct pixels){.width = 4, .height = 5, .channels = 3, .planar = true};
        CHECK(index_text(index, "shard.tar", NULL, &blob->path) == 0);
    }
    for (size_t i = 0; i < index->sample_count; i++)
        index->places[i] = (struct index_place){.offset = 512 * (i + 1), .proof = i};
}

size_t fuzz_seed(size_t number, uint8_t *buf, size_t cap)
{
    if (number >= 6)
        return 0;
    bool shards = number >= 3; /* of blobs */
    number %= 3;
    struct index index = {.root = xstrdup("/data/set"), .text = xstrdup("/data/set")};
    struct index_folder folder = {.device = 1, .inode = 2, .mtime_ns = 3};
    CHECK(index_text(&index, "", NULL, &folder.path) == 0);
    size_t classes = number + 1, per_class = number * 3 + 1;
    index.classes = xcalloc(classes, sizeof *index.classes);
    index.folders = xcalloc(classes + 1, sizeof *index.folders);
    index.samples = xcalloc(classes * per_class, sizeof *index.samples);
    index.folders[index.folder_count++] = folder;
    for (size_t i = 0; i < classes; i++) {
        char name[2] = {(char)('a' + i), 0};
        CHECK(index_text(&index, name, NULL, &index.classes[index.class_count++]) == 0);
        folder.path = index.classes[i];
        folder.flags = i & 1;
        index.folders[index.folder_count++] = folder;
        for (size_t j = 0; j < per_class; j++) {
            struct index_sample sample = {.size = 100, .mtime_ns = 5, .inode = j, .label = (int32_t)i, .flags = j & 1};
            CHECK(index_text(&index, name, "x.jpg", &sample.key) == 0);
            index.samples[index.sample_count++] = sample;
        }
    }
    if (shards)
        add_blobs(&index);
    struct chunking chunking = {0};
    uint8_t *bytes;
    size_t len;
    if (number)
        CHECK(chunking_shuffle((uint32_t)index.sample_count, 2, 1, &chunking) == 0);
    CHECK(index_pack(&index) == 0 && checkpoint_encode(&index, &chunking, &bytes, &len) == 0 && len <= cap);
    memcpy(buf, bytes, len);
    index_free(&index);
    chunking_free(&chunking);
    CHECK(checkpoint_parse(bytes, len, &index, &chunking, NULL) == 0); /* a seed must be valid */
    chunking_free(&chunking);
    index_free(&index);
    return len;
}

static void check_index(const struct index *index)
{
    CHECK(index->root[0] == '/' && index->sample_count && index->class_count && index->folder_count);
    for (size_t i = 0; i < index->class_count; i++)
        CHECK(index->classes[i] + strlen(index->strings + index->classes[i]) < index->strings_len_bytes);
    for (size_t i = 0; i < index->folder_count; i++)
        CHECK(strlen(index->strings + index->folders[i].path) < PATH_MAX);
    for (size_t i = 0; i < index->sample_count; i++) {
        const struct index_sample sample = index_sample(index, i);
        const char *key = index_key(index, i);
        CHECK(key >= index->strings && key + strlen(key) < index->strings + index->strings_len_bytes);
        CHECK((size_t)sample.label < index->class_count && sample.size == index_size(index, i));
        CHECK(sample.size <= INT64_MAX && !(sample.flags & ~INDEX_UNREACHABLE));
        if (index->blob_count) {
            uint32_t blob = index_blob_of(index, i);
            const char *path = index->strings + index->blobs[blob].path;
            CHECK(blob < index->blob_count && index->blobs[blob].first <= i && path[0] && path[0] != '/');
            CHECK(pixels_fit(&index->blobs[blob].pixels));
            index_place(index, i);
        }
    }
}

static void check_chunks(const struct index *index, const struct chunking *chunking)
{
    CHECK(!chunking->members || (chunking->chunk_size && chunking->chunk_size <= CHUNK_SAMPLES_MAX));
    for (size_t i = 0; chunking->members && i < index->sample_count; i++)
        CHECK(chunking->members[i] < index->sample_count && chunking->positions[chunking->members[i]] == i);
}

static void parse(const uint8_t *data, size_t size)
{
    struct index index = {0}, again = {0};
    struct chunking chunking = {0}, chunks = {0};
    struct error err = {0};
    uint8_t *bytes = xmalloc(size ? size : 1);
    size_t len;
    if (size)
        memcpy(bytes, data, size);
    int code = checkpoint_parse(bytes, size, &index, &chunking, &err);
    if (code) {
        CHECK((code == LARDER_EFORMAT || code == LARDER_EVERSION) && err.code == code && err.text[0] && !index.strings);
        free(bytes);
        return;
    }
    check_index(&index);
    check_chunks(&index, &chunking);
    CHECK(checkpoint_encode(&index, &chunking, &bytes, &len) == 0);
    CHECK(checkpoint_parse(bytes, len, &again, &chunks, NULL) == 0);
    CHECK(again.sample_count == index.sample_count && again.folder_count == index.folder_count);
    for (size_t i = 0; i < index.sample_count; i++)
        CHECK(strcmp(index_key(&index, i), index_key(&again, i)) == 0);
    size_t members_bytes = index.sample_count * sizeof *chunks.members;
    CHECK(!chunking.members || memcmp(chunking.members, chunks.members, members_bytes) == 0);
    chunking_free(&chunking);
    chunking_free(&chunks);
    index_free(&index);
    index_free(&again);
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
