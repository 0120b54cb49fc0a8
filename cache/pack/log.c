/* log.c: see log.h. */
#include "cache/pack/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/file.h"
#include "cache/store/format.h"
#include "common/larder_err.h"

#define LOG ".log"
#define PACKED ".log.packed" /* its name while it is removed */

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);
    return len > end_len && strcmp(name + len - end_len, end) == 0;
}

static int beside(const char *dest, const char *what, char path[PATH_MAX], struct error *err)
{
    size_t len = strlen(dest);
    struct shown shown;
    while (len > 1 && dest[len - 1] == '/')
        len--;
    if (snprintf(path, PATH_MAX, "%.*s%s", (int)len, dest, what) < PATH_MAX)
        return 0;
    return error_set(err, LARDER_ELIMIT, "%s: the path is too long", path_shown(dest, &shown));
}

/* Whether all of the log's Writers have ended. */
static int check_ended(const char *path, struct error *err)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    struct shown shown;
    int code = dir ? 0 : file_error(err, path, "list it");
    while (!code && (entry = readdir(dir))) {
        if (ends_with(entry->d_name, ".tar.open") || ends_with(entry->d_name, ".state"))
            code = error_set(err, LARDER_EBUSY,
                             "%s/%s: a Writer is at work, or was stopped: let it end, or close another of its number",
                             path_shown(path, &shown), entry->d_name);
    }
    if (dir)
        closedir(dir);
    return code;
}

static int remove_all(const char *path, struct error *err)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    if (!dir)
        return errno == ENOENT ? 0 : file_error(err, path, "list it");
    while ((entry = readdir(dir))) {
        if (ends_with(entry->d_name, ".tar") || strcmp(entry->d_name, "source.json") == 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
    return rmdir(path) ? file_error(err, path, "remove it") : 0;
}

int pack_log_find(const char *dest, char **out, struct error *err)
{
    char path[PATH_MAX], packed[PATH_MAX], index[PATH_MAX];
    struct stat st;
    struct shown shown;
    int code = beside(dest, LOG, path, err);
    if (!code)
        code = beside(dest, PACKED, packed, err);
    if (!code)
        code = beside(dest, "/" STORE_INDEX_NAME, index, err);
    if (!code)
        code = remove_all(packed, err);
    if (code)
        return code;
    *out = NULL;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        code = check_ended(path, err);
        if (!code && !(*out = strdup(path)))
            code = error_set(err, LARDER_ENOMEM, "out of memory");
        return code;
    }
    if (access(index, F_OK) == 0)
        return 0;
    return error_set(err, LARDER_ENOENT, "%s: no log of a Writer is there. To pack a dataset: larder pack SOURCE DEST",
                     path_shown(path, &shown));
}

int pack_log_remove(const char *dest, struct error *err)
{
    char path[PATH_MAX], packed[PATH_MAX];
    int code = beside(dest, LOG, path, err);
    if (!code)
        code = beside(dest, PACKED, packed, err);
    if (!code && rename(path, packed))
        code = file_error(err, path, "rename it");
    return code ? code : remove_all(packed, err);
}
