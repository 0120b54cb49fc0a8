/* columns.c: the columns of a dataset that somebody has asked for, each in a memfd, so that all jobs have the same
 * memory. They are kept while the dataset has a user. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cache/catalog/catalog_priv.h"
#include "cache/file.h"
#include "cache/source/rows.h"
#include "common/check.h"
#include "common/memfd.h"
#include "common/wire.h"

_Static_assert(COLUMN_WHOLE == (int)WIRE_COLUMN_INT64 && COLUMN_REAL == (int)WIRE_COLUMN_FLOAT64 &&
                   COLUMN_TEXT == (int)WIRE_COLUMN_TEXT && COLUMN_WIDTH_MAX == WIRE_WIDTH_MAX &&
                   COLUMN_NAME_MAX == WIRE_COLUMN_MAX,
               "clients are sent columns as they are here");

#define KEPT_MAX 4096 /* columns of one dataset; each has a descriptor, and what a memfd takes of the kernel's memory */

struct kept_column {
    struct kept_column *next;
    char *name;
    struct dataset_column of; /* its fd is owned */
};

static atomic_ullong kept_bytes; /* of all datasets; relaxed, for it is only shown */

uint64_t dataset_columns_bytes(void)
{
    return atomic_load_explicit(&kept_bytes, memory_order_relaxed) + rows_bytes_of_all();
}

static void count(struct columns *columns, uint64_t bytes, bool more)
{
    columns->bytes += more ? bytes : -bytes;
    atomic_fetch_add_explicit(&kept_bytes, more ? bytes : -bytes, memory_order_relaxed);
}

void columns_init(struct columns *columns)
{
    CHECK(pthread_mutex_init(&columns->lock, NULL) == 0);
}

void columns_drop(struct columns *columns)
{
    pthread_mutex_lock(&columns->lock);
    struct kept_column *kept = columns->first;
    columns->first = NULL;
    columns->kept = 0;
    count(columns, columns->bytes, false);
    pthread_mutex_unlock(&columns->lock);
    while (kept) {
        struct kept_column *next = kept->next;
        close(kept->of.fd);
        free(kept->name);
        free(kept);
        kept = next;
    }
}

void columns_destroy(struct columns *columns)
{
    columns_drop(columns);
    pthread_mutex_destroy(&columns->lock);
}

/* Takes a new descriptor for a column, unless it stands in the upper half of those that the daemon may have: a new one
 * is the lowest that is free, so half of them are taken then, and the rest is for clients and files. */
static int settle(int fd, struct error *err)
{
    struct rlimit most;
    if (fd >= 0 && getrlimit(RLIMIT_NOFILE, &most) == 0 && (rlim_t)fd < most.rlim_cur / 2)
        return 0;
    if (fd >= 0)
        close(fd);
    return error_set(err, LARDER_ELIMIT,
                     "the daemon has no place for one more descriptor: raise its limit on open files (ulimit -n)");
}

/* Gives a kept column, with a descriptor that is the caller's. */
static int give(const struct dataset_column *kept, struct dataset_column *out, struct error *err)
{
    int fd = fcntl(kept->fd, F_DUPFD_CLOEXEC, 0);
    int code = settle(fd, err);
    if (code)
        return code;
    *out = *kept;
    out->fd = fd;
    return 0;
}

static const struct kept_column *find_locked(const struct columns *columns, const char *name)
{
    const struct kept_column *kept = columns->first;
    while (kept && strcmp(kept->name, name) != 0)
        kept = kept->next;
    return kept;
}

static int make(const struct source *source, const char *name, uint64_t bytes_max, const struct interrupt *interrupt,
                struct dataset_column *out, struct error *err)
{
    struct column column;
    int code = source_column(source, name, bytes_max, interrupt, &column, err);
    if (code)
        return code;
    uint64_t words = column_words(&column) * sizeof *column.words;
    *out = (struct dataset_column){
        .kind = column.kind, .width = column.width, .count = column.count, .bytes = column_bytes(&column)};
    const struct iovec parts[] = {{column.words, words}, {column.texts, out->bytes - words}};
    code = memfd_sealed("larder-column", "a column", parts, 2, &out->fd, err);
    column_free(&column);
    return code ? code : settle(out->fd, err);
}

/* Keeps a column that was made, and takes its descriptor over. Another thread may have made the same meanwhile. */
static int keep(struct columns *columns, const char *name, const struct dataset_column *made,
                struct dataset_column *out, struct error *err)
{
    struct kept_column *fresh = malloc(sizeof *fresh);
    char *copy = strdup(name);
    if (!fresh || !copy) {
        free(fresh);
        free(copy);
        close(made->fd);
        return error_set(err, LARDER_ENOMEM, "out of memory for a column");
    }
    *fresh = (struct kept_column){.name = copy, .of = *made};
    pthread_mutex_lock(&columns->lock);
    const struct kept_column *kept = find_locked(columns, name);
    if (!kept) {
        fresh->next = columns->first;
        kept = columns->first = fresh;
        columns->kept++;
        fresh = NULL;
        count(columns, made->bytes, true);
    }
    int code = give(&kept->of, out, err);
    pthread_mutex_unlock(&columns->lock);
    if (fresh) {
        close(fresh->of.fd);
        free(fresh->name);
        free(fresh);
    }
    return code;
}

int dataset_column(struct dataset *dataset, const char *name, uint64_t bytes_max, const struct interrupt *interrupt,
                   struct dataset_column *out, struct error *err)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    struct columns *columns = &dataset->columns;
    struct dataset_column made;
    pthread_mutex_lock(&columns->lock);
    const struct kept_column *kept = find_locked(columns, name);
    int code = kept ? give(&kept->of, out, err) : 0;
    uint64_t left = bytes_max - (columns->bytes < bytes_max ? columns->bytes : bytes_max);
    bool full = columns->kept >= KEPT_MAX;
    pthread_mutex_unlock(&columns->lock);
    if (kept)
        return code;
    if (full)
        return error_set(err, LARDER_ELIMIT, "%d columns of the dataset are in use already: ask for fewer", KEPT_MAX);
    code = make(dataset->source, name, left, interrupt, &made, err);
    return code ? code : keep(columns, name, &made, out, err);
}

int dataset_column_names(const struct dataset *dataset, void (*take)(void *context, const char *name), void *context,
                         struct error *err)
{
    struct column names;
    int code = source_column(dataset->source, COLUMN_NAMES, UINT64_MAX, NULL, &names, err);
    if (code)
        return code;
    for (uint64_t i = 0; !code && i < names.count; i++) {
        struct shown shown;
        char *name = strndup(names.texts + names.words[i], names.words[i + 1] - names.words[i]);
        if (name)
            take(context, path_shown(name, &shown));
        else
            code = error_set(err, LARDER_ENOMEM, "out of memory for the names of columns");
        free(name);
    }
    column_free(&names);
    return code;
}
