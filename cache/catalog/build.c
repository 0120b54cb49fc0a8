/* build.c: makes the dataset of a source: its index, its samples' ids, its chunks. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cache/catalog/catalog_priv.h"
#include "cache/source/list.h"
#include "cache/source/parts.h"
#include "cache/source/runs.h"
#include "cache/source/tar.h"
#include "cache/source/tree.h"
#include "cache/store/store.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"

/* The kinds of sources: a text is of the first that takes it. */
static const struct source_kind *const kinds[] = {&parts_kind, &store_kind, &list_kind, &tar_kind, &tree_kind};

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

/* Turns every sample into its identity, counting how often the same file came before in this dataset. */
static int make_identities(const struct id_maker *maker, struct identity *identities)
{
    const struct source *source = maker->context;
    size_t count = maker->count;
    struct identity_table firsts = {0};
    uint32_t *seen = calloc(count, sizeof *seen); /* indexed by the number in firsts */
    int code = seen ? identity_table_reserve(&firsts, count) : LARDER_ENOMEM;
    for (size_t i = 0, made = 0; !code && i < count; i++) {
        for (; made < count && made <= i + IDENTITY_AHEAD; made++) {
            identities[made] = source_identity(source, (uint32_t)made, 0, maker->seed);
            identity_expect(&firsts, identities[made]);
        }
        uint32_t earlier = seen[identity_number(&firsts, identities[i])]++;
        if (earlier)
            identities[i] = source_identity(source, (uint32_t)i, earlier, maker->seed);
    }
    identity_table_free(&firsts);
    free(seen);
    return code;
}

