/* list.c: lists of files, and of places in files, two kinds of source. See list.h.
 *
 * The samples are the rows, in their order. A path is absolute, or lies below the list's folder. The source's root is
 * the folder that all files have in common, and a sample's key is its path below that. The files are known as those of
 * a tree are, so a tree and a list that have the same file share it. */
#include "cache/source/list.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/file.h"
#include "cache/source/blobs.h"
#include "cache/source/crew.h"
#include "cache/source/files.h"
#include "cache/source/labels.h"
#include "cache/source/list_places.h"
#include "cache/source/list_rows.h"
#include "cache/source/list_text.h"
#include "cache/source/tar_text.h"
#include "common/clock.h"
#include "common/larder_err.h"

#define LIST_BYTES_MAX (UINT64_C(1) << 32)
#define SLICE 4096 /* samples that a thread looks at in one go */
/* A file that was changed in the last moments may be changed again without its time showing it (tree_folder.c). */
#define FRESH_NS (2 * CLOCK_NS_PER_S)

/* The source: what its file was known by when its bytes were last found to be those that were indexed; zeros: it was
 * fresh then, or has not been looked at. */
struct listed {
    struct source source;
    struct {
        uint64_t device, inode, size;
        int64_t mtime_ns, ctime_ns;
    } seen;
    char *part;   /* the column of paths; NULL: whichever there is */
    bool damaged; /* it was made of a checkpoint that cannot be right */
};

struct list {
    const struct interrupt *interrupt;
    char *path;        /* the list's */
    const char *label; /* the column of labels; "": whichever there is; "none": none */
    struct listed *source;
    struct index *index;
    struct label *labels; /* one a sample */
    size_t label_cap;
    struct identity_table files; /* of a list of places */
    int root_fd;
};

/* ── texts ── */

static void find_list(void *context)
{
    const char **text = context;
    char *path = list_text_path(*text);
    *text = path ? *text : NULL;
    free(path);
}

/* A folder may be on storage that does not answer, so it is looked at as all of it is read. */
static int is_list(const char *text, bool *is, struct error *err)
{
    struct stat st;
    const char *found = text;
    (void)err;
    *is = false;
    if (stat(text, &st) || !S_ISDIR(st.st_mode)) {
        *is = list_text_is(text);
        return 0;
    }
    const struct medium medium = {.root = text, .device = st.st_dev};
    medium_run(&medium, find_list, &found);
    *is = found;
    return 0;
}

/* ── rows ── */

static int list_error(const struct list *list, int code, const char *what, struct error *err)
{
    struct shown shown;
    return error_set(err, code, "%s: %s", path_shown(list->path, &shown), what);
}

static int row_error(const struct list *list, const struct list_row *row, int code, const char *what, struct error *err)
{
    struct shown shown;
    return error_set(err, code, "%s:%zu:1: %s", path_shown(list->path, &shown), row->line, what);
}

/* Writes the absolute path that a row has, without "//" and "./". */
static int row_path(const struct list *list, const struct list_row *row, char out[PATH_MAX], struct error *err)
{
    const char *folder_end = strrchr(list->path, '/'), *part = row->path;
    size_t len = *part == '/' ? 0 : (size_t)(folder_end - list->path), parts = 0;
    memcpy(out, list->path, len);
    while (*part) {
        size_t part_len = strcspn(part, "/");
        bool here = part_len == 0 || (part_len == 1 && *part == '.');
        if (part_len == 2 && part[0] == '.' && part[1] == '.')
            return row_error(list, row, LARDER_EFORMAT, "its path has \"..\": write it without", err);
        if (!here && len + part_len + 2 > PATH_MAX)
            return row_error(list, row, LARDER_EFORMAT, "its path is too long", err);
        if (!here) {
            out[len++] = '/';
            memcpy(out + len, part, part_len);
            len += part_len;
            parts++;
        }
        part += part_len + strspn(part + part_len, "/");
    }
    out[len] = '\0';
    return parts ? 0 : row_error(list, row, LARDER_EFORMAT, "its path names no file", err);
}

