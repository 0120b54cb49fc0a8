/* writer_log.c: the files of a writer's log. After a kill, what an open shard has counts up to its last whole sample.
 * After the machine itself went down only what was on the disk counts: the state says how much that is, and for which
 * start of the machine. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/writer_priv.h"
#include "common/clock.h"

#define ENDING ".tar"
#define OPEN ".tar.open"
#define STATE_BYTES 128
#define SYNC_BYTES ((uint64_t)64 << 20)
#define SYNC_NS (5 * CLOCK_NS_PER_S)
#define NAME_BYTES 64 /* of a file's name in the log */

static int retry_fsync(int fd)
{
    int rc;
    while ((rc = fsync(fd)) != 0 && errno == EINTR)
        ;
    return rc;
}

static int open_at(const struct writer_log *log, const char *name, int flags)
{
    int fd;
    while ((fd = openat(log->folder_fd, name, flags | O_CLOEXEC, 0644)) < 0 && errno == EINTR)
        ;
    return fd;
}

static int write_at(int fd, const uint8_t *data, size_t bytes, uint64_t at)
{
    while (bytes > 0) {
        ssize_t put = pwrite(fd, data, bytes, (off_t)at);
        if (put < 0 && errno != EINTR)
            return -1;
        data += put > 0 ? put : 0;
        bytes -= put > 0 ? (size_t)put : 0;
        at += put > 0 ? (uint64_t)put : 0;
    }
    return 0;
}

/* failed: errno says why. */
static int failed(const struct writer_log *log, struct error *err)
{
    bool full = errno == ENOSPC || errno == EDQUOT;
    return error_set(err, LARDER_EIO, "%s: %s: what was written before is kept: %s", log->path, strerror(errno),
                     full ? "make room, and go on" : "go on with another writer when that is mended");
}

static void state_name(const struct writer_log *log, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%06" PRIu32 ".state", log->writer);
}

static void shard_name(const struct writer_log *log, uint64_t first, const char *ending, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%06" PRIu32 "-%012" PRIu64 "%s", log->writer, first, ending);
}

/* boot_id returns an id of this start of the machine, or "-" if it has none. Then only what was synced counts. */
static void boot_id(char out[64])
{
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file || fscanf(file, "%63s", out) != 1)
        snprintf(out, 64, "-");
    if (file)
        fclose(file);
}

/* ── where an earlier writer stopped ── */

/* make_folder makes the log's folder and those above it. */
static int make_folder(const char *path)
{
    char part[PATH_MAX];
    size_t len = strlen(path);
    memcpy(part, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (part[i] != '/' && part[i] != 0)
            continue;
        part[i] = 0;
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
            return -1;
        part[i] = path[i];
    }
    return 0;
}

