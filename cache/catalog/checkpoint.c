/* checkpoint.c: an index on disk, so that a second start looks at the folders of a tree but not at its files.
 *
 * Little-endian and sealed (sealed.h); the payload: the counts (struct counts); of a chunking that was drawn u32 the
 * index at each position; u64 a class; 48 bytes a folder; 64 bytes a blob; the
 * source's text and the root's path; the heads of rows (packed_rows.h); the strings; the rows. The checksum is over
 * all of it, and is compared before anything is used. Rows, strings and chunks are used as they lie there. So they
 * are not looked at one by one: whatever is in them, no reading leaves the bytes. A checkpoint is only ever a
 * shortcut: one that is missing, damaged, of another version or of another source is made anew. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/catalog/catalog_priv.h"
#include "cache/sealed.h"
#include "common/check.h"
#include "common/little_endian.h"
#include "common/vast.h"

#define COUNTS_BYTES 128
#define FOLDER_BYTES 48
#define BLOB_BYTES 64
#define LEFTOVER_S 3600 /* a temporary file this old belongs to nobody any more */
#define FILE_BYTES_MAX (UINT64_C(1) << 38)

static const struct seal seal = {.magic = "LDRCATLG", .version = 6, .what = "the checkpoint"};

static int damaged(struct error *err, const char *what)
{
    return error_set(err, LARDER_EFORMAT, "the checkpoint is damaged: %s", what);
}

static int parse_folders(const uint8_t *at, struct index *index, struct error *err)
{
    for (size_t i = 0; i < index->folder_count; i++, at += FOLDER_BYTES) {
        struct index_folder *folder = &index->folders[i];
        *folder = (struct index_folder){.path = get_u64(at),
                                        .device = get_u64(at + 8),
                                        .inode = get_u64(at + 16),
                                        .mtime_ns = (int64_t)get_u64(at + 24),
                                        .listing = get_u64(at + 32),
                                        .flags = get_u32(at + 40)};
        if (folder->path >= index->strings_len_bytes || folder->flags & ~FOLDER_FRESH)
            return damaged(err, "a folder is out of its bounds");
        const char *path = index->strings + folder->path;
        if (strnlen(path, PATH_MAX) == PATH_MAX || (i == 0 ? *path != '\0' : !key_is_below(path)))
            return damaged(err, "a folder lies outside the tree");
    }
    return 0;
}

/* The first blob has the first sample, and none has more samples than there are. */
static int parse_blobs(const uint8_t *at, struct index *index, struct error *err)
{
    uint64_t before = 0;
    for (size_t i = 0; i < index->blob_count; i++, at += BLOB_BYTES) {
        struct index_blob *blob = &index->blobs[i];
        *blob = (struct index_blob){.path = get_u64(at),
                                    .first = get_u64(at + 8),
                                    .size = get_u64(at + 16),
                                    .device = get_u64(at + 24),
                                    .inode = get_u64(at + 32),
                                    .mtime_ns = (int64_t)get_u64(at + 40),
                                    .pixels = {.width = get_u32(at + 48),
                                               .height = get_u32(at + 52),
                                               .channels = get_u32(at + 56),
                                               .planar = get_u32(at + 60) != 0}};
        if (!pixels_fit(&blob->pixels))
            return damaged(err, "a blob's pixels have no such shape");
        if (blob->path >= index->strings_len_bytes || !key_is_below(index->strings + blob->path))
            return damaged(err, "a blob lies outside the source");
        if (blob->first < before || blob->first > (i ? index->sample_count : 0))
            return damaged(err, "the blobs are out of order");
        before = blob->first;
    }
    return 0;
}

/* What a checkpoint says of itself, and how long its parts are. */
struct counts {
    uint64_t texts, strings, rows; /* lengths */
    uint32_t classes, folders, samples, blobs;
    uint32_t chunk_size; /* 0: it has no chunks */
};

static void get_counts(const uint8_t *at, struct index *index, struct chunking *chunking, struct counts *counts)
{
    *counts = (struct counts){.texts = get_u64(at),
                              .strings = get_u64(at + 8),
                              .rows = get_u64(at + 16),
                              .classes = get_u32(at + 24),
                              .folders = get_u32(at + 28),
                              .samples = get_u32(at + 32),
                              .blobs = get_u32(at + 36),
                              .chunk_size = get_u32(at + 40)};
    chunking->seed = get_u64(at + 48);
    index->unreachable = get_u64(at + 56);
    index->device_was = get_u64(at + 64);
    for (unsigned i = 0; i < 2; i++) {
        index->fingerprint[i] = get_u64(at + 72 + 8 * i);
        index->times[i] = get_u64(at + 88 + 8 * i);
        index->content[i] = get_u64(at + 104 + 8 * i);
    }
}

