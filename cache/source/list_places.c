/* list_places.c: what is particular to a list of places. See list_places.h.
 *
 * A sample's bytes are a range of a file, which must be the file that was indexed. Where the list has their CRC-32,
 * they are compared with that too: a list that is older than its file gives no wrong bytes then. Pixels become a PNM
 * when they are read, so whoever gets the sample knows what it is. */
#include "cache/source/list_places.h"

#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/file.h"
#include "cache/source/blobs.h"
#include "common/larder_err.h"

/* A place's proof: the CRC-32 of its bytes, whether it has one, and its blob. Of a sample that cannot be reached it has
 * in place of the CRC-32 why: an errno, or one of these. */
#define PROOF_CRC (UINT64_C(1) << 32)
#define PROOF_BLOB_SHIFT 33
enum { WHY_ENDS = 0, WHY_NOT_REGULAR = 1 << 16 };

/* A blob whose file could not be looked at. Its inode is the errno. */
#define BLOB_UNREACHABLE UINT64_MAX

static uint32_t blob_of(const struct index *index, size_t sample)
{
    return (uint32_t)(index_place(index, sample).proof >> PROOF_BLOB_SHIFT);
}

/* ── indexing ── */

static int number_file(struct index *index, struct identity_table *files, const char *path, const struct pixels *pixels,
                       uint32_t *out)
{
    uint64_t shape[3] = {pixels->width, pixels->height, pixels->channels * 2 + pixels->planar};
    XXH128_hash_t hash = XXH3_128bits_withSeed(path, strlen(path), XXH3_64bits(shape, sizeof shape));
    int code = identity_table_reserve(files, 1);
    if (code)
        return code;
    uint32_t number = identity_number(files, (struct identity){.low = hash.low64, .high = hash.high64});
    *out = number;
    if (number < index->blob_count)
        return 0;
    struct index_blob blob = {.first = index->sample_count, .pixels = *pixels};
    code = array_grow((void **)&index->blobs, index->blob_count, &index->blob_cap, sizeof blob, PLACES_FILES_MAX);
    if (!code)
        code = index_text(index, path, NULL, &blob.path);
    if (!code)
        index->blobs[index->blob_count++] = blob;
    return code;
}

static int read_pixels(const struct list_row *row, struct pixels *out, struct error *err)
{
    *out = (struct pixels){0};
    if (!row->place.raw)
        return 0;
    if (!pixels_parse(row->place.raw, out))
        return error_set(err, LARDER_EINVAL,
                         "raw \"%.40s\" is no shape of pixels: write HEIGHTxWIDTHx3, 3xHEIGHTxWIDTH or HEIGHTxWIDTH",
                         row->place.raw);
    if (pixels_bytes(out) != row->place.bytes)
        return error_set(err, LARDER_EINVAL, "pixels of %.40s are %llu bytes, and its bytes are %llu", row->place.raw,
                         (unsigned long long)pixels_bytes(out), (unsigned long long)row->place.bytes);
    return 0;
}

int places_add(struct index *index, struct identity_table *files, const char *path, const struct list_row *row,
               uint64_t *key, struct error *err)
{
    const struct list_place *place = &row->place;
    struct pixels pixels;
    char at[32];
    uint32_t number;
    int code = read_pixels(row, &pixels, err);
    if (code)
        return code;
    snprintf(at, sizeof at, "@%llu", (unsigned long long)place->offset);
    code = number_file(index, files, path, &pixels, &number);
    if (!code)
        code = array_grow((void **)&index->places, index->sample_count, &index->place_cap, sizeof *index->places,
                          DATASET_SAMPLES_MAX);
    if (!code)
        code = index_text(index, path, place->key ? place->key : at, key);
    if (code)
        return error_set(err, code,
                         code == LARDER_ELIMIT ? "more files than one list may name" : "out of memory while indexing");
    index->places[index->sample_count] = (struct index_place){.offset = place->offset,
                                                              .proof = (uint64_t)number << PROOF_BLOB_SHIFT |
                                                                       (place->has_crc32 ? PROOF_CRC : 0) |
                                                                       (place->has_crc32 ? place->crc32 : 0)};
    return 0;
}

void places_look(int root_fd, struct index *index, size_t number)
{
    struct index_blob *blob = &index->blobs[number];
    struct stat st;
    blob->device = BLOB_UNREACHABLE;
    if (fstatat(root_fd, index->strings + blob->path, &st, 0)) {
        blob->inode = (uint64_t)errno;
    } else if (!S_ISREG(st.st_mode)) {
        blob->inode = WHY_NOT_REGULAR;
    } else {
        blob->device = st.st_dev;
        blob->inode = st.st_ino;
        blob->size = (uint64_t)st.st_size;
        blob->mtime_ns = file_mtime_ns(&st);
        blob->ctime_ns = file_ctime_ns(&st);
    }
}

/* Its own key is what it is known by. */
static void make_unreachable(struct index *index, size_t number, uint32_t why)
{
    struct index_sample *sample = &index->samples[number];
    struct index_place *place = &index->places[number];
    const char *key = index->strings + sample->key;
    sample->flags |= INDEX_UNREACHABLE;
    sample->size = 0;
    sample->device = UINT64_MAX;
    sample->inode = XXH3_64bits_withSeed(key, strlen(key), XXH3_64bits(index->root, strlen(index->root)));
    place->proof = place->proof >> PROOF_BLOB_SHIFT << PROOF_BLOB_SHIFT | why;
}