static int take_label(struct list *list, const struct list_row *row, struct label *label, struct error *err)
{
    struct error why;
    int64_t whole;
    double real;
    if (!row->label || strcmp(list->label, "none") == 0)
        return 0;
    size_t len = strlen(row->label);
    int code = row->named ? label_take_name(row->label, len, list->index, label, &why)
                          : label_take(row->label, len, list->index, label, &why);
    if (code)
        return row_error(list, row, code, why.text, err);
    if (label->kind == LABEL_TEXT && !row->named && number_of(row->label, len, &whole, &real) == NUMBER_REAL)
        return row_error(list, row, LARDER_EINVAL,
                         "its label is a fraction: labels of a list are whole numbers or names; give labels=\"none\", "
                         "and labels of your own",
                         err);
    return 0;
}

/* Gives a sample its key, and its place if it has one. */
static int add_key(struct list *list, const struct list_row *row, const char *path, uint64_t *key, struct error *err)
{
    struct error why;
    if (row->placed && list->source->part)
        return row_error(list, row, LARDER_EINVAL,
                         "it is a place in a file, by the columns offset and bytes, and parts are whole files", err);
    if (!row->placed)
        return index_text(list->index, path, NULL, key)
                   ? row_error(list, row, LARDER_ENOMEM, "out of memory while indexing", err)
                   : 0;
    int code = places_add(list->index, &list->files, path, row, key, &why);
    return code ? row_error(list, row, code, why.text, err) : 0;
}

/* The key of a sample is its absolute path, until the common folder is known. */
static int add_row(struct list *list, const struct list_row *row, struct error *err)
{
    struct index *index = list->index;
    char path[PATH_MAX];
    struct label label = {.kind = LABEL_NONE};
    uint64_t key;
    int code = row_path(list, row, path, err);
    if (!code)
        code = take_label(list, row, &label, err);
    if (code)
        return code;
    code = array_grow((void **)&index->samples, index->sample_count, &index->sample_cap, sizeof *index->samples,
                      DATASET_SAMPLES_MAX);
    if (!code)
        code = array_grow((void **)&list->labels, index->sample_count, &list->label_cap, sizeof label,
                          DATASET_SAMPLES_MAX);
    if (code)
        return row_error(list, row, code,
                         code == LARDER_ELIMIT ? "more rows than one dataset may have of samples"
                                               : "out of memory while indexing",
                         err);
    code = add_key(list, row, path, &key, err);
    if (code)
        return code;
    list->labels[index->sample_count] = label;
    index->samples[index->sample_count++] = (struct index_sample){.key = key, .size = row->place.bytes};
    return 0;
}

static int read_rows(struct list *list, const uint8_t *bytes, size_t len_bytes, struct error *err)
{
    struct list_rows *rows = NULL;
    struct list_row row;
    struct error why = {0};
    struct shown shown;
    bool there = true;
    const char *column = strcmp(list->label, "none") ? list->label : "";
    int code = list_rows_begin(list_form_of(list->path), bytes, len_bytes, column, list->source->part, &rows, &why);
    while (!code && there) {
        code = list_rows_next(rows, &row, &there, &why);
        if (code || !there)
            break;
        code = add_row(list, &row, err);
        if (!code && interrupt_is_set(list->interrupt))
            code = file_interrupted(list->path, err);
        if (code) {
            list_rows_end(rows);
            return code;
        }
    }
    list_rows_end(rows);
    if (code)
        return error_set(err, code, "%s:%s", path_shown(list->path, &shown), why.text);
    return list->index->sample_count ? 0 : list_error(list, LARDER_EINVAL, "it has no row with a path", err);
}

/* ── files ── */

/* The absolute path of a file that the list names. */
static const char *file_path(const struct index *index, size_t number)
{
    return index->strings + (index->blob_count ? index->blobs[number].path : index->samples[number].key);
}