static uint8_t *put_counts(uint8_t *at, const struct index *index, const struct chunking *chunking,
                           const struct counts *counts)
{
    at = put_u64(put_u64(put_u64(at, counts->texts), counts->strings), counts->rows);
    at = put_u32(put_u32(at, counts->classes), counts->folders);
    at = put_u32(put_u32(at, counts->samples), counts->blobs);
    at = put_u64(put_u32(put_u32(at, counts->chunk_size), 0), chunking->seed);
    at = put_u64(put_u64(at, index->unreachable), index->device_was);
    at = put_u64(put_u64(at, index->fingerprint[0]), index->fingerprint[1]);
    at = put_u64(put_u64(at, index->times[0]), index->times[1]);
    at = put_u64(put_u64(at, index->content[0]), index->content[1]);
    return put_u64(at, 0);
}

/* The length of all parts whose numbers are counted. It cannot wrap: the counts are below 2^32. */
static uint64_t records_bytes(const struct counts *counts)
{
    return (counts->chunk_size ? counts->samples * UINT64_C(4) : 0) + counts->classes * UINT64_C(8) +
           counts->folders * (uint64_t)FOLDER_BYTES + counts->blobs * (uint64_t)BLOB_BYTES +
           packed_rows_blocks(counts->samples) * PACKED_HEAD_BYTES;
}

static int check_counts(const struct counts *counts, uint64_t len_bytes, struct error *err)
{
    uint64_t records = records_bytes(counts);
    if (counts->texts > len_bytes || counts->strings > len_bytes || counts->rows > len_bytes ||
        records + counts->texts + counts->strings + counts->rows != len_bytes)
        return damaged(err, "its counts do not fit its length");
    if (counts->texts == 0 || counts->strings == 0 || counts->classes == 0 || counts->folders == 0 ||
        counts->samples == 0 || counts->samples > DATASET_SAMPLES_MAX || counts->chunk_size > CHUNK_SAMPLES_MAX)
        return damaged(err, "it is empty");
    return 0;
}

/* Makes the arrays that are not used as they lie there. */
static int make_arrays(const struct counts *counts, struct index *index)
{
    index->class_count = index->class_cap = counts->classes;
    index->folder_count = index->folder_cap = counts->folders;
    index->sample_count = counts->samples;
    index->blob_count = index->blob_cap = counts->blobs;
    index->classes = malloc(index->class_count * sizeof *index->classes);
    index->folders = malloc(index->folder_count * sizeof *index->folders);
    index->blobs = counts->blobs ? malloc(index->blob_count * sizeof *index->blobs) : NULL;
    return index->classes && index->folders && (index->blobs || !counts->blobs) ? 0 : LARDER_ENOMEM;
}

static int parse_texts(const uint8_t *at, uint64_t texts, struct index *index, struct error *err)
{
    if (at[0] != '/' || at[texts - 1] != '\0')
        return damaged(err, "its texts do not begin or end as they must");
    size_t text = strlen((const char *)at) + 1;
    if (text >= texts || at[text] != '/')
        return damaged(err, "it has no root");
    index->text = strdup((const char *)at);
    index->root = strdup((const char *)at + text);
    return index->text && index->root ? 0 : error_set(err, LARDER_ENOMEM, "out of memory");
}

static int parse_classes(const uint8_t *at, struct index *index, struct error *err)
{
    for (size_t i = 0; i < index->class_count; i++, at += 8) {
        index->classes[i] = get_u64(at);
        if (index->classes[i] >= index->strings_len_bytes)
            return damaged(err, "a class is out of its bounds");
    }
    return 0;
}

/* Takes the chunks, which lie at a multiple of four bytes: an array of numbers as this machine has them. Each sample
 * must be a member once. */
static int take_chunks(uint8_t *at, uint32_t samples, uint32_t chunk_size, struct chunking *chunking, struct error *err)
{
    uint32_t *members = (uint32_t *)(void *)at;
    if (le32toh(1) != 1)
        return 0; /* they are drawn anew */
    uint32_t *positions = vast_malloc(samples * sizeof *positions);
    if (!positions)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    memset(positions, 0xff, samples * sizeof *positions); /* no position is this large */
    bool once = true;
    for (uint32_t i = 0; once && i < samples; i++) {
        once = members[i] < samples && positions[members[i]] == UINT32_MAX;
        if (once)
            positions[members[i]] = i;
    }
    if (!once) {
        free(positions);
        return damaged(err, "a chunk has a sample that others have, or none");
    }
    chunking->chunk_size = chunk_size;
    chunking->members = members;
    chunking->positions = positions;
    chunking->drawn = chunking->borrowed = true;
    return 0;
}

