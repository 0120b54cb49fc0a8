/* blobs.h: samples that lie in files with others: shards, and the files of a list of places. Each file is a blob of the
 * index. It is the one that was indexed when inode, size and modification time are what they were. On file systems that
 * number their files anew now and then (medium_inodes_last) the inode is not compared. */
#ifndef LARDER_CACHE_SOURCE_BLOBS_H
#define LARDER_CACHE_SOURCE_BLOBS_H

#include <sys/stat.h>

#include "cache/source/source.h"

/* blob_same says whether what stat told is the file that was indexed. It may block. */
bool blob_same(const struct source *source, uint32_t blob, const struct stat *st);
/* blob_untouched is blob_same, and says whether the change time is what it was, too. A blob in which no sample lies
 * has none. It may block. */
bool blob_untouched(const struct source *source, uint32_t blob, const struct stat *st);
/* blob_identity is that of a sample which lies in a blob, at its place in it. Samples of shards and of lists of places
 * that are the same range of the same file have the same one, if the list has no CRC-32 of it. Pure. */
struct identity blob_identity(const struct source *source, uint32_t index, uint32_t blob, uint64_t apart,
                              uint64_t seed);
/* blob_error says what is wrong with a sample, and where it lies. LARDER_ECHANGED also marks the
 * source as changed. It returns the code. */
int blob_error(const struct source *source, uint32_t index, int code, const char *what, struct error *err);
/* blob_failed does what a kind's `failed` does, but for READ_UNREACHED. */
int blob_failed(const struct source *source, uint32_t index, int why, struct error *err);

/* A source_kind's shares. */
#define BLOBS_SHARES "with shards and lists of places in the same files, where a sample is known by its place"

/* blob_check_content ends a kind's check: it says whether the bytes of a sample, as it is delivered, are those that it
 * is known by, if it is known by its bytes (origins.h). It may block where they are not. */
int blob_check_content(const struct source *source, uint32_t index, const void *bytes, struct error *err);

/* Functions of a source_kind. */
const char *blobs_name(const struct source *source, uint32_t blob, char buf[BLOB_NAME_MAX]);
bool blobs_is(const struct source *source, uint32_t blob, int fd);

#endif
