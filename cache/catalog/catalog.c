/* catalog.c: the sources a daemon has opened, and who waits for them.
 *
 * A source is one folder or a set of shards, by its resolved text, with the rule that says which of its files are
 * samples. While one caller indexes or verifies it (building), other callers that want it wait and share the outcome.
 * The work ends early when none of them wants it any more.
 *
 * `lock` guards the list of sources and their fields. Indexing (build.c) happens outside it, and nothing is read or
 * written under it. The ids have a lock of their own, held while one dataset's ids are given. The catalog keeps a
 * reference to each source's newest dataset, but only to a few datasets that nobody else uses, and to none of these
 * where all datasets take more memory than they may. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cache/catalog/catalog_priv.h"
#include "cache/source/list_text.h"
#include "cache/source/parts_text.h"
#include "cache/source/tar_text.h"
#include "common/check.h"

#define CATALOG_MAGIC UINT32_C(0x43415441)
#define IDLE_DATASETS_MAX 16

struct caller {
    struct caller *next;
    const struct interrupt *interrupt;
};

struct opened {
    struct opened *next;
    char *path;
    enum sample_files files; /* its samples */
    struct dataset *dataset; /* the newest; NULL when it is not in memory */
    unsigned users;          /* callers inside catalog_open */
    struct caller *callers;  /* `users` of them */
    bool building;
    /* All its callers are interrupted: set under the lock, cleared before a build, read by it. */
    struct interrupt unwanted;
    uint64_t builds;      /* finished ones */
    struct error outcome; /* the last build's */
    uint64_t last_use;
};

struct catalog {
    uint32_t magic;
    struct id_table *ids;
    struct builder *builder;
    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t built; /* some source's build finished, or a caller's interrupt was set */
    struct opened *opened;
    uint64_t uses;
    uint64_t limit_bytes;   /* that all datasets may take */
    atomic_ullong rows_max; /* 0: nobody has said it */
    atomic_bool apart;      /* files share nothing with stores */
};

int catalog_create(const char *checkpoint_dir, struct catalog **out, struct error *err)
{
    struct catalog *catalog = calloc(1, sizeof *catalog);
    if (!catalog || id_table_create(&catalog->ids) || builder_create(checkpoint_dir, catalog->ids, &catalog->builder)) {
        if (catalog)
            id_table_unref(&catalog->ids);
        free(catalog);
        return error_set(err, LARDER_ENOMEM, "out of memory for the catalog");
    }
    catalog->magic = CATALOG_MAGIC;
    catalog->limit_bytes = UINT64_MAX;
    CHECK(pthread_mutex_init(&catalog->lock, NULL) == 0);
    CHECK(pthread_cond_init(&catalog->built, NULL) == 0);
    *out = catalog;
    return 0;
}

static void opened_free(struct opened *opened)
{
    dataset_unref(&opened->dataset);
    free(opened->path);
    free(opened);
}

void catalog_destroy(struct catalog *catalog)
{
    if (!catalog)
        return;
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    while (catalog->opened) {
        struct opened *opened = catalog->opened;
        CHECK(opened->users == 0);
        catalog->opened = opened->next;
        opened_free(opened);
    }
    builder_destroy(catalog->builder);
    id_table_unref(&catalog->ids);
    pthread_cond_destroy(&catalog->built);
    pthread_mutex_destroy(&catalog->lock);
    catalog->magic = 0;
    free(catalog);
}

static bool is_wanted_locked(const struct opened *opened)
{
    for (const struct caller *caller = opened->callers; caller; caller = caller->next) {
        if (!interrupt_is_set(caller->interrupt))
            return true;
    }
    return false;
}

void catalog_interrupted(struct catalog *catalog)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    pthread_mutex_lock(&catalog->lock);
    for (struct opened *opened = catalog->opened; opened; opened = opened->next) {
        if (opened->building && !is_wanted_locked(opened))
            interrupt_set(&opened->unwanted);
    }
    pthread_cond_broadcast(&catalog->built);
    pthread_mutex_unlock(&catalog->lock);
    contents_interrupted(builder_contents(catalog->builder));
}

void catalog_version(struct catalog *catalog, const struct dataset *dataset, unsigned wait_ms,
                     const struct interrupt *interrupt, struct dataset_version *out)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    dataset_version(dataset, out);
    if (dataset_version_has_content(out))
        return;
    contents_await(builder_contents(catalog->builder), dataset, wait_ms, interrupt);
    dataset_version(dataset, out);
}

void catalog_set_chunking(struct catalog *catalog, uint32_t samples, uint64_t seed)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    CHECK(samples >= 1 && samples <= CHUNK_SAMPLES_MAX);
    builder_set_chunking(catalog->builder, samples, seed);
}

void catalog_set_limit(struct catalog *catalog, uint64_t bytes)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    pthread_mutex_lock(&catalog->lock);
    catalog->limit_bytes = bytes;
    pthread_mutex_unlock(&catalog->lock);
}

void catalog_set_rows_max(struct catalog *catalog, uint64_t bytes)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    atomic_store(&catalog->rows_max, bytes);
}

