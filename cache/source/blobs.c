/* blobs.c: samples that lie in files with others. See blobs.h. */
#include "cache/source/blobs.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "cache/file.h"

#define WHOSE_BLOB UINT64_C(0x746172) /* so that no such sample has the identity of a file or of a store's sample */

const char *blobs_name(const struct source *source, uint32_t blob, char buf[BLOB_NAME_MAX])
{
    (void)buf;
    return source->index.strings + source->index.blobs[blob].path;
}

bool blob_same(const struct source *source, uint32_t number, const struct stat *st)
{
    const struct index_blob *blob = &source->index.blobs[number];
    return (uint64_t)st->st_size == blob->size && file_mtime_ns(st) == blob->mtime_ns &&
           (st->st_ino == blob->inode || !medium_inodes_last(source->index.root));
}

bool blob_untouched(const struct source *source, uint32_t number, const struct stat *st)
{
    uint64_t first = source->index.blobs[number].first;
    if (!blob_same(source, number, st))
        return false;
    if (first >= source->index.sample_count || source->kind->place(source, (uint32_t)first).blob != number)
        return true;
    const struct index_sample sample = index_sample(&source->index, first);
    return sample.flags & INDEX_UNREACHABLE || sample.ctime_ns == file_ctime_ns(st);
}

bool blobs_is(const struct source *source, uint32_t blob, int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && blob_same(source, blob, &st);
}

/* The same bytes, taken for pixels of another shape, are another image. */
static uint64_t whose_shape(const struct pixels *pixels)
{
    return (uint64_t)pixels->width << 34 | (uint64_t)pixels->channels << 32 | (uint64_t)pixels->planar << 31;
}

struct identity blob_identity(const struct source *source, uint32_t index, uint32_t number, uint64_t apart,
                              uint64_t seed)
{
    const struct index_blob *blob = &source->index.blobs[number];
    const uint64_t whose[3] = {WHOSE_BLOB + whose_shape(&blob->pixels), index_place(&source->index, index).offset,
                               blob->size};
    const struct index_sample sample = index_sample(&source->index, index);
    return index_identity(&sample, apart, whose, seed);
}

int blob_check_content(const struct source *source, uint32_t index, const void *bytes, struct error *err)
{
    if (!index_content_differs(&source->index, index, bytes))
        return 0;
    char path[PATH_MAX];
    struct stat st;
    uint32_t number = source->kind->place(source, index).blob;
    int len = snprintf(path, sizeof path, "%s/%s", source->index.root, blobs_name(source, number, NULL));
    if (len < (int)sizeof path && stat(path, &st) == 0 && blob_untouched(source, number, &st))
        atomic_store((atomic_bool *)&source->doubted, true); /* a part that changes, as blob_error's */
    return blob_error(source, index, LARDER_ECHANGED,
                      "its bytes are others than those that were packed into a store; open the dataset again", err);
}

int blob_error(const struct source *source, uint32_t index, int code, const char *what, struct error *err)
{
    struct shown root, key;
    if (code == LARDER_ECHANGED)
        atomic_store((atomic_bool *)&source->changed, true); /* the one part of a const source that changes */
    return error_set(err, code, "%s/%s, at byte %llu of the %s: %s", path_shown(source->index.root, &root),
                     path_shown(index_key(&source->index, index), &key),
                     (unsigned long long)index_place(&source->index, index).offset, source->kind->blob, what);
}

int blob_failed(const struct source *source, uint32_t index, int why, struct error *err)
{
    char what[160];
    if (why == READ_AWAY)
        return blob_error(source, index, LARDER_EIO, "the folder that it lies in is not there", err);
    if (why == READ_CHANGED || why == READ_ENDS)
        return blob_error(source, index, LARDER_ECHANGED,
                          "the file changed since it was indexed; open the dataset again", err);
    if (why == ENOENT || why == ENOTDIR)
        atomic_store((atomic_bool *)&source->changed, true);
    errno = why;
    snprintf(what, sizeof what, "cannot read the file: %m");
    return blob_error(source, index, why == EISDIR ? LARDER_EFORMAT : errno_code(why), what, err);
}