static int give_ids(struct builder *builder, struct dataset_parts *parts)
{
    const struct id_maker maker = {.make = make_identities,
                                   .context = parts->source,
                                   .seed = builder->identity_seed,
                                   .count = parts->source->index.sample_count};
    sample_id *ids = malloc(maker.count * sizeof *ids);
    int code = ids ? id_table_give(builder->ids, &maker, ids) : LARDER_ENOMEM;
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

/* Makes the source of its checkpoint when there is one that still holds. */
static bool load_checkpoint(struct builder *builder, const struct source_kind *kind, const struct source_wish *wish,
                            struct dataset_parts *parts)
{
    const char *text = wish->text;
    struct source *source = NULL;
    struct error problem;
    int code = parts->checkpoint ? source_create(kind, &source, &problem) : LARDER_ENOENT;
    if (!code)
        code = checkpoint_load(parts->checkpoint, text, wish->interrupt, &source->index, &source->chunking, &problem);
    if (code) {
        if (code != LARDER_ENOENT && code != LARDER_EGONE)
            log_warn_limited("msg=\"catalog checkpoint is rebuilt\" source=\"%s\" err=\"%s\"", text, problem.text);
        source_free(&source);
        return false;
    }
    bool settled, moved = kind->restore(source);
    if (!source->kind->unchanged(source, wish->interrupt, &settled)) {
        if (!interrupt_is_set(wish->interrupt))
            log_info_limited("msg=\"source changed: indexing it anew\" source=\"%s\"", text);
        source_free(&source);
        return false;
    }
    parts->source = source;
    parts->unsaved = settled || moved;
    count(builder, &builder->checkpoints_loaded);
    return true;
}

/* Whether a source's chunks are to be of samples that lie behind each other, which one read brings. */
static bool suits_runs(const struct source *source, uint32_t size)
{
    bool suits = runs_suit(&source->index, size);
    if (!suits && source->index.blob_count)
        log_info_limited(
            "msg=\"samples of a class lie together, or are said to, so a chunk's are read one by one: write the shards "
            "anew, shuffled, or use larder pack\" source=\"%s\"",
            source->index.text);
    return suits;
}

/* Gives a source whose container has no chunks some, unless its checkpoint had those that would be drawn. */
static int draw_chunks(struct builder *builder, struct dataset_parts *parts)
{
    struct source *source = parts->source;
    const struct chunking *had = &source->chunking;
    pthread_mutex_lock(&builder->lock);
    uint32_t size = builder->chunk_size;
    uint64_t seed = builder->chunk_seed;
    pthread_mutex_unlock(&builder->lock);
    if (had->members && (!had->drawn || (had->chunk_size == size && had->seed == seed)))
        return 0;
    chunking_free(&source->chunking);
    parts->unsaved |= parts->checkpoint != NULL;
    if (suits_runs(source, size))
        return runs_shuffle(&source->index, size, seed, &source->chunking);
    return chunking_shuffle((uint32_t)source->index.sample_count, size, seed, &source->chunking);
}

static int kind_of(const char *text, const struct source_kind **out, struct error *err)
{
    bool is = false;
    int code = 0;
    for (size_t i = 0; !code && !is; i++) {
        *out = kinds[i];
        is = !kinds[i]->is;
        if (!is)
            code = kinds[i]->is(text, &is, err);
    }
    return code;
}

/* Makes the source: from its checkpoint, or as it is found. old (may be NULL) is what the dataset was. */
static int index_source(struct builder *builder, const struct source_wish *wish, const struct dataset *old,
                        struct dataset_parts *parts, struct error *err)
{
    const struct source_kind *kind;
    int code = kind_of(wish->text, &kind, err);
    if (code)
        return code;
    if (kind->restore && builder->checkpoint_dir)
        parts->checkpoint = checkpoint_path(builder->checkpoint_dir, wish->text, wish->files);
    bool restored = !old && load_checkpoint(builder, kind, wish, parts);
    if (!restored) {
        code = source_index(kind, wish, &parts->source, err);
        if (!code && kind->restore)
            count(builder, &builder->trees_walked);
        parts->unsaved = !code && parts->checkpoint;
    }
    if (code)
        return code;
    bool doubted = old && atomic_load(&old->source->doubted);
    atomic_store(&parts->source->doubted, doubted);
    origins_find(parts->source, restored,
                 doubted       ? "it says of a file that it has other bytes"
                 : wish->apart ? "nodes of a cluster prepare samples from files of their own"
                               : NULL,
                 wish->interrupt);
    return 0;
}

/* Makes the dataset of a source that is not in memory, or no longer as it is there, as old (may be NULL) has it. */
static int build(struct builder *builder, const struct source_wish *wish, const struct dataset *old,
                 struct dataset **out, struct error *err)
{
    uint64_t start_ns = clock_now_ns();
    struct dataset_parts parts = {0};
    struct shown shown;
    char shares[SHARES_BYTES];
    int code = index_source(builder, wish, old, &parts, err);
    if (!code && interrupt_is_set(wish->interrupt))
        code = file_interrupted(wish->text, err);
    if (!code) {
        code = give_ids(builder, &parts);
        if (!code)
            code = draw_chunks(builder, &parts);
        bool unsaved = parts.unsaved;
        if (!code)
            code = dataset_from_parts(&parts, out);
        if (!code && !contents_find(builder->contents, *out, unsaved) && unsaved)
            saver_save(builder->saver, *out);
        if (code)
            error_set(err, code, "%s: %s", path_shown(wish->text, &shown),
                      code == LARDER_ELIMIT ? "no sample ids are left" : "out of memory");
    }
    dataset_parts_free(&parts);
    if (!code)
        log_info_limited("msg=\"dataset opened\" source=\"%s\" samples=%u classes=%u took_ms=%llu shares=\"%s\"",
                         wish->text, (*out)->count, dataset_classes(*out),
                         (unsigned long long)((clock_now_ns() - start_ns) / CLOCK_NS_PER_MS),
                         source_shares((*out)->source, shares));
    return code;
}

static bool is_unchanged(const struct source_wish *wish, struct dataset *dataset)
{
    bool settled;
    struct source *source = dataset->source;
    return !atomic_load(&dataset->stale) && source->kind->unchanged(source, wish->interrupt, &settled);
}

int builder_refresh(struct builder *builder, const struct source_wish *wish, struct dataset *old, struct dataset **out,
                    struct error *err)
{
    if (!old)
        return build(builder, wish, NULL, out, err);
    if (is_unchanged(wish, old)) {
        contents_find(builder->contents, old, false); /* tries again if the files could not be read before */
        *out = dataset_ref(old);
        return 0;
    }
    if (interrupt_is_set(wish->interrupt))
        return file_interrupted(wish->text, err);
    log_info_limited("msg=\"source changed: indexing it anew\" source=\"%s\"", wish->text);
    int code = build(builder, wish, old, out, err);
    if (!code)
        atomic_store(&old->stale, true); /* the old dataset's reads say nothing about the new checkpoint */
    return code;
}