void catalog_keep_apart(struct catalog *catalog)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    atomic_store(&catalog->apart, true);
}

void catalog_wait_saved(struct catalog *catalog)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    builder_wait_saved(catalog->builder);
}

void catalog_stats(struct catalog *catalog, struct catalog_stats *out)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    struct builder_counts counts = builder_counts(catalog->builder);
    struct dataset_bytes all = dataset_bytes_all();
    *out = (struct catalog_stats){.samples = id_table_used(catalog->ids),
                                  .checkpoints_loaded = counts.checkpoints_loaded,
                                  .trees_walked = counts.trees_walked,
                                  .samples_bytes = all.samples,
                                  .paths_bytes = all.paths,
                                  .identities_bytes = id_table_bytes(catalog->ids)};
    pthread_mutex_lock(&catalog->lock);
    for (const struct opened *opened = catalog->opened; opened; opened = opened->next)
        out->datasets += opened->dataset != NULL;
    pthread_mutex_unlock(&catalog->lock);
}

uint32_t catalog_take_retired(struct catalog *catalog, sample_id *ids, uint32_t most)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    return id_table_take_retired(catalog->ids, ids, most);
}

void catalog_settle_retired(struct catalog *catalog, const sample_id *ids, uint32_t count, bool forgotten)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    id_table_settle(catalog->ids, ids, count, forgotten);
}

static struct opened *find_opened_locked(struct catalog *catalog, const char *path, enum sample_files files)
{
    struct opened *opened = catalog->opened;
    while (opened && (strcmp(opened->path, path) != 0 || opened->files != files))
        opened = opened->next;
    if (!opened) {
        opened = calloc(1, sizeof *opened);
        char *copy = strdup(path);
        if (!opened || !copy) {
            free(opened);
            free(copy);
            return NULL;
        }
        opened->path = copy;
        opened->files = files;
        opened->next = catalog->opened;
        catalog->opened = opened;
    }
    opened->users++;
    opened->last_use = ++catalog->uses;
    return opened;
}

static bool is_beyond_limit_locked(const struct catalog *catalog)
{
    struct dataset_bytes all = dataset_bytes_all();
    return all.samples + all.paths > catalog->limit_bytes;
}

/* Takes a source whose dataset nobody uses out of the list, that of the longest ago, if there are too many such or too
 * little memory. */
static struct opened *unlink_idle_locked(struct catalog *catalog)
{
    unsigned idle = 0;
    struct opened **oldest = NULL;
    for (struct opened **at = &catalog->opened; *at; at = &(*at)->next) {
        const struct opened *opened = *at;
        if (opened->users)
            continue;
        if (!opened->dataset) {
            oldest = at;
            idle = IDLE_DATASETS_MAX + 1;
            break;
        }
        /* One reference is the catalog's, and only a caller of catalog_open could take another: nobody is using it. */
        if (atomic_load(&opened->dataset->refs) == 1) {
            idle++;
            if (!oldest || opened->last_use < (*oldest)->last_use)
                oldest = at;
        }
    }
    if (idle == 0 || (idle <= IDLE_DATASETS_MAX && !is_beyond_limit_locked(catalog)))
        return NULL;
    struct opened *opened = *oldest;
    *oldest = opened->next;
    return opened;
}

static void free_idle_locked(struct catalog *catalog)
{
    struct opened *gone;
    while ((gone = unlink_idle_locked(catalog))) {
        pthread_mutex_unlock(&catalog->lock);
        opened_free(gone);
        pthread_mutex_lock(&catalog->lock);
    }
}

/* Refuses a dataset for which there is no memory beside those in use. */
static int check_limit_locked(struct catalog *catalog, const struct dataset *dataset, struct error *err)
{
    struct shown shown;
    free_idle_locked(catalog);
    if (!is_beyond_limit_locked(catalog))
        return 0;
    return error_set(err, LARDER_ELIMIT,
                     "%s: what larderd knows of its %u samples takes %llu bytes of memory, and that of all datasets "
                     "more than the %llu bytes of limits.catalogs: set that higher, or try again when jobs with other "
                     "datasets have ended",
                     path_shown(dataset_text(dataset), &shown), dataset->count,
                     (unsigned long long)(dataset->bytes.samples + dataset->bytes.paths),
                     (unsigned long long)catalog->limit_bytes);
}

/* Builds, outside the lock, and publishes the outcome. An interrupted build changes nothing. */
static void build_source_locked(struct catalog *catalog, struct opened *opened)
{
    struct dataset *old = opened->dataset, *fresh = NULL;
    struct error outcome = {0};
    opened->building = true;
    atomic_store_explicit(&opened->unwanted.set, false, memory_order_relaxed);
    pthread_mutex_unlock(&catalog->lock);
    const struct source_wish wish = {.text = opened->path,
                                     .files = opened->files,
                                     .rows_max = atomic_load(&catalog->rows_max),
                                     .apart = atomic_load(&catalog->apart),
                                     .interrupt = &opened->unwanted};
    int code = builder_refresh(catalog->builder, &wish, old, &fresh, &outcome);
    pthread_mutex_lock(&catalog->lock);
    bool same = fresh == old; /* it takes no more than before */
    if (code != LARDER_EGONE) {
        opened->dataset = NULL;
        dataset_unref(&old);
    }
    if (!code && !same && (code = check_limit_locked(catalog, fresh, &outcome)))
        dataset_unref(&fresh);
    opened->outcome = outcome;
    opened->outcome.code = code;
    opened->building = false;
    opened->builds++;
    pthread_cond_broadcast(&catalog->built);
    if (code != LARDER_EGONE)
        opened->dataset = fresh; /* NULL when the source is no dataset any more */
}