static int parse_payload(uint8_t *at, size_t len_bytes, struct index *index, struct chunking *chunking,
                         struct error *err)
{
    struct counts counts;
    if (len_bytes < COUNTS_BYTES)
        return damaged(err, "it is empty");
    get_counts(at, index, chunking, &counts);
    int code = check_counts(&counts, len_bytes - COUNTS_BYTES, err);
    if (code)
        return code;
    if (make_arrays(&counts, index))
        return error_set(err, LARDER_ENOMEM, "out of memory");
    uint8_t *chunks = at + COUNTS_BYTES;
    uint8_t *classes = chunks + (counts.chunk_size ? counts.samples * UINT64_C(4) : 0);
    uint8_t *folders = classes + counts.classes * UINT64_C(8);
    uint8_t *blobs = folders + counts.folders * (uint64_t)FOLDER_BYTES;
    uint8_t *texts = blobs + counts.blobs * (uint64_t)BLOB_BYTES;
    uint8_t *heads = texts + counts.texts;
    uint8_t *strings = heads + packed_rows_blocks(counts.samples) * PACKED_HEAD_BYTES;
    if (strings[counts.strings - 1] != '\0')
        return damaged(err, "its texts do not end as they must");
    index->strings = (char *)strings;
    index->strings_len_bytes = index->strings_cap_bytes = counts.strings;
    index->rows = (struct packed_rows){heads, strings + counts.strings, counts.samples, counts.rows};
    if (!packed_rows_are_within(&index->rows) || index->unreachable > counts.samples)
        return damaged(err, "a sample is out of its bounds");
    code = parse_texts(texts, counts.texts, index, err);
    code = code ? code : parse_classes(classes, index, err);
    code = code ? code : parse_folders(folders, index, err);
    code = code ? code : parse_blobs(blobs, index, err);
    return code || !counts.chunk_size ? code : take_chunks(chunks, counts.samples, counts.chunk_size, chunking, err);
}

int checkpoint_parse(uint8_t *bytes, size_t len_bytes, struct index *out, struct chunking *chunks, struct error *err)
{
    struct index index = {.whole = bytes};
    struct chunking chunking = {0};
    const uint8_t *payload;
    size_t payload_bytes;
    int code = sealed_open(&seal, bytes, len_bytes, &payload, &payload_bytes, err);
    if (!code)
        code = parse_payload(bytes + (payload - bytes), payload_bytes, &index, &chunking, err);
    if (code) {
        index.whole = NULL; /* the caller's still, with what lies in it */
        index.strings = NULL;
        index.rows = (struct packed_rows){0};
        index_free(&index);
    } else {
        *out = index;
        *chunks = chunking;
    }
    return code;
}

static uint8_t *put_records(uint8_t *at, const struct index *index)
{
    for (size_t i = 0; i < index->class_count; i++)
        at = put_u64(at, index->classes[i]);
    for (size_t i = 0; i < index->folder_count; i++) {
        const struct index_folder *folder = &index->folders[i];
        at = put_u64(at, folder->path);
        at = put_u64(at, folder->device);
        at = put_u64(at, folder->inode);
        at = put_u64(at, (uint64_t)folder->mtime_ns);
        at = put_u64(at, folder->listing);
        at = put_u64(at, folder->flags);
    }
    for (size_t i = 0; i < index->blob_count; i++) {
        const struct index_blob *blob = &index->blobs[i];
        at = put_u64(at, blob->path);
        at = put_u64(at, blob->first);
        at = put_u64(at, blob->size);
        at = put_u64(at, blob->device);
        at = put_u64(at, blob->inode);
        at = put_u64(at, (uint64_t)blob->mtime_ns);
        at = put_u32(put_u32(at, blob->pixels.width), blob->pixels.height);
        at = put_u32(put_u32(at, blob->pixels.channels), blob->pixels.planar);
    }
    return at;
}

static uint8_t *put_bytes(uint8_t *at, const void *bytes, size_t len_bytes)
{
    memcpy(at, bytes, len_bytes);
    return at + len_bytes;
}

