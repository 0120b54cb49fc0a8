/* tar.c: tar shards, a kind of source. A crew reads the shards, each into a part of its own, and the parts are joined.
 *
 * A sample is a member of a shard, and its bytes are a range of that file. Bytes that are read are a sample's if its
 * header stands in front of them and the file is the one that was indexed. So an index that is out of date gives no
 * wrong bytes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/file.h"
#include "cache/source/blobs.h"
#include "cache/source/crew.h"
#include "cache/source/files.h"
#include "cache/source/tar_priv.h"
#include "common/log.h"

/* ── what it is ── */

static void find_folder(void *context)
{
    const char **text = context;
    *text = tar_folder_is(*text) ? *text : NULL;
}

/* A folder may be on storage that does not answer, so it is looked at as all of it is read. */
static int is_tar(const char *text, bool *is, struct error *err)
{
    size_t len;
    struct stat st;
    const char *labels = tar_text_labels(text, &len), *folder = text;
    (void)err;
    *is = *labels || stat(text, &st) || !S_ISDIR(st.st_mode);
    if (*is)
        return 0;
    const struct medium medium = {.root = text, .device = st.st_dev};
    medium_run(&medium, find_folder, &folder);
    *is = folder;
    return 0;
}

/* ── the index ── */

/* The names of the classes, where all shards have the same; else NULL. */
static const char *classes_of(const struct tar_walk *walk)
{
    const char *names = walk->found[0].classes;
    bool differ = false;
    for (size_t i = 1; i < walk->shards.count; i++) {
        const char *others = walk->found[i].classes;
        differ |= !names != !others || (names && strcmp(names, others) != 0);
    }
    if (differ)
        log_warn_limited("msg=\"shards have different names of classes, so classes are called by their numbers\" "
                         "source=\"%s\"",
                         walk->text);
    return differ ? NULL : names;
}

/* Joins the parts, and finds what the labels mean. */
static int join(struct tar_walk *walk, struct index *index, struct error *err)
{
    size_t count = walk->shards.count, samples = 0;
    for (size_t i = 0; i < count; i++)
        samples += walk->parts[i].sample_count;
    struct label *labels = malloc((samples + 1) * sizeof *labels);
    uint64_t shift = index->strings_len_bytes;
    if (!labels)
        return tar_walk_failed(walk, LARDER_ENOMEM, err);
    for (size_t i = 0, at = 0; i < count; i++) {
        for (size_t j = 0; j < walk->parts[i].sample_count; j++) {
            labels[at] = walk->found[i].labels[j];
            labels[at++].text += shift;
        }
        shift += walk->parts[i].strings_len_bytes;
    }
    int code = index_join(index, walk->parts, count);
    if (code)
        tar_walk_failed(walk, code, err);
    else if (samples == 0 && walk->part)
        code = error_set(err, LARDER_EINVAL, "%s: no member called KEY.%.100s in any of its %zu shards", walk->text,
                         walk->part, count);
    else if (samples == 0)
        code = error_set(err, LARDER_EINVAL,
                         "%s: no sample with %s in any of its %zu shards, which is a member called KEY%s, KEY without "
                         "a dot",
                         walk->text, walk->files == FILES_SOUNDS ? "a sound" : "an image", count,
                         walk->files == FILES_SOUNDS ? ".flac, .wav, .ogg, .oga, .opus, .mp3, .aiff, .aif or .aifc"
                                                     : ".jpg, .jpeg, .png, .webp, .tif, .tiff, .bmp, .ppm or .pgm");
    else
        code = tar_labels_apply(&walk->labels, classes_of(walk), labels, index, err);
    free(labels);
    return code;
}

/* Says once what the shards have that their owner may not expect. */
static void tell(const struct tar_walk *walk, const struct index *index)
{
    unsigned long long imageless = 0, repeated = 0;
    for (size_t i = 0; i < walk->shards.count; i++) {
        const struct tar_found *found = &walk->found[i];
        imageless += found->imageless;
        repeated += found->repeated;
        if (found->damaged) {
            size_t last = i + 1 < index->blob_count ? index->blobs[i + 1].first - 1 : index->sample_count - 1;
            log_warn_limited("msg=\"a shard is damaged, nothing of it behind that is read\" shard=\"%s/%s\" byte=%llu "
                             "err=\"%s\"",
                             walk->root, walk->shards.names[i], (unsigned long long)index->places[last].offset,
                             tar_fault_text((enum tar_fault)index->places[last].proof));
        }
        if (found->more)
            log_warn_limited("msg=\"another archive follows a shard's end, which is not read: join archives by "
                             "tar --concatenate\" shard=\"%s/%s\"",
                             walk->root, walk->shards.names[i]);
    }
    if (imageless && !walk->part)
        log_info_limited("msg=\"samples without an image are left out\" source=\"%s\" samples=%llu", walk->text,
                         imageless);
    if (repeated)
        log_info_limited("msg=\"a name comes twice in a row, which begins a sample\" source=\"%s\" samples=%llu",
                         walk->text, repeated);
}

