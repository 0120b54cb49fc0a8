/* tree.h: a class-per-folder tree, and whether its files still are those that were indexed. */
#ifndef LARDER_CACHE_SOURCE_TREE_H
#define LARDER_CACHE_SOURCE_TREE_H

#include <sys/stat.h>

#include "cache/source/index.h"
#include "common/error.h"
#include "common/interrupt.h"

/* tree_index walks a class-per-folder tree into an empty index. root is absolute and copied. With `every` all files are
 * samples, not images alone. It fails as catalog_open does, or with LARDER_EGONE soon after the interrupt was set. */
int tree_index(const char *root, bool every, const struct interrupt *interrupt, struct index *out, struct error *err);

/* tree_note_reachable finds out whether the tree had files that could not be looked at. */
void tree_note_reachable(struct index *index);
/* tree_unchanged says whether every folder still is as it was recorded, no unreachable file has become reachable,
 * and the files are those that were indexed. It looks at all of up to FILES_ALL_MAX files; of more, at
 * FILES_LOOKED_AT that are drawn anew each time. It clears FOLDER_FRESH where the folder's time proves something by
 * now; *settled says whether any was cleared. It returns false soon after the interrupt was set, whatever the tree is
 * like. */
bool tree_unchanged(const char *root, struct index *index, const struct interrupt *interrupt, bool *settled);
#define FILES_ALL_MAX 1024
#define FILES_LOOKED_AT 256

/* Whether a sample's file is the one that was indexed. It is when device, inode, size and modification time are what
 * they were. On file systems that number their files anew now and then (medium_inodes_last) the inode is not compared.
 * Any thread may call these functions; they block where something differs. */

/* file_unchanged compares all four values. */
bool file_unchanged(const struct index *index, size_t number, const struct stat *st);
/* file_unchanged_or_remounted does the same, but takes a new device number for the old one when another sample of
 * the old device has it too. Then the whole file system was mounted anew. */
bool file_unchanged_or_remounted(const struct index *index, size_t number, const struct stat *st);
/* index_follow_mount replaces the root's device number by the present one, and says whether they differ. */
bool index_follow_mount(struct index *index);

#endif
