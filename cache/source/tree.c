/* tree.c: reads a class-per-folder tree.
 *
 * The order is ImageFolder's: classes sorted; within a class every folder below it, sorted by whole path as os.walk's
 * results are (so "a-b" stands before "a/c"); within a folder the file names, sorted. A root that has images and no
 * folders is a flat tree: its files are of one class, FLAT_CLASS.
 *
 * The root's folders are listed first. Then a few threads, the caller's among them, take the classes in their order and
 * read each into an index of its own, its part. The parts are joined when all threads have ended. Whatever fails ends
 * the walk. All classes before one that was taken have been taken as well, so the error of the first class that fails
 * is the one that a single thread would have met. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/source/tree_priv.h"
#include "common/aside.h"
#include "common/thread.h"

#define THREADS_LEAST 4 /* but one a class at most: a disk or a server answers several at once */
#define THREADS_MOST 16

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
                          FOLDERS_MAX);
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

static int walk_root(struct tree *tree, struct index *index, struct error *err)
{
    struct root_walk walk = {.tree = tree, .index = index, .err = err};
    struct shown root;
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
        return error_set(err, LARDER_EINVAL,
                         "%s: no image and no class folders: expected one folder a class with its images inside, as "
                         "CLASS/IMAGE.jpg, or images alone (extensions: " EXTENSIONS ")",
                         path_shown(tree->root, &root));
    qsort_r(index->classes, index->class_count, sizeof *index->classes, compare_classes, index->strings);
    return 0;
}

/* ── the classes ── */

struct crew {
    const struct tree *tree;
    const struct index *index; /* has the names of the classes */
    struct index *parts;       /* one a class; belongs to the thread that took the class, until that has ended */
    atomic_size_t next;        /* the class that is taken next; relaxed, since nothing is handed over with it */
    atomic_bool failed;        /* relaxed, as above */
};

struct crew_member {
    struct crew *crew;
    pthread_t thread;
    size_t label; /* the class that failed */
    struct error err;
};

static void read_some(void *arg)
{
    struct crew_member *member = arg;
    struct crew *crew = member->crew;
    struct class_walk walk = {.tree = crew->tree};
    while (!member->err.code && !atomic_load_explicit(&crew->failed, memory_order_relaxed)) {
        size_t label = atomic_fetch_add_explicit(&crew->next, 1, memory_order_relaxed);
        if (label >= crew->index->class_count)
            break;
        const char *name = crew->index->strings + crew->index->classes[label];
        member->label = label;
        if (class_walk_read(&walk, name, (int32_t)label, &crew->parts[label], &member->err))
            atomic_store_explicit(&crew->failed, true, memory_order_relaxed);
    }
    class_walk_free(&walk);
}

static void *read_classes(void *arg)
{
    const struct crew_member *member = arg;
    if (aside_suits(member->crew->tree->folder.device))
        aside_run(read_some, arg);
    else
        read_some(arg);
    return NULL;
}

static size_t threads_wanted(size_t classes)
{
    cpu_set_t set;
    size_t cores = sched_getaffinity(0, sizeof set, &set) ? 1 : (size_t)CPU_COUNT(&set);
    size_t wanted = cores < THREADS_LEAST ? THREADS_LEAST : cores > THREADS_MOST ? THREADS_MOST : cores;
    return wanted < classes ? wanted : classes;
}

/* Reads every class into its part. */
static int walk_classes(const struct tree *tree, const struct index *index, struct index *parts, struct error *err)
{
    struct crew crew = {.tree = tree, .index = index, .parts = parts};
    struct crew_member members[THREADS_MOST] = {{.crew = &crew}};
    const struct crew_member *first = NULL;
    size_t wanted = threads_wanted(index->class_count), started = 1;
    for (; started < wanted; started++) { /* fewer threads do as well */
        members[started].crew = &crew;
        if (thread_start(&members[started].thread, "catalog", read_classes, &members[started]))
            break;
    }
    read_classes(&members[0]);
    for (size_t i = 1; i < started; i++)
        pthread_join(members[i].thread, NULL);
    for (size_t i = 0; i < started; i++) {
        if (members[i].err.code && (!first || members[i].label < first->label))
            first = &members[i];
    }
    return first ? error_set(err, first->err.code, "%s", first->err.text) : 0;
}