/* The folder that the shards lie below. */
static int add_root(struct tar_walk *walk, const struct stat *st, struct index *index, struct error *err)
{
    struct index_folder folder = {.device = st->st_dev, .inode = st->st_ino};
    int code = index_text(index, "", NULL, &folder.path);
    if (!code)
        code = array_grow((void **)&index->folders, 0, &index->folder_cap, sizeof *index->folders, INDEX_FOLDERS_MAX);
    if (code)
        return tar_walk_failed(walk, code, err);
    index->folders[index->folder_count++] = folder;
    return 0;
}

/* What follows from the index alone. */
static void complete(struct source *source)
{
    const struct index_folder *root = &source->index.folders[0];
    source->medium = (struct medium){.root = source->index.root, .device = root->device, .inode = root->inode};
}

static int index_tar(const struct source_wish *wish, struct source *source, struct error *err)
{
    struct index *index = &source->index;
    struct tar_walk walk = {
        .interrupt = wish->interrupt, .text = wish->text, .part = wish->part, .files = wish->files, .root_fd = -1};
    struct stat st;
    size_t len;
    struct shown shown;
    if (wish->files == FILES_ALL)
        return error_set(err, LARDER_EINVAL, "%s: all_files is for folders, of shards the images or sounds are read",
                         path_shown(wish->text, &shown));
    index->text = strdup(wish->text);
    index->root = tar_text_root(wish->text);
    if (!index->text || !index->root)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    walk.root = index->root;
    int code = tar_labels_parse(tar_text_labels(wish->text, &len), &walk.labels, err);
    if (!code)
        code = tar_walk_open(&walk, &st, err);
    if (!code)
        code = add_root(&walk, &st, index, err);
    if (!code)
        code = tar_walk_run(&walk, st.st_dev, err);
    if (!code)
        code = join(&walk, index, err);
    if (!code)
        tell(&walk, index);
    tar_walk_close(&walk);
    if (!code)
        complete(source);
    return code;
}

static bool restore(struct source *source)
{
    bool moved = index_follow_mount(&source->index);
    complete(source);
    return moved;
}

/* ── whether it is as it was ── */

static bool unchanged(struct source *source, const struct interrupt *interrupt, bool *settled)
{
    const struct index *index = &source->index;
    struct tar_shards shards = {0};
    struct error problem;
    *settled = false;
    int root_fd = open(index->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return false;
    bool same = tar_shards_find(index->text, index->root, &shards, &problem) == 0 && shards.count == index->blob_count;
    for (uint32_t i = 0; same && i < shards.count; i++) {
        struct stat st;
        same = !interrupt_is_set(interrupt) && strcmp(shards.names[i], blobs_name(source, i, NULL)) == 0 &&
               fstatat(root_fd, shards.names[i], &st, 0) == 0 &&
               (index->contents ? blob_untouched(source, i, &st) : blob_same(source, i, &st));
    }
    tar_shards_free(&shards);
    close(root_fd);
    return same;
}

/* ── samples ── */

static struct sample_place place(const struct source *source, uint32_t index)
{
    return (struct sample_place){index_blob_of(&source->index, index), index_place(&source->index, index).offset};
}

static int check(const struct source *source, uint32_t index, const void *lead, void *bytes, struct error *err)
{
    uint64_t proof = index_place(&source->index, index).proof;
    const char *name = tar_member(&source->index, index);
    if (proof ? tar_proof(lead) == proof : tar_header_fits(lead, name, index_size(&source->index, index)))
        return blob_check_content(source, index, bytes, err);
    return blob_error(source, index, LARDER_ECHANGED,
                      proof ? "another member stands there than when the shard was indexed; open the dataset again"
                            : "it is not what the .idx says: make that anew, or remove it",
                      err);
}

static int failed(const struct source *source, uint32_t index, int why, struct error *err)
{
    if (why == READ_UNREACHED)
        return blob_error(source, index, LARDER_EFORMAT,
                          tar_fault_text((enum tar_fault)index_place(&source->index, index).proof), err);
    return blob_failed(source, index, why, err);
}

static struct identity identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed)
{
    return blob_identity(source, index, index_blob_of(&source->index, index), apart, seed);
}

const struct source_kind tar_kind = {
    .name = "tar shards",
    .shares = BLOBS_SHARES,
    .bytes = sizeof(struct source),
    .is = is_tar,
    .index = index_tar,
    .restore = restore,
    .unchanged = unchanged,
    .read = ranges_read,
    .hash = ranges_hash,
    .identity = identity,
    .place = place,
    .blob = "shard",
    .blob_name = blobs_name,
    .lead_bytes = TAR_BLOCK_BYTES,
    .check = check,
    .is_blob = blobs_is,
    .failed = failed,
    .column = tar_column,
};
