/* file.h: whole files in and out, for this folder: interrupted and short calls are gone on with; -1 leaves errno
 * set. */
#ifndef LARDER_CACHE_FILE_H
#define LARDER_CACHE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/interrupt.h"

struct stat;

/* A path as messages show it: control characters and what is no UTF-8 replaced, the front cut off when it is long. */
struct shown {
    char text[224];
};
const char *path_shown(const char *path, struct shown *buf);

int errno_code(int number); /* the larder_err that fits an errno */
/* file_error: "path: cannot WHAT: why", of errno. Gives the code. */
int file_error(struct error *err, const char *path, const char *what);

int64_t file_mtime_ns(const struct stat *st); /* wraps around where the seconds are absurd */

/* file_read_at: where the file ends early that is -1 with errno 0. */
int file_read_at(int fd, void *buf, size_t len_bytes, uint64_t offset);
int file_write_at(int fd, const void *bytes, size_t len_bytes, uint64_t offset);

struct file_wanted {
    const char *path;
    uint64_t max_bytes;
    const struct interrupt *interrupt; /* may be NULL */
};

/* file_load gives the malloc'ed bytes of a regular file of at most max_bytes. LARDER_ENOENT, LARDER_EPERM, LARDER_EIO,
 * LARDER_ENOMEM, LARDER_EFORMAT (not a regular file, or too large), LARDER_EGONE (interrupted). */
int file_load(const struct file_wanted *wanted, uint8_t **bytes, size_t *len_bytes, struct error *err);
/* file_interrupted: LARDER_EGONE, with the text that goes with it. */
int file_interrupted(const char *path, struct error *err);

/* file_replace writes the file (mode: as for open) under a temporary name beside it (ending in FILE_TEMPORARY), syncs
 * it, renames it and syncs the folder: afterwards the file is there whole, or as it was before. */
#define FILE_TEMPORARY ".tmp"
int file_replace(const char *path, unsigned mode, const void *bytes, size_t len_bytes, struct error *err);
int folder_sync(const char *folder); /* makes renames in it last through a power cut; -1 with errno */

#endif
