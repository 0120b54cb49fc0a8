/* tree.c: reads a class-per-folder tree.
 *
 * The order is ImageFolder's: classes sorted; within a class every folder below it, sorted by whole path as os.walk's
 * results are (so "a-b" stands before "a/c"); within a folder the file names, sorted. Folders are taken from a list,
 * not by recursion, and opened one at a time; files are looked at in the order the folder lists them, which suits the
 * disk. A file needs one stat (its identity); entries that are plainly no image need none. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/catalog/catalog_priv.h"

#define FOLDERS_MAX (1u << 24)
#define DEPTH_MAX 256
#define EXTENSIONS ".jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp"

/* a folder of the class being walked */
struct node {
    size_t folder; /* in index->folders */
    size_t parent; /* in nodes; itself for the class folder */
    size_t first_file, file_count;
    uint64_t path; /* in index->strings */
    unsigned depth;
};

/* an image file of the class being walked */
struct found {
    uint64_t name; /* in walk->names */
    uint64_t size, device, inode;
    int64_t mtime_ns;
    uint32_t flags;
};

struct walk {
    const struct interrupt *interrupt;
    struct index *index;
    int root_fd;
    struct error *err;
    bool every;     /* files of any kind are samples, not images alone */
    size_t current; /* the node being listed */
    struct node *nodes;
    size_t node_count, node_cap;
    struct found *files;
    size_t file_count, file_cap;
    struct index names; /* only its strings */
    char empty[256];    /* classes without an image, as the error names them */
    size_t empty_count;
};

/* ASCII only, whatever the locale: no other letter's lower case is one of these. */
static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

static bool has_image_extension(const char *name)
{
    const char *dot = strrchr(name, '.');
    size_t len = dot ? strlen(dot) : 0;
    for (const char *known = EXTENSIONS; len && *known; known += strspn(known, " ")) {
        size_t known_len = strcspn(known, " "), same = 0;
        while (same < len && same < known_len && lower(dot[same]) == known[same])
            same++;
        if (same == len && same == known_len)
            return true;
        known += known_len;
    }
    return false;
}

static int folder_error(const struct walk *walk, const char *path, int number)
{
    struct shown root, below;
    return error_set(walk->err, errno_code(number), "%s: cannot list the folder '%s': %s",
                     path_shown(walk->index->root, &root), path_shown(path, &below), strerror(number));
}

static int limit_error(const struct walk *walk, int code)
{
    struct shown root;
    return error_set(walk->err, code, "%s: %s", path_shown(walk->index->root, &root),
                     code == LARDER_ELIMIT ? "more folders or images than one dataset may have"
                                           : "out of memory while indexing");
}

static int check_interrupted(const struct walk *walk)
{
    return interrupt_is_set(walk->interrupt) ? file_interrupted(walk->index->root, walk->err) : 0;
}

/* Whether an entry is a folder, links followed; an entry that cannot be looked at is none. *st holds its stat if
 * *looked. */
static bool is_folder(int dir_fd, const char *name, unsigned char type, struct stat *st, bool *looked)
{
    *looked = false;
    if (type != DT_LNK && type != DT_UNKNOWN)
        return type == DT_DIR;
    *looked = fstatat(dir_fd, name, st, 0) == 0;
    return *looked && S_ISDIR(st->st_mode);
}

static int root_entry(void *context, int dir_fd, const char *name, unsigned char type)
{
    struct walk *walk = context;
    struct index *index = walk->index;
    struct stat st;
    bool looked;
    int interrupted = check_interrupted(walk);
    if (interrupted)
        return interrupted;
    if (!is_folder(dir_fd, name, type, &st, &looked)) {
        /* ImageFolder stops here too: a class that cannot be told from a file would shift every label after it. */
        if (!looked && (type == DT_LNK || type == DT_UNKNOWN) && fstatat(dir_fd, name, &st, 0) && errno != ENOENT)
            return folder_error(walk, name, errno);
        return 0;
    }
    int code = array_grow((void **)&index->classes, index->class_count, &index->class_cap, sizeof *index->classes,
                          FOLDERS_MAX);
    if (!code)
        code = index_text(index, name, NULL, &index->classes[index->class_count]);
    if (code)
        return limit_error(walk, code);
    index->class_count++;
    return 0;
}

