/* dest.c: the folder a pack writes to: new, left unfinished by the same pack, or finished by it; anything else is
 * not touched. A mark file with the plan's number says unfinished until the index is in place. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/pack/pack_priv.h"
#include "cache/source/parts_text.h"
#include "cache/source/tar_text.h"
#include "common/log.h"

#define MARK_BYTES 34 /* the plan in hexadecimal, a line end, and a NUL */

static void dest_path(const char *dest, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%s", dest, name); /* pack_prepare saw that there is room */
}

static void mark_text(const uint64_t plan[2], char text[MARK_BYTES])
{
    snprintf(text, MARK_BYTES, "%016llx%016llx\n", (unsigned long long)plan[1], (unsigned long long)plan[0]);
}

static int other_plan(const char *dest, const char *what, struct error *err)
{
    struct shown shown;
    return error_set(
        err, LARDER_EINVAL,
        "%s: already holds %s of another source, or of other options: choose another folder, or remove that one",
        path_shown(dest, &shown), what);
}

/* A finished store is this pack's when it has its plan. */
static int check_finished(const char *dest, const uint64_t plan[2], bool *finished, struct error *err)
{
    struct source *source = NULL;
    int code = source_index(&store_kind, &(struct source_wish){.text = dest}, &source, err);
    if (!code && memcmp(store_of(source)->plan, plan, sizeof store_of(source)->plan) != 0)
        code = other_plan(dest, "a store", err);
    source_free(&source);
    *finished = !code;
    return code;
}

static int check_mark(const char *dest, const uint64_t plan[2], struct error *err)
{
    char path[PATH_MAX], text[MARK_BYTES];
    uint8_t *bytes;
    size_t len_bytes;
    dest_path(dest, STORE_UNFINISHED_NAME, path);
    const struct file_wanted wanted = {.path = path, .max_bytes = 4096};
    int code = file_load(&wanted, &bytes, &len_bytes, err);
    if (code)
        return code;
    mark_text(plan, text);
    if (len_bytes != strlen(text) || memcmp(bytes, text, len_bytes) != 0)
        code = other_plan(dest, "an unfinished pack", err);
    free(bytes);
    return code;
}

/* Is the name a temporary file of file_replace, killed while it wrote the index or the mark? */
static bool is_leftover(const char *name)
{
    size_t len = strlen(name), suffix = strlen(FILE_TEMPORARY);
    return (strncmp(name, STORE_INDEX_NAME ".", sizeof STORE_INDEX_NAME) == 0 ||
            strncmp(name, ORIGINS_NAME ".", sizeof ORIGINS_NAME) == 0 ||
            strncmp(name, STORE_UNFINISHED_NAME ".", sizeof STORE_UNFINISHED_NAME) == 0) &&
           strcmp(name + len - suffix, FILE_TEMPORARY) == 0;
}

/* Says whether dest holds anything, and removes leftovers. The caller has dest locked. */
static int look_through(const char *dest, int dir_fd, bool *empty, struct error *err)
{
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        int code = file_error(err, dest, "list it");
        if (fd >= 0)
            close(fd);
        return code;
    }
    *empty = true;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (is_leftover(entry->d_name))
            unlinkat(dir_fd, entry->d_name, 0);
        else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            *empty = false;
    }
    closedir(dir);
    return 0;
}

static int make_mark(const char *dest, const uint64_t plan[2], struct error *err)
{
    char path[PATH_MAX], text[MARK_BYTES];
    dest_path(dest, STORE_UNFINISHED_NAME, path);
    mark_text(plan, text);
    return file_replace(path, 0644, text, strlen(text), err);
}

/* Whether a resolved path lies in the folder that the source is: there it would be a part of it. A list or shards that
 * are named one by one may lie beside their store. */
static bool is_in_source(const char *text, const char *resolved)
{
    struct stat st;
    size_t len = strlen(text);
    char *folder = strdup(text);
    if (!folder)
        return true;
    if (stat(folder, &st)) { /* its parts or labels may stand behind it */
        parts_text_of(text, &len);
        folder[len] = '\0';
        tar_text_labels(folder, &len);
        folder[len] = '\0';
    }
    bool is = stat(folder, &st) == 0 && S_ISDIR(st.st_mode) && strncmp(resolved, folder, len) == 0 &&
              (resolved[len] == '/' || resolved[len] == '\0');
    free(folder);
    return is;
}

static int check_place(const struct dataset *dataset, const char *dest, struct error *err)
{
    char resolved[PATH_MAX];
    struct shown shown;
    if (!realpath(dest, resolved))
        return file_error(err, dest, "resolve it");
    if (strlen(resolved) + STORE_NAME_MAX + 32 > PATH_MAX || strlen(dest) + STORE_NAME_MAX + 32 > PATH_MAX)
        return error_set(err, LARDER_ELIMIT, "%s: the path is too long for a store", path_shown(dest, &shown));
    if (is_in_source(dataset_text(dataset), resolved))
        return error_set(err, LARDER_EINVAL, "%s: lies in the source itself: choose a folder elsewhere",
                         path_shown(dest, &shown));
    return 0;
}

