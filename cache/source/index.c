/* index.c: the index under construction, and the order of names. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/source/index.h"
#include "common/larder_err.h"
#include "common/utf8.h"

void index_free(struct index *index)
{
    free(index->text);
    free(index->root);
    if (!index->whole) {
        free(index->strings);
        packed_rows_free(&index->rows);
    }
    free(index->whole);
    free(index->classes);
    free(index->folders);
    free(index->samples);
    free(index->blobs);
    free(index->places);
    free(index->contents);
    *index = (struct index){0};
}

int array_grow(void **array, size_t count, size_t *cap, size_t element_bytes, size_t count_max)
{
    if (count < *cap)
        return 0;
    if (count >= count_max)
        return LARDER_ELIMIT;
    size_t wanted = *cap + *cap / 2 + 64;
    void *grown = realloc(*array, wanted * element_bytes);
    if (!grown)
        return LARDER_ENOMEM;
    *array = grown;
    *cap = wanted;
    return 0;
}

int index_text(struct index *index, const char *a, const char *b, uint64_t *offset)
{
    size_t a_len = strlen(a), b_len = b ? strlen(b) + 1 : 0, len = a_len + b_len + 1;
    if (len > index->strings_cap_bytes - index->strings_len_bytes) {
        size_t cap = index->strings_cap_bytes + index->strings_cap_bytes / 2 + len + 4096;
        char *grown = realloc(index->strings, cap);
        if (!grown)
            return LARDER_ENOMEM;
        index->strings = grown;
        index->strings_cap_bytes = cap;
    }
    char *at = index->strings + index->strings_len_bytes;
    memcpy(at, a, a_len);
    if (b) {
        at[a_len] = '/';
        memcpy(at + a_len + 1, b, b_len - 1);
    }
    at[len - 1] = '\0';
    *offset = index->strings_len_bytes;
    index->strings_len_bytes += len;
    return 0;
}

/* ── parts ── */

/* The lengths that arrays have once parts have been joined to an index. */
struct lengths {
    size_t strings, folders, samples, blobs, places;
};

static bool resize(void **array, size_t count, size_t bytes)
{
    void *grown = realloc(*array, count * bytes + 1); /* never of no bytes */
    *array = grown ? grown : *array;
    return grown;
}

static int make_room(struct index *index, const struct lengths *to)
{
    if (to->folders > INDEX_FOLDERS_MAX || to->samples > DATASET_SAMPLES_MAX || to->blobs > UINT32_MAX)
        return LARDER_ELIMIT;
    if (!resize((void **)&index->strings, to->strings, 1) ||
        !resize((void **)&index->folders, to->folders, sizeof *index->folders) ||
        !resize((void **)&index->samples, to->samples, sizeof *index->samples) ||
        (to->blobs && !resize((void **)&index->blobs, to->blobs, sizeof *index->blobs)) ||
        (to->places && !resize((void **)&index->places, to->places, sizeof *index->places)))
        return LARDER_ENOMEM;
    index->strings_cap_bytes = to->strings;
    index->folder_cap = to->folders;
    index->sample_cap = to->samples;
    index->blob_cap = to->blobs;
    index->place_cap = to->places;
    return 0;
}

static void append(struct index *index, struct index *part)
{
    size_t shift = index->strings_len_bytes;
    if (part->strings_len_bytes)
        memcpy(index->strings + shift, part->strings, part->strings_len_bytes);
    index->strings_len_bytes += part->strings_len_bytes;
    for (size_t i = 0; i < part->folder_count; i++) {
        struct index_folder *folder = &index->folders[index->folder_count++];
        *folder = part->folders[i];
        folder->path += shift;
    }
    for (size_t i = 0; i < part->blob_count; i++) {
        struct index_blob *blob = &index->blobs[index->blob_count++];
        *blob = part->blobs[i];
        blob->path += shift;
        blob->first += index->sample_count;
    }
    if (part->places)
        memcpy(index->places + index->sample_count, part->places, part->sample_count * sizeof *part->places);
    for (size_t i = 0; i < part->sample_count; i++) {
        struct index_sample *sample = &index->samples[index->sample_count++];
        *sample = part->samples[i];
        sample->key += shift;
    }
    index_free(part);
}

int index_join(struct index *index, struct index *parts, size_t count)
{
    struct lengths to = {index->strings_len_bytes, index->folder_count, index->sample_count, index->blob_count, 0};
    for (size_t i = 0; i < count; i++) {
        to.strings += parts[i].strings_len_bytes;
        to.folders += parts[i].folder_count;
        to.samples += parts[i].sample_count;
        to.blobs += parts[i].blob_count;
    }
    to.places = to.blobs ? to.samples : 0;
    int code = make_room(index, &to);
    for (size_t i = 0; !code && i < count; i++)
        append(index, &parts[i]);
    return code;
}

/* ── packed ── */

static void give(const void *context, size_t number, uint64_t values[PACKED_COLUMNS])
{
    const struct index *index = context;
    const struct index_sample *sample = &index->samples[number];
    values[PACKED_SIZE] = sample->size;
    values[PACKED_LABEL] = (uint32_t)sample->label;
    values[PACKED_FLAGS] = sample->flags;
    values[PACKED_KEY] = sample->key;
    values[PACKED_MTIME] = (uint64_t)sample->mtime_ns;
    values[PACKED_CTIME] = (uint64_t)sample->ctime_ns;
    values[PACKED_DEVICE] = sample->device;
    values[PACKED_INODE] = sample->inode;
    values[PACKED_OFFSET] = index->places ? index->places[number].offset : 0;
    values[PACKED_PROOF] = index->places ? index->places[number].proof : 0;
}