/* Builds the source, or waits for whoever does. A build that was interrupted is nobody's outcome: who came while it
 * ended builds anew. */
static int wait_locked(struct catalog *catalog, struct opened *opened, const struct interrupt *interrupt,
                       struct error *err)
{
    do {
        if (interrupt_is_set(interrupt))
            return file_interrupted(opened->path, err);
        uint64_t builds = opened->builds;
        if (!opened->building)
            build_source_locked(catalog, opened);
        while (opened->builds == builds && !interrupt_is_set(interrupt))
            pthread_cond_wait(&catalog->built, &catalog->lock);
        if (opened->builds == builds)
            return file_interrupted(opened->path, err);
    } while (opened->outcome.code == LARDER_EGONE);
    return opened->outcome.code ? error_set(err, opened->outcome.code, "%s", opened->outcome.text) : 0;
}

static int open_resolved(struct catalog *catalog, const char *path, const struct catalog_wish *wish,
                         struct dataset **out, struct error *err)
{
    struct caller caller = {.interrupt = wish->interrupt}, **at;
    pthread_mutex_lock(&catalog->lock);
    struct opened *opened = find_opened_locked(catalog, path, wish->files);
    if (!opened) {
        pthread_mutex_unlock(&catalog->lock);
        return error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
    }
    caller.next = opened->callers;
    opened->callers = &caller;
    int code = wait_locked(catalog, opened, wish->interrupt, err);
    if (!code)
        *out = dataset_ref(opened->dataset);
    for (at = &opened->callers; *at != &caller;)
        at = &(*at)->next;
    *at = caller.next;
    opened->users--;
    free_idle_locked(catalog);
    pthread_mutex_unlock(&catalog->lock);
    return code;
}

/* resolve_whole resolves a text that names no parts. */
static int resolve_whole(const char *path, char **out, struct error *err)
{
    struct shown shown;
    struct stat st;
    if (*path == '\0')
        return error_set(err, LARDER_EINVAL, "the dataset's path is empty: give a folder with one folder a class");
    bool there = stat(path, &st) == 0;
    if (there && S_ISDIR(st.st_mode) && (*out = realpath(path, NULL)))
        return 0;
    if (list_text_is(path))
        return list_text_resolve(path, out, err);
    if (tar_text_is(path))
        return tar_text_resolve(path, out, err);
    if (there && S_ISREG(st.st_mode))
        return error_set(err, LARDER_EINVAL,
                         "%s: not a folder: give a folder with one folder a class inside, tar shards, NAME.tar, or of "
                         "images inside another file the list that Python's larder.index writes",
                         path_shown(path, &shown));
    if (there)
        return error_set(err, LARDER_EINVAL, "%s: not a folder: give a folder with one folder a class inside",
                         path_shown(path, &shown));
    return error_set(err, errno_code(errno), "%s: cannot open the dataset: %s", path_shown(path, &shown),
                     strerror(errno));
}

/* resolve returns the text by which a source is known, which the caller frees: a folder's resolved path, or the
 * resolved text of a list or of shards; with its parts behind it, if it has some. */
static int resolve(const char *path, char **out, struct error *err)
{
    size_t len;
    struct stat st;
    const char *parts = parts_text_of(path, &len);
    if (!parts || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))
        return resolve_whole(path, out, err);
    char *whole = strndup(path, len), *resolved = NULL;
    int code = whole ? resolve_whole(whole, &resolved, err) : error_set(err, LARDER_ENOMEM, "out of memory");
    if (!code && asprintf(out, "%s%s", resolved, path + len) < 0)
        code = error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
    free(whole);
    free(resolved);
    return code;
}

int catalog_folder(const char *path, char **out, struct error *err)
{
    char *text = NULL;
    int code = resolve(path, &text, err);
    if (code)
        return code;
    size_t len;
    parts_text_of(text, &len);
    text[len] = '\0';
    *out = tar_text_root(text);
    free(text);
    return *out ? 0 : error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
}

int catalog_open_for(struct catalog *catalog, const struct catalog_wish *wish, struct dataset **out, struct error *err)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    char *text = NULL;
    int code = resolve(wish->path, &text, err);
    if (!code)
        code = open_resolved(catalog, text, wish, out, err);
    free(text);
    return code;
}

int catalog_open(struct catalog *catalog, const char *path, struct dataset **out, struct error *err)
{
    return catalog_open_for(catalog, &(struct catalog_wish){.path = path}, out, err);
}
