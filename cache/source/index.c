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
    free(index->root);
    free(index->strings);
    free(index->classes);
    free(index->folders);
    free(index->samples);
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

int index_fingerprint(const struct index *index, const uint64_t *sizes, uint64_t out[2])
{
    XXH3_state_t *state = XXH3_createState();
    if (!state)
        return LARDER_ENOMEM;
    XXH3_128bits_reset(state);
    uint64_t counts[2] = {htole64(index->class_count), htole64(index->sample_count)};
    XXH3_128bits_update(state, counts, sizeof counts);
    for (size_t i = 0; i < index->class_count; i++) {
        const char *name = index->strings + index->classes[i];
        XXH3_128bits_update(state, name, strlen(name) + 1);
    }
    for (size_t i = 0; i < index->sample_count; i++) {
        const struct index_sample *sample = &index->samples[i];
        const char *key = index->strings + sample->key;
        uint64_t facts[2] = {htole64(sizes ? sizes[i] : sample->size), htole64((uint64_t)(uint32_t)sample->label)};
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