static int add_node(struct walk *walk, uint64_t path, size_t parent, unsigned depth)
{
    if (depth > DEPTH_MAX) {
        struct shown root, below;
        return error_set(walk->err, LARDER_ELIMIT, "%s: folders more than %d levels deep at '%s'",
                         path_shown(walk->index->root, &root), DEPTH_MAX,
                         path_shown(walk->index->strings + path, &below));
    }
    int code = array_grow((void **)&walk->nodes, walk->node_count, &walk->node_cap, sizeof *walk->nodes, FOLDERS_MAX);
    if (code)
        return limit_error(walk, code);
    walk->nodes[walk->node_count++] = (struct node){.path = path, .parent = parent, .depth = depth};
    return 0;
}

static int class_entry(void *context, int dir_fd, const char *name, unsigned char type)
{
    struct walk *walk = context;
    struct stat st;
    bool looked;
    int interrupted = check_interrupted(walk);
    if (interrupted)
        return interrupted;
    if (is_folder(dir_fd, name, type, &st, &looked)) {
        char above[PATH_MAX];
        uint64_t path;
        const struct node *node = &walk->nodes[walk->current];
        unsigned depth = node->depth + 1;
        strcpy(above, walk->index->strings + node->path); /* it was opened by this name, so it fits */
        if (index_text(walk->index, above, name, &path))
            return limit_error(walk, LARDER_ENOMEM);
        return add_node(walk, path, walk->current, depth);
    }
    if (walk->every ? *name == '.' : !has_image_extension(name))
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
                               .mtime_ns = file_mtime_ns(&st)};
    }
    return 0;
}

/* Symbolic links that lead back to a folder above would be walked for ever. */
static int check_loop(const struct walk *walk, const struct node *node, const struct index_folder *folder)
{
    const struct index *index = walk->index;
    size_t above = 0; /* the root */
    for (const struct node *at = node;;) {
        bool top = at == &walk->nodes[at->parent];
        above = top ? 0 : walk->nodes[at->parent].folder;
        if (index->folders[above].device == folder->device && index->folders[above].inode == folder->inode)
            break;
        if (top)
            return 0;
        at = &walk->nodes[at->parent];
    }
    struct shown root, here;
    const char *target = index->strings + index->folders[above].path;
    return error_set(walk->err, LARDER_EINVAL,
                     "%s: a loop of symbolic links: '%s' leads back to %.150s, remove the link",
                     path_shown(index->root, &root), path_shown(index->strings + node->path, &here),
                     *target ? target : "the dataset's own folder");
}

static int add_folder(struct walk *walk, struct index_folder folder)
{
    struct index *index = walk->index;
    int code = array_grow((void **)&index->folders, index->folder_count, &index->folder_cap, sizeof folder,
                          FOLDERS_MAX);
    if (code)
        return limit_error(walk, code);
    index->folders[index->folder_count++] = folder;
    return 0;
}

