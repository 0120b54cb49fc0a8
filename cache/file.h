/* file.h: reads and writes whole files for this folder. Calls that were interrupted or short are continued. A function
 * that returns -1 leaves errno set. Any thread; they block on the disk. */
#ifndef LARDER_CACHE_FILE_H
#define LARDER_CACHE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/interrupt.h"

struct stat;

/* A path as messages show it. Control characters and what is no UTF-8 are replaced; of a long path the front is cut
 * off. */
struct shown {
    char text[224];
};
/* path_shown fills buf and returns its text, which lives as long as buf. */
const char *path_shown(const char *path, struct shown *buf);

int errno_code(int number); /* the enum larder_err that fits an errno */
/* file_error fills err from errno with "path: cannot WHAT: why" and returns the code. */
int file_error(struct error *err, const char *path, const char *what);

/* file_mtime_ns and file_ctime_ns return the times of modification and of change. They wrap around if the seconds are
 * absurd. */
int64_t file_mtime_ns(const struct stat *st);
int64_t file_ctime_ns(const struct stat *st);

/* file_read_at and file_write_at return 0 when all bytes were read or written, else -1. If the file ends early, reading
 * returns -1 with errno 0. */
int file_read_at(int fd, void *buf, size_t len_bytes, uint64_t offset);
int file_write_at(int fd, const void *bytes, size_t len_bytes, uint64_t offset);

/* file_others_write says whether others than this process's user and root may write to a file below a folder, or
 * exchange it. A link counts as others', for somebody may exchange what it leads to. So does what cannot be looked at;
 * what is not there is nobody's. */
bool file_others_write(const char *root, const char *name);

struct file_wanted {
    const char *path;
    uint64_t max_bytes;
    const struct interrupt *interrupt; /* may be NULL */
};

/* file_load returns the bytes of a regular file of at most max_bytes, in memory that the caller frees. LARDER_ENOENT,
 * LARDER_EPERM, LARDER_EIO, LARDER_ENOMEM, LARDER_EFORMAT (not a regular file, or too large), LARDER_EGONE
 * (interrupted). */
int file_load(const struct file_wanted *wanted, uint8_t **bytes, size_t *len_bytes, struct error *err);
/* file_interrupted fills err with the text of an interrupt and returns LARDER_EGONE. */
int file_interrupted(const char *path, struct error *err);

/* file_replace writes the file under a temporary name beside it, which ends in FILE_TEMPORARY. It syncs and renames it,
 * and syncs the folder. Afterwards the file is there whole, or as it was before. mode is as for open. */
#define FILE_TEMPORARY ".tmp"
int file_replace(const char *path, unsigned mode, const void *bytes, size_t len_bytes, struct error *err);
int folder_sync(const char *folder); /* makes renames in it last through a power cut; 0, or -1 with errno */

#endif
