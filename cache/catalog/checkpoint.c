/* checkpoint.c: an index on disk, so that a second start looks at the folders of a tree but not at its files.
 *
 * Little-endian and sealed (sealed.h); the payload: u64 string bytes, u32 classes, folders, samples, blobs, u64[2] the
 * version's content; the strings (the source's text and the root's path first); u64 a class; 48 bytes a folder; 56
 * bytes a sample; 64 bytes a blob; and if there are blobs 16 bytes a sample. A checkpoint is only ever a shortcut: one
 * that is missing, damaged, of another version or of another source is made anew. */
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
#include "common/little_endian.h"

#define COUNTS_BYTES 40
#define FOLDER_BYTES 48
#define SAMPLE_BYTES 56
#define BLOB_BYTES 64
#define PLACE_BYTES 16
#define LEFTOVER_S 3600 /* a temporary file this old belongs to nobody any more */
#define FILE_BYTES_MAX (UINT64_C(1) << 38)

static const struct seal seal = {.magic = "LDRCATLG", .version = 5, .what = "the checkpoint"};

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

static int parse_samples(const uint8_t *at, struct index *index, struct error *err)
{
    for (size_t i = 0; i < index->sample_count; i++, at += SAMPLE_BYTES) {
        struct index_sample *sample = &index->samples[i];
        *sample = (struct index_sample){.key = get_u64(at),
                                        .size = get_u64(at + 8),
                                        .mtime_ns = (int64_t)get_u64(at + 16),
                                        .device = get_u64(at + 24),
                                        .inode = get_u64(at + 32),
                                        .ctime_ns = (int64_t)get_u64(at + 40),
                                        .label = (int32_t)get_u32(at + 48),
                                        .flags = get_u32(at + 52)};
        if (sample->key >= index->strings_len_bytes || get_u32(at + 48) >= index->class_count ||
            sample->flags & ~INDEX_UNREACHABLE || sample->size > INT64_MAX)
            return damaged(err, "a sample is out of its bounds");
        const char *key = index->strings + sample->key;
        if (index->blob_count == 0 &&
            (strnlen(key, PATH_MAX) + strlen(index->root) + 2 > PATH_MAX || !key_is_below(key)))
            return damaged(err, "a sample lies outside the tree");
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
    for (size_t i = 0; index->blob_count && i < index->sample_count; i++, at += PLACE_BYTES) {
        index->places[i] = (struct index_place){.offset = get_u64(at), .proof = get_u64(at + 8)};
        if (index->places[i].offset > INT64_MAX)
            return damaged(err, "a sample's place is out of its bounds");
    }
    return 0;
}

/* Makes the arrays for the counts. */
static int make_arrays(struct index *index, uint64_t strings)
{
    size_t blobs = index->blob_count;
    index->strings = malloc(strings);
    index->classes = malloc(index->class_count * sizeof *index->classes);
    index->folders = malloc(index->folder_count * sizeof *index->folders);
    index->samples = malloc(index->sample_count * sizeof *index->samples);
    index->blobs = blobs ? malloc(blobs * sizeof *index->blobs) : NULL;
    index->places = blobs ? malloc(index->sample_count * sizeof *index->places) : NULL;
    bool made = index->strings && index->classes && index->folders && index->samples;
    return made && (!blobs || (index->blobs && index->places)) ? 0 : LARDER_ENOMEM;
}

static int parse_texts(const uint8_t *at, uint64_t strings, struct index *index, struct error *err)
{
    if (at[0] != '/' || at[strings - 1] != '\0')
        return damaged(err, "its texts do not begin or end as they must");
    size_t text = strlen((const char *)at) + 1;
    if (text >= strings || at[text] != '/')
        return damaged(err, "it has no root");
    index->text = strdup((const char *)at);
    index->root = strdup((const char *)at + text);
    if (!index->text || !index->root || make_arrays(index, strings))
        return error_set(err, LARDER_ENOMEM, "out of memory");
    memcpy(index->strings, at, strings);
    index->strings_len_bytes = index->strings_cap_bytes = strings;
    return 0;
}

static int parse_payload(const uint8_t *at, size_t len_bytes, struct index *index, struct error *err)
{
    if (len_bytes < COUNTS_BYTES)
        return damaged(err, "it is empty");
    uint64_t strings = get_u64(at);
    uint64_t classes = get_u32(at + 8), folders = get_u32(at + 12), samples = get_u32(at + 16),
             blobs = get_u32(at + 20);
    uint64_t records = classes * 8 + folders * FOLDER_BYTES + samples * SAMPLE_BYTES + blobs * BLOB_BYTES +
                       (blobs ? samples * PLACE_BYTES : 0); /* below 2^40: cannot wrap */
    len_bytes -= COUNTS_BYTES;
    if (records > len_bytes || strings != len_bytes - records)
        return damaged(err, "its counts do not fit its length");
    if (strings == 0 || classes == 0 || folders == 0 || samples == 0 || samples > DATASET_SAMPLES_MAX)
        return damaged(err, "it is empty");
    index->content[0] = get_u64(at + 24);
    index->content[1] = get_u64(at + 32);
    index->class_count = index->class_cap = classes;
    index->folder_count = index->folder_cap = folders;
    index->sample_count = index->sample_cap = samples;
    index->blob_count = index->blob_cap = blobs;
    index->place_cap = blobs ? samples : 0;
    at += COUNTS_BYTES;
    int code = parse_texts(at, strings, index, err);
    at += strings;
    for (size_t i = 0; !code && i < classes; i++, at += 8) {
        index->classes[i] = get_u64(at);
        if (index->classes[i] >= strings)
            return damaged(err, "a class is out of its bounds");
    }
    code = code ? code : parse_folders(at, index, err);
    at += folders * FOLDER_BYTES;
    code = code ? code : parse_samples(at, index, err);
    return code ? code : parse_blobs(at + samples * SAMPLE_BYTES, index, err);
}

int checkpoint_parse(const uint8_t *bytes, size_t len_bytes, struct index *out, struct error *err)
{
    struct index index = {0};
    const uint8_t *payload;
    size_t payload_bytes;
    int code = sealed_open(&seal, bytes, len_bytes, &payload, &payload_bytes, err);
    if (!code)
        code = parse_payload(payload, payload_bytes, &index, err);
    if (code)
        index_free(&index);
    else
        *out = index;
    return code;
}

static void put_records(uint8_t *at, const struct index *index, size_t shift)
{
    for (size_t i = 0; i < index->class_count; i++)
        at = put_u64(at, index->classes[i] + shift);
    for (size_t i = 0; i < index->folder_count; i++) {
        const struct index_folder *folder = &index->folders[i];
        at = put_u64(at, folder->path + shift);
        at = put_u64(at, folder->device);
        at = put_u64(at, folder->inode);
        at = put_u64(at, (uint64_t)folder->mtime_ns);
        at = put_u64(at, folder->listing);
        at = put_u64(at, folder->flags);
    }
    for (size_t i = 0; i < index->sample_count; i++) {
        const struct index_sample *sample = &index->samples[i];
        at = put_u64(at, sample->key + shift);
        at = put_u64(at, sample->size);
        at = put_u64(at, (uint64_t)sample->mtime_ns);
        at = put_u64(at, sample->device);
        at = put_u64(at, sample->inode);
        at = put_u64(at, (uint64_t)sample->ctime_ns);
        at = put_u32(at, (uint32_t)sample->label);
        at = put_u32(at, sample->flags);
    }
    for (size_t i = 0; i < index->blob_count; i++) {
        const struct index_blob *blob = &index->blobs[i];
        at = put_u64(at, blob->path + shift);
        at = put_u64(at, blob->first);
        at = put_u64(at, blob->size);
        at = put_u64(at, blob->device);
        at = put_u64(at, blob->inode);
        at = put_u64(at, (uint64_t)blob->mtime_ns);
        at = put_u32(put_u32(at, blob->pixels.width), blob->pixels.height);
        at = put_u32(put_u32(at, blob->pixels.channels), blob->pixels.planar);
    }
    for (size_t i = 0; index->blob_count && i < index->sample_count; i++)
        at = put_u64(put_u64(at, index->places[i].offset), index->places[i].proof);
}

int checkpoint_encode(const struct index *index, uint8_t **bytes, size_t *len_bytes)
{
    size_t text_bytes = strlen(index->text) + 1, shift = text_bytes + strlen(index->root) + 1;
    size_t strings = shift + index->strings_len_bytes; /* those two go before the index's own, which shifts these */
    size_t payload = COUNTS_BYTES + strings + index->class_count * 8 + index->folder_count * FOLDER_BYTES +
                     index->sample_count * (SAMPLE_BYTES + (index->blob_count ? PLACE_BYTES : 0)) +
                     index->blob_count * BLOB_BYTES;
    uint8_t *buf = malloc(SEALED_HEADER_BYTES + payload);
    if (!buf)
        return LARDER_ENOMEM;
    uint8_t *at = put_u64(buf + SEALED_HEADER_BYTES, strings);
    at = put_u32(at, (uint32_t)index->class_count);
    at = put_u32(at, (uint32_t)index->folder_count);
    at = put_u32(at, (uint32_t)index->sample_count);
    at = put_u32(at, (uint32_t)index->blob_count);
    at = put_u64(put_u64(at, index->content[0]), index->content[1]);
    memcpy(at, index->text, text_bytes);
    memcpy(at + text_bytes, index->root, shift - text_bytes);
    memcpy(at + shift, index->strings, index->strings_len_bytes);
    put_records(at + strings, index, shift);
    sealed_close(&seal, buf, SEALED_HEADER_BYTES + payload);
    *bytes = buf;
    *len_bytes = SEALED_HEADER_BYTES + payload;
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
                    struct error *err)
{
    const struct file_wanted wanted = {.path = path, .max_bytes = FILE_BYTES_MAX, .interrupt = interrupt};
    struct index index = {0};
    uint8_t *bytes = NULL;
    size_t len_bytes;
    int code = file_load(&wanted, &bytes, &len_bytes, err);
    if (!code)
        code = checkpoint_parse(bytes, len_bytes, &index, err);
    if (!code && strcmp(index.text, text) != 0)
        code = damaged(err, "it belongs to another source");
    if (code)
        index_free(&index);
    else
        *out = index;
    free(bytes);
    return code;
}

int checkpoint_save(const char *path, const struct index *index, struct error *err)
{
    uint8_t *bytes = NULL;
    size_t len_bytes = 0;
    int code = checkpoint_encode(index, &bytes, &len_bytes);
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
