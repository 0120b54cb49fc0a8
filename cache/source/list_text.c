/* list_text.c: the texts that name lists. See list_text.h. */
#include "cache/source/list_text.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache/file.h"
#include "cache/source/list_rows.h"
#include "cache/source/tar_text.h"
#include "common/larder_err.h"

#define LABELS_MARK "#labels=" /* as of tar_text.h */

bool list_text_is(const char *text)
{
    size_t len;
    tar_text_labels(text, &len);
    char *path = strndup(text, len);
    bool is = path && list_form_of(path) != LIST_NONE;
    free(path);
    return is;
}

/* The path of a list with its links resolved. What a link leads to may not be called a list, as in the cache of Hugging
 * Face's Hub; then the list is where it is called one. NULL, with errno: it cannot be opened. */
static char *real_list(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *real = realpath(path, NULL), *folder = NULL, *out = NULL;
    if (!real || list_form_of(real) != LIST_NONE)
        return real;
    free(real);
    char *given = slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");
    if (given && (folder = realpath(given, NULL)) &&
        asprintf(&out, "%s/%s", strcmp(folder, "/") ? folder : "", name) < 0)
        out = NULL;
    free(given);
    free(folder);
    return out;
}

int list_text_resolve(const char *text, char **out, struct error *err)
{
    size_t len;
    struct shown shown;
    const char *labels = tar_text_labels(text, &len);
    char *path = strndup(text, len), *real = path ? real_list(path) : NULL;
    int code = 0;
    if (!real)
        code = error_set(err, path ? errno_code(errno) : LARDER_ENOMEM, "%s: cannot open the list: %s",
                         path_shown(text, &shown), strerror(errno));
    else if (asprintf(out, *labels ? "%s" LABELS_MARK "%s" : "%s", real, labels) < 0)
        code = error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
    free(path);
    free(real);
    return code;
}

static bool has_folders(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    struct stat st;
    bool has = false;
    while (dir && !has && (entry = readdir(dir))) {
        if (*entry->d_name == '.')
            continue;
        bool unknown = entry->d_type == DT_UNKNOWN || entry->d_type == DT_LNK;
        has = unknown ? fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode)
                      : entry->d_type == DT_DIR;
    }
    if (dir)
        closedir(dir);
    return has;
}

/* A folder's list, which the caller frees; NULL: it has none. */
static char *list_in(const char *folder)
{
    static const char *const names[] = {"metadata.csv", "metadata.jsonl"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = NULL;
        struct stat st;
        if (asprintf(&path, "%s/%s", folder, names[i]) < 0)
            return NULL;
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            return path;
        free(path);
    }
    return NULL;
}

char *list_text_path(const char *text)
{
    size_t len;
    struct stat st;
    tar_text_labels(text, &len);
    char *path = strndup(text, len);
    if (path && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        char *list = list_in(path);
        if (list && (has_folders(path) || tar_folder_is(path))) {
            free(list);
            list = NULL;
        }
        free(path);
        return list;
    }
    if (path && list_form_of(path) != LIST_NONE)
        return path;
    free(path);
    return NULL;
}
