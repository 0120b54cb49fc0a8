/* tar_text.c: the texts that name tar shards. See tar_text.h. */
#include "cache/source/tar_text.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache/file.h"
#include "cache/source/braces.h"
#include "cache/source/index.h"

#define LABELS "#labels="
#define UNMIXED "#mixed=no"
#define SPECIAL "{*?"
#define BETWEEN "::"

static const char *const packed[] = {".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".txz", ".tar.bz2", ".tbz2"};

/* ── texts ── */

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

static bool is_packed(const char *name)
{
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        if (ends_with(name, packed[i]))
            return true;
    }
    return false;
}

bool tar_text_is(const char *text)
{
    size_t len;
    return strpbrk(text, SPECIAL) || strstr(text, BETWEEN) || *tar_text_labels(text, &len) || ends_with(text, ".tar") ||
           is_packed(text) || tar_text_unmixed(text);
}

/* The labels behind a text, and the length before them, with UNMIXED or not. */
static const char *split_labels(const char *text, size_t *len)
{
    const char *labels = NULL;
    for (const char *at = text; (at = strstr(at, LABELS)); at++)
        labels = at;
    *len = labels ? (size_t)(labels - text) : strlen(text);
    return labels ? labels + strlen(LABELS) : "";
}

bool tar_text_unmixed(const char *text)
{
    size_t len, mark = strlen(UNMIXED);
    split_labels(text, &len);
    return len > mark && memcmp(text + len - mark, UNMIXED, mark) == 0;
}

const char *tar_text_labels(const char *text, size_t *len)
{
    const char *labels = split_labels(text, len);
    *len -= tar_text_unmixed(text) ? strlen(UNMIXED) : 0;
    return labels;
}

/* The length of a piece, up to the next "::" or the labels. */
static size_t piece_len(const char *piece, const char *end)
{
    const char *between = strstr(piece, BETWEEN);
    return (size_t)((between && between < end ? between : end) - piece);
}

/* The length of a piece's folder that is no pattern, without the slash at its end. */
static size_t folder_len(const char *piece, size_t len)
{
    size_t special = strcspn(piece, SPECIAL), at = special < len ? special : len;
    while (at > 0 && piece[at - 1] != '/')
        at--;
    return at > 1 ? at - 1 : at;
}

static int no_folder(const char *folder, const char *text, struct error *err)
{
    struct shown shown, given;
    int number = errno;
    return error_set(err, errno_code(number), "%s: cannot open the dataset: %s: %s", path_shown(text, &given),
                     path_shown(folder, &shown), strerror(number));
}

/* Appends a piece with its folder resolved. */
static int resolve_piece(const char *text, const char *piece, size_t len, FILE *out, struct error *err)
{
    char folder[PATH_MAX], resolved[PATH_MAX];
    struct shown shown;
    size_t folder_bytes = folder_len(piece, len);
    if (len == 0)
        return error_set(err, LARDER_EINVAL, "%s: each part between '::' names shards", path_shown(text, &shown));
    if (folder_bytes >= sizeof folder)
        return error_set(err, LARDER_ELIMIT, "%s: the path is too long", path_shown(text, &shown));
    memcpy(folder, piece, folder_bytes);
    folder[folder_bytes] = '\0';
    if (!realpath(folder_bytes ? folder : ".", resolved))
        return no_folder(folder, text, err);
    if (strpbrk(resolved, SPECIAL) || strstr(resolved, BETWEEN) || strstr(resolved, LABELS))
        return error_set(err, LARDER_EINVAL,
                         "%s: this folder's own name has { * ? :: or #labels= in it: give the shards through another "
                         "name of it, by a link or a bind mount",
                         path_shown(resolved, &shown));
    size_t rest = folder_bytes + (piece[folder_bytes] == '/');
    fprintf(out, "%s/%.*s", resolved[1] ? resolved : "", (int)(len - rest), piece + rest);
    return 0;
}

int tar_text_resolve(const char *text, char **out, struct error *err)
{
    char *resolved = NULL;
    size_t bytes, len;
    const char *labels = tar_text_labels(text, &len), *end = text + len;
    FILE *stream = open_memstream(&resolved, &bytes);
    int code = stream ? 0 : LARDER_ENOMEM;
    for (const char *piece = text; !code; piece += piece_len(piece, end) + strlen(BETWEEN)) {
        code = resolve_piece(text, piece, piece_len(piece, end), stream, err);
        if (code || piece + piece_len(piece, end) == end)
            break;
        fputs(BETWEEN, stream);
    }
    if (stream && tar_text_unmixed(text))
        fputs(UNMIXED, stream);
    if (stream && *labels)
        fprintf(stream, LABELS "%s", labels);
    if (stream && fclose(stream) && !code)
        code = LARDER_ENOMEM;
    if (code == LARDER_ENOMEM)
        error_set(err, code, "out of memory for a dataset");
    if (code)
        free(resolved);
    else
        *out = resolved;
    return code;
}

char *tar_text_root(const char *text)
{
    size_t len, root_len;
    struct stat st;
    tar_text_labels(text, &len);
    char *root = strndup(text, len);
    if (!root || (stat(root, &st) == 0 && S_ISDIR(st.st_mode)))
        return root;
    root_len = folder_len(text, piece_len(text, text + len));
    for (const char *piece = text, *end = text + len;;) { /* the common folder */
        size_t here = folder_len(piece, piece_len(piece, end)), same = 0;
        while (same < here && same < root_len && piece[same] == text[same])
            same++;
        bool whole = (same == here || piece[same] == '/') && (same == root_len || text[same] == '/');
        while (!whole && same > 1 && text[same - 1] != '/')
            same--;
        root_len = !whole && same > 1 ? same - 1 : same;
        piece += piece_len(piece, end);
        if (piece == end)
            break;
        piece += strlen(BETWEEN);
    }
    root[root_len ? root_len : 1] = '\0';
    return root;
}

