/* folder.c: a class's folder: whether it is one, its lock, its seed and size. `class` is a text of four lines. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/file.h"
#include "cache/tier/tier_priv.h"
#include "common/clock.h"
#include "common/random.h"

#define CLASS_NAME "class"
#define CLASS_TITLE "larder storage class"
#define CLASS_BYTES_MAX 256

static const char class_format[] = CLASS_TITLE "\nversion %u\nseed %016" PRIx64 "\nsize %" PRIu64 "\n";

static int fail(const char *path, int code, const char *what, struct error *err)
{
    struct shown shown;
    return error_set(err, code, "%s: %s", path_shown(path, &shown), what);
}

static int parse_class(const char *path, const char *text, struct folder *folder, struct error *err)
{
    unsigned version = 0;
    if (sscanf(text, CLASS_TITLE "\nversion %u", &version) != 1)
        return fail(path, LARDER_EINVAL, "its file `class` is not a storage class's: give another folder", err);
    if (version != TIER_VERSION)
        return error_set(err, LARDER_EVERSION,
                         "%s: a storage class of version %u, and this is version %u: remove its files, or give "
                         "another folder",
                         path, version, TIER_VERSION);
    int end = 0;
    if (sscanf(text, CLASS_TITLE "\nversion %u\nseed %16" SCNx64 "\nsize %" SCNu64 "%n", &version, &folder->seed,
               &folder->size_bytes, &end) != 3 ||
        strcmp(text + end, "\n") != 0)
        return fail(path, LARDER_EFORMAT, "its file `class` is damaged: remove the folder's files, or give another one",
                    err);
    return 0;
}

int folder_read_class(const char *path, int dir_fd, struct folder *out, struct error *err)
{
    char text[CLASS_BYTES_MAX + 1];
    int fd = openat(dir_fd, CLASS_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT)
        return fail(path, LARDER_EINVAL, "no storage class is there", err);
    ssize_t got = fd < 0 ? -1 : read(fd, text, CLASS_BYTES_MAX);
    int number = errno;
    if (fd >= 0)
        close(fd);
    errno = number;
    if (got < 0)
        return file_error(err, path, "read its file `class`");
    text[got] = '\0';
    return parse_class(path, text, out, err);
}

static uint64_t make_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
        return seed;
    return random_mix64(clock_now_ns() ^ random_mix64((uint64_t)getpid()));
}

static int write_class(const char *path, const struct folder *folder, struct error *err)
{
    char text[CLASS_BYTES_MAX], name[PATH_MAX];
    int len = snprintf(text, sizeof text, class_format, TIER_VERSION, folder->seed, folder->size_bytes);
    if (snprintf(name, sizeof name, "%s/" CLASS_NAME, path) >= (int)sizeof name)
        return fail(path, LARDER_EINVAL, "the path is too long", err);
    return file_replace(name, 0600, text, (size_t)len, err);
}

/* Whoever was killed while it made a class leaves a lock and perhaps a temporary file. */
static bool is_bare(int dir_fd)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    bool bare = dir != NULL;
    if (!dir && fd >= 0)
        close(fd);
    for (struct dirent *entry; dir && bare && (entry = readdir(dir));) {
        size_t len = strlen(entry->d_name);
        bare = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
               strcmp(entry->d_name, "lock") == 0 || strcmp(entry->d_name, "lost+found") == 0 ||
               (len > 4 && strcmp(entry->d_name + len - 4, FILE_TEMPORARY) == 0);
    }
    if (dir)
        closedir(dir);
    return bare;
}

static int take_lock(const char *path, struct folder *folder, struct error *err)
{
    folder->lock_fd = openat(folder->dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (folder->lock_fd < 0)
        return file_error(err, path, "make its file `lock`");
    if (flock(folder->lock_fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno == EWOULDBLOCK)
        return fail(path, LARDER_EBUSY, "another daemon uses this storage class: give each daemon a folder of its own",
                    err);
    return file_error(err, path, "lock it");
}

bool folder_is_locked(int dir_fd)
{
    int fd = openat(dir_fd, "lock", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

static bool is_described(int dir_fd)
{
    return faccessat(dir_fd, CLASS_NAME, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* describe reads the class's description, or makes it. */
static int describe(const char *path, uint64_t size_bytes, struct folder *folder, struct error *err)
{
    if (size_bytes == 0)
        return 0;
    if (is_described(folder->dir_fd)) {
        int code = folder_read_class(path, folder->dir_fd, folder, err);
        if (code || folder->size_bytes == size_bytes)
            return code;
    } else {
        folder->seed = make_seed();
    }
    folder->size_bytes = size_bytes;
    return write_class(path, folder, err);
}

/* is_trusted tells whether nobody but this user and root can put files into the folder. */
static bool is_trusted(int dir_fd)
{
    struct stat st;
    return fstat(dir_fd, &st) == 0 && (st.st_uid == geteuid() || st.st_uid == 0) && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

/* recognise refuses a folder that is something else before anything is made in it. */
static int recognise(const char *path, uint64_t size_bytes, struct folder *folder, struct error *err)
{
    if (size_bytes && !is_described(folder->dir_fd))
        return is_bare(folder->dir_fd)
                   ? 0
                   : fail(path, LARDER_EINVAL, "is neither empty nor a storage class: give an empty folder", err);
    return folder_read_class(path, folder->dir_fd, folder, err);
}

int folder_open_class(const char *path, uint64_t size_bytes, struct folder *out, struct error *err)
{
    struct folder folder = {.dir_fd = -1, .lock_fd = -1};
    if (size_bytes && mkdir(path, 0700) && errno != EEXIST)
        return file_error(err, path, "make the folder");
    folder.dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder.dir_fd < 0)
        return file_error(err, path, "open it");
    int code = recognise(path, size_bytes, &folder, err);
    if (!code && size_bytes && !is_trusted(folder.dir_fd))
        code = fail(path, LARDER_EINVAL,
                    "others could change what samples are: a storage class needs a folder of the daemon's own user "
                    "that nobody else may write to (chmod go-w, chown)",
                    err);
    if (!code)
        code = take_lock(path, &folder, err);
    if (!code)
        code = describe(path, size_bytes, &folder, err);
    if (code) {
        folder_close(&folder);
        return code;
    }
    *out = folder;
    return 0;
}

void folder_close(struct folder *folder)
{
    if (folder->lock_fd >= 0)
        close(folder->lock_fd);
    if (folder->dir_fd >= 0)
        close(folder->dir_fd);
    folder->dir_fd = folder->lock_fd = -1;
}
