/* samples.c: where a store's samples lie, who they are, and whether bytes are theirs. The content hash of each is
 * checked: damaged bytes cost the sample. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "cache/file.h"
#include "cache/store/store.h"

/* Is the index file the one that was loaded? */
static bool index_is_there(const struct source *source)
{
    const struct store *store = store_of(source);
    char path[PATH_MAX];
    struct stat st;
    return snprintf(path, sizeof path, "%s/" STORE_INDEX_NAME, source->index.root) < PATH_MAX && stat(path, &st) == 0 &&
           st.st_dev == store->index_device && st.st_ino == store->index_inode &&
           (uint64_t)st.st_size == store->index_size && file_mtime_ns(&st) == store->index_mtime_ns;
}

bool store_unchanged(struct source *source, const struct interrupt *interrupt, bool *settled)
{
    (void)interrupt;
    *settled = false;
    return index_is_there(source);
}

static uint32_t segment_of(const struct source *source, uint32_t index)
{
    return store_segment_of(store_of(source), source->chunking.positions[index] / source->chunking.chunk_size);
}

struct sample_place store_place(const struct source *source, uint32_t index)
{
    return (struct sample_place){.blob = segment_of(source, index), .offset = store_of(source)->offsets[index]};
}

const char *store_blob_name(const struct source *source, uint32_t blob, char buf[BLOB_NAME_MAX])
{
    (void)source;
    store_segment_name(blob, buf);
    return buf;
}

static int segment_error(const struct source *source, uint32_t index, int code, const char *what, struct error *err)
{
    char name[STORE_NAME_MAX];
    struct shown root, key;
    store_segment_name(segment_of(source, index), name);
    return error_set(err, code, "%s/%s: sample %s: %s", path_shown(source->index.root, &root), name,
                     path_shown(index_key(&source->index, index), &key), what);
}

/* Bytes that are not what the index says: those of another store that has come to this place, or damage. */
static int wrong_bytes(const struct source *source, uint32_t index, const char *what, struct error *err)
{
    if (!index_is_there(source))
        return segment_error(source, index, LARDER_ECHANGED, "the store was replaced; open the dataset again", err);
    return segment_error(source, index, LARDER_EFORMAT, what, err);
}

int store_check(const struct source *source, uint32_t index, const void *lead, void *bytes, struct error *err)
{
    (void)lead;
    XXH128_hash_t hash = XXH3_128bits(bytes, index_size(&source->index, index));
    const struct identity *expected = &store_of(source)->checksums[index];
    if (hash.low64 == expected->low && hash.high64 == expected->high)
        return 0;
    return wrong_bytes(source, index, "its bytes are damaged (another content hash); run larder verify", err);
}

int store_failed(const struct source *source, uint32_t index, int why, struct error *err)
{
    char what[128];
    if (why == READ_UNREACHED)
        return segment_error(source, index, LARDER_ENOENT, "it could not be read when the store was packed", err);
    if (why == READ_AWAY)
        return segment_error(source, index, LARDER_EIO, "the store's folder is not there", err);
    if (why == READ_ENDS)
        return wrong_bytes(source, index, "the segment ends before it: it was truncated", err);
    errno = why;
    snprintf(what, sizeof what, "cannot read it: %m");
    return segment_error(source, index, why == EISDIR ? LARDER_EFORMAT : errno_code(why), what, err);
}

/* A store that others may write to has its samples to itself. */
struct identity store_identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed)
{
    const struct store *store = store_of(source);
    const uint64_t whose[3] = {store->index_device, store->index_inode, store->owner + 1}; /* never 0, as all others' */
    const struct index_sample sample = source_sample(source, index);
    return index_identity(&sample, apart, store->foreign ? whose : NULL, seed);
}
