/* view_list.c: list files. A line is a sample's key, its path, or its index. A name may also stand in quotes, have
 * blanks around it, contain "./" or doubled slashes, or have labels behind it. Empty lines, comments (#), a line of
 * titles and a byte-order mark say nothing. A line that names no sample is an error. The error never repeats the line:
 * the client chose the file, and the daemon may be allowed to read more than the client is.
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
#include "common/utf8.h"
#include "sampler/view_priv.h"

#define NO_SAMPLE UINT32_MAX
#define PIECE_BYTES ((size_t)64 << 10) /* bytes of the file read between two looks at the interrupt */
#define INTERRUPT_EVERY 4096           /* samples */
#define LABELS_MAX 64                  /* behind one name */

struct list {
    const char *path;
    const struct view_source *source;
    uint8_t *marks;  /* indexed by sample: the list names it */
    uint32_t number; /* number of the present line, from 1 */
    char end;        /* end of a line: a carriage return if the file has no newlines */
    bool said;       /* a line has said something */
    /* The dataset's keys, in a table by their hashes. NULL before the first line that is no index. */
    uint32_t *buckets, *next;  /* an index; next is by index */
    uint32_t n_buckets;        /* a power of two */
    char *text;                /* the beginning of a line that was read already, and one more piece */
    char *unquoted, *path_key; /* a line's name without quotes, and as a key would be written; PATH_BYTES each */
};
#define PATH_BYTES (VIEW_LIST_LINE_MAX + PIECE_BYTES)

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

/* strip takes the source's folder off a path, so that a key is left. */
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

static uint32_t find_key(const struct list *list, struct line_part name)
{
    const struct view_source *source = list->source;
    for (uint32_t index = *bucket_of(list, name.text, name.len); index != NO_SAMPLE; index = list->next[index]) {
        const char *key = source->key(source->dataset, index);
        if (strlen(key) == name.len && memcmp(key, name.text, name.len) == 0)
            return index;
    }
    return NO_SAMPLE;
}

/* find_name finds a sample by its key or its path, also one with "./" or doubled slashes in it. */
static uint32_t find_name(const struct list *list, struct line_part name)
{
    struct line_part key = name;
    strip(list->source, &key.text, &key.len);
    uint32_t index = find_key(list, key);
    if (index != NO_SAMPLE)
        return index;
    struct line_part normal = line_normalised(name, list->path_key);
    strip(list->source, &normal.text, &normal.len);
    return find_key(list, normal);
}

/* mark marks a sample, and all that have its key. */
static void mark(struct list *list, uint32_t index)
{
    const struct view_source *source = list->source;
    const char *key = source->key(source->dataset, index);
    size_t len = strlen(key); /* a line's name has this length */
    memcpy(list->unquoted, key, len + 1);
    for (; index != NO_SAMPLE; index = list->next[index]) {
        if (strcmp(source->key(source->dataset, index), list->unquoted) == 0)
            list->marks[index] = true;
    }
}

/* The meaning that was found for a line. */
struct found {
    uint32_t index;
    bool twice;      /* two of its parts name samples */
    size_t no_label; /* place of something behind a sample's name that is no label; 0: none */
};

/* find_labelled looks for a name with labels behind it: `line` without its last field, without its last two, … */
static void find_labelled(const struct list *list, struct line_part line, struct found *found)
{
    bool labels = true, label;
    for (unsigned i = 0; i < LABELS_MAX && line_shorten(&line, &label); i++) {
        labels = labels && label;
        uint32_t index = find_name(list, line);
        if (index == NO_SAMPLE)
            continue;
        found->twice = found->twice || (labels && found->index != NO_SAMPLE);
        if (labels)
            found->index = index;
        else if (found->no_label == 0)
            found->no_label = line.len;
    }
}

static void find_quoted(const struct list *list, struct line_part line, struct found *found)
{
    struct line_part name, rest;
    bool label = true;
    if (!line_unquote(line, list->unquoted, &name, &rest))
        return;
    size_t at = line.len - rest.len;
    while (label && rest.len && line_shorten(&rest, &label))
        ;
    uint32_t index = find_name(list, name);
    if (index != NO_SAMPLE && (rest.len || !label))
        found->no_label = at;
    else
        found->index = index;
}

static bool is_utf8(struct line_part line)
{
    char text[5] = {0};
    for (size_t at = 0, len; at < line.len; at += len) {
        size_t left = line.len - at < 4 ? line.len - at : 4;
        memcpy(text, line.text + at, left);
        text[left] = '\0';
        len = utf8_length((const unsigned char *)text);
        if (len == 0)
            return false;
    }
    return true;
}

