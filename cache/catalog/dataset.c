/* dataset.c: a dataset once it is opened: its samples by index, by id and by chunk. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/store/store.h"
#include "common/check.h"

_Static_assert(DATASET_SAMPLES_MAX < SAMPLE_NONE, "no sample's index is SAMPLE_NONE");

static int compare_ids(const void *a, const void *b, void *context)
{
    const sample_id *ids = context;
    sample_id left = ids[*(const uint32_t *)a], right = ids[*(const uint32_t *)b];
    return (left > right) - (left < right);
}

static int order_by_id(struct dataset *dataset, const sample_id *ids)
{
    bool ascending = true;
    for (uint32_t i = 1; i < dataset->count; i++)
        ascending &= ids[i - 1] < ids[i];
    if (ascending)
        return 0;
    dataset->by_id = malloc(dataset->count * sizeof *dataset->by_id);
    if (!dataset->by_id)
        return LARDER_ENOMEM;
    for (uint32_t i = 0; i < dataset->count; i++)
        dataset->by_id[i] = i;
    qsort_r(dataset->by_id, dataset->count, sizeof *dataset->by_id, compare_ids, (void *)ids);
    return 0;
}

void dataset_parts_free(struct dataset_parts *parts)
{
    if (parts->id_table)
        id_table_drop(parts->id_table, parts->ids, parts->index.sample_count);
    id_table_unref(&parts->id_table);
    index_free(&parts->index);
    free(parts->ids);
    free(parts->checkpoint);
    chunking_free(&parts->chunking);
    if (parts->store)
        store_free(parts->store);
    free(parts->store);
}

static void dataset_free(struct dataset *dataset)
{
    if (dataset->id_table)
        id_table_drop(dataset->id_table, dataset->ids, dataset->count);
    id_table_unref(&dataset->id_table);
    index_free(&dataset->index);
    free(dataset->ids);
    free(dataset->by_id);
    free(dataset->checkpoint);
    chunking_free(&dataset->chunking);
    if (dataset->store)
        store_free(dataset->store);
    free(dataset->store);
    dataset->magic = 0;
    free(dataset);
}

/* Gives back what the arrays have grown beyond their contents. */
static void shrink(struct index *index)
{
    char *strings = realloc(index->strings, index->strings_len_bytes);
    if (strings) {
        index->strings = strings;
        index->strings_cap_bytes = index->strings_len_bytes;
    }
    struct index_sample *samples = realloc(index->samples, index->sample_count * sizeof *samples);
    if (samples) {
        index->samples = samples;
        index->sample_cap = index->sample_count;
    }
}

int dataset_from_parts(struct dataset_parts *parts, struct dataset **out)
{
    struct index *index = &parts->index;
    CHECK(index->sample_count && index->sample_count <= DATASET_SAMPLES_MAX && parts->chunking.members);
    struct dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset)
        return LARDER_ENOMEM;
    dataset->magic = DATASET_MAGIC;
    atomic_init(&dataset->refs, 1);
    atomic_init(&dataset->stale, false);
    dataset->count = (uint32_t)index->sample_count;
    const uint64_t *sizes = parts->store ? parts->store->source_bytes : NULL;
    if (order_by_id(dataset, parts->ids) || index_fingerprint(index, sizes, dataset->fingerprint) ||
        version_times(index, parts->store, dataset->times)) {
        dataset_free(dataset);
        return LARDER_ENOMEM;
    }
    if (parts->store)
        store_fingerprint(parts->store, dataset->fingerprint);
    shrink(index);
    dataset->index = parts->index;
    dataset->samples = parts->index.samples;
    dataset->ids = parts->ids;
    dataset->id_table = parts->id_table;
    dataset->checkpoint = parts->checkpoint;
    dataset->chunking = parts->chunking;
    dataset->store = parts->store;
    *parts = (struct dataset_parts){0};
    memcpy(dataset->content, dataset->index.content, sizeof dataset->content);
    if (dataset->store)
        version_of_store(dataset, dataset->content);
    atomic_init(&dataset->has_content, dataset->content[0] || dataset->content[1]);
    *out = dataset;
    return 0;
}

struct dataset *dataset_ref(struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    atomic_fetch_add_explicit(&dataset->refs, 1, memory_order_relaxed);
    return dataset;
}

