/* away.c: opens the files of a source, and tells a file that is gone from a source that is away: a folder that
 * does not answer, a mount that is not there, the target's folder of a link. Any thread; blocks. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/catalog/catalog_priv.h"

enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK }; /* never waits for a pipe's other end */

/* root_is_there tells whether the root is the folder that was indexed, and not an empty mount point. It compares
 * inodes, since a device gets another number when it is mounted again. */
static bool root_is_there(const struct index *index)
{
    struct stat st;
    return stat(index->root, &st) == 0 && S_ISDIR(st.st_mode) &&
           (index->folder_count == 0 || st.st_ino == index->folders[0].inode || !inodes_last(index->root));
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
static int open_in_folder(const struct index *index, char path[PATH_MAX], bool *away)
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
        *away = target_is_away(folder, slash + 1) || !root_is_there(index);
    close(folder);
    errno = number;
    return fd;
}

int source_open(const struct index *index, const char *name, bool *away)
{
    char path[PATH_MAX];
    *away = false;
    if (snprintf(path, sizeof path, "%s/%s", index->root, name) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd;
    do {
        fd = open(path, OPEN_FLAGS);
    } while (fd < 0 && errno == EINTR);
    if (fd >= 0 || (errno != ENOENT && errno != ENOTDIR))
        return fd;
    return open_in_folder(index, path, away);
}