static uint32_t head_of(const struct pixels *pixels)
{
    uint8_t head[PIXELS_HEAD_MAX];
    return pixels->channels ? pixels_head(pixels, head) : 0;
}

/* The size of a sample is that of its row until then. */
void places_settle(struct index *index)
{
    for (size_t i = 0; i < index->sample_count; i++) {
        struct index_sample *sample = &index->samples[i];
        const struct index_blob *blob = &index->blobs[blob_of(index, i)];
        if (blob->device == BLOB_UNREACHABLE) {
            make_unreachable(index, i, (uint32_t)blob->inode);
        } else if (index->places[i].offset > blob->size || sample->size > blob->size - index->places[i].offset) {
            make_unreachable(index, i, WHY_ENDS);
        } else {
            sample->device = blob->device;
            sample->inode = blob->inode;
            sample->mtime_ns = blob->mtime_ns;
            sample->ctime_ns = blob->ctime_ns;
            sample->size += head_of(&blob->pixels);
        }
    }
}

bool places_fit(const struct index *index)
{
    for (size_t i = 0; i < index->sample_count; i++) {
        if (blob_of(index, i) >= index->blob_count)
            return false;
        const struct pixels *pixels = &index->blobs[blob_of(index, i)].pixels;
        if (!(index_flags(index, i) & INDEX_UNREACHABLE) && pixels->channels &&
            index_size(index, i) != head_of(pixels) + pixels_bytes(pixels))
            return false;
    }
    return true;
}

/* ── whether it is as it was ── */

static bool same_blob(const struct source *source, uint32_t number, const struct stat *st)
{
    return source->index.contents ? blob_untouched(source, number, st) : blob_same(source, number, st);
}

/* A file that cannot be looked at now does not count as changed: reading it will say why. */
static bool blob_differs(const struct source *source, int root_fd, uint32_t number)
{
    const struct index_blob *blob = &source->index.blobs[number];
    struct stat st;
    if (fstatat(root_fd, source->index.strings + blob->path, &st, 0))
        return blob->device != BLOB_UNREACHABLE && (errno == ENOENT || errno == ENOTDIR);
    return blob->device == BLOB_UNREACHABLE ? S_ISREG(st.st_mode) : !same_blob(source, number, &st);
}

bool places_unchanged(const struct source *source, const struct interrupt *interrupt)
{
    int root_fd = open(source->index.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool same = root_fd >= 0;
    for (uint32_t i = 0; same && i < source->index.blob_count; i++)
        same = !interrupt_is_set(interrupt) && !blob_differs(source, root_fd, i);
    if (root_fd >= 0)
        close(root_fd);
    return same;
}

/* ── samples ── */

struct sample_place places_place(const struct source *source, uint32_t index)
{
    return (struct sample_place){blob_of(&source->index, index), index_place(&source->index, index).offset};
}

static const struct pixels *pixels_of(const struct source *source, uint32_t index)
{
    return &source->index.blobs[blob_of(&source->index, index)].pixels;
}

uint32_t places_head_bytes(const struct source *source, uint32_t index)
{
    return head_of(pixels_of(source, index));
}

int places_check(const struct source *source, uint32_t index, const void *lead, void *bytes, struct error *err)
{
    const struct pixels *pixels = pixels_of(source, index);
    uint64_t proof = index_place(&source->index, index).proof;
    uint8_t pnm[PIXELS_HEAD_MAX], *to = bytes;
    uint32_t head = pixels->channels ? pixels_head(pixels, pnm) : 0;
    (void)lead;
    memcpy(to, pnm, head);
    if (proof & PROOF_CRC &&
        libdeflate_crc32(0, to + head, index_size(&source->index, index) - head) != (uint32_t)proof)
        return blob_error(source, index, LARDER_EFORMAT,
                          "its CRC-32 is not the one that the list has: it is damaged, or the list is of another file",
                          err);
    return pixels->channels && pixels_settle(pixels, to + head)
               ? blob_error(source, index, LARDER_ENOMEM, "out of memory", err)
               : blob_check_content(source, index, bytes, err);
}

int places_failed(const struct source *source, uint32_t index, int why, struct error *err)
{
    uint32_t reason = (uint32_t)index_place(&source->index, index).proof;
    char what[160];
    if (why != READ_UNREACHED)
        return blob_failed(source, index, why, err);
    if (reason == WHY_ENDS)
        return blob_error(source, index, LARDER_EFORMAT, "the file ends before it does", err);
    if (reason == WHY_NOT_REGULAR)
        return blob_error(source, index, LARDER_EFORMAT, "not a regular file", err);
    errno = (int)reason;
    snprintf(what, sizeof what, "the file could not be reached when it was indexed: %m");
    return blob_error(source, index, errno_code((int)reason), what, err);
}

/* Of one place, what has a CRC-32 and what has none or another are two samples: what was read for one list proves
 * nothing to another. */
struct identity places_identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed)
{
    uint64_t proof = index_place(&source->index, index).proof;
    uint64_t crc32 = proof & PROOF_CRC ? PROOF_CRC | (uint32_t)proof : 0;
    return blob_identity(source, index, blob_of(&source->index, index), apart, seed + crc32);
}