/* Finds the folder that all files have in common, and makes the keys paths below it. */
static int find_root(struct list *list, struct error *err)
{
    struct index *index = list->index;
    const char *first = file_path(index, 0);
    size_t len = (size_t)(strrchr(first, '/') - first), files = index->blob_count;
    for (size_t i = 1; i < (files ? files : index->sample_count); i++) {
        const char *path = file_path(index, i);
        size_t same = 0;
        while (same < len && path[same] == first[same])
            same++;
        while (same && !(same <= len && path[same] == '/' && (same == len || first[same] == '/')))
            same--;
        len = same;
    }
    char *root = strndup(first, len ? len : 1);
    index->root = root ? realpath(root, NULL) : NULL;
    if (root && !index->root) {
        struct shown shown;
        int code = error_set(err, errno_code(errno), "%s: the folder of its files cannot be opened: %s",
                             path_shown(root, &shown), strerror(errno));
        free(root);
        return code;
    }
    free(root);
    for (size_t i = 0; i < index->sample_count; i++)
        index->samples[i].key += len + 1;
    for (size_t i = 0; i < files; i++)
        index->blobs[i].path += len + 1;
    return index->root ? 0 : list_error(list, LARDER_ENOMEM, "out of memory while indexing", err);
}

static int look(void *context, void *own, size_t slice, struct error *err)
{
    struct list *list = context;
    struct index *index = list->index;
    size_t count = index->blob_count ? index->blob_count : index->sample_count;
    size_t end = (slice + 1) * SLICE < count ? (slice + 1) * SLICE : count;
    (void)own;
    for (size_t i = slice * SLICE; i < end; i++) {
        if (interrupt_is_set(list->interrupt))
            return file_interrupted(list->path, err);
        if (index->blob_count)
            places_look(list->root_fd, index, i);
        else
            file_look(list->root_fd, index, i);
    }
    return 0;
}

static int add_folder(struct list *list, struct index_folder folder, const char *path, struct error *err)
{
    struct index *index = list->index;
    int code = array_grow((void **)&index->folders, index->folder_count, &index->folder_cap, sizeof folder,
                          INDEX_FOLDERS_MAX);
    if (!code)
        code = index_text(index, path, NULL, &folder.path);
    if (code)
        return list_error(list, code, "out of memory while indexing", err);
    index->folders[index->folder_count++] = folder;
    return 0;
}

/* Records the files, the root, and the list itself, which is the second folder. */
static int look_at_files(struct list *list, uint64_t hash, const struct stat *st, struct error *err)
{
    struct index *index = list->index;
    struct stat root;
    list->root_fd = open(index->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (list->root_fd < 0 || fstat(list->root_fd, &root))
        return error_set(err, errno_code(errno), "%s: cannot open the folder: %s", index->root, strerror(errno));
    size_t files = index->blob_count ? index->blob_count : index->sample_count;
    const struct crew_work work = {
        .count = (files + SLICE - 1) / SLICE, .context = list, .one = look, .device = root.st_dev};
    struct index_folder itself = {
        .device = st->st_dev, .inode = st->st_ino, .mtime_ns = file_mtime_ns(st), .listing = hash};
    int code = add_folder(list, (struct index_folder){.device = root.st_dev, .inode = root.st_ino}, "", err);
    if (!code)
        code = add_folder(list, itself, "list", err);
    if (!code)
        code = crew_run(&work, err);
    if (!code && index->blob_count)
        places_settle(index);
    return code;
}

/* ── the kinds ── */

static const struct source_kind places_kind;

static void note_seen(struct listed *source, const struct stat *st)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t settled_ns = (int64_t)now.tv_sec * CLOCK_NS_PER_S + now.tv_nsec - FRESH_NS;
    memset(&source->seen, 0, sizeof source->seen);
    if (file_mtime_ns(st) < settled_ns && file_ctime_ns(st) < settled_ns) {
        source->seen.device = st->st_dev;
        source->seen.inode = st->st_ino;
        source->seen.size = (uint64_t)st->st_size;
        source->seen.mtime_ns = file_mtime_ns(st);
        source->seen.ctime_ns = file_ctime_ns(st);
    }
}