/* wrong_line says of a line what its kind of mistake is. */
static int wrong_line(const struct list *list, struct line_part line, size_t column, const struct found *found,
                      struct error *err)
{
    const char *why = "";
    if (found->twice || found->no_label)
        return error_set(err, LARDER_EINVAL, "list %s:%u:%zu: %s", list->path, list->number, column + found->no_label,
                         found->twice ? "may name two samples: put the name in double quotes"
                                      : "something that is no label follows the sample's name: give one sample a line");
    if (memchr(line.text, 0, line.len))
        why = "; this line has zero bytes, as UTF-16 has: save the file as UTF-8";
    else if (!is_utf8(line))
        why = "; this line is not UTF-8: save the file as UTF-8";
    else if (memchr(line.text, '\\', line.len))
        why = "; this line has \\, and keys have /";
    else if (*line.text == '/')
        why = "; this path does not lie below it";
    else if (!memchr(line.text, '/', line.len))
        why = "; this line has no folder";
    return error_set(err, LARDER_EINVAL,
                     "list %s:%u:%zu: names no sample of the dataset: give keys such as class/file.jpg, paths below "
                     "the dataset's folder, or indices, one a line%s",
                     list->path, list->number, column, why);
}

/* take_index takes a line that is a number alone. */
static int take_index(struct list *list, uint64_t index, size_t column, struct error *err)
{
    if (index >= list->source->count)
        return error_set(err, LARDER_EINVAL, "list %s:%u:%zu: index beyond the dataset's %u samples", list->path,
                         list->number, column, list->source->count);
    list->marks[index] = true;
    return 0;
}

static int take_line(struct list *list, const char *text, size_t len, struct error *err)
{
    static const char bom[] = "\xef\xbb\xbf";
    uint64_t index;
    if (list->number++ == 0 && len >= strlen(bom) && memcmp(text, bom, strlen(bom)) == 0) {
        text += strlen(bom);
        len -= strlen(bom);
    }
    if (len && text[len - 1] == '\r')
        len--;
    struct line_part whole = {text, len}, line = line_trimmed(whole);
    struct found found = {.index = NO_SAMPLE};
    size_t column = (size_t)(line.text - text) + 1;
    if (line.len == 0)
        return 0;
    bool first = !list->said;
    list->said = true;
    if (is_number(line.text, line.len, &index))
        return take_index(list, index, column, err);
    int rc = list->buckets ? 0 : index_keys(list, err);
    if (rc)
        return rc;
    found.index = find_name(list, whole);
    if (found.index == NO_SAMPLE)
        found.index = find_name(list, line);
    if (found.index == NO_SAMPLE && *line.text == '#') {
        list->said = !first;
        return 0;
    }
    if (found.index == NO_SAMPLE)
        find_quoted(list, line, &found);
    if (found.index == NO_SAMPLE)
        find_labelled(list, line, &found);
    if (found.index == NO_SAMPLE && first && line_is_titles(line))
        return 0;
    if (found.index == NO_SAMPLE || found.twice)
        return wrong_line(list, line, column, &found, err);
    mark(list, found.index);
    return 0;
}

/* Takes the whole lines of `size` bytes of text; *rest: what is left over behind the last of them. */
static int take_lines(struct list *list, size_t size, size_t *rest, struct error *err)
{
    size_t at = 0;
    int rc = 0;
    for (const char *end; rc == 0 && (end = memchr(list->text + at, list->end, size - at));) {
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

/* end_of_lines returns the character that ends the lines of a file with this beginning: a newline, unless carriage
 * returns stand alone. */
static char end_of_lines(const char *text, size_t len)
{
    const char *end = memchr(text, '\n', len), *back = memchr(text, '\r', len);
    return back && (!end || back + 1 < end) ? '\r' : '\n';
}

static int check_encoding(const struct list *list, const char *text, size_t len, struct error *err)
{
    if (len < 2 || (memcmp(text, "\xff\xfe", 2) != 0 && memcmp(text, "\xfe\xff", 2) != 0))
        return 0;
    return error_set(err, LARDER_EINVAL, "list %s:1:1: is UTF-16: save the file as UTF-8", list->path);
}

static int read_lines(struct list *list, int fd, struct error *err)
{
    size_t rest = 0;
    list->text = malloc(PATH_BYTES);
    list->unquoted = malloc(PATH_BYTES);
    list->path_key = malloc(PATH_BYTES);
    if (list->text == NULL || list->unquoted == NULL || list->path_key == NULL)
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
        if (total == 0) {
            list->end = end_of_lines(list->text, (size_t)got);
            if (check_encoding(list, list->text, (size_t)got, err))
                return LARDER_EINVAL;
        }
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
    free(list.unquoted);
    free(list.path_key);
    free(list.next);
    free(list.buckets);
    free(list.marks);
    return rc;
}