static int list_node(struct walk *walk, size_t number)
{
    struct index_folder folder = {.path = walk->nodes[number].path};
    char path[PATH_MAX];
    const char *stored = walk->index->strings + folder.path;
    if (strlen(stored) >= sizeof path)
        return folder_error(walk, stored, ENAMETOOLONG);
    strcpy(path, stored); /* listing appends to the strings, which may move them */
    int fd = folder_open(walk->root_fd, path, &folder);
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
    return add_folder(walk, folder);
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

static int compare_classes(const void *a, const void *b, void *context)
{
    const char *strings = context;
    return text_compare(strings + *(const uint64_t *)a, strings + *(const uint64_t *)b);
}

static int add_sample(struct walk *walk, const char *folder, const struct found *file, int32_t label)
{
    struct index *index = walk->index;
    const char *name = walk->names.strings + file->name;
    if (strlen(index->root) + strlen(folder) + strlen(name) + 3 > PATH_MAX)
        return folder_error(walk, folder, ENAMETOOLONG);
    int code = array_grow((void **)&index->samples, index->sample_count, &index->sample_cap, sizeof *index->samples,
                          DATASET_SAMPLES_MAX);
    uint64_t key = 0;
    if (!code)
        code = index_text(index, folder, name, &key);
    if (code)
        return limit_error(walk, code);
    struct index_sample sample = {.key = key,
                                  .size = file->size,
                                  .mtime_ns = file->mtime_ns,
                                  .device = file->device,
                                  .inode = file->inode,
                                  .label = label,
                                  .flags = file->flags};
    if (file->flags & INDEX_UNREACHABLE) { /* no identity to share: its own path is what it is known by */
        const char *path = index->strings + key;
        sample.device = UINT64_MAX;
        sample.inode = XXH3_64bits_withSeed(path, strlen(path), XXH3_64bits(index->root, strlen(index->root)));
    }
    index->samples[index->sample_count++] = sample;
    return 0;
}

/* Puts the class's files, found folder by folder, into the dataset's order. */
static int add_class_samples(struct walk *walk, int32_t label)
{
    qsort_r(walk->nodes, walk->node_count, sizeof *walk->nodes, compare_nodes, walk->index->strings);
    for (size_t i = 0; i < walk->node_count; i++) {
        const struct node *node = &walk->nodes[i];
        struct found *files = walk->files + node->first_file;
        char folder[PATH_MAX];
        int interrupted = check_interrupted(walk);
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

static int walk_class(struct walk *walk, int32_t label)
{
    walk->node_count = walk->file_count = walk->names.strings_len_bytes = 0;
    int code = add_node(walk, walk->index->classes[label], 0, 1);
    for (size_t i = 0; !code && i < walk->node_count; i++)
        code = list_node(walk, i);
    if (code)
        return code;
    if (walk->file_count == 0) {
        struct shown name;
        size_t len = strlen(walk->empty);
        path_shown(walk->index->strings + walk->index->classes[label], &name);
        if (len + strlen(name.text) + 3 < sizeof walk->empty) {
            strcat(walk->empty, len ? ", " : "");
            strcat(walk->empty, name.text);
        }
        walk->empty_count++;
    }
    return add_class_samples(walk, label);
}

static int walk_root(struct walk *walk)
{
    struct index *index = walk->index;
    struct index_folder folder = {0};
    int code = index_text(index, "", NULL, &folder.path);
    if (code)
        return limit_error(walk, code);
    int fd = folder_open(walk->root_fd, "", &folder);
    if (fd < 0)
        return folder_error(walk, "", errno);
    code = folder_list(fd, root_entry, walk, &folder.listing);
    if (code)
        return code > 0 ? folder_error(walk, "", code) : code;
    struct shown root;
    if (index->class_count == 0)
        return error_set(walk->err, LARDER_EINVAL,
                         "%s: no class folders: expected one folder a class with its images inside, as CLASS/IMAGE.jpg",
                         path_shown(index->root, &root));
    qsort_r(index->classes, index->class_count, sizeof *index->classes, compare_classes, index->strings);
    code = add_folder(walk, folder);
    for (size_t label = 0; !code && label < index->class_count; label++)
        code = walk_class(walk, (int32_t)label);
    if (code)
        return code;
    if (index->sample_count == 0 && walk->every)
        return error_set(walk->err, LARDER_EINVAL, "%s: no file in any of its %zu class folders",
                         path_shown(index->root, &root), index->class_count);
    if (index->sample_count == 0)
        return error_set(walk->err, LARDER_EINVAL,
                         "%s: no image in any of its %zu class folders (extensions: " EXTENSIONS ")",
                         path_shown(index->root, &root), index->class_count);
    if (walk->empty_count)
        return error_set(walk->err, LARDER_EINVAL,
                         "%.120s: no %s for %zu of %zu classes: %s; remove the empty folders%s",
                         path_shown(index->root, &root), walk->every ? "file" : "image", walk->empty_count,
                         index->class_count, walk->empty, walk->every ? "" : " (extensions: " EXTENSIONS ")");
    return 0;
}

int tree_index(const char *root, bool every, const struct interrupt *interrupt, struct index *out, struct error *err)
{
    struct shown shown;
    struct index index = {.root = strdup(root)};
    struct walk walk = {.interrupt = interrupt, .index = &index, .err = err, .every = every, .root_fd = -1};
    if (!index.root)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    int code;
    walk.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (walk.root_fd < 0)
        code = error_set(err, errno == ENOTDIR ? LARDER_EINVAL : errno_code(errno), "%s: cannot open the folder: %s",
                         path_shown(root, &shown), strerror(errno));
    else
        code = walk_root(&walk);
    if (walk.root_fd >= 0)
        close(walk.root_fd);
    free(walk.nodes);
    free(walk.files);
    index_free(&walk.names);
    if (code)
        index_free(&index);
    else
        *out = index;
    return code;
}