/* same_file: whether the name is still that of the open file. Who had the number before may have removed it. */
static bool same_file(const struct writer_log *log, const char *name)
{
    struct stat named, opened;
    return fstatat(log->folder_fd, name, &named, 0) == 0 && fstat(log->state_fd, &opened) == 0 &&
           named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

static int lock_number(struct writer_log *log, struct error *err)
{
    char name[NAME_BYTES];
    state_name(log, name);
    for (;;) {
        log->state_fd = open_at(log, name, O_RDWR | O_CREAT);
        if (log->state_fd < 0)
            return failed(log, err);
        while (flock(log->state_fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno == EWOULDBLOCK)
                return error_set(err, LARDER_EBUSY,
                                 "%s: writer %" PRIu32
                                 " is at work there: give each process a number of its own, options.writer",
                                 log->path, log->writer);
            if (errno != EINTR)
                return failed(log, err);
        }
        if (same_file(log, name))
            return 0;
        close(log->state_fd);
    }
}

/* find_last finds the writer's shard with the highest number. */
static int find_last(const struct writer_log *log, bool *found, bool *is_open, uint64_t *first)
{
    char name[NAME_BYTES];
    int fd = open_at(log, ".", O_RDONLY | O_DIRECTORY);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    *found = false;
    if (!dir) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    while ((errno = 0, entry = readdir(dir))) {
        uint32_t writer;
        uint64_t number;
        if (sscanf(entry->d_name, "%6" SCNu32 "-%12" SCNu64, &writer, &number) != 2 || writer != log->writer)
            continue;
        for (int open = 0; open < 2; open++) {
            shard_name(log, number, open ? OPEN : ENDING, name);
            if (strcmp(name, entry->d_name) != 0 || (*found && (number < *first || (number == *first && !open))))
                continue;
            *found = true;
            *is_open = open;
            *first = number;
        }
    }
    int why = errno;
    closedir(dir);
    errno = why;
    return why ? -1 : 0;
}

/* trusted returns how many bytes of the open shard count, of `size`. */
static int trusted(const struct writer_log *log, uint64_t first, uint64_t size, uint64_t *out)
{
    char text[STATE_BYTES + 1], boot[64], here[64], more[2];
    uint64_t of, synced;
    ssize_t got = pread(log->state_fd, text, STATE_BYTES, 0);
    if (got < 0)
        return -1;
    text[got] = 0;
    *out = 0;
    if (text[strspn(text, " \n")] == 0)
        *out = size; /* nothing was ever synced: it was killed at its very beginning */
    else if (sscanf(text, "%63s %" SCNu64 " %" SCNu64 " %1s", boot, &of, &synced, more) == 3 && of == first) {
        boot_id(here);
        bool same_start = strcmp(boot, here) == 0 && strcmp(here, "-") != 0;
        *out = same_start || size < synced ? size : synced;
    }
    return 0;
}

/* check_classes: whether a shard that begins so was written with this writer's classes. */
static int check_classes(const struct writer_log *log, int fd, struct error *err)
{
    uint8_t block[WRITER_BLOCK];
    uint8_t *start = log->classes ? malloc(log->classes_bytes) : block;
    if (!start)
        return error_set(err, LARDER_ENOMEM, "no memory for the names of classes");
    size_t wanted = log->classes ? log->classes_bytes : sizeof block;
    ssize_t got = pread(fd, start, wanted, 0);
    bool fits = log->classes ? got == (ssize_t)wanted && memcmp(start, log->classes, wanted) == 0
                             : got == (ssize_t)wanted && memcmp(start, WRITER_CLASSES, sizeof WRITER_CLASSES) != 0;
    if (log->classes)
        free(start);
    if (got < 0)
        return failed(log, err);
    return fits ? 0
                : error_set(err, LARDER_EINVAL,
                            "%s: writer %" PRIu32 " wrote with other classes: give the same ones, or remove the folder",
                            log->path, log->writer);
}

/* take_up goes on with a shard: an open one is cut behind what is whole. */
static int take_up(struct writer_log *log, int fd, uint64_t first, bool is_open, struct error *err)
{
    struct stat st;
    uint64_t end = 0, whole, samples;
    if (fstat(fd, &st) != 0)
        return failed(log, err);
    end = (uint64_t)st.st_size;
    if ((is_open && trusted(log, first, end, &end) != 0) || writer_whole(fd, end, &whole, &samples) != 0)
        return failed(log, err);
    int rc = whole ? check_classes(log, fd, err) : 0;
    if (rc)
        return rc;
    log->samples = first + samples;
    if (!is_open)
        return 0;
    log->first = first;
    log->bytes = whole;
    log->ragged = true; /* it is cut before anything else is written */
    return 0;
}

static int go_on(struct writer_log *log, struct error *err)
{
    char name[NAME_BYTES];
    bool found, is_open = false;
    uint64_t first = 0;
    if (find_last(log, &found, &is_open, &first) != 0)
        return failed(log, err);
    if (!found)
        return 0;
    shard_name(log, first, is_open ? OPEN : ENDING, name);
    int fd = open_at(log, name, is_open ? O_RDWR : O_RDONLY);
    if (fd < 0)
        return failed(log, err);
    int rc = take_up(log, fd, first, is_open, err);
    if (rc || !is_open) {
        close(fd);
        return rc;
    }
    log->fd = fd;
    return writer_log_sync(log, err);
}

int writer_log_open(struct writer_log *log, struct error *err)
{
    log->folder_fd = log->state_fd = log->fd = -1;
    if (make_folder(log->path) == 0)
        log->folder_fd = open(log->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (log->folder_fd < 0)
        return error_set(err, LARDER_EIO,
                         "%s: cannot write a log there: %s: choose a place that this user can write to", log->path,
                         strerror(errno));
    int rc = lock_number(log, err);
    return rc ? rc : go_on(log, err);
}

/* ── bytes ── */

/* smooth removes what a write that failed has left behind what counts. */
static int smooth(struct writer_log *log)
{
    int rc = 0;
    if (log->ragged) {
        while ((rc = ftruncate(log->fd, (off_t)log->bytes)) != 0 && errno == EINTR)
            ;
    }
    log->ragged = log->ragged && rc != 0;
    return rc;
}

static int append(struct writer_log *log, const uint8_t *data, size_t bytes)
{
    if (smooth(log) != 0)
        return -1;
    log->ragged = true;
    if (write_at(log->fd, data, bytes, log->bytes) != 0)
        return -1;
    log->ragged = false;
    log->bytes += bytes;
    return 0;
}

/* sync_shard puts the open shard on the disk, and then into the state that it is there. */
static int sync_shard(struct writer_log *log)
{
    char text[STATE_BYTES + 1], boot[64];
    if (smooth(log) != 0 || retry_fsync(log->fd) != 0)
        return -1;
    boot_id(boot);
    int len = snprintf(text, sizeof text, "%s %" PRIu64 " %" PRIu64, boot, log->first, log->bytes);
    memset(text + len, ' ', (size_t)(STATE_BYTES - 1 - len));
    text[STATE_BYTES - 1] = '\n';
    if (write_at(log->state_fd, (const uint8_t *)text, STATE_BYTES, 0) != 0 || retry_fsync(log->state_fd) != 0)
        return -1;
    log->synced = log->bytes;
    log->synced_ns = clock_now_ns();
    return 0;
}

static int begin_shard(struct writer_log *log)
{
    char name[NAME_BYTES];
    shard_name(log, log->samples, OPEN, name);
    log->fd = open_at(log, name, O_RDWR | O_CREAT | O_EXCL);
    if (log->fd < 0)
        return -1;
    log->first = log->samples;
    log->bytes = log->synced = log->synced_ns = 0; /* so where this sync fails, the next write does it again */
    return sync_shard(log) != 0 || retry_fsync(log->folder_fd) != 0 ? -1 : 0;
}

/* end_shard makes the open shard a whole one. Where that fails the shard stays open, without the zeros of its end. */
static int end_shard(struct writer_log *log)
{
    static const uint8_t zeros[2 * WRITER_BLOCK];
    char open_name[NAME_BYTES], name[NAME_BYTES];
    uint64_t bytes = log->bytes;
    shard_name(log, log->first, OPEN, open_name);
    shard_name(log, log->first, ENDING, name);
    if (log->samples == log->first) {
        if (unlinkat(log->folder_fd, open_name, 0) != 0)
            return -1;
    } else if (append(log, zeros, sizeof zeros) != 0 || retry_fsync(log->fd) != 0 ||
               renameat(log->folder_fd, open_name, log->folder_fd, name) != 0) {
        log->bytes = bytes;
        log->ragged = true;
        return -1;
    }
    close(log->fd);
    log->fd = -1;
    return retry_fsync(log->folder_fd);
}

int writer_log_write(struct writer_log *log, const uint8_t *data, size_t bytes, uint64_t samples, struct error *err)
{
    if (log->fd < 0 && begin_shard(log) != 0)
        return failed(log, err);
    if (log->bytes == 0 && append(log, log->classes, log->classes_bytes) != 0)
        return failed(log, err);
    if (append(log, data, bytes) != 0)
        return failed(log, err);
    log->samples += samples;
    if ((log->bytes - log->synced >= SYNC_BYTES || clock_now_ns() - log->synced_ns >= SYNC_NS) && sync_shard(log) != 0)
        return failed(log, err);
    return log->bytes >= log->shard_bytes && end_shard(log) != 0 ? failed(log, err) : 0;
}

int writer_log_sync(struct writer_log *log, struct error *err)
{
    if (log->fd < 0 || (log->synced == log->bytes && !log->ragged))
        return 0;
    return sync_shard(log) != 0 ? failed(log, err) : 0;
}

int writer_log_end(struct writer_log *log, struct error *err)
{
    char name[NAME_BYTES];
    state_name(log, name);
    if ((log->fd >= 0 && end_shard(log) != 0) || (unlinkat(log->folder_fd, name, 0) != 0 && errno != ENOENT))
        return failed(log, err);
    return 0;
}

void writer_log_leave(struct writer_log *log, bool own)
{
    if (log->state_fd >= 0 && own)
        flock(log->state_fd, LOCK_UN); /* whatever children still have it open */
    const int fds[] = {log->fd, log->state_fd, log->folder_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    log->fd = log->state_fd = log->folder_fd = -1;
}
