/* tar_column.c: the columns of tar shards: what the members beside the images say. The shards are read again, for few
 * ask for their columns, and what is found must be what was indexed. */
#include <string.h>

#include "cache/file.h"
#include "cache/source/tar_priv.h"

/* Whether a shard has the samples that were indexed of it, from `first` on. */
static bool same_samples(const struct index *index, size_t first, const struct index *part)
{
    if (part->sample_count > index->sample_count - first)
        return false;
    for (size_t i = 0; i < part->sample_count; i++) {
        if (index_size(index, first + i) != index_size(part, i) ||
            index_place(index, first + i).offset != index_place(part, i).offset ||
            strcmp(index_key(index, first + i), index_key(part, i)) != 0)
            return false;
    }
    return true;
}

/* Appends what the shards have. *met: a sample has a cell. */
static int gather(const struct tar_walk *walk, const struct index *index, struct cells *cells, bool *met)
{
    size_t first = 0;
    int code = 0;
    for (size_t i = 0; !code && i < walk->shards.count; first += walk->parts[i++].sample_count) {
        const struct index *part = &walk->parts[i];
        if (!same_samples(index, first, part))
            return LARDER_ECHANGED;
        for (size_t j = 0; !code && j < part->sample_count; j++) {
            uint64_t cell = walk->found[i].cells[j];
            *met |= cell != TAR_NO_CELL;
            code = cell == TAR_NO_CELL ? cells_add_none(cells)
                                       : tar_cell_add(walk->column, part->strings + cell, cells);
        }
    }
    return code || first == index->sample_count ? code : LARDER_ECHANGED;
}

/* Asked after the shards were read: what was read is of the files that were indexed if these are there still. */
static bool is_same(const struct source *source, const struct interrupt *interrupt)
{
    bool settled;
    return source->kind->unchanged((struct source *)source, interrupt, &settled); /* of shards it only looks */
}

static int read_column(struct tar_walk *walk, const struct source *source, struct cells *cells, struct error *err)
{
    struct stat st;
    size_t len;
    struct shown shown;
    bool met = false;
    int code = tar_labels_parse(tar_text_labels(walk->text, &len), &walk->labels, err);
    if (!code)
        code = tar_walk_open(walk, &st, err);
    if (!code)
        code = tar_walk_run(walk, st.st_dev, err);
    if (!code)
        code = gather(walk, &source->index, cells, &met);
    if (!code && !is_same(source, walk->interrupt))
        code = LARDER_ECHANGED;
    if (code == LARDER_ECHANGED)
        return error_set(err, code, "%s changed since it was indexed: make the Loader anew",
                         path_shown(walk->text, &shown));
    return code || met ? code : LARDER_ENOENT;
}

/* An index of a checkpoint may have any key. */
const char *tar_member(const struct index *index, size_t sample)
{
    const char *key = index_key(index, sample),
               *shard = index->strings + index->blobs[index_blob_of(index, sample)].path;
    size_t len = strlen(shard);
    return strncmp(key, shard, len) == 0 && key[len] == '/' ? key + len + 1 : "";
}

/* The keys as webdataset has them: members' names up to the first dot behind the last slash. */
static int add_keys(const struct source *source, struct cells *cells)
{
    const struct index *index = &source->index;
    int code = 0;
    for (size_t i = 0; !code && i < index->sample_count; i++) {
        const char *member = tar_member(index, i);
        size_t len = strlen(member), key_len;
        code = cells_add_text(cells, member, tar_name_split(member, len, &key_len) ? key_len : len);
    }
    return code;
}

/* The columns that the first shard has: the others can be taken to have the same, and each shard is a file to read. */
static int add_names(struct tar_walk *walk, struct cells *cells, struct error *err)
{
    struct tar_reader reader = {0};
    struct stat st;
    int code = tar_walk_open(walk, &st, err);
    if (code)
        return code;
    struct cells *names = &walk->found[0].names;
    walk->found[0].parts.bytes_max = names->bytes_max = UINT64_MAX;
    walk->names = true;
    code = tar_shard_read(walk, &reader, 0, err);
    tar_reader_free(&reader);
    for (size_t i = 0, from = 0; !code && i < names->count; from = names->ends[i++])
        code = cells_add_text(cells, names->texts + from, names->ends[i] - from);
    return code;
}

/* files_of tells from the names of an index's samples whether they are the images or the sounds of shards. */
static enum sample_files files_of(const struct index *index)
{
    for (size_t i = 0; i < index->sample_count; i++) {
        const char *name = strrchr(index_key(index, i), '/'), *dot = name ? strchr(name, '.') : NULL;
        if (dot && tar_kind_rank(dot + 1, FILES_IMAGES))
            return FILES_IMAGES;
        if (dot && tar_kind_rank(dot + 1, FILES_SOUNDS))
            return FILES_SOUNDS;
    }
    return FILES_IMAGES;
}

int tar_column(const struct source *source, const char *name, const struct interrupt *interrupt, struct cells *cells,
               struct error *err)
{
    struct tar_walk walk = {.interrupt = interrupt,
                            .text = source->index.text,
                            .root = source->index.root,
                            .files = files_of(&source->index),
                            .root_fd = -1,
                            .column = name};
    if (strcmp(name, COLUMN_KEY) == 0)
        return add_keys(source, cells);
    bool names = strcmp(name, COLUMN_NAMES) == 0;
    if (strncmp(name, "__", 2) == 0 && !names) /* no part is called so */
        return LARDER_ENOENT;
    if (names)
        walk.column = NULL;
    int code = names ? add_names(&walk, cells, err) : read_column(&walk, source, cells, err);
    tar_walk_close(&walk);
    return code;
}
