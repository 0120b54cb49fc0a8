/* tar_group.c: which members of a shard are a sample. See tar_group.h. */
#include "cache/source/tar_group.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char *const images[] = {"jpg", "jpeg", "png", "webp", "tif", "tiff", "bmp", "ppm", "pgm", NULL};
static const char *const sounds[] = {"flac", "wav", "ogg", "oga", "opus", "mp3", "aiff", "aif", "aifc", NULL};

/* Names that begin with __ and whose first folder, or which themselves, end so, are about the shard. */
static bool is_about_shard(const char *name, size_t len)
{
    const char *slash = memchr(name, '/', len);
    size_t first = slash ? (size_t)(slash - name) : len;
    return first >= 4 && memcmp(name, "__", 2) == 0 && memcmp(name + first - 2, "__", 2) == 0;
}

bool tar_name_split(const char *name, size_t len, size_t *key_len)
{
    if (is_about_shard(name, len))
        return false;
    const char *slash = memrchr(name, '/', len);
    size_t base = slash ? (size_t)(slash - name) + 1 : 0;
    const char *dot = memchr(name + base, '.', len - base);
    if (!dot)
        return false;
    *key_len = (size_t)(dot - name);
    if (*key_len > base)
        return true;
    /* A hidden file's key is its folder, with the slash, unless that has a dot in its name. */
    if (base < 2)
        return base == 1;
    const char *above = memrchr(name, '/', base - 1);
    size_t folder = above ? (size_t)(above - name) + 1 : 0;
    return !memchr(name + folder, '.', base - folder);
}

/* ASCII only, whatever the locale. */
static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool tar_part_is(const char *part, const char *name)
{
    while (*name && lower(*part) == *name) {
        part++;
        name++;
    }
    return *part == *name;
}

unsigned tar_kind_rank(const char *part, enum sample_files files)
{
    const char *const *names = files == FILES_SOUNDS ? sounds : images;
    for (unsigned i = 0; names[i]; i++) {
        if (tar_part_is(part, names[i]))
            return i + 1;
    }
    return 0;
}

unsigned tar_part_rank(const char *names, const char *part)
{
    char lowered[TAR_NAME_MAX + 1];
    for (unsigned rank = 1; *names; rank++) {
        size_t len = strcspn(names, ";");
        for (size_t i = 0; i < len && i < TAR_NAME_MAX; i++)
            lowered[i] = lower(names[i]);
        lowered[len < TAR_NAME_MAX ? len : TAR_NAME_MAX] = '\0';
        if (len && tar_part_is(part, lowered))
            return rank;
        names += len + (names[len] == ';');
    }
    return 0;
}

static uint64_t hash_part(const char *part)
{
    char lowered[TAR_NAME_MAX + 1];
    size_t len = 0;
    for (; part[len]; len++)
        lowered[len] = lower(part[len]);
    return XXH3_64bits(lowered, len);
}

static bool has_part(const struct tar_group *group, uint64_t hash)
{
    for (size_t i = 0; i < group->n_parts; i++) {
        if (group->parts[i] == hash)
            return true;
    }
    return false;
}

enum tar_place tar_group_add(struct tar_group *group, const char *name, size_t key_len)
{
    uint64_t hash = hash_part(name + key_len + 1);
    bool same = group->open && group->key_len == key_len && memcmp(group->key, name, key_len) == 0;
    enum tar_place place = !same ? TAR_BEGINS : has_part(group, hash) ? TAR_REPEATS : TAR_JOINS;
    if (place != TAR_JOINS) {
        group->open = true;
        group->n_parts = 0;
        group->key_len = key_len;
        memcpy(group->key, name, key_len);
        group->key[key_len] = '\0';
    }
    if (group->n_parts == TAR_PARTS_MAX)
        return TAR_TOO_MANY;
    if (group->n_parts == group->cap) {
        size_t cap = group->cap * 2 + 16;
        uint64_t *grown = realloc(group->parts, cap * sizeof *grown);
        if (!grown)
            return TAR_NO_MEMORY;
        group->parts = grown;
        group->cap = cap;
    }
    group->parts[group->n_parts++] = hash;
    return place;
}

void tar_group_free(struct tar_group *group)
{
    free(group->parts);
    *group = (struct tar_group){0};
}
