/* catalog.c: the sources a daemon has opened, and the ids their samples have.
 *
 * A source is one folder, by its resolved path, and what of it counts as a sample. While one caller indexes or verifies it
 * (building), others who want it wait and share the outcome; the work ends early when none of them wants it any more.
 * lock guards the list of sources and what is in them; indexing happens outside it, and
 * nothing is read or written under it. The ids have a lock of their own, held while one dataset's ids are given.
 * The catalog keeps a reference to each source's newest dataset; of those that nobody else uses it keeps a few. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "cache/store_priv.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"

#define CATALOG_MAGIC UINT32_C(0x43415441)
#define IDLE_DATASETS_MAX 16
#define CHUNK_SIZE_DEFAULT 64
#define CHUNK_SEED_DEFAULT 1

struct caller {
    struct caller *next;
    const struct interrupt *interrupt;
};

struct source {
    struct source *next;
    char *path;
    bool every; /* samples are files of any kind */
    struct dataset *dataset; /* the newest; NULL when it is not in memory */
    unsigned users;          /* callers inside catalog_open */
    struct caller *callers;  /* as many */
    bool building;
    struct interrupt unwanted; /* all its callers are interrupted: set under the lock, cleared before a build, read by it */
    uint64_t builds;         /* finished ones */
    struct error outcome;    /* of the last build */
    uint64_t last_use;
};

struct catalog {
    uint32_t magic;
    char *checkpoint_dir; /* NULL: keep none */
    pthread_mutex_t lock; /* of the fields below */
    pthread_cond_t built; /* some source's build finished, or a caller's interrupt was set */
    struct source *sources;
    uint64_t uses;
    uint64_t checkpoints_loaded, trees_walked;
    uint32_t chunk_size;
    uint64_t chunk_seed;
    struct id_table *ids;
    uint64_t identity_seed; /* so that nobody can make up a file that passes for another */
};

int catalog_create(const char *checkpoint_dir, struct catalog **out, struct error *err)
{
    struct catalog *catalog = calloc(1, sizeof *catalog);
    char *dir = checkpoint_dir ? strdup(checkpoint_dir) : NULL;
    if (!catalog || (checkpoint_dir && !dir) || id_table_create(&catalog->ids)) {
        free(catalog);
        free(dir);
        return error_set(err, LARDER_ENOMEM, "out of memory for the catalog");
    }
    struct error problem;
    if (dir && checkpoint_prepare(dir, &problem)) {
        log_warn("msg=\"catalog checkpoints are not kept: every start will index anew\" err=\"%s\"", problem.text);
        free(dir);
        dir = NULL;
    }
    catalog->magic = CATALOG_MAGIC;
    catalog->checkpoint_dir = dir;
    catalog->chunk_size = CHUNK_SIZE_DEFAULT;
    catalog->chunk_seed = CHUNK_SEED_DEFAULT;
    if (getrandom(&catalog->identity_seed, sizeof catalog->identity_seed, GRND_NONBLOCK) < 0)
        catalog->identity_seed = clock_now_ns();
    CHECK(pthread_mutex_init(&catalog->lock, NULL) == 0);
    CHECK(pthread_cond_init(&catalog->built, NULL) == 0);
    *out = catalog;
    return 0;
}

static void source_free(struct source *source)
{
    dataset_unref(&source->dataset);
    free(source->path);
    free(source);
}

void catalog_destroy(struct catalog *catalog)
{
    if (!catalog)
        return;
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    while (catalog->sources) {
        struct source *source = catalog->sources;
        CHECK(source->users == 0);
        catalog->sources = source->next;
        source_free(source);
    }
    id_table_unref(&catalog->ids);
    pthread_cond_destroy(&catalog->built);
    pthread_mutex_destroy(&catalog->lock);
    free(catalog->checkpoint_dir);
    catalog->magic = 0;
    free(catalog);
}

static bool is_wanted_locked(const struct source *source)
{
    for (const struct caller *caller = source->callers; caller; caller = caller->next) {
        if (!interrupt_is_set(caller->interrupt))
            return true;
    }
    return false;
}

void catalog_interrupted(struct catalog *catalog)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    pthread_mutex_lock(&catalog->lock);
    for (struct source *source = catalog->sources; source; source = source->next) {
        if (source->building && !is_wanted_locked(source))
            interrupt_set(&source->unwanted);
    }
    pthread_cond_broadcast(&catalog->built);
    pthread_mutex_unlock(&catalog->lock);
}

