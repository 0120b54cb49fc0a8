/* writer.c: what a program calls to write samples: their checks, and the buffer in which they wait to be written. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <larder/larder.h>

#include "client/writer_priv.h"
#include "common/clock.h"
#include "common/utf8.h"

#define WRITER_MAGIC UINT32_C(0x4c445257)
#define WRITERS_MAX 1000000
#define SHARD_BYTES ((uint64_t)256 << 20)
#define CLASS_NAME_MAX 255
#define LABELS_MAX ((int64_t)1 << 20)
#define HOLD_BYTES ((size_t)256 << 10) /* that a kill may cost, */
#define HOLD_NS CLOCK_NS_PER_S         /* and since when */
#define KEEP_BYTES ((size_t)4 << 20)   /* a larger buffer is given back after a write */

enum labelled { LABELS_UNKNOWN, LABELS_NONE, LABELS_ALL };

struct larder_writer {
    uint32_t magic;
    pid_t pid;
    uint32_t n_classes;
    enum labelled labelled;
    struct error error; /* of the last failed call */
    struct writer_log log;
    uint8_t *held; /* samples that are not in a file yet */
    size_t held_bytes, held_cap;
    uint64_t n_held;
    uint64_t due_ns;               /* they are written with the sample that comes after this */
    char last[WRITER_KEY_MAX + 1]; /* the last key; empty: none */
};

static _Thread_local struct error open_error;

void larder_writer_options_init_sized(struct larder_writer_options *options, size_t size_bytes)
{
    struct larder_writer_options defaults;
    if (!options || size_bytes < sizeof options->size_bytes)
        return;
    memset(&defaults, 0, sizeof defaults);
    defaults.shard_bytes = SHARD_BYTES;
    memset(options, 0, size_bytes);
    memcpy(options, &defaults, size_bytes < sizeof defaults ? size_bytes : sizeof defaults);
    options->size_bytes = size_bytes;
}

/* ── opening ── */

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* check_classes: each name can be printed, and comes once. */
static int check_classes(const struct larder_writer_options *o, struct error *err)
{
    for (uint32_t i = 0; i < o->n_classes; i++) {
        const char *name = o->classes[i];
        if (!name || !*name || strlen(name) > CLASS_NAME_MAX || !utf8_printable(name))
            return error_set(err, LARDER_EINVAL,
                             "class %" PRIu32 ": a name has 1 to %d bytes of UTF-8 that can be printed", i,
                             CLASS_NAME_MAX);
    }
    const char **sorted = malloc((o->n_classes + (size_t)1) * sizeof *sorted);
    if (!sorted)
        return error_set(err, LARDER_ENOMEM, "no memory for %" PRIu32 " names of classes", o->n_classes);
    for (uint32_t i = 0; i < o->n_classes; i++)
        sorted[i] = o->classes[i];
    qsort(sorted, o->n_classes, sizeof *sorted, compare_names);
    int rc = 0;
    for (uint32_t i = 1; i < o->n_classes && rc == 0; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            rc = error_set(err, LARDER_EINVAL, "class %.100s comes twice: give each name once", sorted[i]);
    }
    free(sorted);
    return rc;
}

static int check_options(const struct larder_writer_options *o, struct error *err)
{
    if (!o || o->size_bytes < sizeof *o)
        return error_set(err, LARDER_EINVAL,
                         "the options were not set up: call larder_writer_options_init before larder_writer_open");
    if (o->size_bytes > sizeof *o)
        return error_set(err, LARDER_EVERSION,
                         "the program was built with a newer larder.h than this liblarder (%s): install that one",
                         LARDER_VERSION);
    if (!o->destination || !*o->destination)
        return error_set(err, LARDER_EINVAL, "no destination is named: set options.destination to the store's folder");
    if (o->writer >= WRITERS_MAX)
        return error_set(err, LARDER_EINVAL, "writer is %" PRIu32 ": give 0 to %d", o->writer, WRITERS_MAX - 1);
    if (o->n_classes > LABELS_MAX || (o->n_classes && !o->classes))
        return error_set(err, LARDER_EINVAL, "n_classes is %" PRIu32 ": give the names of at most %" PRId64 " classes",
                         o->n_classes, LABELS_MAX);
    return check_classes(o, err);
}

/* check_destination: a store that is there, or that is being packed, takes no more samples. */
static int check_destination(const char *destination, int len, struct error *err)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%.*s/unfinished.larder", len, destination) >= (int)sizeof path)
        return error_set(err, LARDER_ELIMIT, "%.200s…: the path is too long", destination);
    if (access(path, F_OK) == 0)
        return error_set(err, LARDER_EINVAL,
                         "%s: is being packed, or a pack of it was interrupted: `larder pack %s` goes on with that",
                         destination, destination);
    snprintf(path, sizeof path, "%.*s/index.larder", len, destination);
    if (access(path, F_OK) == 0)
        return error_set(err, LARDER_EINVAL, "%s: a store is there already: choose another folder, or remove that one",
                         destination);
    return 0;
}

