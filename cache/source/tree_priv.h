/* tree_priv.h: what the files that read a class-per-folder tree share. tree.c reads the root and has the threads;
 * tree_class.c reads one class, tree_entry.c says what an entry of a folder is, tree_folder.c lists
 * one, tree_unchanged.c compares. */
#ifndef LARDER_CACHE_SOURCE_TREE_PRIV_H
#define LARDER_CACHE_SOURCE_TREE_PRIV_H

#include <sys/stat.h>

#include "cache/file.h"
#include "cache/source/files.h"
#include "cache/source/tree.h"

#define FLAT_CLASS "." /* the one class of a folder that has images and no folders: its own files */
#define IMAGE_EXTENSIONS ".jpg .jpeg .png .ppm .bmp .pgm .tif .tiff .webp"
#define SOUND_EXTENSIONS ".wav .wave .flac .ogg .oga .opus .mp3 .aiff .aif .aifc"

/* The tree that is read. Nothing in it changes while threads read its classes. */
struct tree {
    const struct interrupt *interrupt; /* may be NULL */
    const char *root;                  /* absolute path */
    int root_fd;
    enum sample_files files;
    struct index_folder folder; /* the root */
};

/* tree_entry.c: pure, or one stat. The errors name the tree and the folder below it. */

/* tree_extensions returns the ends of the names that samples have, in lower case; "": any. tree_noun returns what one
 * sample is called. */
const char *tree_extensions(const struct tree *tree);
const char *tree_noun(const struct tree *tree);
/* tree_is_sample says whether the name of a file is one of a sample's. */
bool tree_is_sample(const struct tree *tree, const char *name);
/* tree_is_folder says whether an entry is a folder, links followed; an entry that cannot be looked at is none. *st
 * holds its stat if *looked. */
bool tree_is_folder(int dir_fd, const char *name, unsigned char type, struct stat *st, bool *looked);
int tree_folder_error(const struct tree *tree, const char *path, int number, struct error *err);
int tree_limit_error(const struct tree *tree, int code, struct error *err);
int tree_check_interrupted(const struct tree *tree, struct error *err);

/* tree_folder.c */

/* folder_open opens a folder below the root ("" for the root itself). It records the folder's identity and time before
 * anything in it is read, so that whatever changes afterwards shows. It returns the fd, which the caller owns, or -1
 * with errno. */
int folder_open(int root_fd, const char *path, struct index_folder *folder);
/* folder_list calls this for each entry. dir_fd is the folder's. It returns 0, or a negative code that ends the
 * listing. */
typedef int folder_entry_fn(void *context, int dir_fd, const char *name, unsigned char type);
/* folder_list lists a folder and hashes what it lists into *listing. It takes fd over. fn may be NULL. It returns 0,
 * fn's negative code, or the positive errno of reading. */
int folder_list(int fd, folder_entry_fn *fn, void *context, uint64_t *listing);

/* tree_unchanged.c */

/* tree_unchanged says whether every folder still is as it was recorded, no unreachable file has become reachable,
 * and the files are those that were indexed. It clears FOLDER_FRESH where the folder's time proves something by
 * now; *settled says whether any was cleared. It returns false soon after the interrupt was set, whatever the tree is
 * like. */
bool tree_unchanged(struct source *source, const struct interrupt *interrupt, bool *settled);

/* tree_class.c */

/* Working memory for reading classes, which each class reuses. It belongs to one thread. Zeroed, it is empty. */
struct class_walk {
    const struct tree *tree;
    struct index *index; /* the index of the class that is read */
    struct error *err;
    size_t current; /* the node being listed */
    struct node *nodes;
    size_t node_count, node_cap;
    struct found *files;
    size_t file_count, file_cap;
    struct index names; /* only its strings */
};

/* class_walk_read reads the class folder of that name into an empty index: its folders and its samples in order, which
 * all get the label. It may be empty. On failure the caller frees what the index holds. It fails as catalog_open does,
 * or with LARDER_EGONE soon after the interrupt was set. */
int class_walk_read(struct class_walk *walk, const char *name, int32_t label, struct index *out, struct error *err);
void class_walk_free(struct class_walk *walk);

#endif
