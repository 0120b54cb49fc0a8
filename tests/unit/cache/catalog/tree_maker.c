#include "tests/unit/cache/catalog/tree_maker.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/check.h"

void tree_new(char buf[TREE_NAME_MAX])
{
    const char *dir = getenv("TMPDIR");
    char name[PATH_MAX], resolved[PATH_MAX];
    snprintf(name, sizeof name, "%s/larder-test-XXXXXX", dir && *dir ? dir : "/tmp");
    CHECK(mkdtemp(name) && realpath(name, resolved) && strlen(resolved) < TREE_NAME_MAX);
    strcpy(buf, resolved);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st, (void)type, (void)where;
    return remove(path);
}

static int unlock_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)where;
    return type == FTW_D || type == FTW_DNR ? chmod(path, st->st_mode | 0700) : 0;
}

void tree_remove(const char *root)
{
    nftw(root, unlock_one, 16, FTW_PHYS);
    CHECK(nftw(root, remove_one, 16, FTW_PHYS | FTW_DEPTH) == 0);
}

static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        CHECK(mkdir(path, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
}

#define FORMAT_PATH(path, fmt)                                     \
    char path[PATH_MAX];                                           \
    do {                                                           \
        va_list args;                                              \
        va_start(args, fmt);                                       \
        CHECK(vsnprintf(path, sizeof path, fmt, args) < PATH_MAX); \
        va_end(args);                                              \
    } while (0)

void tree_folder(const char *fmt, ...)
{
    FORMAT_PATH(path, fmt);
    make_folders(path);
    CHECK(mkdir(path, 0755) == 0 || errno == EEXIST);
}

void tree_file(const char *content, const char *fmt, ...)
{
    FORMAT_PATH(path, fmt);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        make_folders(path);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    }
    CHECK(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content) && close(fd) == 0);
}

void tree_link(const char *target, const char *fmt, ...)
{
    FORMAT_PATH(path, fmt);
    make_folders(path);
    CHECK(symlink(target, path) == 0);
}

static int age_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st, (void)type, (void)where;
    time_t old = time(NULL) - 3600;
    struct timespec times[2] = {{.tv_sec = old}, {.tv_sec = old, .tv_nsec = 123456789}};
    return utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

void tree_age(const char *root)
{
    CHECK(nftw(root, age_one, 16, FTW_PHYS | FTW_DEPTH) == 0);
}
