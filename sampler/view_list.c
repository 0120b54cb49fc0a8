/* view_list.c: list files. A line is a sample's key, its path, or its index; empty lines are skipped, a carriage return
 * before the line's end is not part of it. What a line says is never repeated in an error: the file is whatever the
 * client named, and the daemon may be allowed to read more than the client is.
 *
 * The file is read piece by piece and each line looked up at once, so that what it takes depends on the dataset alone:
 * a byte a sample, and 12 more where lines are keys. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "common/check.h"
#include "sampler/view_priv.h"

#define NO_SAMPLE UINT32_MAX
#define PIECE_BYTES ((size_t)64 << 10) /* of the file, between two looks at the interrupt */
#define INTERRUPT_EVERY 4096           /* samples */

struct list {
    const char *path;
    const struct view_source *source;
    uint8_t *marks;  /* by index: the list names it */
    uint32_t number; /* of the line at hand, from 1 */
    /* The dataset's keys, in a table by their hashes. NULL before the first line that is no index. */
    uint32_t *buckets, *next; /* an index; next is by index */
    uint32_t n_buckets;       /* a power of two */
    char *text;               /* the line's beginning that was read already, and a piece more */
};

static int io_error(struct error *err, const char *path, const char *what)
{
    int code = errno == ENOENT || errno == ENOTDIR ? LARDER_ENOENT : errno == EACCES ? LARDER_EPERM : LARDER_EIO;
    return error_set(err, code, "list %s: %s: %s", path, what, strerror(errno));
}

static bool strip_folder(const char *folder, const char **text, size_t *len)
{
    size_t root = folder ? strlen(folder) : 0;
    while (root && folder[root - 1] == '/')
        root--;
    if (root == 0 || *len <= root || memcmp(*text, folder, root) != 0 || (*text)[root] != '/')
        return false;
    *text += root + 1;
    *len -= root + 1;
    return true;
}

/* The part of a line that may be a key: a path below the source is one as well. */
static void strip(const struct view_source *source, const char **text, size_t *len)
{
    if (!strip_folder(source->path, text, len) && !strip_folder(source->given_path, text, len))
        strip_folder(".", text, len);
}

static bool is_number(const char *text, size_t len, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        *value = *value > UINT32_MAX ? *value : *value * 10 + (uint64_t)(text[i] - '0');
    }
    return len > 0;
}

/* ── lines ── */

static uint32_t *bucket_of(const struct list *list, const char *text, size_t len)
{
    return &list->buckets[XXH3_64bits(text, len) & (list->n_buckets - 1)];
}

static int index_keys(struct list *list, struct error *err)
{
    const struct view_source *source = list->source;
    for (list->n_buckets = 64; list->n_buckets < source->count && list->n_buckets < UINT32_C(1) << 31;)
        list->n_buckets *= 2;
    list->next = malloc((source->count + UINT64_C(1)) * sizeof *list->next);
    list->buckets = malloc(list->n_buckets * sizeof *list->buckets);
    if (list->next == NULL || list->buckets == NULL)
        return error_set(err, LARDER_ENOMEM, "list %s: no memory to look %u keys up", list->path, source->count);
    memset(list->buckets, 0xff, list->n_buckets * sizeof *list->buckets);
    for (uint32_t index = 0; index < source->count; index++) {
        if (index % INTERRUPT_EVERY == 0 && view_interrupted(source, err))
            return LARDER_EGONE;
        const char *key = source->key(source->dataset, index);
        uint32_t *bucket = bucket_of(list, key, strlen(key));
        list->next[index] = *bucket;
        *bucket = index;
    }
    return 0;
}

static bool mark_key(struct list *list, const char *text, size_t len)
{
    const struct view_source *source = list->source;
    bool found = false;
    for (uint32_t index = *bucket_of(list, text, len); index != NO_SAMPLE; index = list->next[index]) {
        const char *key = source->key(source->dataset, index);
        if (strlen(key) == len && memcmp(key, text, len) == 0)
            list->marks[index] = found = true;
    }
    return found;
}

