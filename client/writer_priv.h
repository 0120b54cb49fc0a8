/* writer_priv.h: a writer's parts. writer.c has what a program calls, and holds samples until they are written;
 * writer_log.c has the files of the log; writer_tar.c has their bytes.
 *
 * A log is the folder DESTINATION.log. A writer, here or in the Python package, has these files there:
 *
 *     WWWWWW-NNNNNNNNNNNN.tar        whole: writer W's samples from its number N on
 *     WWWWWW-NNNNNNNNNNNN.tar.open   being written; it may end anywhere
 *     WWWWWW.state                   text: which start of the machine, N, and how many bytes of that open shard are on
 *                                    the disk; locked by the process that writes
 *
 * A shard's first member has the names of the classes, if there are any. A sample is its label, KEY.cls, if it has one,
 * and then its data: so it is whole where its data is, and a shard that ends anywhere is cut behind the last data. */
#ifndef LARDER_CLIENT_WRITER_PRIV_H
#define LARDER_CLIENT_WRITER_PRIV_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define WRITER_BLOCK 512
#define WRITER_KEY_MAX 4000
#define WRITER_MEMBER_MAX ((UINT64_C(1) << 33) - 1)                          /* bytes that a header has digits for */
#define WRITER_HEADER_MAX (2 * WRITER_BLOCK + WRITER_KEY_MAX + WRITER_BLOCK) /* with that of a long name */
#define WRITER_CLASSES "__classes__"

/* writer_padding returns how many zeros stand behind a member of so many bytes. */
static inline size_t writer_padding(uint64_t bytes)
{
    return (size_t)(-bytes % WRITER_BLOCK);
}

/* writer_header writes a member's header to `out` (WRITER_HEADER_MAX bytes) and returns its length. A name of more than
 * 100 bytes has a header of its own before it, as GNU tar writes it. name_len ≤ WRITER_KEY_MAX + 5, size ≤
 * WRITER_MEMBER_MAX. Pure. */
size_t writer_header(uint8_t *out, const char *name, size_t name_len, uint64_t size);

/* writer_key_stem returns how many bytes of a key are before the ending of an image file, the key's length without one,
 * and 0 if no sample may have that key. Pure. */
size_t writer_key_stem(const char *key);

/* writer_whole says how many bytes of a shard's beginning are whole, and how many samples lie there. `end` is how many
 * bytes of the file count. LARDER_EIO: errno says why it cannot be read. */
int writer_whole(int fd, uint64_t end, uint64_t *bytes, uint64_t *samples);

/* The files of one writer. */
struct writer_log {
    int folder_fd, state_fd, fd; /* -1: none; fd is of the open shard */
    uint32_t writer;
    uint64_t shard_bytes;       /* a shard is ended when it has this many bytes */
    uint64_t first;             /* number of the open shard's first sample */
    uint64_t samples;           /* number of samples that are in files */
    uint64_t bytes;             /* the open shard's bytes that count */
    uint64_t synced, synced_ns; /* how many of these bytes are on the disk, and since when */
    bool ragged;                /* a write has failed: there may be more bytes behind those that count */
    uint8_t *classes;           /* the first member of each shard; NULL: none */
    size_t classes_bytes;
    char path[PATH_MAX]; /* of the folder */
};

/* writer_log_open makes the folder, locks this writer's number, and finds where an earlier writer stopped: log->samples
 * are there. path, writer, shard_bytes and classes are set; the rest is 0. On failure writer_log_leave is due too. */
int writer_log_open(struct writer_log *log, struct error *err);
/* writer_log_write appends `samples` samples, all or none. If they were written but cannot be synced, or the shard
 * cannot be ended, it fails, and log->samples counts them all the same. */
int writer_log_write(struct writer_log *log, const uint8_t *data, size_t bytes, uint64_t samples, struct error *err);
/* writer_log_sync has all that was written on the disk when it returns 0. */
int writer_log_sync(struct writer_log *log, struct error *err);
/* writer_log_end makes the last shard a whole one and removes the state. Where it fails it may be called again. */
int writer_log_end(struct writer_log *log, struct error *err);
/* writer_log_leave closes the files, and unlocks them if `own`: not in a child of the process that opened them. */
void writer_log_leave(struct writer_log *log, bool own);

#endif
