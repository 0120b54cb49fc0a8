/* tree.c: reads a class-per-folder tree.
 *
 * The order is ImageFolder's: classes sorted; within a class every folder below it, sorted by whole path as os.walk's
 * results are (so "a-b" stands before "a/c"); within a folder the file names, sorted. A root that has images and no
 * folders is a flat tree: its files are of one class, FLAT_CLASS.
 *
 * The root's folders are listed first. Then a crew reads each class into an index of its own, its part. The parts are
 * joined when all are read. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/source/crew.h"
#include "cache/source/tree_priv.h"

#define EXTENSIONS_SHOWN 96

/* ── the root ── */

struct root_walk {
    const struct tree *tree;
    struct index *index;
    struct error *err;
    bool samples; /* whether the root has any itself */
};

static int add_class(struct root_walk *walk, const char *name)
{
    struct index *index = walk->index;
    int code = array_grow((void **)&index->classes, index->class_count, &index->class_cap, sizeof *index->classes,
                          INDEX_FOLDERS_MAX);
    if (!code)
        code = index_text(index, name, NULL, &index->classes[index->class_count]);
    if (code)
        return tree_limit_error(walk->tree, code, walk->err);
    index->class_count++;
    return 0;
}

static int root_entry(void *context, int dir_fd, const char *name, unsigned char type)
{
    struct root_walk *walk = context;
    struct stat st;
    bool looked;
    int interrupted = tree_check_interrupted(walk->tree, walk->err);
    if (interrupted)
        return interrupted;
    if (!tree_is_folder(dir_fd, name, type, &st, &looked)) {
        /* ImageFolder stops here too: a class that cannot be told from a file would shift every label after it. */
        if (!looked && (type == DT_LNK || type == DT_UNKNOWN) && fstatat(dir_fd, name, &st, 0) && errno != ENOENT)
            return tree_folder_error(walk->tree, name, errno, walk->err);
        walk->samples |= tree_is_sample(walk->tree, name);
        return 0;
    }
    return add_class(walk, name);
}

static int compare_classes(const void *a, const void *b, void *context)
{
    const char *strings = context;
    return text_compare(strings + *(const uint64_t *)a, strings + *(const uint64_t *)b);
}

/* extensions_shown writes, for the end of an error, by which names samples are known. */
static const char *extensions_shown(const struct tree *tree, char *out, size_t size)
{
    snprintf(out, size, *tree_extensions(tree) ? " (extensions: %s)" : "", tree_extensions(tree));
    return out;
}

/* The error of a folder that has nothing in it which could be a sample, or a class. */
static int none_error(const struct tree *tree, struct error *err)
{
    struct shown root;
    char extensions[EXTENSIONS_SHOWN];
    path_shown(tree->root, &root);
    extensions_shown(tree, extensions, sizeof extensions);
    if (tree->files == FILES_SOUNDS)
        return error_set(err, LARDER_EINVAL,
                         "%s: no sound and no class folders: expected one folder a class with its sounds inside, as "
                         "CLASS/CLIP.flac, or sounds alone%s",
                         root.text, extensions);
    return error_set(err, LARDER_EINVAL,
                     "%s: no image and no class folders: expected one folder a class with its images inside, as "
                     "CLASS/IMAGE.jpg, or images alone%s. To train on tar shards, name the folder that they lie in, or "
                     "\"FOLDER/*.tar\"",
                     root.text, extensions);
}

static int walk_root(struct tree *tree, struct index *index, struct error *err)
{
    struct root_walk walk = {.tree = tree, .index = index, .err = err};
    int code = index_text(index, "", NULL, &tree->folder.path);
    if (code)
        return tree_limit_error(tree, code, err);
    int fd = folder_open(tree->root_fd, "", &tree->folder);
    if (fd < 0)
        return tree_folder_error(tree, "", errno, err);
    code = folder_list(fd, root_entry, &walk, &tree->folder.listing);
    if (code)
        return code > 0 ? tree_folder_error(tree, "", code, err) : code;
    if (index->class_count == 0 && walk.samples)
        return add_class(&walk, FLAT_CLASS);
    if (index->class_count == 0)
        return none_error(tree, err);
    qsort_r(index->classes, index->class_count, sizeof *index->classes, compare_classes, index->strings);
    return 0;
}

/* ── the classes ── */

struct classes {
    const struct tree *tree;
    const struct index *index; /* has the names of the classes */
    struct index *parts;       /* one a class; belongs to the thread that took the class, until that has ended */
};