int checkpoint_encode(const struct index *index, const struct chunking *chunking, uint8_t **bytes, size_t *len_bytes)
{
    size_t text_bytes = strlen(index->text) + 1, root_bytes = strlen(index->root) + 1;
    const struct counts counts = {.texts = text_bytes + root_bytes,
                                  .strings = index->strings_len_bytes,
                                  .rows = index->rows.len_bytes,
                                  .classes = (uint32_t)index->class_count,
                                  .folders = (uint32_t)index->folder_count,
                                  .samples = (uint32_t)index->sample_count,
                                  .blobs = (uint32_t)index->blob_count,
                                  .chunk_size = chunking->drawn ? chunking->chunk_size : 0};
    CHECK(!index->samples && index->rows.count == index->sample_count);
    size_t len = SEALED_HEADER_BYTES + COUNTS_BYTES + records_bytes(&counts) + counts.texts + counts.strings +
                 counts.rows;
    uint8_t *buf = malloc(len);
    if (!buf)
        return LARDER_ENOMEM;
    uint8_t *at = put_counts(buf + SEALED_HEADER_BYTES, index, chunking, &counts);
    for (size_t i = 0; counts.chunk_size && i < index->sample_count; i++)
        at = put_u32(at, chunking->members[i]);
    at = put_records(at, index);
    at = put_bytes(put_bytes(at, index->text, text_bytes), index->root, root_bytes);
    at = put_bytes(at, index->rows.heads, packed_rows_blocks(index->sample_count) * PACKED_HEAD_BYTES);
    at = put_bytes(at, index->strings, index->strings_len_bytes);
    put_bytes(at, index->rows.bytes, index->rows.len_bytes);
    sealed_close(&seal, buf, len);
    *bytes = buf;
    *len_bytes = len;
    return 0;
}

char *checkpoint_path(const char *dir, const char *text, enum sample_files files)
{
    XXH128_hash_t hash = XXH3_128bits(text, strlen(text));
    static const char *const suffixes[] = {[FILES_IMAGES] = "", [FILES_ALL] = "-files", [FILES_SOUNDS] = "-sounds"};
    char *path = NULL;
    int len = asprintf(&path, "%s/%016llx%016llx%s.catalog", dir, (unsigned long long)hash.high64,
                       (unsigned long long)hash.low64, suffixes[files]);
    return len < 0 ? NULL : path;
}

int checkpoint_load(const char *path, const char *text, const struct interrupt *interrupt, struct index *out,
                    struct chunking *chunks, struct error *err)
{
    const struct file_wanted wanted = {.path = path, .max_bytes = FILE_BYTES_MAX, .interrupt = interrupt};
    struct index index = {0};
    struct chunking chunking = {0};
    uint8_t *bytes = NULL;
    size_t len_bytes;
    int code = file_load(&wanted, &bytes, &len_bytes, err);
    if (!code && (code = checkpoint_parse(bytes, len_bytes, &index, &chunking, err)))
        free(bytes);
    if (!code && strcmp(index.text, text) != 0)
        code = damaged(err, "it belongs to another source");
    if (code) {
        chunking_free(&chunking);
        index_free(&index);
        return code;
    }
    *out = index;
    *chunks = chunking;
    return 0;
}

int checkpoint_save(const char *path, const struct index *index, const struct chunking *chunking, struct error *err)
{
    uint8_t *bytes = NULL;
    size_t len_bytes = 0;
    int code = checkpoint_encode(index, chunking, &bytes, &len_bytes);
    if (code)
        return error_set(err, code, "out of memory for the checkpoint");
    code = file_replace(path, 0600, bytes, len_bytes, err);
    free(bytes);
    return code;
}

static void remove_leftovers(const char *dir_path)
{
    DIR *dir = opendir(dir_path);
    const struct dirent *entry;
    struct stat st;
    while (dir && (entry = readdir(dir))) {
        size_t len = strlen(entry->d_name), suffix = strlen(FILE_TEMPORARY);
        if (len <= suffix || strcmp(entry->d_name + len - suffix, FILE_TEMPORARY) != 0 ||
            !strstr(entry->d_name, ".catalog."))
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && time(NULL) - st.st_mtime > LEFTOVER_S)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

int checkpoint_prepare(const char *dir, struct error *err)
{
    char *path = strdup(dir);
    if (!path)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    for (char *slash = strchr(path + (*path == '/'), '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755); /* a parent that is missing in the end shows below */
        *slash = '/';
    }
    int code = 0;
    mkdir(path, 0700);
    if (access(path, R_OK | W_OK | X_OK))
        code = file_error(err, path, "use the checkpoint folder");
    else
        remove_leftovers(path);
    free(path);
    return code;
}