/* make_classes makes the first member of each shard: the names, a line each. */
static int make_classes(struct writer_log *log, const struct larder_writer_options *o, struct error *err)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < o->n_classes; i++)
        bytes += strlen(o->classes[i]) + 1;
    if (bytes == 0)
        return 0;
    log->classes_bytes = WRITER_BLOCK + bytes + writer_padding(bytes);
    log->classes = calloc(1, log->classes_bytes);
    if (!log->classes)
        return error_set(err, LARDER_ENOMEM, "no memory for %" PRIu32 " names of classes", o->n_classes);
    uint8_t *to = log->classes + writer_header(log->classes, WRITER_CLASSES, strlen(WRITER_CLASSES), bytes);
    for (uint32_t i = 0; i < o->n_classes; i++) {
        size_t len = strlen(o->classes[i]);
        memcpy(to, o->classes[i], len);
        to[len] = '\n';
        to += len + 1;
    }
    return 0;
}

static int open_writer(struct larder_writer *writer, const struct larder_writer_options *o, struct error *err)
{
    int len = (int)strnlen(o->destination, PATH_MAX);
    while (len > 1 && o->destination[len - 1] == '/')
        len--;
    int rc = check_destination(o->destination, len, err);
    if (rc)
        return rc;
    snprintf(writer->log.path, sizeof writer->log.path, "%.*s.log", len, o->destination);
    writer->log.writer = o->writer;
    writer->log.shard_bytes = o->shard_bytes;
    writer->n_classes = o->n_classes;
    rc = make_classes(&writer->log, o, err);
    return rc ? rc : writer_log_open(&writer->log, err);
}

static void destroy(struct larder_writer *writer)
{
    writer_log_leave(&writer->log, writer->pid == getpid());
    free(writer->log.classes);
    free(writer->held);
    writer->magic = 0;
    free(writer);
}

int larder_writer_open(const struct larder_writer_options *options, struct larder_writer **out)
{
    int rc = out ? check_options(options, &open_error)
                 : error_set(&open_error, LARDER_EINVAL,
                             "larder_writer_open was called without a place for the writer");
    if (rc)
        return rc;
    struct larder_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return error_set(&open_error, LARDER_ENOMEM, "no memory for a writer");
    writer->magic = WRITER_MAGIC;
    writer->pid = getpid();
    writer->log.folder_fd = writer->log.state_fd = writer->log.fd = -1;
    rc = open_writer(writer, options, &open_error);
    if (rc) {
        destroy(writer);
        return rc;
    }
    *out = writer;
    return 0;
}

const char *larder_writer_last_error(const struct larder_writer *writer)
{
    if (!writer)
        return open_error.text;
    return writer->magic == WRITER_MAGIC ? writer->error.text : "this is no writer, or one that was closed";
}

/* ── samples ── */

static int enter(struct larder_writer *writer)
{
    if (!writer || writer->magic != WRITER_MAGIC)
        return LARDER_EINVAL;
    if (writer->pid != getpid())
        return error_set(&writer->error, LARDER_EPERM,
                         "%s: this writer belongs to process %ld: open one in each process, with a number of its own, "
                         "options.writer",
                         writer->log.path, (long)writer->pid);
    return 0;
}

uint64_t larder_writer_done(const struct larder_writer *writer)
{
    return writer && writer->magic == WRITER_MAGIC ? writer->log.samples + writer->n_held : 0;
}

/* write_held: where it fails, n_held is 0 if the samples are in the file all the same. */
static int write_held(struct larder_writer *writer)
{
    if (writer->n_held == 0)
        return 0;
    uint64_t before = writer->log.samples;
    int rc = writer_log_write(&writer->log, writer->held, writer->held_bytes, writer->n_held, &writer->error);
    if (writer->log.samples != before) {
        writer->n_held = writer->held_bytes = 0;
        if (writer->held_cap > KEEP_BYTES) {
            free(writer->held);
            writer->held = NULL;
            writer->held_cap = 0;
        }
    }
    writer->due_ns = clock_now_ns() + HOLD_NS;
    return rc;
}

static int check_label(struct larder_writer *writer, int64_t label)
{
    enum labelled labelled = label == LARDER_NO_LABEL ? LABELS_NONE : LABELS_ALL;
    int64_t labels = writer->n_classes ? (int64_t)writer->n_classes : LABELS_MAX;
    if (writer->labelled != LABELS_UNKNOWN && writer->labelled != labelled)
        return error_set(&writer->error, LARDER_EINVAL,
                         "a sample without a label among others that have one: all have one, or none");
    if (labelled == LABELS_ALL && (label < 0 || label >= labels))
        return error_set(&writer->error, LARDER_EINVAL, "label %" PRId64 ": is 0 to %" PRId64, label, labels - 1);
    writer->labelled = labelled;
    return 0;
}