static int read_class(void *context, void *own, size_t label, struct error *err)
{
    struct classes *classes = context;
    struct class_walk *walk = own;
    const char *name = classes->index->strings + classes->index->classes[label];
    walk->tree = classes->tree;
    return class_walk_read(walk, name, (int32_t)label, &classes->parts[label], err);
}

static void free_walk(void *own)
{
    class_walk_free(own);
}

/* Reads every class into its part. */
static int walk_classes(const struct tree *tree, const struct index *index, struct index *parts, struct error *err)
{
    struct classes classes = {.tree = tree, .index = index, .parts = parts};
    const struct crew_work work = {.count = index->class_count,
                                   .context = &classes,
                                   .one = read_class,
                                   .own_bytes = sizeof(struct class_walk),
                                   .own_free = free_walk,
                                   .device = tree->folder.device};
    return crew_run(&work, err);
}

/* ── the whole ── */

/* The error of a tree that lacks files. Labels would not be what they seem if classes without any were passed over. */
static int check_empty(const struct tree *tree, const struct index *index, const struct index *parts, struct error *err)
{
    char empty[256] = ""; /* the first of them */
    char extensions[EXTENSIONS_SHOWN];
    size_t count = 0;
    struct shown shown;
    for (size_t label = 0; label < index->class_count; label++) {
        if (parts[label].sample_count)
            continue;
        size_t len = strlen(empty);
        path_shown(index->strings + index->classes[label], &shown);
        if (len + strlen(shown.text) + 3 < sizeof empty) {
            strcat(empty, len ? ", " : "");
            strcat(empty, shown.text);
        }
        count++;
    }
    if (count == 0)
        return 0;
    path_shown(tree->root, &shown);
    extensions_shown(tree, extensions, sizeof extensions);
    if (count == index->class_count)
        return error_set(err, LARDER_EINVAL,
                         "%s: no %s in any of its %zu class folders%s. To train on tar shards, name the folder that "
                         "they lie in, or \"FOLDER/*.tar\"",
                         shown.text, tree_noun(tree), count, extensions);
    return error_set(err, LARDER_EINVAL, "%.120s: no %s for %zu of %zu classes: %s; remove the empty folders%s",
                     shown.text, tree_noun(tree), count, index->class_count, empty, extensions);
}

static int walk_tree(struct tree *tree, struct index *index, struct error *err)
{
    int code = walk_root(tree, index, err);
    if (code)
        return code;
    struct index *parts = calloc(index->class_count, sizeof *parts);
    if (!parts)
        return tree_limit_error(tree, LARDER_ENOMEM, err);
    code = walk_classes(tree, index, parts, err);
    if (!code)
        code = check_empty(tree, index, parts, err);
    if (!code) {
        code = array_grow((void **)&index->folders, 0, &index->folder_cap, sizeof *index->folders, INDEX_FOLDERS_MAX);
        if (!code) {
            index->folders[index->folder_count++] = tree->folder;
            code = index_join(index, parts, index->class_count);
        }
        if (code)
            tree_limit_error(tree, code, err);
    }
    for (size_t label = 0; label < index->class_count; label++)
        index_free(&parts[label]);
    free(parts);
    return code;
}

static int open_tree(const struct source_wish *wish, struct index *index, struct error *err)
{
    struct shown shown;
    struct tree tree = {.interrupt = wish->interrupt, .root = wish->text, .files = wish->files};
    index->root = strdup(wish->text);
    index->text = strdup(wish->text);
    if (!index->root || !index->text)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    tree.root_fd = open(wish->text, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree.root_fd < 0)
        return error_set(err, errno == ENOTDIR ? LARDER_EINVAL : errno_code(errno), "%s: cannot open the folder: %s",
                         path_shown(wish->text, &shown), strerror(errno));
    int code = walk_tree(&tree, index, err);
    close(tree.root_fd);
    return code;
}

/* What follows from the index alone. */
static void complete(struct source *source)
{
    const struct index_folder *root = &source->index.folders[0];
    source->medium = (struct medium){.root = source->index.root, .device = root->device, .inode = root->inode};
}

static int index_tree(const struct source_wish *wish, struct source *source, struct error *err)
{
    int code = open_tree(wish, &source->index, err);
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

const struct source_kind tree_kind = {
    .name = "class folders",
    .shares = FILES_SHARES,
    .bytes = sizeof(struct source),
    .index = index_tree,
    .restore = restore,
    .unchanged = tree_unchanged,
    .read = files_read,
    .hash = files_hash,
    .identity = files_identity,
};
