/* open.c: recognises a store and loads its index: the kind "store" of sources. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/file.h"
#include "cache/store/store.h"
#include "common/log.h"

static bool index_path(const char *root, const char *name, char path[PATH_MAX])
{
    int len = snprintf(path, PATH_MAX, "%s/%s", root, name);
    return len > 0 && len < PATH_MAX;
}

static int is_store(const char *root, bool *is, struct error *err)
{
    char path[PATH_MAX];
    struct shown shown;
    struct stat st;
    *is = index_path(root, STORE_INDEX_NAME, path) && stat(path, &st) == 0 && S_ISREG(st.st_mode);
    if (!*is && index_path(root, STORE_UNFINISHED_NAME, path) && stat(path, &st) == 0)
        return error_set(err, LARDER_EINVAL,
                         "%s: a store whose packing was interrupted: run the same `larder pack` again",
                         path_shown(root, &shown));
    return 0;
}

/* A sample that was not readable has no content to be known by: it is the one at this place of this pack. */
static void identify_unreadable(struct index *index, const uint64_t plan[2])
{
    for (size_t i = 0; i < index->sample_count; i++) {
        struct index_sample *sample = &index->samples[i];
        if (sample->flags & INDEX_UNREACHABLE) {
            uint64_t facts[3] = {plan[0], plan[1], i};
            XXH128_hash_t hash = XXH3_128bits(facts, sizeof facts);
            sample->device = hash.low64;
            sample->inode = hash.high64;
        }
    }
}

/* The hash that content is known by is quick, not collision-resistant: who chooses a store's bytes can make other bytes
 * of the same hash. */
static bool is_foreign(const char *root, uint32_t segment_count)
{
    bool foreign = file_others_write(root, ".") || file_others_write(root, STORE_INDEX_NAME);
    for (uint32_t i = 0; i < segment_count && !foreign; i++) {
        char name[STORE_NAME_MAX];
        store_segment_name(i, name);
        foreign = file_others_write(root, name);
    }
    return foreign;
}

static void destroy(struct source *source)
{
    store_free(&((struct store_source *)source)->store);
}

static int load(const char *path, const struct source_wish *wish, struct source *source, struct error *err)
{
    struct store *store = &((struct store_source *)source)->store;
    const struct file_wanted wanted = {.path = path, .max_bytes = STORE_INDEX_BYTES_MAX, .interrupt = wish->interrupt};
    uint8_t *bytes = NULL;
    size_t len_bytes;
    struct shown shown;
    int code = file_load(&wanted, &bytes, &len_bytes, err);
    if (code)
        return code;
    code = store_index_parse(bytes, len_bytes, &source->index, &source->chunking, store, err);
    free(bytes);
    if (code)
        return error_prefix(err, code, "%s", path_shown(path, &shown));
    source->index.root = strdup(wish->text);
    source->index.text = strdup(wish->text);
    return source->index.root && source->index.text ? 0 : error_set(err, LARDER_ENOMEM, "out of memory");
}

#define SHARES "with stores of the same images that were packed in the same way"

static const char *shares(const struct store *store, const char *root)
{
    char path[PATH_MAX];
    struct stat st;
    if (store->foreign)
        return "with nothing else: others than you may write to it";
    if (store->version != STORE_VERSION_PLAIN)
        return SHARES ", and with no files: its bytes are others";
    if (!index_path(root, ORIGINS_NAME, path) || stat(path, &st))
        return SHARES ", and with files only through a store that was packed from them, as this one was not";
    return SHARES ", and with the files that it was packed from, but for those that changed";
}

static int index_store(const struct source_wish *wish, struct source *source, struct error *err)
{
    struct store *store = &((struct store_source *)source)->store;
    const char *root = wish->text;
    char path[PATH_MAX];
    struct shown shown;
    struct stat st;
    if (!index_path(root, STORE_INDEX_NAME, path))
        return error_set(err, LARDER_ELIMIT, "%s: the path is too long", path_shown(root, &shown));
    if (stat(path, &st)) /* before it is read: if it is replaced in between, the next open sees that */
        return file_error(err, path, "look at it");
    int code = load(path, wish, source, err);
    if (code)
        return code;
    store->index_device = st.st_dev;
    store->index_inode = st.st_ino;
    store->index_size = (uint64_t)st.st_size;
    store->index_mtime_ns = file_mtime_ns(&st);
    store->owner = st.st_uid;
    store->foreign = is_foreign(root, store->segment_count);
    if (store->foreign)
        log_info("msg=\"others may write to this store: no other dataset shares its samples\" source=\"%s\"",
                 path_shown(root, &shown));
    identify_unreadable(&source->index, store->plan);
    source->medium = (struct medium){.root = source->index.root, .device = st.st_dev};
    source->packing = store->packing;
    source->origins.apart = shares(store, root);
    source->hashes = store->hashes;
    source->stored = store->packing.max_side ? store->checksums : store->hashes;
    source->packed_bytes = store->source_bytes;
    source->own_bytes = source->index.sample_count *
                        (sizeof *store->offsets + sizeof *store->hashes +
                         (store->checksums != store->hashes ? sizeof *store->checksums : 0) +
                         (store->source_bytes ? sizeof *store->source_bytes : 0) +
                         (store->forms ? sizeof *store->forms : 0));
    return 0;
}

const struct source_kind store_kind = {
    .name = "a packed store",
    .bytes = sizeof(struct store_source),
    .is = is_store,
    .index = index_store,
    .unchanged = store_unchanged,
    .read = ranges_read,
    .identity = store_identity,
    .destroy = destroy,
    .place = store_place,
    .blob_name = store_blob_name,
    .check = store_check,
    .failed = store_failed,
};
