/* build.c: makes the dataset of a source: its index, its samples' ids, its chunks. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cache/store/store.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"

struct builder {
    char *checkpoint_dir; /* NULL: keep none */
    struct saver *saver;
    struct contents *contents;
    struct id_table *ids;
    uint64_t identity_seed; /* so that nobody can make up a file that passes for another */
    pthread_mutex_t lock;   /* guards the fields below */
    uint64_t checkpoints_loaded, trees_walked;
    uint32_t chunk_size;
    uint64_t chunk_seed;
};

int builder_create(const char *checkpoint_dir, struct id_table *ids, struct builder **out)
{
    struct builder *builder = calloc(1, sizeof *builder);
    char *dir = checkpoint_dir ? strdup(checkpoint_dir) : NULL;
    if (!builder || (checkpoint_dir && !dir) || saver_create(&builder->saver) ||
        contents_create(builder->saver, &builder->contents)) {
        if (builder && builder->saver)
            saver_destroy(builder->saver);
        free(builder);
        free(dir);
        return LARDER_ENOMEM;
    }
    struct error problem;
    if (dir && checkpoint_prepare(dir, &problem)) {
        log_warn("msg=\"catalog checkpoints are not kept: every start will index anew\" err=\"%s\"", problem.text);
        free(dir);
        dir = NULL;
    }
    builder->checkpoint_dir = dir;
    builder->ids = id_table_ref(ids);
    builder->chunk_size = CHUNK_SAMPLES_DEFAULT;
    builder->chunk_seed = CHUNK_SEED_DEFAULT;
    if (getrandom(&builder->identity_seed, sizeof builder->identity_seed, GRND_NONBLOCK) < 0)
        builder->identity_seed = clock_now_ns();
    CHECK(pthread_mutex_init(&builder->lock, NULL) == 0);
    *out = builder;
    return 0;
}

void builder_destroy(struct builder *builder)
{
    contents_destroy(builder->contents);
    saver_destroy(builder->saver);
    id_table_unref(&builder->ids);
    pthread_mutex_destroy(&builder->lock);
    free(builder->checkpoint_dir);
    free(builder);
}

void builder_wait_saved(struct builder *builder)
{
    contents_wait(builder->contents);
    saver_wait(builder->saver);
}

struct contents *builder_contents(struct builder *builder)
{
    return builder->contents;
}

void builder_set_chunking(struct builder *builder, uint32_t samples, uint64_t seed)
{
    pthread_mutex_lock(&builder->lock);
    builder->chunk_size = samples;
    builder->chunk_seed = seed;
    pthread_mutex_unlock(&builder->lock);
}

struct builder_counts builder_counts(struct builder *builder)
{
    pthread_mutex_lock(&builder->lock);
    struct builder_counts counts = {builder->checkpoints_loaded, builder->trees_walked};
    pthread_mutex_unlock(&builder->lock);
    return counts;
}

static struct identity sample_identity(const struct builder *builder, const struct dataset_parts *parts, size_t number,
                                       uint64_t occurrence)
{
    return content_identity(&parts->index.samples[number], parts->store, occurrence, builder->identity_seed);
}

/* Turns every sample into its identity, counting how often the same file came before in this dataset. */
static int make_identities(const struct builder *builder, const struct dataset_parts *parts,
                           struct identity *identities)
{
    size_t count = parts->index.sample_count;
    struct identity_table firsts = {0};
    uint32_t *seen = calloc(count, sizeof *seen); /* indexed by the number in firsts */
    int code = seen ? identity_table_reserve(&firsts, count) : LARDER_ENOMEM;
    for (size_t i = 0, made = 0; !code && i < count; i++) {
        for (; made < count && made <= i + IDENTITY_AHEAD; made++) {
            identities[made] = sample_identity(builder, parts, made, 0);
            identity_expect(&firsts, identities[made]);
        }
        uint32_t earlier = seen[identity_number(&firsts, identities[i])]++;
        if (earlier)
            identities[i] = sample_identity(builder, parts, i, earlier);
    }
    identity_table_free(&firsts);
    free(seen);
    return code;
}

static int give_ids(struct builder *builder, struct dataset_parts *parts)
{
    size_t count = parts->index.sample_count;
    struct identity *identities = malloc(count * sizeof *identities);
    sample_id *ids = malloc(count * sizeof *ids);
    int code = identities && ids ? make_identities(builder, parts, identities) : LARDER_ENOMEM;
    if (!code)
        code = id_table_give(builder->ids, identities, count, ids);
    free(identities);
    if (code) {
        free(ids);
        return code;
    }
    parts->ids = ids;
    parts->id_table = id_table_ref(builder->ids);
    return 0;
}

static void count(struct builder *builder, uint64_t *counter)
{
    pthread_mutex_lock(&builder->lock);
    ++*counter;
    pthread_mutex_unlock(&builder->lock);
}