void catalog_set_chunking(struct catalog *catalog, uint32_t samples, uint64_t seed)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    CHECK(samples >= 1 && samples <= CHUNK_SAMPLES_MAX);
    pthread_mutex_lock(&catalog->lock);
    catalog->chunk_size = samples;
    catalog->chunk_seed = seed;
    pthread_mutex_unlock(&catalog->lock);
}

void catalog_stats(struct catalog *catalog, struct catalog_stats *out)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    *out = (struct catalog_stats){0};
    pthread_mutex_lock(&catalog->lock);
    for (const struct source *source = catalog->sources; source; source = source->next)
        out->datasets += source->dataset != NULL;
    out->checkpoints_loaded = catalog->checkpoints_loaded;
    out->trees_walked = catalog->trees_walked;
    pthread_mutex_unlock(&catalog->lock);
    out->samples = id_table_used(catalog->ids);
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

static struct identity sample_identity(const struct catalog *catalog, const struct dataset_parts *parts, size_t number,
                                       uint64_t occurrence)
{
    const struct index_sample *sample = &parts->index.samples[number];
    uint64_t facts[8] = {sample->device, sample->inode, sample->size, (uint64_t)sample->mtime_ns, occurrence};
    if (parts->store && parts->store->foreign) {
        facts[5] = parts->store->index_device;
        facts[6] = parts->store->index_inode;
        facts[7] = parts->store->owner + 1; /* never 0, which all others have here */
    }
    XXH128_hash_t hash = XXH3_128bits_withSeed(facts, sizeof facts, catalog->identity_seed);
    return (struct identity){.low = hash.low64, .high = hash.high64};
}

/* Turns every sample into its identity, counting how often the same file came before in this dataset. */
static int make_identities(const struct catalog *catalog, const struct dataset_parts *parts,
                           struct identity *identities)
{
    size_t count = parts->index.sample_count;
    struct identity_table firsts = {0};
    uint32_t *seen = calloc(count, sizeof *seen); /* by number in firsts */
    int code = seen ? identity_table_reserve(&firsts, count) : LARDER_ENOMEM;
    for (size_t i = 0; !code && i < count; i++) {
        identities[i] = sample_identity(catalog, parts, i, 0);
        uint32_t earlier = seen[identity_number(&firsts, identities[i])]++;
        if (earlier)
            identities[i] = sample_identity(catalog, parts, i, earlier);
    }
    identity_table_free(&firsts);
    free(seen);
    return code;
}

static int give_ids(struct catalog *catalog, struct dataset_parts *parts)
{
    size_t count = parts->index.sample_count;
    struct identity *identities = malloc(count * sizeof *identities);
    sample_id *ids = malloc(count * sizeof *ids);
    int code = identities && ids ? make_identities(catalog, parts, identities) : LARDER_ENOMEM;
    if (!code)
        code = id_table_give(catalog->ids, identities, count, ids);
    free(identities);
    if (code) {
        free(ids);
        return code;
    }
    parts->ids = ids;
    parts->id_table = id_table_ref(catalog->ids);
    return 0;
}

static void count(struct catalog *catalog, uint64_t *counter)
{
    pthread_mutex_lock(&catalog->lock);
    ++*counter;
    pthread_mutex_unlock(&catalog->lock);
}

static void save_checkpoint(const char *checkpoint, const struct index *index)
{
    struct error problem;
    if (checkpoint && checkpoint_save(checkpoint, index, &problem))
        log_warn_limited("msg=\"catalog checkpoint not kept\" source=\"%s\" err=\"%s\"", index->root, problem.text);
}

/* Fills the index from the source's checkpoint when there is one that still holds. */
static bool load_checkpoint(struct catalog *catalog, const char *checkpoint, const struct source *source, struct index *index)
{
    const char *path = source->path;
    struct error problem;
    int code = checkpoint ? checkpoint_load(checkpoint, path, &source->unwanted, index, &problem) : LARDER_ENOENT;
    if (code) {
        if (code != LARDER_ENOENT && code != LARDER_EGONE)
            log_warn_limited("msg=\"catalog checkpoint is rebuilt\" source=\"%s\" err=\"%s\"", path, problem.text);
        return false;
    }
    bool settled, moved = index_follow_mount(index);
    if (!tree_unchanged(path, index, &source->unwanted, &settled)) {
        if (!interrupt_is_set(&source->unwanted))
            log_info_limited("msg=\"source changed: indexing it anew\" source=\"%s\"", path);
        index_free(index);
        return false;
    }
    if (settled || moved)
        save_checkpoint(checkpoint, index);
    count(catalog, &catalog->checkpoints_loaded);
    return true;
}

