/* files.h: samples that are files of their own.
 *
 * Whether a sample's file is the one that was indexed. It is when device, inode, size and modification time are what
 * they were. On file systems that number their files anew now and then (medium_inodes_last) the inode is not compared.
 * Any thread may call these functions; they block where something differs. */
#ifndef LARDER_CACHE_SOURCE_FILES_H
#define LARDER_CACHE_SOURCE_FILES_H

#include <sys/stat.h>

#include "cache/source/source.h"

/* file_untouched tells whether a file is the one that was indexed, its change time included. */
bool file_untouched(const struct index *index, size_t number, const struct stat *st);
/* index_follow_mount replaces the root's device number by the present one, in a packed index that was kept, and says
 * whether they differ. */
bool index_follow_mount(struct index *index);

/* file_look fills in what a file is known by, of a sample that has its key and zeros. */
void file_look(int root_fd, struct index *index, size_t number);

/* Of a source of up to FILES_ALL_MAX files, all are looked at to see whether it has changed; of more, FILES_LOOKED_AT
 * that are drawn anew each time. */
#define FILES_ALL_MAX 1024
#define FILES_LOOKED_AT 256
/* files_unchanged says whether the files are those that were indexed, and none that was unreachable can be reached. It
 * returns false soon after the interrupt was set. It blocks. */
bool files_unchanged(const struct index *index, const struct interrupt *interrupt);

#define FILES_SHARES "with folders and lists of the same files" /* a source_kind's shares */

/* Functions of a source_kind. files_read reads a few files at once. */
uint32_t files_read(const struct source *source, struct sample_read *reads, uint32_t count, uint64_t until_ns);
int files_hash(const struct source *source, uint32_t index, const struct interrupt *interrupt, struct identity *out,
               struct error *err);
struct identity files_identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed);

#endif
