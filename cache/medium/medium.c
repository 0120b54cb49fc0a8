/* medium.c: opens files, and tells a file that is gone from a folder that is away: one that does not answer, a mount
 * that is not there, the target's folder of a link. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "cache/medium/medium.h"
#include "common/aside.h"

/* Only newer releases of <linux/magic.h> have these. */
#define EXFAT_MAGIC 0x2011BAB0u
#define CIFS_MAGIC 0xFF534D42u
#define SMB_MAGIC 0xFE534D42u

#define MOUNT_LINE_BYTES 16384

enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK }; /* never waits for a pipe's other end */

bool medium_inodes_last(const char *path)
{
    struct statfs fs;
    if (statfs(path, &fs))
        return true;
    uint32_t type = (uint32_t)fs.f_type;
    return type != FUSE_SUPER_MAGIC && type != MSDOS_SUPER_MAGIC && type != EXFAT_MAGIC && type != CIFS_MAGIC &&
           type != SMB_MAGIC;
}

static bool lies_below(const char *path, const char *folder)
{
    size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == '/' || path[len] == '\0' || strcmp(folder, "/") == 0);
}

static bool leads_over_link(const char *path)
{
    char part[PATH_MAX];
    struct stat st;
    if (snprintf(part, sizeof part, "%s/", path) >= (int)sizeof part)
        return true;
    for (char *slash = part + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        if (lstat(part, &st) == 0 && S_ISLNK(st.st_mode))
            return true;
    }
    return false;
}

bool medium_is_local(const char *path)
{
    char line[MOUNT_LINE_BYTES];
    struct mntent entry;
    size_t longest = 0;
    bool local = false;
    FILE *mounts = setmntent("/proc/self/mounts", "re");
    while (mounts && getmntent_r(mounts, &entry, line, sizeof line)) {
        size_t len = strlen(entry.mnt_dir);
        if (len < longest || !lies_below(path, entry.mnt_dir))
            continue;
        longest = len; /* of two at one place the later one lies above */
        local = strcmp(entry.mnt_type, "ext4") == 0 || strcmp(entry.mnt_type, "xfs") == 0 ||
                strcmp(entry.mnt_type, "btrfs") == 0;
    }
    if (mounts)
        endmntent(mounts);
    return local && !leads_over_link(path);
}

uint64_t medium_device(const char *root)
{
    struct stat st;
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd >= 0 ? fstat(fd, &st) : stat(root, &st);
    if (fd >= 0)
        close(fd);
    return rc == 0 ? st.st_dev : 0;
}

/* root_is_there tells whether the root is the folder that was indexed, and not an empty mount point. It compares
 * inodes, since a device gets another number when it is mounted again. */
static bool root_is_there(const struct medium *medium)
{
    struct stat st;
    return stat(medium->root, &st) == 0 && S_ISDIR(st.st_mode) &&
           (!medium->inode || st.st_ino == medium->inode || !medium_inodes_last(medium->root));
}

/* Is the name a link whose target's folder is away? */
static bool target_is_away(int folder, const char *name)
{
    char target[PATH_MAX];
    struct stat st;
    ssize_t len = readlinkat(folder, name, target, sizeof target - 1);
    if (len < 0)
        return false;
    target[len] = '\0';
    char *slash = strrchr(target, '/');
    if (!slash || slash == target)
        return false;
    *slash = '\0';
    return fstatat(folder, target, &st, 0) != 0 || !S_ISDIR(st.st_mode);
}

/* Looks into the folder itself, held open: it may have been away for the moment in which its file was asked for. */
static int open_in_folder(const struct medium *medium, char path[PATH_MAX], bool *away)
{
    char *slash = strrchr(path, '/');
    *slash = '\0';
    int folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *slash = '/';
    *away = folder < 0 && (errno == ENOENT || errno == ENOTDIR);
    if (folder < 0)
        return -1;
    int fd;
    do {
        fd = openat(folder, slash + 1, OPEN_FLAGS);
    } while (fd < 0 && errno == EINTR);
    int number = errno;
    if (fd < 0 && (number == ENOENT || number == ENOTDIR))
        *away = target_is_away(folder, slash + 1) || !root_is_there(medium);
    close(folder);
    errno = number;
    return fd;
}

int medium_open(const struct medium *medium, const char *name, bool *away)
{
    char path[PATH_MAX];
    *away = false;
    if (snprintf(path, sizeof path, "%s/%s", medium->root, name) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd;
    do {
        fd = open(path, OPEN_FLAGS);
    } while (fd < 0 && errno == EINTR);
    if (fd >= 0 || (errno != ENOENT && errno != ENOTDIR))
        return fd;
    return open_in_folder(medium, path, away);
}

int medium_read_parts(int fd, struct iovec *parts, int count, uint64_t offset)
{
    struct iovec *part = parts;
    int left = count;
    while (left) {
        ssize_t got = preadv(fd, part, left, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        offset += (uint64_t)got;
        for (; left && (size_t)got >= part->iov_len; left--)
            got -= (ssize_t)part++->iov_len;
        if (left) {
            part->iov_base = (char *)part->iov_base + got;
            part->iov_len -= (size_t)got;
        }
    }
    return 0;
}

bool medium_reads_ahead(const struct medium *medium)
{
    return !medium->device || !aside_suits(medium->device);
}

void medium_run(const struct medium *medium, void (*fn)(void *context), void *context)
{
    if (medium->device && aside_suits(medium->device))
        aside_run(fn, context);
    else
        fn(context);
}
