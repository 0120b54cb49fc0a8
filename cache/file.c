/* file.c: see file.h. Any thread; everything blocks. */
#include "cache/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/utf8.h"
#include "common/vast.h"

#define LOAD_PIECE_BYTES ((size_t)4 << 20)

const char *path_shown(const char *path, struct shown *buf)
{
    size_t len = strlen(path), room = sizeof buf->text - 1;
    size_t used = 0;
    if (len > room) {
        memcpy(buf->text, "...", 3);
        used = 3;
        path += len - (room - 3);
    }
    while (*path) {
        size_t len_bytes = utf8_length((const unsigned char *)path);
        if (len_bytes > 1 || (len_bytes == 1 && *path >= ' ' && *path != 0x7f)) {
            memcpy(buf->text + used, path, len_bytes);
        } else {
            len_bytes = 1;
            buf->text[used] = '?';
        }
        used += len_bytes;
        path += len_bytes;
    }
    buf->text[used] = '\0';
    return buf->text;
}

int errno_code(int number)
{
    switch (number) {
    case ENOENT:
    case ENOTDIR:
    case ENAMETOOLONG: return LARDER_ENOENT;
    case EACCES:
    case EPERM: return LARDER_EPERM;
    case ENOMEM: return LARDER_ENOMEM;
    case EMFILE:
    case ENFILE: return LARDER_ELIMIT;
    default: return LARDER_EIO;
    }
}

int file_error(struct error *err, const char *path, const char *what)
{
    struct shown shown;
    int number = errno;
    return error_set(err, errno_code(number), "%s: cannot %s: %s", path_shown(path, &shown), what,
                     number ? strerror(number) : "it ends too early");
}

static int64_t time_ns(const struct timespec *time)
{
    return (int64_t)((uint64_t)time->tv_sec * 1000000000 + (uint64_t)time->tv_nsec);
}

int64_t file_mtime_ns(const struct stat *st)
{
    return time_ns(&st->st_mtim);
}

int64_t file_ctime_ns(const struct stat *st)
{
    return time_ns(&st->st_ctim);
}

int file_read_at(int fd, void *buf, size_t len_bytes, uint64_t offset)
{
    for (size_t done = 0; done < len_bytes;) {
        ssize_t got = pread(fd, (char *)buf + done, len_bytes - done, (off_t)(offset + done));
        if (got > 0) {
            done += (size_t)got;
        } else if (got == 0) {
            errno = 0;
            return -1;
        } else if (errno != EINTR) {
            return -1;
        }
    }
    return 0;
}

int file_write_at(int fd, const void *bytes, size_t len_bytes, uint64_t offset)
{
    for (size_t done = 0; done < len_bytes;) {
        ssize_t put = pwrite(fd, (const char *)bytes + done, len_bytes - done, (off_t)(offset + done));
        if (put < 0 && errno != EINTR)
            return -1;
        done += put > 0 ? (size_t)put : 0;
    }
    return 0;
}

int file_interrupted(const char *path, struct error *err)
{
    struct shown shown;
    return error_set(err, LARDER_EGONE,
                     "%s: reading it was interrupted: the daemon is stopping, or nobody waits for it",
                     path_shown(path, &shown));
}

/* In pieces, so that it can be interrupted on slow storage. */
static int load_pieces(const struct file_wanted *wanted, int fd, uint8_t *buf, size_t len_bytes, struct error *err)
{
    for (size_t done = 0, piece; done < len_bytes; done += piece) {
        piece = len_bytes - done < LOAD_PIECE_BYTES ? len_bytes - done : LOAD_PIECE_BYTES;
        if (interrupt_is_set(wanted->interrupt))
            return file_interrupted(wanted->path, err);
        if (file_read_at(fd, buf + done, piece, done))
            return file_error(err, wanted->path, "read it");
    }
    return 0;
}

int file_load(const struct file_wanted *wanted, uint8_t **bytes, size_t *len_bytes, struct error *err)
{
    const char *path = wanted->path;
    struct shown shown;
    struct stat st;
    uint8_t *buf = NULL;
    int code = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return file_error(err, path, "open it");
    if (fstat(fd, &st))
        code = file_error(err, path, "look at it");
    else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > wanted->max_bytes)
        code = error_set(err, LARDER_EFORMAT, "%s: not a regular file, or too large", path_shown(path, &shown));
    else if (!(buf = vast_malloc((size_t)st.st_size + 1)))
        code = error_set(err, LARDER_ENOMEM, "%s: out of memory for %lld bytes", path_shown(path, &shown),
                         (long long)st.st_size);
    else
        code = load_pieces(wanted, fd, buf, (size_t)st.st_size, err);
    close(fd);
    if (code) {
        free(buf);
        return code;
    }
    *bytes = buf;
    *len_bytes = (size_t)st.st_size;
    return 0;
}

int folder_sync(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int rc = fsync(fd), number = errno;
    close(fd);
    errno = number;
    return rc;
}

static int sync_parent(const char *path)
{
    char *folder = strdup(path);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash)
        *slash = '\0';
    int rc = folder ? folder_sync(slash ? slash == folder ? "/" : folder : ".") : -1;
    free(folder);
    return rc;
}

int file_replace(const char *path, unsigned mode, const void *bytes, size_t len_bytes, struct error *err)
{
    static atomic_uint names; /* so that two threads of one process do not meet; other processes have another pid */
    char *name = NULL;
    if (asprintf(&name, "%s.%ld-%u" FILE_TEMPORARY, path, (long)getpid(), atomic_fetch_add(&names, 1)) < 0)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    int code = 0;
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0) {
        code = file_error(err, name, "make it");
    } else {
        if (file_write_at(fd, bytes, len_bytes, 0) || fsync(fd))
            code = file_error(err, name, "write it");
        else if (rename(name, path))
            code = file_error(err, name, "rename it");
        else if (sync_parent(path))
            code = file_error(err, path, "sync its folder");
        close(fd);
        if (code)
            unlink(name);
    }
    free(name);
    return code;
}

bool file_others_write(const char *root, const char *name)
{
    char path[PATH_MAX];
    struct stat st;
    int len = snprintf(path, sizeof path, "%s/%s", root, name);
    if (len <= 0 || len >= PATH_MAX)
        return true;
    if (lstat(path, &st))
        return errno != ENOENT;
    return (st.st_uid != geteuid() && st.st_uid != 0) || st.st_mode & (S_IWGRP | S_IWOTH) || S_ISLNK(st.st_mode);
}