static bool is_seen(const struct listed *source, const struct stat *st)
{
    return source->seen.inode && st->st_dev == source->seen.device && st->st_ino == source->seen.inode &&
           (uint64_t)st->st_size == source->seen.size && file_mtime_ns(st) == source->seen.mtime_ns &&
           file_ctime_ns(st) == source->seen.ctime_ns;
}

static void complete(struct source *source)
{
    const struct index_folder *root = &source->index.folders[0];
    if (source->index.blob_count)
        source->kind = &places_kind;
    source->medium = (struct medium){.root = source->index.root, .device = root->device, .inode = root->inode};
}

static int load(const struct list *list, uint8_t **bytes, size_t *len_bytes, struct stat *st, struct error *err)
{
    const struct file_wanted wanted = {.path = list->path, .max_bytes = LIST_BYTES_MAX, .interrupt = list->interrupt};
    if (stat(list->path, st)) /* before its bytes, so that a change between the two shows */
        return list_error(list, errno_code(errno), strerror(errno), err);
    return file_load(&wanted, bytes, len_bytes, err);
}

static int read_list(struct list *list, struct error *err)
{
    static const struct labels_wish wish = {.what = "label",
                                            .instead = "give all rows one, or labels=\"none\", and labels of your own"};
    uint8_t *bytes = NULL;
    size_t len_bytes;
    struct stat st;
    int code = load(list, &bytes, &len_bytes, &st, err);
    if (!code)
        code = read_rows(list, bytes, len_bytes, err);
    uint64_t hash = code ? 0 : XXH3_64bits(bytes, len_bytes);
    free(bytes);
    if (!code)
        code = find_root(list, err);
    if (!code)
        code = look_at_files(list, hash, &st, err);
    if (!code)
        note_seen(list->source, &st);
    return code ? code : labels_apply(&wish, list->labels, list->index, err);
}

static int index_list(const struct source_wish *wish, struct source *source, struct error *err)
{
    size_t len;
    struct list list = {.interrupt = wish->interrupt,
                        .path = list_text_path(wish->text),
                        .label = tar_text_labels(wish->text, &len),
                        .source = (struct listed *)source,
                        .index = &source->index,
                        .root_fd = -1};
    source->index.text = strdup(wish->text);
    list.source->part = wish->part ? strdup(wish->part) : NULL;
    int code = list.path && source->index.text && (!wish->part || list.source->part)
                   ? read_list(&list, err)
                   : error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
    if (list.root_fd >= 0)
        close(list.root_fd);
    free(list.path);
    free(list.labels);
    identity_table_free(&list.files);
    if (!code)
        complete(source);
    return code;
}

static bool restore(struct source *source)
{
    bool moved = source->index.folder_count == 2 && index_follow_mount(&source->index);
    ((struct listed *)source)->damaged = source->index.blob_count && !places_fit(&source->index);
    complete(source);
    return moved;
}

/* A list that was written again with the same bytes is the same. */
static bool same_list(struct listed *source, const struct interrupt *interrupt)
{
    const struct index *index = &source->source.index;
    struct list list = {.interrupt = interrupt, .path = index->folder_count == 2 ? list_text_path(index->text) : NULL};
    uint8_t *bytes = NULL;
    size_t len_bytes;
    struct stat st;
    struct error problem;
    bool same = list.path && stat(list.path, &st) == 0 && is_seen(source, &st);
    if (list.path && !same) {
        same = load(&list, &bytes, &len_bytes, &st, &problem) == 0 &&
               XXH3_64bits(bytes, len_bytes) == index->folders[1].listing;
        if (same)
            note_seen(source, &st);
    }
    free(bytes);
    free(list.path);
    return same;
}

static bool unchanged(struct source *source, const struct interrupt *interrupt, bool *settled)
{
    *settled = false;
    return !((struct listed *)source)->damaged && same_list((struct listed *)source, interrupt) &&
           (source->index.blob_count ? places_unchanged(source, interrupt)
                                     : files_unchanged(&source->index, interrupt));
}