/* Fills the index from the source's checkpoint when there is one that still holds. */
static bool load_checkpoint(struct builder *builder, const struct catalog_wish *wish, struct dataset_parts *parts)
{
    const char *path = wish->path, *checkpoint = parts->checkpoint;
    struct index *index = &parts->index;
    struct error problem;
    int code = checkpoint ? checkpoint_load(checkpoint, path, wish->interrupt, index, &problem) : LARDER_ENOENT;
    if (code) {
        if (code != LARDER_ENOENT && code != LARDER_EGONE)
            log_warn_limited("msg=\"catalog checkpoint is rebuilt\" source=\"%s\" err=\"%s\"", path, problem.text);
        return false;
    }
    bool settled, moved = index_follow_mount(index);
    if (!tree_unchanged(path, index, wish->interrupt, &settled)) {
        if (!interrupt_is_set(wish->interrupt))
            log_info_limited("msg=\"source changed: indexing it anew\" source=\"%s\"", path);
        index_free(index);
        return false;
    }
    tree_note_reachable(index);
    parts->unsaved = settled || moved;
    count(builder, &builder->checkpoints_loaded);
    return true;
}

static int chunk_tree(struct builder *builder, const struct index *index, struct chunking *out)
{
    pthread_mutex_lock(&builder->lock);
    uint32_t size = builder->chunk_size;
    uint64_t seed = builder->chunk_seed;
    pthread_mutex_unlock(&builder->lock);
    return chunking_shuffle((uint32_t)index->sample_count, size, seed, out);
}

/* Reads a tree's samples: from its checkpoint, or from the tree. */
static int index_tree(struct builder *builder, const struct catalog_wish *wish, bool trust_checkpoint,
                      struct dataset_parts *parts, struct error *err)
{
    if (builder->checkpoint_dir && !wish->every_file)
        parts->checkpoint = checkpoint_path(builder->checkpoint_dir, wish->path);
    if (trust_checkpoint && load_checkpoint(builder, wish, parts))
        return 0;
    int code = tree_index(wish->path, wish->every_file, wish->interrupt, &parts->index, err);
    if (!code) {
        tree_note_reachable(&parts->index);
        count(builder, &builder->trees_walked);
        parts->unsaved = parts->checkpoint != NULL;
    }
    return code;
}

static int index_source(struct builder *builder, const struct catalog_wish *wish, bool trust_checkpoint,
                        struct dataset_parts *parts, struct error *err)
{
    bool is_store;
    int code = store_is(wish->path, &is_store, err);
    if (code)
        return code;
    return is_store ? store_load(wish->path, wish->interrupt, parts, err)
                    : index_tree(builder, wish, trust_checkpoint, parts, err);
}

/* Makes the dataset of a source that is not in memory, or no longer as it is there. */
static int build(struct builder *builder, const struct catalog_wish *wish, bool trust_checkpoint, struct dataset **out,
                 struct error *err)
{
    uint64_t start_ns = clock_now_ns();
    struct dataset_parts parts = {0};
    struct shown shown;
    int code = index_source(builder, wish, trust_checkpoint, &parts, err);
    if (!code && interrupt_is_set(wish->interrupt))
        code = file_interrupted(wish->path, err);
    if (!code) {
        code = give_ids(builder, &parts);
        if (!code && !parts.store)
            code = chunk_tree(builder, &parts.index, &parts.chunking);
        bool unsaved = parts.unsaved;
        if (!code)
            code = dataset_from_parts(&parts, out);
        if (!code && !contents_find(builder->contents, *out, unsaved) && unsaved)
            saver_save(builder->saver, *out);
        if (code)
            error_set(err, code, "%s: %s", path_shown(wish->path, &shown),
                      code == LARDER_ELIMIT ? "no sample ids are left" : "out of memory");
    }
    dataset_parts_free(&parts);
    if (!code)
        log_info_limited("msg=\"dataset opened\" source=\"%s\" samples=%u classes=%u took_ms=%llu", wish->path,
                         (*out)->count, (unsigned)(*out)->index.class_count,
                         (unsigned long long)((clock_now_ns() - start_ns) / CLOCK_NS_PER_MS));
    return code;
}

static bool source_unchanged(const struct catalog_wish *wish, struct dataset *dataset)
{
    bool settled;
    if (dataset->store)
        return store_unchanged(wish->path, dataset->store);
    return !atomic_load(&dataset->stale) && tree_unchanged(wish->path, &dataset->index, wish->interrupt, &settled);
}

int builder_refresh(struct builder *builder, const struct catalog_wish *wish, struct dataset *old, struct dataset **out,
                    struct error *err)
{
    if (!old)
        return build(builder, wish, true, out, err);
    if (source_unchanged(wish, old)) {
        contents_find(builder->contents, old, false); /* tries again if the files could not be read before */
        *out = dataset_ref(old);
        return 0;
    }
    if (interrupt_is_set(wish->interrupt))
        return file_interrupted(wish->path, err);
    log_info_limited("msg=\"source changed: indexing it anew\" source=\"%s\"", wish->path);
    int code = build(builder, wish, false, out, err);
    if (!code)
        atomic_store(&old->stale, true); /* the old dataset's reads say nothing about the new checkpoint */
    return code;
}