static int check_key(struct larder_writer *writer, const char *key)
{
    if (strcmp(key, writer->last) == 0 && *key)
        return error_set(&writer->error, LARDER_EINVAL, "key '%.200s' comes twice in a row: a key names one sample",
                         key);
    if (writer_key_stem(key) == 0)
        return error_set(&writer->error, LARDER_EINVAL,
                         "key '%.100s': a key is a path below a folder of at most %d bytes, without '..' and without a "
                         "dot in its last part but that of .jpg, .png and the like; its first folder is not called "
                         "__NAME__",
                         key, WRITER_KEY_MAX);
    return 0;
}

/* ending_of returns the ending of an image's name, by its first bytes. */
static const char *ending_of(const uint8_t *data, size_t len)
{
    static const struct {
        char first[3], ending[6];
    } forms[] = {{"\xff\xd8", ".jpg"}, {"\x89P", ".png"}, {"RI", ".webp"}, {"II", ".tif"}, {"MM", ".tif"},
                 {"BM", ".bmp"},       {"P3", ".ppm"},    {"P6", ".ppm"},  {"P2", ".pgm"}, {"P5", ".pgm"}};
    for (size_t i = 0; len >= 2 && i < sizeof forms / sizeof *forms; i++) {
        if (memcmp(data, forms[i].first, 2) == 0)
            return forms[i].ending;
    }
    return ".jpg";
}

/* put_member appends a member to the held bytes, for which there is room. */
static void put_member(struct larder_writer *writer, const char *name, const void *data, size_t len)
{
    uint8_t *to = writer->held + writer->held_bytes;
    to += writer_header(to, name, strlen(name), len);
    memcpy(to, data, len);
    memset(to + len, 0, writer_padding(len));
    writer->held_bytes = (size_t)(to - writer->held) + len + writer_padding(len);
}

/* make_room for a sample's members. */
static int make_room(struct larder_writer *writer, size_t len)
{
    size_t wanted = writer->held_bytes + 2 * WRITER_HEADER_MAX + 3 * WRITER_BLOCK + len;
    if (wanted <= writer->held_cap)
        return 0;
    size_t cap = wanted > 2 * HOLD_BYTES ? wanted : 2 * HOLD_BYTES;
    uint8_t *held = realloc(writer->held, cap);
    if (!held)
        return error_set(&writer->error, LARDER_ENOMEM, "no memory for a sample of %zu bytes", len);
    writer->held = held;
    writer->held_cap = cap;
    return 0;
}

static void put_sample(struct larder_writer *writer, const char *key, const void *data, size_t len, int64_t label)
{
    char name[WRITER_KEY_MAX + 8], text[24];
    size_t stem = key ? writer_key_stem(key) : 0;
    if (key)
        memcpy(name, key, stem);
    else
        stem = (size_t)snprintf(name, sizeof name, "./@%012" PRIu64, larder_writer_done(writer));
    if (label != LARDER_NO_LABEL) {
        memcpy(name + stem, ".cls", 5);
        put_member(writer, name, text, (size_t)snprintf(text, sizeof text, "%" PRId64, label));
    }
    const char *ending = key && key[stem] ? key + stem : ending_of(data, len);
    memcpy(name + stem, ending, strlen(ending) + 1);
    put_member(writer, name, data, len);
}

int larder_writer_add(struct larder_writer *writer, const char *key, const void *data, size_t len_bytes, int64_t label)
{
    int rc = enter(writer);
    if (rc)
        return rc;
    if (!data || len_bytes == 0)
        return error_set(&writer->error, LARDER_EINVAL, "a sample of 0 bytes");
    if (len_bytes > WRITER_MEMBER_MAX)
        return error_set(&writer->error, LARDER_ELIMIT, "a sample of %zu bytes: at most %" PRIu64, len_bytes,
                         WRITER_MEMBER_MAX);
    if ((rc = key ? check_key(writer, key) : 0) || (rc = check_label(writer, label)) ||
        (rc = make_room(writer, len_bytes)))
        return rc;
    size_t before = writer->held_bytes;
    put_sample(writer, key, data, len_bytes, label);
    writer->n_held++;
    if (writer->held_bytes >= HOLD_BYTES || clock_now_ns() >= writer->due_ns)
        rc = write_held(writer);
    if (rc && writer->n_held) { /* it is not written: it may be given again */
        writer->n_held--;
        writer->held_bytes = before;
    } else if (key)
        memcpy(writer->last, key, strlen(key) + 1);
    return rc;
}

int larder_writer_flush(struct larder_writer *writer)
{
    int rc = enter(writer);
    if (rc == 0)
        rc = write_held(writer);
    return rc ? rc : writer_log_sync(&writer->log, &writer->error);
}

int larder_writer_close(struct larder_writer **writer)
{
    int rc = writer && *writer ? enter(*writer) : LARDER_EINVAL;
    if (rc == 0)
        rc = write_held(*writer);
    if (rc == 0)
        rc = writer_log_end(&(*writer)->log, &(*writer)->error);
    if (rc == 0)
        larder_writer_leave(writer);
    return rc;
}

void larder_writer_leave(struct larder_writer **writer)
{
    if (!writer || !*writer || (*writer)->magic != WRITER_MAGIC)
        return;
    destroy(*writer);
    *writer = NULL;
}