static int take_line(struct list *list, const char *text, size_t len, struct error *err)
{
    uint64_t index;
    list->number++;
    if (len && text[len - 1] == '\r')
        len--;
    if (len == 0)
        return 0;
    if (is_number(text, len, &index)) {
        if (index >= list->source->count)
            return error_set(err, LARDER_EINVAL, "list %s:%u: index beyond the dataset's %u samples", list->path,
                             list->number, list->source->count);
        list->marks[index] = true;
        return 0;
    }
    int rc = list->buckets ? 0 : index_keys(list, err);
    if (rc)
        return rc;
    strip(list->source, &text, &len);
    if (!mark_key(list, text, len))
        rc = error_set(err, LARDER_EINVAL,
                       "list %s:%u: names no sample of the dataset: give keys such as class/file.jpg, paths below the "
                       "dataset's folder, or indices, one a line",
                       list->path, list->number);
    return rc;
}

/* Takes the whole lines of `size` bytes of text; *rest: what is left over behind the last of them. */
static int take_lines(struct list *list, size_t size, size_t *rest, struct error *err)
{
    size_t at = 0;
    int rc = 0;
    for (const char *end; rc == 0 && (end = memchr(list->text + at, '\n', size - at));) {
        size_t len = (size_t)(end - list->text) - at;
        rc = take_line(list, list->text + at, len, err);
        at += len + 1;
    }
    *rest = size - at;
    memmove(list->text, list->text + at, *rest);
    if (rc == 0 && *rest > VIEW_LIST_LINE_MAX)
        rc = error_set(err, LARDER_ELIMIT, "list %s:%u: a line of more than %u bytes", list->path, list->number + 1,
                       VIEW_LIST_LINE_MAX);
    return rc;
}

/* ── the file ── */

static int check_file(const struct list *list, int fd, struct error *err)
{
    struct stat status;
    if (fstat(fd, &status))
        return io_error(err, list->path, "cannot be examined");
    if (!S_ISREG(status.st_mode))
        return error_set(err, LARDER_EINVAL, "list %s: is not a regular file", list->path);
    if (status.st_size > (off_t)VIEW_LIST_BYTES_MAX)
        return error_set(err, LARDER_ELIMIT, "list %s: %lld bytes, %u at most", list->path, (long long)status.st_size,
                         VIEW_LIST_BYTES_MAX);
    return 0;
}

static int read_lines(struct list *list, int fd, struct error *err)
{
    size_t rest = 0;
    list->text = malloc(VIEW_LIST_LINE_MAX + PIECE_BYTES);
    if (list->text == NULL)
        return error_set(err, LARDER_ENOMEM, "list %s: no memory to read it", list->path);
    for (uint64_t total = 0; total <= VIEW_LIST_BYTES_MAX;) { /* it may grow meanwhile */
        if (view_interrupted(list->source, err))
            return LARDER_EGONE;
        ssize_t got = read(fd, list->text + rest, PIECE_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return io_error(err, list->path, "cannot be read");
        if (got == 0)
            return rest ? take_line(list, list->text, rest, err) : 0;
        total += (uint64_t)got;
        int rc = take_lines(list, rest + (size_t)got, &rest, err);
        if (rc)
            return rc;
    }
    return error_set(err, LARDER_ELIMIT, "list %s: it has grown beyond %u bytes", list->path, VIEW_LIST_BYTES_MAX);
}

int view_list_select(const char *path, const struct view_source *source, uint32_t *indices, uint32_t *count,
                     struct error *err)
{
    struct list list = {.path = path, .source = source, .marks = calloc(source->count + UINT64_C(1), 1)};
    uint32_t n = 0;
    if (list.marks == NULL)
        return error_set(err, LARDER_ENOMEM, "list %s: no memory for %u marks", path, source->count);
    int rc, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe must not hold us up */
    if (fd < 0) {
        rc = io_error(err, path, "cannot be opened");
        goto out;
    }
    if ((rc = check_file(&list, fd, err)) || (rc = read_lines(&list, fd, err)))
        goto out;
    for (uint32_t index = 0; index < source->count; index++)
        if (list.marks[index])
            indices[n++] = index;
    *count = n;

out:
    if (fd >= 0)
        close(fd);
    free(list.text);
    free(list.next);
    free(list.buckets);
    free(list.marks);
    return rc;
}
