/* open.c: recognises a store and loads its index. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/store/store.h"
#include "common/log.h"

static bool index_path(const char *root, const char *name, char path[PATH_MAX])
{
    int len = snprintf(path, PATH_MAX, "%s/%s", root, name);
    return len > 0 && len < PATH_MAX;
}

int store_is(const char *root, bool *is_store, struct error *err)
{
    char path[PATH_MAX];
    struct shown shown;
    struct stat st;
    *is_store = index_path(root, STORE_INDEX_NAME, path) && stat(path, &st) == 0 && S_ISREG(st.st_mode);
    if (!*is_store && index_path(root, STORE_UNFINISHED_NAME, path) && stat(path, &st) == 0)
        return error_set(err, LARDER_EINVAL,
                         "%s: a store whose packing was interrupted: run the same `larder pack` again",
                         path_shown(root, &shown));
    return 0;
}

bool store_unchanged(const char *root, const struct store *store)
{
    char path[PATH_MAX];
    struct stat st;
    return index_path(root, STORE_INDEX_NAME, path) && stat(path, &st) == 0 && st.st_dev == store->index_device &&
           st.st_ino == store->index_inode && (uint64_t)st.st_size == store->index_size &&
           file_mtime_ns(&st) == store->index_mtime_ns;
}

/* A sample that was not readable has no content to be known by: it is the one at this place of this pack. */
static void identify_unreadable(struct dataset_parts *parts)
{
    for (size_t i = 0; i < parts->index.sample_count; i++) {
        struct index_sample *sample = &parts->index.samples[i];
        if (sample->flags & INDEX_UNREACHABLE) {
            uint64_t facts[3] = {parts->store->plan[0], parts->store->plan[1], i};
            XXH128_hash_t hash = XXH3_128bits(facts, sizeof facts);
            sample->device = hash.low64;
            sample->inode = hash.high64;
        }
    }
}

/* Links count as others' too: what they lead to may be exchanged by whoever can write there. */
static bool others_write(const char *root, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    if (!index_path(root, name, path))
        return true;
    if (lstat(path, &st))
        return errno != ENOENT; /* a missing file cannot be read */
    return (st.st_uid != geteuid() && st.st_uid != 0) || st.st_mode & (S_IWGRP | S_IWOTH) || S_ISLNK(st.st_mode);
}

/* The hash that content is known by is quick, not collision-resistant: who chooses a store's bytes can make other bytes
 * of the same hash. */
static bool is_foreign(const char *root, uint32_t segment_count)
{
    bool foreign = others_write(root, ".") || others_write(root, STORE_INDEX_NAME);
    for (uint32_t i = 0; i < segment_count && !foreign; i++) {
        char name[STORE_NAME_MAX];
        store_segment_name(i, name);
        foreign = others_write(root, name);
    }
    return foreign;
}

int store_load(const char *root, const struct interrupt *interrupt, struct dataset_parts *parts, struct error *err)
{
    char path[PATH_MAX];
    struct shown shown;
    struct stat st;
    uint8_t *bytes = NULL;
    size_t len_bytes;
    if (!index_path(root, STORE_INDEX_NAME, path))
        return error_set(err, LARDER_ELIMIT, "%s: the path is too long", path_shown(root, &shown));
    if (stat(path, &st)) /* before it is read: if it is replaced in between, the next open sees that */
        return file_error(err, path, "look at it");
    const struct file_wanted wanted = {.path = path, .max_bytes = STORE_INDEX_BYTES_MAX, .interrupt = interrupt};
    int code = file_load(&wanted, &bytes, &len_bytes, err);
    if (code)
        return code;
    struct store *store = calloc(1, sizeof *store);
    char *copy = strdup(root);
    if (!store || !copy)
        code = error_set(err, LARDER_ENOMEM, "out of memory");
    else if ((code = store_index_parse(bytes, len_bytes, &parts->index, &parts->chunking, store, err)))
        error_prefix(err, code, "%s", path_shown(path, &shown));
    free(bytes);
    if (code) {
        free(store);
        free(copy);
        return code;
    }
    store->index_device = st.st_dev;
    store->index_inode = st.st_ino;
    store->index_size = (uint64_t)st.st_size;
    store->index_mtime_ns = file_mtime_ns(&st);
    store->owner = st.st_uid;
    store->foreign = is_foreign(root, store->segment_count);
    if (store->foreign)
        log_info("msg=\"others may write to this store: no other dataset shares its samples\" source=\"%s\"",
                 path_shown(root, &shown));
    parts->index.root = copy;
    parts->store = store;
    identify_unreadable(parts);
    return 0;
}