static int examine(const char *dest, int dir_fd, const uint64_t plan[2], bool *finished, struct error *err)
{
    bool empty = false;
    struct shown shown;
    int code = look_through(dest, dir_fd, &empty, err);
    if (code)
        return code;
    if (faccessat(dir_fd, STORE_INDEX_NAME, F_OK, 0) == 0)
        return check_finished(dest, plan, finished, err);
    if (faccessat(dir_fd, STORE_UNFINISHED_NAME, F_OK, 0) == 0)
        return check_mark(dest, plan, err);
    if (!empty)
        return error_set(err, LARDER_EINVAL, "%s: not empty and not a store: choose a new folder",
                         path_shown(dest, &shown));
    return make_mark(dest, plan, err);
}

int pack_prepare(const struct dataset *dataset, const char *dest, const uint64_t plan[2], int *lock_fd, bool *finished,
                 struct error *err)
{
    struct shown shown;
    *finished = false;
    bool made = mkdir(dest, 0755) == 0;
    if (!made && errno != EEXIST)
        return file_error(err, dest, "make the store's folder");
    int code = check_place(dataset, dest, err);
    if (code && made)
        rmdir(dest); /* inside the source the folder would be an empty class */
    if (code)
        return code;
    int fd = open(dest, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return file_error(err, dest, "open the store's folder");
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK)
            code = error_set(err, LARDER_EBUSY, "%s: another pack is writing there", path_shown(dest, &shown));
        else
            code = file_error(err, dest, "lock it");
        close(fd);
        return code;
    }
    code = examine(dest, fd, plan, finished, err);
    if (*finished)
        pack_finish(dest); /* an earlier run may have ended between the index and this */
    *lock_fd = fd;
    return code;
}

/* Reads a finished segment's footer, or says what is wrong with it. */
static int read_footer(int fd, const struct store_footer *expected, struct layout *layout, struct store_entry *entries,
                       struct error *err)
{
    struct stat st;
    uint8_t header[STORE_HEADER_BYTES];
    uint64_t footer_bytes = store_footer_bytes(expected->count, expected->version);
    const struct store_segment *segment = &layout->segments[expected->number];
    bool rewritten = expected->version >= STORE_VERSION_REWRITTEN;
    if (fstat(fd, &st) || (uint64_t)st.st_size < footer_bytes ||
        (!rewritten && (uint64_t)st.st_size != segment->file_bytes))
        return error_set(err, LARDER_EFORMAT, "it has another length");
    if (file_read_at(fd, header, sizeof header, 0) ||
        store_header_check(header, expected->plan, expected->version, expected->number))
        return error_set(err, LARDER_EFORMAT, "it has another header");
    uint8_t *footer = malloc(footer_bytes);
    int code;
    if (!footer)
        code = error_set(err, LARDER_ENOMEM, "out of memory");
    else if (file_read_at(fd, footer, footer_bytes, (uint64_t)st.st_size - footer_bytes))
        code = error_set(err, LARDER_EIO, "its footer cannot be read: %s", strerror(errno));
    else
        code = store_footer_parse(footer, footer_bytes, expected, entries, err);
    free(footer);
    if (!code && rewritten && !pack_place_entries(layout, expected->number, entries, (uint64_t)st.st_size))
        code = error_set(err, LARDER_EFORMAT, "it has another length");
    return code;
}

int pack_find_segment(const char *dest, const struct store_footer *footer, struct layout *layout,
                      struct store_entry *entries, bool *finished, struct error *err)
{
    char name[STORE_NAME_MAX], path[PATH_MAX], temporary[PATH_MAX + sizeof FILE_TEMPORARY];
    struct error problem = {0};
    *finished = false;
    store_segment_name(footer->number, name);
    dest_path(dest, name, path);
    snprintf(temporary, sizeof temporary, "%s" FILE_TEMPORARY, path);
    if (unlink(temporary) && errno != ENOENT)
        return file_error(err, temporary, "remove what an interrupted run left");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : file_error(err, path, "open it");
    int code = read_footer(fd, footer, layout, entries, &problem);
    close(fd);
    *finished = !code;
    if (!code || code == LARDER_ENOMEM)
        return code ? error_set(err, code, "%s", problem.text) : 0;
    log_warn("msg=\"a segment is packed again\" file=\"%s\" err=\"%s\"", path, problem.text);
    return unlink(path) ? file_error(err, path, "remove it") : 0;
}

void pack_finish(const char *dest)
{
    char path[PATH_MAX];
    dest_path(dest, STORE_UNFINISHED_NAME, path);
    unlink(path); /* no matter if it stays: once the index is in place nothing looks at it */
}