int index_pack(struct index *index)
{
    int code = packed_rows_pack(index->sample_count, give, index, &index->rows);
    if (code)
        return code;
    index->unreachable = 0;
    for (size_t i = 0; i < index->sample_count; i++)
        index->unreachable += (index->samples[i].flags & INDEX_UNREACHABLE) != 0;
    free(index->samples);
    free(index->places);
    index->samples = NULL;
    index->places = NULL;
    index->sample_cap = index->place_cap = 0;
    char *strings = index->strings_len_bytes ? realloc(index->strings, index->strings_len_bytes) : NULL;
    index->strings = strings ? strings : index->strings;
    index->strings_cap_bytes = strings ? index->strings_len_bytes : index->strings_cap_bytes;
    return 0;
}

struct index_sample index_sample(const struct index *index, size_t number)
{
    if (index->samples)
        return index->samples[number];
    const struct packed_rows *rows = &index->rows;
    uint64_t device = packed_rows_value(rows, number, PACKED_DEVICE);
    return (struct index_sample){.key = (uint64_t)(index_key(index, number) - index->strings),
                                 .size = index_size(index, number),
                                 .mtime_ns = (int64_t)packed_rows_value(rows, number, PACKED_MTIME),
                                 .ctime_ns = (int64_t)packed_rows_value(rows, number, PACKED_CTIME),
                                 .device = index->device_was && device == index->device_was ? index->folders[0].device
                                                                                            : device,
                                 .inode = packed_rows_value(rows, number, PACKED_INODE),
                                 .label = index_label(index, number),
                                 .flags = index_flags(index, number)};
}

struct index_place index_place(const struct index *index, size_t number)
{
    if (index->places)
        return index->places[number];
    return (struct index_place){packed_rows_value(&index->rows, number, PACKED_OFFSET),
                                packed_rows_value(&index->rows, number, PACKED_PROOF)};
}

uint32_t index_blob_of(const struct index *index, size_t sample)
{
    size_t low = 0, high = index->blob_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (index->blobs[middle].first <= sample)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)low;
}

const char *index_store_key(const struct index *index, size_t sample, char buf[LOG_KEY_BYTES])
{
    const char *key = index_key(index, sample);
    return index->blob_count ? log_key(key, (uint32_t)sample, buf) : key;
}

int index_fingerprint(const struct index *index, const uint64_t *sizes, uint64_t out[2])
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return LARDER_ENOMEM;
    XXH3_128bits_reset(state);
    char own[LOG_KEY_BYTES];
    uint64_t counts[2] = {htole64(index->class_count), htole64(index->sample_count)};
    XXH3_128bits_update(state, counts, sizeof counts);
    for (size_t i = 0; i < index->class_count; i++) {
        const char *name = index->strings + index->classes[i];
        XXH3_128bits_update(state, name, strlen(name) + 1);
    }
    for (size_t i = 0; i < index->sample_count; i++) {
        const char *key = index_store_key(index, i, own);
        uint64_t facts[2] = {htole64(sizes ? sizes[i] : index_size(index, i)),
                             htole64((uint64_t)(uint32_t)index_label(index, i))};
        XXH3_128bits_update(state, key, strlen(key) + 1);
        XXH3_128bits_update(state, facts, sizeof facts);
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    out[0] = hash.low64;
    out[1] = hash.high64;
    return 0;
}

struct identity index_identity(const struct index_sample *sample, uint64_t apart, const uint64_t whose[3],
                               uint64_t seed)
{
    uint64_t facts[8] = {sample->device, sample->inode, sample->size, (uint64_t)sample->mtime_ns, apart};
    if (whose)
        memcpy(facts + 5, whose, 3 * sizeof *whose);
    XXH128_hash_t hash = XXH3_128bits_withSeed(facts, sizeof facts, seed);
    return (struct identity){.low = hash.low64, .high = hash.high64};
}

static uint32_t next_code_point(const unsigned char **cursor)
{
    const unsigned char *s = *cursor;
    size_t len = utf8_length(s);
    if (len <= 1) {
        *cursor = s + 1;
        return len ? s[0] : 0xdc00u + s[0];
    }
    uint32_t point = s[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++)
        point = point << 6 | (s[i] & 0x3f);
    *cursor = s + len;
    return point;
}

int text_compare(const char *a, const char *b)
{
    const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
    while (*x == *y && *x && *x < 0x80) {
        x++;
        y++;
    }
    while (*x && *y) {
        uint32_t left = next_code_point(&x), right = next_code_point(&y);
        if (left != right)
            return left < right ? -1 : 1;
    }
    return (*x != 0) - (*y != 0);
}

bool key_is_below(const char *key)
{
    if (*key == '\0' || *key == '/')
        return false;
    for (const char *part = key; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (part[0] == '.' && part[1] == '.' && (part[2] == '/' || part[2] == '\0'))
            return false;
    }
    return true;
}

bool index_content_differs(const struct index *index, size_t sample, const void *bytes)
{
    const struct identity *content = index_content(index, sample);
    if (!content)
        return false;
    XXH128_hash_t hash = XXH3_128bits(bytes, index_size(index, sample));
    return hash.low64 != content->low || hash.high64 != content->high;
}