static int chunk_tree(struct catalog *catalog, const struct index *index, struct chunking *out)
{
    pthread_mutex_lock(&catalog->lock);
    uint32_t size = catalog->chunk_size;
    uint64_t seed = catalog->chunk_seed;
    pthread_mutex_unlock(&catalog->lock);
    return chunking_shuffle((uint32_t)index->sample_count, size, seed, out);
}

/* Reads a tree's samples: from its checkpoint, or from the tree. */
static int index_tree(struct catalog *catalog, const struct source *source, bool trust_checkpoint, struct dataset_parts *parts,
                      struct error *err)
{
    parts->checkpoint = catalog->checkpoint_dir && !source->every ? checkpoint_path(catalog->checkpoint_dir, source->path) : NULL;
    if (trust_checkpoint && load_checkpoint(catalog, parts->checkpoint, source, &parts->index))
        return 0;
    int code = tree_index(source->path, source->every, &source->unwanted, &parts->index, err);
    if (!code) {
        count(catalog, &catalog->trees_walked);
        save_checkpoint(parts->checkpoint, &parts->index);
    }
    return code;
}

static int index_source(struct catalog *catalog, const struct source *source, bool trust_checkpoint, struct dataset_parts *parts,
                        struct error *err)
{
    bool is_store;
    int code = store_is(source->path, &is_store, err);
    if (code)
        return code;
    return is_store ? store_load(source->path, &source->unwanted, parts, err) : index_tree(catalog, source, trust_checkpoint, parts, err);
}

/* Makes the dataset of a source that is not in memory, or no longer as it is there. */
static int build(struct catalog *catalog, const struct source *source, bool trust_checkpoint, struct dataset **out, struct error *err)
{
    uint64_t start_ns = clock_now_ns();
    struct dataset_parts parts = {0};
    struct shown shown;
    int code = index_source(catalog, source, trust_checkpoint, &parts, err);
    if (!code && interrupt_is_set(&source->unwanted))
        code = file_interrupted(source->path, err);
    if (!code) {
        code = give_ids(catalog, &parts);
        if (!code && !parts.store)
            code = chunk_tree(catalog, &parts.index, &parts.chunking);
        if (!code)
            code = dataset_from_parts(&parts, out);
        if (code)
            error_set(err, code, "%s: %s", path_shown(source->path, &shown),
                      code == LARDER_ELIMIT ? "no sample ids are left" : "out of memory");
    }
    dataset_parts_free(&parts);
    if (!code)
        log_info_limited("msg=\"dataset opened\" source=\"%s\" samples=%u classes=%u took_ms=%llu", source->path,
                         (*out)->count, (unsigned)(*out)->index.class_count,
                         (unsigned long long)((clock_now_ns() - start_ns) / CLOCK_NS_PER_MS));
    return code;
}

static bool source_unchanged(const struct source *source, struct dataset *dataset)
{
    bool settled;
    if (dataset->store)
        return store_unchanged(source->path, dataset->store);
    return !atomic_load(&dataset->stale) && tree_unchanged(source->path, &dataset->index, &source->unwanted, &settled);
}

/* The caller is the source's one builder. Gives the dataset as the source is now: the old one when that still holds. */
static int refresh(struct catalog *catalog, const struct source *source, struct dataset *old, struct dataset **out, struct error *err)
{
    if (!old)
        return build(catalog, source, true, out, err);
    if (source_unchanged(source, old)) {
        *out = dataset_ref(old);
        return 0;
    }
    if (interrupt_is_set(&source->unwanted))
        return file_interrupted(source->path, err);
    log_info_limited("msg=\"source changed: indexing it anew\" source=\"%s\"", source->path);
    int code = build(catalog, source, false, out, err);
    if (!code)
        atomic_store(&old->stale, true); /* what it reads from now on says nothing about the checkpoint that is new */
    return code;
}

static struct source *find_source_locked(struct catalog *catalog, const char *path, bool every)
{
    struct source *source = catalog->sources;
    while (source && (strcmp(source->path, path) != 0 || source->every != every))
        source = source->next;
    if (!source) {
        source = calloc(1, sizeof *source);
        char *copy = strdup(path);
        if (!source || !copy) {
            free(source);
            free(copy);
            return NULL;
        }
        source->path = copy;
        source->every = every;
        source->next = catalog->sources;
        catalog->sources = source;
    }
    source->users++;
    source->last_use = ++catalog->uses;
    return source;
}

