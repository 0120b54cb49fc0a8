/* view_list.c: list files. A line is a sample's key, its path, or its index; empty lines are skipped, a carriage return
 * before the line's end is not part of it. What a line says is never repeated in an error: the file is whatever the
 * client named, and the daemon may be allowed to read more than the client is. */
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

#define NO_LINE UINT32_MAX
#define PIECE_BYTES ((size_t)4 << 20) /* of the file, between two looks at the interrupt */
#define INTERRUPT_EVERY 4096          /* lines, or samples */

struct line {
    const char *text;
    uint32_t len_bytes;
    uint32_t number; /* from 1 */
    uint32_t next;   /* in its bucket */
    bool found;
};

struct list {
    char *text;
    size_t size;
    struct line *lines; /* those that are not indices */
    uint32_t n_lines;
    uint32_t *buckets;
    uint32_t n_buckets; /* a power of two */
};

static int io_error(struct error *err, const char *path, const char *what)
{
    int code = errno == ENOENT || errno == ENOTDIR ? LARDER_ENOENT : errno == EACCES ? LARDER_EPERM : LARDER_EIO;
    return error_set(err, code, "list %s: %s: %s", path, what, strerror(errno));
}

static int read_all(int fd, const char *path, const struct view_source *source, struct list *list, struct error *err)
{
    struct stat status;
    if (fstat(fd, &status))
        return io_error(err, path, "cannot be examined");
    if (!S_ISREG(status.st_mode))
        return error_set(err, LARDER_EINVAL, "list %s: is not a regular file", path);
    if (status.st_size > (off_t)VIEW_LIST_BYTES_MAX)
        return error_set(err, LARDER_ELIMIT, "list %s: %lld bytes, %u at most", path, (long long)status.st_size,
                         VIEW_LIST_BYTES_MAX);
    list->text = malloc((size_t)status.st_size + 1);
    if (list->text == NULL)
        return error_set(err, LARDER_ENOMEM, "list %s: no memory for %lld bytes", path, (long long)status.st_size);
    while (list->size < (size_t)status.st_size) {
        size_t left = (size_t)status.st_size - list->size;
        if (view_interrupted(source, err))
            return LARDER_EGONE;
        ssize_t got = read(fd, list->text + list->size, left < PIECE_BYTES ? left : PIECE_BYTES);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return io_error(err, path, "cannot be read");
        if (got == 0)
            break;
        list->size += (size_t)got;
    }
    return 0;
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

static uint32_t *bucket_of(const struct list *list, const char *text, size_t len)
{
    return &list->buckets[XXH3_64bits(text, len) & (list->n_buckets - 1)];
}

static struct line *find_line(const struct list *list, const char *text, size_t len)
{
    for (uint32_t at = *bucket_of(list, text, len); at != NO_LINE; at = list->lines[at].next)
        if (list->lines[at].len_bytes == len && memcmp(list->lines[at].text, text, len) == 0)
            return &list->lines[at];
    return NULL;
}

static int allocate(struct list *list, const char *path, struct error *err)
{
    size_t most = 1;
    for (size_t i = 0; i < list->size; i++)
        most += list->text[i] == '\n';
    for (list->n_buckets = 64; list->n_buckets < most && list->n_buckets < UINT32_C(1) << 31;)
        list->n_buckets *= 2;
    list->lines = malloc(most * sizeof *list->lines);
    list->buckets = malloc(list->n_buckets * sizeof *list->buckets);
    if (list->lines == NULL || list->buckets == NULL)
        return error_set(err, LARDER_ENOMEM, "list %s: no memory for its %zu lines", path, most);
    memset(list->buckets, 0xff, list->n_buckets * sizeof *list->buckets);
    return 0;
}

/* Indices are marked at once, keys are put into the table. */
static int scan(struct list *list, const char *path, const struct view_source *source, uint8_t *marks,
                struct error *err)
{
    uint32_t number = 0;
    for (size_t at = 0; at < list->size;) {
        const char *text = list->text + at, *end = memchr(text, '\n', list->size - at);
        size_t len = end ? (size_t)(end - text) : list->size - at;
        at += len + 1;
        if (number++ % INTERRUPT_EVERY == 0 && view_interrupted(source, err))
            return LARDER_EGONE;
        if (len && text[len - 1] == '\r')
            len--;
        if (len == 0)
            continue;
        uint64_t index;
        if (is_number(text, len, &index)) {
            if (index >= source->count)
                return error_set(err, LARDER_EINVAL, "list %s:%u: index beyond the dataset's %u samples", path, number,
                                 source->count);
            marks[index] = 1;
            continue;
        }
        strip(source, &text, &len);
        if (find_line(list, text, len))
            continue;
        uint32_t *bucket = bucket_of(list, text, len);
        list->lines[list->n_lines] =
            (struct line){.text = text, .len_bytes = (uint32_t)len, .number = number, .next = *bucket};
        *bucket = list->n_lines++;
    }
    return 0;
}

static int match_keys(const struct list *list, const char *path, const struct view_source *source, uint8_t *marks,
                      struct error *err)
{
    for (uint32_t index = 0; list->n_lines && index < source->count; index++) {
        if (index % INTERRUPT_EVERY == 0 && view_interrupted(source, err))
            return LARDER_EGONE;
        const char *key = source->key(source->dataset, index);
        struct line *line = find_line(list, key, strlen(key));
        if (line)
            marks[index] = line->found = true;
    }
    for (uint32_t i = 0; i < list->n_lines; i++)
        if (!list->lines[i].found)
            return error_set(err, LARDER_EINVAL,
                             "list %s:%u: names no sample of the dataset: give keys such as class/file.jpg, paths "
                             "below the dataset's folder, or indices, one a line",
                             path, list->lines[i].number);
    return 0;
}

int view_list_select(const char *path, const struct view_source *source, uint32_t *indices, uint32_t *count,
                     struct error *err)
{
    struct list list = {0};
    uint32_t n = 0;
    uint8_t *marks = calloc(source->count + UINT64_C(1), 1);
    if (marks == NULL)
        return error_set(err, LARDER_ENOMEM, "list %s: no memory for %u marks", path, source->count);
    int rc, fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); /* a pipe must not hold us up */
    if (fd < 0) {
        rc = io_error(err, path, "cannot be opened");
        goto out;
    }
    if ((rc = read_all(fd, path, source, &list, err)) || (rc = allocate(&list, path, err)) ||
        (rc = scan(&list, path, source, marks, err)) || (rc = match_keys(&list, path, source, marks, err)))
        goto out;
    for (uint32_t index = 0; index < source->count; index++)
        if (marks[index])
            indices[n++] = index;
    *count = n;

out:
    if (fd >= 0)
        close(fd);
    free(list.text);
    free(list.lines);
    free(list.buckets);
    free(marks);
    return rc;
}
