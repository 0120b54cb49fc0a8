/* tree_folder.c: one folder of a tree: what is in it, and what tells whether it has changed. See tree_priv.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/source/tree_priv.h"

/* File systems stamp with a clock as coarse as 2 s (FAT); what is younger when it is listed may still be changing. */
#define FRESH_NS INT64_C(2000000000)

int folder_open(int root_fd, const char *path, struct index_folder *folder)
{
    int fd = openat(root_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    struct timespec now;
    struct stat st;
    clock_gettime(CLOCK_REALTIME, &now);
    if (fstat(fd, &st)) {
        int saved = errno;
        close(fd);
        errno = saved;
        return -1;
    }
    folder->device = st.st_dev;
    folder->inode = st.st_ino;
    folder->mtime_ns = file_mtime_ns(&st);
    int64_t now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    folder->flags = folder->mtime_ns > now_ns - FRESH_NS ? FOLDER_FRESH : 0;
    return fd;
}

int folder_list(int fd, folder_entry_fn *fn, void *context, uint64_t *listing)
{
    DIR *dir = fdopendir(fd);
    if (!dir) {
        int number = errno;
        close(fd);
        return number;
    }
    uint64_t sum = 0;
    int code = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            code = errno;
            break;
        }
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        sum += XXH3_64bits_withSeed(name, strlen(name), (uint64_t)entry->d_ino ^ (uint64_t)entry->d_type << 56);
        if (fn && (code = fn(context, dirfd(dir), name, entry->d_type)))
            break;
    }
    closedir(dir);
    if (!code)
        *listing = sum;
    return code;
}