/* ── folders ── */

bool tar_folder_is(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool shards = false, folders = false;
    while (dir && !folders && (entry = readdir(dir))) {
        struct stat st;
        const char *name = entry->d_name;
        if (*name == '.')
            continue;
        bool unknown = entry->d_type == DT_UNKNOWN || entry->d_type == DT_LNK;
        folders = unknown ? fstatat(dirfd(dir), name, &st, 0) == 0 && S_ISDIR(st.st_mode) : entry->d_type == DT_DIR;
        shards |= !folders && ends_with(name, ".tar");
    }
    if (dir)
        closedir(dir);
    return shards && !folders;
}

/* ── shards ── */

struct finding {
    struct tar_shards *shards;
    const char *root;
    size_t root_len;
    struct error *err;
};

static int add_shard(struct finding *finding, const char *path)
{
    struct tar_shards *shards = finding->shards;
    struct shown shown;
    const char *name = path + finding->root_len;
    if (is_packed(path))
        return error_set(finding->err, LARDER_EINVAL,
                         "%s: compressed shards cannot be read sample by sample: decompress them once (gunzip, "
                         "unzstd, unxz, bunzip2), images do not become smaller by it",
                         path_shown(path, &shown));
    if (!key_is_below(name))
        return error_set(finding->err, LARDER_EINVAL, "%s: a shard's path has no '..' in it", path_shown(path, &shown));
    int code = array_grow((void **)&shards->names, shards->count, &shards->cap, sizeof *shards->names, TAR_SHARDS_MAX);
    char *copy = code ? NULL : strdup(name);
    if (!copy)
        return error_set(finding->err, code ? code : LARDER_ENOMEM, "%s: %s", path_shown(finding->root, &shown),
                         code == LARDER_ELIMIT ? "more than 1,048,576 shards" : "out of memory for shards");
    shards->names[shards->count++] = copy;
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return text_compare(*(char *const *)a, *(char *const *)b);
}

/* A text without braces: a shard, or a pattern of some. */
static int find_some(void *context, const char *text)
{
    struct finding *finding = context;
    struct shown shown;
    glob_t found;
    if (!strpbrk(text, "*?"))
        return add_shard(finding, text);
    int failed = glob(text, GLOB_NOSORT | GLOB_NOESCAPE, NULL, &found), code = 0;
    if (failed)
        return error_set(finding->err, failed == GLOB_NOSPACE ? LARDER_ENOMEM : LARDER_ENOENT,
                         failed == GLOB_NOSPACE ? "%s: out of memory for shards" : "%s: there is no such shard",
                         path_shown(text, &shown));
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_names);
    for (size_t i = 0; !code && i < found.gl_pathc; i++)
        code = add_shard(finding, found.gl_pathv[i]);
    globfree(&found);
    return code;
}

static int find_in_folder(struct finding *finding)
{
    DIR *dir = opendir(finding->root);
    const struct dirent *entry;
    int code = dir ? 0 : file_error(finding->err, finding->root, "list it");
    while (dir && !code && (entry = readdir(dir))) {
        char path[PATH_MAX];
        if (*entry->d_name == '.' || !ends_with(entry->d_name, ".tar"))
            continue;
        if (snprintf(path, sizeof path, "%s/%s", finding->root, entry->d_name) < PATH_MAX)
            code = add_shard(finding, path);
    }
    if (dir)
        closedir(dir);
    if (!code)
        qsort(finding->shards->names, finding->shards->count, sizeof *finding->shards->names, compare_names);
    return code;
}

/* Whether the text without its labels is the root itself. */
static bool is_folder(const char *text, size_t len, const char *root)
{
    return strlen(root) == len && memcmp(text, root, len) == 0;
}

static int find_pieces(struct finding *finding, const char *text, size_t len)
{
    const char *end = text + len;
    struct shown shown;
    for (const char *piece = text;;) {
        char *one = strndup(piece, piece_len(piece, end));
        int code = one ? braces_expand(one, find_some, finding) : LARDER_ENOMEM;
        free(one);
        if (code && finding->err && finding->err->code == 0)
            error_set(finding->err, code, "%s: %s", path_shown(text, &shown),
                      code == LARDER_ELIMIT ? "its braces name too much" : "out of memory for shards");
        piece += piece_len(piece, end);
        if (code || piece == end)
            return code;
        piece += strlen(BETWEEN);
    }
}

int tar_shards_find(const char *text, const char *root, struct tar_shards *out, struct error *err)
{
    size_t len;
    struct shown shown;
    struct tar_shards shards = {0};
    struct error own = {0};
    struct finding finding = {&shards, root, root[1] ? strlen(root) + 1 : 1, &own};
    tar_text_labels(text, &len);
    int code = is_folder(text, len, root) ? find_in_folder(&finding) : find_pieces(&finding, text, len);
    if (!code && shards.count == 0)
        code = error_set(&own, LARDER_ENOENT, "%s: there is no shard, which would be called NAME.tar",
                         path_shown(text, &shown));
    if (code) {
        tar_shards_free(&shards);
        return error_set(err, code, "%s", own.text);
    }
    *out = shards;
    return 0;
}

void tar_shards_free(struct tar_shards *shards)
{
    for (size_t i = 0; i < shards->count; i++)
        free(shards->names[i]);
    free(shards->names);
    *shards = (struct tar_shards){0};
}
