/* tree_class.c: reads one class of a tree. See tree_priv.h.
 *
 * Folders are taken from a list, not by recursion, and opened one at a time; files are looked at in the order the
 * folder lists them, which suits the disk. A file needs one stat (its identity); entries that are plainly no image need
 * none. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/source/tree_priv.h"

#define DEPTH_MAX 256

/* a folder of the class being walked */
struct node {
    size_t folder; /* index into index->folders */
    size_t parent; /* index into nodes; its own for the class folder */
    size_t first_file, file_count;
    uint64_t path; /* offset in index->strings */
    unsigned depth;
};

/* an image file of the class being walked */
struct found {
    uint64_t name; /* offset in walk->names */
    uint64_t size, device, inode;
    int64_t mtime_ns, ctime_ns;
    uint32_t flags;
};

static int folder_error(const struct class_walk *walk, const char *path, int number)
{
    return tree_folder_error(walk->tree, path, number, walk->err);
}

static int limit_error(const struct class_walk *walk, int code)
{
    return tree_limit_error(walk->tree, code, walk->err);
}

static int add_node(struct class_walk *walk, uint64_t path, size_t parent, unsigned depth)
{
    if (depth > DEPTH_MAX) {
        struct shown root, below;
        return error_set(walk->err, LARDER_ELIMIT, "%s: folders more than %d levels deep at '%s'",
                         path_shown(walk->tree->root, &root), DEPTH_MAX,
                         path_shown(walk->index->strings + path, &below));
    }
    int code = array_grow((void **)&walk->nodes, walk->node_count, &walk->node_cap, sizeof *walk->nodes,
                          INDEX_FOLDERS_MAX);
    if (code)
        return limit_error(walk, code);
    walk->nodes[walk->node_count++] = (struct node){.path = path, .parent = parent, .depth = depth};
    return 0;
}

static int add_subfolder(struct class_walk *walk, const char *name)
{
    char above[PATH_MAX];
    uint64_t path;
    const struct node *node = &walk->nodes[walk->current];
    unsigned depth = node->depth + 1;
    strcpy(above, walk->index->strings + node->path); /* it was opened by this name, so it fits */
    if (index_text(walk->index, above, name, &path))
        return limit_error(walk, LARDER_ENOMEM);
    return add_node(walk, path, walk->current, depth);
}

static int class_entry(void *context, int dir_fd, const char *name, unsigned char type)
{
    struct class_walk *walk = context;
    struct stat st;
    bool looked;
    int interrupted = tree_check_interrupted(walk->tree, walk->err);
    if (interrupted)
        return interrupted;
    if (tree_is_folder(dir_fd, name, type, &st, &looked))
        return add_subfolder(walk, name);
    if (!tree_is_sample(walk->tree, name))
        return 0;
    if (!looked)
        looked = fstatat(dir_fd, name, &st, 0) == 0;
    int code = array_grow((void **)&walk->files, walk->file_count, &walk->file_cap, sizeof *walk->files,
                          DATASET_SAMPLES_MAX);
    uint64_t offset;
    if (!code)
        code = index_text(&walk->names, name, NULL, &offset);
    if (code)
        return limit_error(walk, code);
    struct found *file = &walk->files[walk->file_count++];
    *file = (struct found){.name = offset, .flags = INDEX_UNREACHABLE};
    if (looked) {
        bool regular = S_ISREG(st.st_mode);
        *file = (struct found){.name = offset,
                               .size = regular ? (uint64_t)st.st_size : 0,
                               .device = st.st_dev,
                               .inode = st.st_ino,
                               .mtime_ns = file_mtime_ns(&st),
                               .ctime_ns = file_ctime_ns(&st)};
    }
    return 0;
}

static bool same_folder(const struct index_folder *a, const struct index_folder *b)
{
    return a->device == b->device && a->inode == b->inode;
}

/* Symbolic links that lead back to a folder above would be walked for ever. */
static int check_loop(const struct class_walk *walk, const struct node *node, const struct index_folder *folder)
{
    const struct index *index = walk->index;
    const struct index_folder *above = NULL;
    for (const struct node *at = node; !above && at != &walk->nodes[at->parent];) {
        at = &walk->nodes[at->parent];
        if (same_folder(&index->folders[at->folder], folder))
            above = &index->folders[at->folder];
    }
    bool flat = strcmp(index->strings + node->path, FLAT_CLASS) == 0;
    if (!above && (flat || !same_folder(&walk->tree->folder, folder)))
        return 0;
    struct shown root, here;
    return error_set(walk->err, LARDER_EINVAL,
                     "%s: a loop of symbolic links: '%s' leads back to %.150s, remove the link",
                     path_shown(walk->tree->root, &root), path_shown(index->strings + node->path, &here),
                     above ? index->strings + above->path : "the dataset's own folder");
}