/* ── columns ── */

static int read_cells(const struct list *list, struct list_rows *rows, bool names, struct cells *cells,
                      struct error *err)
{
    struct list_row row;
    struct error why = {0};
    struct shown shown;
    bool there = true;
    size_t count = 0;
    int code = list_rows_next(rows, &row, &there, &why);
    for (; !code && there; count++) {
        code = names ? list_rows_names(rows, cells) : list_rows_cell(rows, cells);
        if (code == LARDER_ELIMIT && names)
            return list_error(list, code, "its columns are more than 4,096, or more than limits.columns lets list",
                              err);
        if (code)
            return code;
        if (interrupt_is_set(list->interrupt))
            return file_interrupted(list->path, err);
        code = list_rows_next(rows, &row, &there, &why);
    }
    if (code)
        return error_set(err, code, "%s:%s", path_shown(list->path, &shown), why.text);
    return names || (list_rows_met(rows) && count == list->index->sample_count) ? 0 : LARDER_ENOENT;
}

static int column_of(const struct list *list, const uint8_t *bytes, size_t len_bytes, const char *name,
                     struct cells *cells, struct error *err)
{
    struct list_rows *rows = NULL;
    struct error why;
    struct shown shown;
    bool names = strcmp(name, COLUMN_NAMES) == 0;
    int code = list_rows_begin(list_form_of(list->path), bytes, len_bytes, "", list->source->part, &rows, &why);
    if (code)
        return error_set(err, code, "%s:%s", path_shown(list->path, &shown), why.text);
    code = names ? 0 : list_rows_want(rows, name);
    if (!code)
        code = read_cells(list, rows, names, cells, err);
    list_rows_end(rows);
    return code;
}

/* The list is read again, for few ask for its columns, and then it is the one that was indexed. */
static int column(const struct source *source, const char *name, const struct interrupt *interrupt, struct cells *cells,
                  struct error *err)
{
    const struct index *index = &source->index;
    struct list list = {.interrupt = interrupt,
                        .path = list_text_path(index->text),
                        .source = (struct listed *)source,
                        .index = (struct index *)index};
    uint8_t *bytes = NULL;
    size_t len_bytes;
    struct stat st;
    bool is_key = strcmp(name, COLUMN_KEY) == 0; /* which the index has */
    int code = is_key      ? LARDER_ENOENT
               : list.path ? load(&list, &bytes, &len_bytes, &st, err)
                           : error_set(err, LARDER_ECHANGED, "%s has no list any more", index->text);
    if (!code && XXH3_64bits(bytes, len_bytes) != index->folders[1].listing)
        code = list_error(&list, LARDER_ECHANGED, "it changed since it was indexed: make the Loader anew", err);
    if (!code)
        code = column_of(&list, bytes, len_bytes, name, cells, err);
    free(bytes);
    free(list.path);
    return code;
}

static void destroy(struct source *source)
{
    free(((struct listed *)source)->part);
}

const struct source_kind list_kind = {
    .name = "a list of files",
    .shares = FILES_SHARES,
    .bytes = sizeof(struct listed),
    .is = is_list,
    .index = index_list,
    .restore = restore,
    .unchanged = unchanged,
    .read = files_read,
    .hash = files_hash,
    .identity = files_identity,
    .column = column,
    .destroy = destroy,
};

/* No text is of this kind: the list says whether its rows are places. */
static const struct source_kind places_kind = {
    .name = "a list of places in files",
    .shares = BLOBS_SHARES,
    .bytes = sizeof(struct listed),
    .is = is_list,
    .index = index_list,
    .restore = restore,
    .unchanged = unchanged,
    .read = ranges_read,
    .hash = ranges_hash,
    .identity = places_identity,
    .place = places_place,
    .blob = "file",
    .blob_name = blobs_name,
    .head_bytes = places_head_bytes,
    .check = places_check,
    .is_blob = blobs_is,
    .failed = places_failed,
    .column = column,
    .destroy = destroy,
};