/* Builds, outside the lock, and publishes the outcome. What was interrupted leaves all as it was. */
static void build_source_locked(struct catalog *catalog, struct source *source)
{
    struct dataset *old = source->dataset, *fresh = NULL;
    struct error outcome = {0};
    source->building = true;
    atomic_store_explicit(&source->unwanted.set, false, memory_order_relaxed);
    pthread_mutex_unlock(&catalog->lock);
    int code = refresh(catalog, source, old, &fresh, &outcome);
    pthread_mutex_lock(&catalog->lock);
    source->outcome = outcome;
    source->outcome.code = code;
    source->building = false;
    source->builds++;
    pthread_cond_broadcast(&catalog->built);
    if (code == LARDER_EGONE)
        return;
    source->dataset = fresh; /* NULL when the source is no dataset any more */
    dataset_unref(&old);
}

static struct source *unlink_idle_locked(struct catalog *catalog)
{
    unsigned idle = 0;
    struct source **oldest = NULL;
    for (struct source **at = &catalog->sources; *at; at = &(*at)->next) {
        const struct source *source = *at;
        if (source->users)
            continue;
        if (!source->dataset) {
            oldest = at;
            idle = IDLE_DATASETS_MAX + 1;
            break;
        }
        /* One reference is the catalog's, and only a caller of catalog_open could take another: nobody is using it. */
        if (atomic_load(&source->dataset->refs) == 1) {
            idle++;
            if (!oldest || source->last_use < (*oldest)->last_use)
                oldest = at;
        }
    }
    if (idle <= IDLE_DATASETS_MAX)
        return NULL;
    struct source *source = *oldest;
    *oldest = source->next;
    return source;
}

/* Builds the source, or waits for whoever does. A build that was interrupted is nobody's outcome: who came while it ended
 * builds anew. */
static int wait_locked(struct catalog *catalog, struct source *source, const struct interrupt *interrupt, struct error *err)
{
    do {
        if (interrupt_is_set(interrupt))
            return file_interrupted(source->path, err);
        uint64_t builds = source->builds;
        if (!source->building)
            build_source_locked(catalog, source);
        while (source->builds == builds && !interrupt_is_set(interrupt))
            pthread_cond_wait(&catalog->built, &catalog->lock);
        if (source->builds == builds)
            return file_interrupted(source->path, err);
    } while (source->outcome.code == LARDER_EGONE);
    return source->outcome.code ? error_set(err, source->outcome.code, "%s", source->outcome.text) : 0;
}

static int open_resolved(struct catalog *catalog, const char *path, const struct catalog_wish *wish, struct dataset **out,
                         struct error *err)
{
    struct caller caller = {.interrupt = wish->interrupt}, **at;
    pthread_mutex_lock(&catalog->lock);
    struct source *source = find_source_locked(catalog, path, wish->every_file);
    if (!source) {
        pthread_mutex_unlock(&catalog->lock);
        return error_set(err, LARDER_ENOMEM, "out of memory for a dataset");
    }
    caller.next = source->callers;
    source->callers = &caller;
    int code = wait_locked(catalog, source, wish->interrupt, err);
    if (!code)
        *out = dataset_ref(source->dataset);
    for (at = &source->callers; *at != &caller;)
        at = &(*at)->next;
    *at = caller.next;
    source->users--;
    struct source *gone;
    while ((gone = unlink_idle_locked(catalog))) {
        pthread_mutex_unlock(&catalog->lock);
        source_free(gone);
        pthread_mutex_lock(&catalog->lock);
    }
    pthread_mutex_unlock(&catalog->lock);
    return code;
}

int catalog_open_for(struct catalog *catalog, const struct catalog_wish *wish, struct dataset **out, struct error *err)
{
    CHECK_MAGIC(catalog, CATALOG_MAGIC);
    const char *path = wish->path;
    struct shown shown;
    struct stat st;
    char resolved[PATH_MAX];
    if (*path == '\0')
        return error_set(err, LARDER_EINVAL, "the dataset's path is empty: give a folder with one folder a class");
    if (!realpath(path, resolved) || stat(resolved, &st))
        return error_set(err, errno_code(errno), "%s: cannot open the dataset: %s", path_shown(path, &shown), strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return error_set(err, LARDER_EINVAL, "%s: not a folder: give a folder with one folder a class inside",
                         path_shown(path, &shown));
    return open_resolved(catalog, resolved, wish, out, err);
}

int catalog_open(struct catalog *catalog, const char *path, struct dataset **out, struct error *err)
{
    return catalog_open_for(catalog, &(struct catalog_wish){.path = path}, out, err);
}

int catalog_open_files(struct catalog *catalog, const char *path, struct dataset **out, struct error *err)
{
    return catalog_open_for(catalog, &(struct catalog_wish){.path = path, .every_file = true}, out, err);
}