static int add_folder(struct class_walk *walk, const struct index_folder *folder)
{
    struct index *index = walk->index;
    int code = array_grow((void **)&index->folders, index->folder_count, &index->folder_cap, sizeof *folder,
                          INDEX_FOLDERS_MAX);
    if (code)
        return limit_error(walk, code);
    index->folders[index->folder_count++] = *folder;
    return 0;
}

static int list_node(struct class_walk *walk, size_t number)
{
    struct index_folder folder = {.path = walk->nodes[number].path};
    char path[PATH_MAX];
    const char *stored = walk->index->strings + folder.path;
    if (strlen(stored) >= sizeof path)
        return folder_error(walk, stored, ENAMETOOLONG);
    strcpy(path, stored); /* listing appends to the strings, which may move them */
    int fd = folder_open(walk->tree->root_fd, path, &folder);
    if (fd < 0)
        return folder_error(walk, path, errno);
    int code = check_loop(walk, &walk->nodes[number], &folder);
    if (code) {
        close(fd);
        return code;
    }
    walk->current = number;
    walk->nodes[number].first_file = walk->file_count;
    code = folder_list(fd, class_entry, walk, &folder.listing);
    if (code)
        return code > 0 ? folder_error(walk, path, code) : code;
    walk->nodes[number].file_count = walk->file_count - walk->nodes[number].first_file;
    walk->nodes[number].folder = walk->index->folder_count;
    return add_folder(walk, &folder);
}

static int compare_nodes(const void *a, const void *b, void *context)
{
    const char *strings = context;
    return text_compare(strings + ((const struct node *)a)->path, strings + ((const struct node *)b)->path);
}

static int compare_files(const void *a, const void *b, void *context)
{
    const char *names = context;
    return text_compare(names + ((const struct found *)a)->name, names + ((const struct found *)b)->name);
}

static int add_sample(struct class_walk *walk, const char *folder, const struct found *file, int32_t label)
{
    struct index *index = walk->index;
    const char *root = walk->tree->root, *name = walk->names.strings + file->name;
    if (strlen(root) + strlen(folder) + strlen(name) + 3 > PATH_MAX)
        return folder_error(walk, folder, ENAMETOOLONG);
    int code = array_grow((void **)&index->samples, index->sample_count, &index->sample_cap, sizeof *index->samples,
                          DATASET_SAMPLES_MAX);
    uint64_t key = 0;
    if (!code)
        code = strcmp(folder, FLAT_CLASS) ? index_text(index, folder, name, &key) : index_text(index, name, NULL, &key);
    if (code)
        return limit_error(walk, code);
    struct index_sample sample = {.key = key,
                                  .size = file->size,
                                  .mtime_ns = file->mtime_ns,
                                  .ctime_ns = file->ctime_ns,
                                  .device = file->device,
                                  .inode = file->inode,
                                  .label = label,
                                  .flags = file->flags};
    if (file->flags & INDEX_UNREACHABLE) { /* no identity to share: its own path is what it is known by */
        const char *path = index->strings + key;
        sample.device = UINT64_MAX;
        sample.inode = XXH3_64bits_withSeed(path, strlen(path), XXH3_64bits(root, strlen(root)));
    }
    index->samples[index->sample_count++] = sample;
    return 0;
}

/* Puts the class's files, found folder by folder, into the dataset's order. */
static int add_samples(struct class_walk *walk, int32_t label)
{
    qsort_r(walk->nodes, walk->node_count, sizeof *walk->nodes, compare_nodes, walk->index->strings);
    for (size_t i = 0; i < walk->node_count; i++) {
        const struct node *node = &walk->nodes[i];
        struct found *files = walk->files + node->first_file;
        char folder[PATH_MAX];
        int interrupted = tree_check_interrupted(walk->tree, walk->err);
        if (interrupted)
            return interrupted;
        strcpy(folder, walk->index->strings + node->path); /* list_node saw that it fits */
        if (node->file_count)
            qsort_r(files, node->file_count, sizeof *files, compare_files, walk->names.strings);
        for (size_t j = 0; j < node->file_count; j++) {
            int code = add_sample(walk, folder, &files[j], label);
            if (code)
                return code;
        }
    }
    return 0;
}

int class_walk_read(struct class_walk *walk, const char *name, int32_t label, struct index *out, struct error *err)
{
    uint64_t path;
    walk->index = out;
    walk->err = err;
    walk->node_count = walk->file_count = walk->names.strings_len_bytes = 0;
    if (index_text(out, name, NULL, &path))
        return limit_error(walk, LARDER_ENOMEM);
    int code = add_node(walk, path, 0, 1);
    for (size_t i = 0; !code && i < walk->node_count; i++)
        code = list_node(walk, i);
    return code ? code : add_samples(walk, label);
}

void class_walk_free(struct class_walk *walk)
{
    free(walk->nodes);
    free(walk->files);
    index_free(&walk->names);
    *walk = (struct class_walk){0};
}