/* ── the whole ── */

/* Room for all that the parts hold. */
static int make_room(struct index *index, const struct index *parts)
{
    size_t strings = index->strings_len_bytes, folders = 1, samples = 0;
    for (size_t label = 0; label < index->class_count; label++) {
        strings += parts[label].strings_len_bytes;
        folders += parts[label].folder_count;
        samples += parts[label].sample_count;
        if (folders > FOLDERS_MAX || samples > DATASET_SAMPLES_MAX)
            return LARDER_ELIMIT;
    }
    char *grown = realloc(index->strings, strings);
    if (grown) {
        index->strings = grown;
        index->strings_cap_bytes = strings;
    }
    index->folders = malloc(folders * sizeof *index->folders);
    index->samples = malloc((samples + 1) * sizeof *index->samples); /* never of no bytes */
    index->folder_cap = folders;
    index->sample_cap = samples;
    return grown && index->folders && index->samples ? 0 : LARDER_ENOMEM;
}

/* Appends a part, for which there is room, and empties it. */
static void append(struct index *index, struct index *part)
{
    size_t shift = index->strings_len_bytes;
    memcpy(index->strings + shift, part->strings, part->strings_len_bytes);
    index->strings_len_bytes += part->strings_len_bytes;
    for (size_t i = 0; i < part->folder_count; i++) {
        struct index_folder *folder = &index->folders[index->folder_count++];
        *folder = part->folders[i];
        folder->path += shift;
    }
    for (size_t i = 0; i < part->sample_count; i++) {
        struct index_sample *sample = &index->samples[index->sample_count++];
        *sample = part->samples[i];
        sample->key += shift;
    }
    index_free(part);
}

/* The error of a tree that lacks files. Labels would not be what they seem if classes without any were passed over. */
static int check_empty(const struct tree *tree, const struct index *index, const struct index *parts, struct error *err)
{
    char empty[256] = ""; /* the first of them */
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
    if (count == index->class_count && tree->every)
        return error_set(err, LARDER_EINVAL, "%s: no file in any of its %zu class folders", shown.text, count);
    if (count == index->class_count)
        return error_set(err, LARDER_EINVAL,
                         "%s: no image in any of its %zu class folders (extensions: " EXTENSIONS ")", shown.text,
                         count);
    return error_set(err, LARDER_EINVAL, "%.120s: no %s for %zu of %zu classes: %s; remove the empty folders%s",
                     shown.text, tree->every ? "file" : "image", count, index->class_count, empty,
                     tree->every ? "" : " (extensions: " EXTENSIONS ")");
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
        code = make_room(index, parts);
        if (code)
            tree_limit_error(tree, code, err);
    }
    if (!code)
        index->folders[index->folder_count++] = tree->folder;
    for (size_t label = 0; label < index->class_count; label++) {
        if (code)
            index_free(&parts[label]);
        else
            append(index, &parts[label]);
    }
    free(parts);
    return code;
}

static int open_tree(const struct source_wish *wish, struct index *index, struct error *err)
{
    struct shown shown;
    struct tree tree = {.interrupt = wish->interrupt, .root = wish->path, .every = wish->every_file};
    index->root = strdup(wish->path);
    if (!index->root)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    tree.root_fd = open(wish->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (tree.root_fd < 0)
        return error_set(err, errno == ENOTDIR ? LARDER_EINVAL : errno_code(errno), "%s: cannot open the folder: %s",
                         path_shown(wish->path, &shown), strerror(errno));
    int code = walk_tree(&tree, index, err);
    close(tree.root_fd);
    return code;
}

/* What follows from the index alone. */
static void complete(struct source *source)
{
    const struct index_folder *root = &source->index.folders[0];
    tree_note_reachable(&source->index);
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
    .bytes = sizeof(struct source),
    .index = index_tree,
    .restore = restore,
    .unchanged = tree_unchanged,
    .read = files_read,
    .hash = files_hash,
    .identity = files_identity,
};