void dataset_unref(struct dataset **pointer)
{
    struct dataset *dataset = *pointer;
    *pointer = NULL;
    if (!dataset)
        return;
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    /* acq_rel: whoever frees it sees what every other holder did before letting go. */
    if (atomic_fetch_sub_explicit(&dataset->refs, 1, memory_order_acq_rel) == 1)
        dataset_free(dataset);
}

static const struct index_sample *sample_at(const struct dataset *dataset, uint32_t index)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    CHECK(index < dataset->count);
    return &dataset->samples[index];
}

const char *dataset_path(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->index.root;
}

uint32_t dataset_count(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->count;
}

uint32_t dataset_classes(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return (uint32_t)dataset->index.class_count;
}

const char *dataset_class(const struct dataset *dataset, uint32_t label)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return label < dataset->index.class_count ? dataset->index.strings + dataset->index.classes[label] : NULL;
}

void dataset_fingerprint(const struct dataset *dataset, uint64_t out[2])
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    memcpy(out, dataset->fingerprint, sizeof dataset->fingerprint);
}

void dataset_version(const struct dataset *dataset, struct dataset_version *out)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    *out = (struct dataset_version){.times = {dataset->times[0], dataset->times[1]}};
    /* acquire: with has_content the content is there, which contents.c wrote before */
    if (atomic_load_explicit(&dataset->has_content, memory_order_acquire))
        memcpy(out->content, dataset->content, sizeof out->content);
}

void dataset_packing(const struct dataset *dataset, struct packing *out)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    *out = dataset->store ? dataset->store->packing : (struct packing){0};
}

sample_id dataset_id(const struct dataset *dataset, uint32_t index)
{
    sample_at(dataset, index);
    return dataset->ids[index];
}

int32_t dataset_label(const struct dataset *dataset, uint32_t index)
{
    return sample_at(dataset, index)->label;
}

uint64_t dataset_size(const struct dataset *dataset, uint32_t index)
{
    return sample_at(dataset, index)->size;
}

const char *dataset_key(const struct dataset *dataset, uint32_t index)
{
    return dataset->index.strings + sample_at(dataset, index)->key;
}

/* In a store, a sample's device and inode hold its content's hash. */
void dataset_lasting_id(const struct dataset *dataset, uint32_t index, uint64_t out[2])
{
    const struct index_sample *sample = sample_at(dataset, index);
    const char *root = dataset->index.root, *key = dataset->store ? "" : dataset->index.strings + sample->key;
    uint64_t words[] = {XXH3_64bits(root, strlen(root)), sample->size, (uint64_t)sample->mtime_ns,
                        dataset->store ? sample->device : 0, dataset->store ? sample->inode : 0};
    XXH128_hash_t hash = XXH3_128bits_withSeed(key, strlen(key), XXH3_64bits(words, sizeof words));
    out[0] = hash.low64;
    out[1] = hash.high64;
}

bool dataset_index(const struct dataset *dataset, sample_id id, uint32_t *index)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    uint32_t low = 0, high = dataset->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        uint32_t at = dataset->by_id ? dataset->by_id[middle] : middle;
        if (dataset->ids[at] == id) {
            *index = at;
            return true;
        }
        if (dataset->ids[at] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

const sample_id *dataset_ids(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->ids;
}

uint32_t dataset_chunk_size(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->chunking.chunk_size;
}

uint32_t dataset_chunk_count(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    uint32_t size = dataset->chunking.chunk_size;
    return dataset->count / size + (dataset->count % size != 0);
}

uint32_t dataset_chunk_of(const struct dataset *dataset, uint32_t index, uint32_t *slot)
{
    sample_at(dataset, index);
    uint32_t position = dataset->chunking.positions[index], size = dataset->chunking.chunk_size;
    if (slot)
        *slot = position % size;
    return position / size;
}

const uint32_t *dataset_chunk_members(const struct dataset *dataset, uint32_t chunk, uint32_t *count)
{
    CHECK(chunk < dataset_chunk_count(dataset));
    uint32_t size = dataset->chunking.chunk_size, first = chunk * size;
    *count = dataset->count - first < size ? dataset->count - first : size;
    return dataset->chunking.members + first;
}
