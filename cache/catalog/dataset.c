/* dataset.c: a dataset once it is opened: its samples by index, by id and by chunk. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/catalog/catalog_priv.h"
#include "cache/source/runs.h"
#include "common/check.h"
#include "common/little_endian.h"

_Static_assert(DATASET_SAMPLES_MAX < SAMPLE_NONE, "no sample's index is SAMPLE_NONE");

static atomic_ullong samples_bytes, paths_bytes; /* of all datasets; relaxed: each is a sum, and nothing hangs on it */

struct dataset_bytes dataset_bytes_all(void)
{
    return (struct dataset_bytes){atomic_load_explicit(&samples_bytes, memory_order_relaxed),
                                  atomic_load_explicit(&paths_bytes, memory_order_relaxed)};
}

static void count_bytes(struct dataset *dataset)
{
    struct dataset_bytes *bytes = &dataset->bytes;
    bytes->samples = source_bytes(dataset->source, &bytes->paths) + dataset->count * sizeof *dataset->ids +
                     (dataset->by_id ? dataset->count * sizeof *dataset->by_id : 0);
    atomic_fetch_add_explicit(&samples_bytes, bytes->samples, memory_order_relaxed);
    atomic_fetch_add_explicit(&paths_bytes, bytes->paths, memory_order_relaxed);
}

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
        id_table_drop(parts->id_table, parts->ids, parts->source->index.sample_count);
    id_table_unref(&parts->id_table);
    source_free(&parts->source);
    free(parts->ids);
    free(parts->checkpoint);
}

static void dataset_free(struct dataset *dataset)
{
    if (dataset->id_table)
        id_table_drop(dataset->id_table, dataset->ids, dataset->count);
    id_table_unref(&dataset->id_table);
    atomic_fetch_sub_explicit(&samples_bytes, dataset->bytes.samples, memory_order_relaxed);
    atomic_fetch_sub_explicit(&paths_bytes, dataset->bytes.paths, memory_order_relaxed);
    source_free(&dataset->source);
    free(dataset->ids);
    free(dataset->by_id);
    free(dataset->checkpoint);
    columns_destroy(&dataset->columns);
    dataset->magic = 0;
    free(dataset);
}

/* Images that were shrunk are others than those of the source. */
static void add_shrinking(const struct packing *packing, uint64_t fingerprint[2])
{
    uint8_t facts[24];
    uint8_t *at = put_u64(facts, fingerprint[0]);
    at = put_u64(at, fingerprint[1]);
    at = put_u32(at, packing->max_side);
    put_u32(at, packing->quality);
    XXH128_hash_t hash = XXH3_128bits(facts, sizeof facts);
    fingerprint[0] = hash.low64;
    fingerprint[1] = hash.high64;
}

int dataset_from_parts(struct dataset_parts *parts, struct dataset **out)
{
    struct source *source = parts->source;
    struct index *index = &source->index;
    CHECK(index->sample_count && index->sample_count <= DATASET_SAMPLES_MAX && source->chunking.members);
    struct dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset)
        return LARDER_ENOMEM;
    dataset->magic = DATASET_MAGIC;
    columns_init(&dataset->columns);
    atomic_init(&dataset->refs, 1);
    atomic_init(&dataset->stale, false);
    dataset->count = (uint32_t)index->sample_count;
    memcpy(dataset->fingerprint, index->fingerprint, sizeof dataset->fingerprint);
    memcpy(dataset->times, index->times, sizeof dataset->times);
    bool known = index->fingerprint[0] || index->fingerprint[1];
    if (order_by_id(dataset, parts->ids) ||
        (!known && (index_fingerprint(index, source->packed_bytes, dataset->fingerprint) ||
                    version_times(source, dataset->times)))) {
        dataset_free(dataset);
        return LARDER_ENOMEM;
    }
    if (source->packing.max_side)
        add_shrinking(&source->packing, dataset->fingerprint);
    dataset->source = source;
    dataset->ids = parts->ids;
    dataset->id_table = parts->id_table;
    dataset->checkpoint = parts->checkpoint;
    *parts = (struct dataset_parts){0};
    memcpy(dataset->content, index->content, sizeof dataset->content);
    if (source->hashes)
        version_of_hashes(dataset, dataset->content);
    count_bytes(dataset);
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
    /* The last but one leaves it to the catalog alone. Two that leave at once may leave the columns until it goes. */
    if (atomic_load_explicit(&dataset->refs, memory_order_relaxed) == 2)
        columns_drop(&dataset->columns);
    /* acq_rel: whoever frees it sees what every other holder did before letting go. */
    if (atomic_fetch_sub_explicit(&dataset->refs, 1, memory_order_acq_rel) == 1)
        dataset_free(dataset);
}

static const struct index *index_at(const struct dataset *dataset, uint32_t index)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    CHECK(index < dataset->count);
    return &dataset->source->index;
}

const char *dataset_path(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->source->index.root;
}

const char *dataset_text(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->source->index.text;
}

const struct source *dataset_source(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->source;
}

uint64_t dataset_device(const struct dataset *dataset)
{
    return source_device(dataset_source(dataset));
}

uint32_t dataset_count(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->count;
}

uint32_t dataset_classes(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return (uint32_t)dataset->source->index.class_count;
}

const char *dataset_class(const struct dataset *dataset, uint32_t label)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return label < dataset->source->index.class_count
               ? dataset->source->index.strings + dataset->source->index.classes[label]
               : NULL;
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

bool dataset_part_rows(const struct dataset *dataset, const char *part, struct part_rows *out)
{
    const struct source *source = dataset->source;
    return source->kind->rows && source->kind->rows(source, part, out);
}

uint32_t dataset_row_count(const struct dataset *dataset, const char *part, uint32_t index)
{
    struct part_rows known;
    bool is_known = dataset_part_rows(dataset, part, &known);
    return is_known ? dataset->source->kind->row_count(dataset->source, part, index) : UINT32_MAX;
}

void dataset_packing(const struct dataset *dataset, struct packing *out)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    *out = dataset->source->packing;
}

/* Whether samples that follow each other lie behind each other, but where a file ends. */
static bool lies_in_order(const struct source *source)
{
    const struct index *index = &source->index;
    uint64_t breaks = 0;
    for (uint32_t i = 1; index->blob_count && i < index->sample_count; i++) {
        struct sample_place before = source->kind->place(source, i - 1), here = source->kind->place(source, i);
        breaks += here.blob != before.blob || here.offset < before.offset;
    }
    return index->blob_count && breaks < index->blob_count;
}

void dataset_look(const struct dataset *dataset, struct dataset_look *out)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    const struct source *source = dataset->source;
    const struct index *index = &source->index;
    *out = (struct dataset_look){.kind = source->kind->name, .shards = (uint32_t)index->blob_count};
    out->unreachable = (uint32_t)index->unreachable;
    for (size_t i = 0; i < index->blob_count; i++)
        out->shard_bytes += index->blobs[i].size;
    out->shard = source->kind->blob;
    out->in_order = lies_in_order(source);
    out->mixed = runs_suit(index, source->chunking.chunk_size);
    _Static_assert(sizeof out->shares == SHARES_BYTES, "source_shares fills it");
    source_shares(source, out->shares);
}

sample_id dataset_id(const struct dataset *dataset, uint32_t index)
{
    index_at(dataset, index);
    return dataset->ids[index];
}

int32_t dataset_label(const struct dataset *dataset, uint32_t index)
{
    return index_label(index_at(dataset, index), index);
}

uint64_t dataset_size(const struct dataset *dataset, uint32_t index)
{
    return index_size(index_at(dataset, index), index);
}

const char *dataset_key(const struct dataset *dataset, uint32_t index)
{
    return index_key(index_at(dataset, index), index);
}

void dataset_lasting_id(const struct dataset *dataset, uint32_t index, uint64_t out[2])
{
    bool hashed = dataset->source->hashes, places = index_at(dataset, index)->blob_count;
    const struct index_sample sample = hashed ? source_sample(dataset->source, index)
                                              : index_sample(&dataset->source->index, index);
    const char *root = dataset_path(dataset), *key = hashed ? "" : dataset_key(dataset, index);
    uint64_t words[] = {XXH3_64bits(root, strlen(root)), sample.size, (uint64_t)sample.mtime_ns,
                        hashed   ? sample.device
                        : places ? index_place(&dataset->source->index, index).offset
                                 : 0,
                        hashed ? sample.inode : 0};
    XXH128_hash_t hash = XXH3_128bits_withSeed(key, strlen(key), XXH3_64bits(words, sizeof words));
    out[0] = hash.low64;
    out[1] = hash.high64;
}

bool dataset_content_id(const struct dataset *dataset, uint32_t index, uint64_t seed, uint64_t out[2])
{
    index_at(dataset, index);
    const struct source *source = dataset->source;
    const struct index_sample sample = source_sample(source, index);
    if (sample.flags & INDEX_UNREACHABLE)
        return false;
    struct identity identity = source_identity(source, index, (uint64_t)sample.ctime_ns, seed);
    out[0] = identity.low;
    out[1] = identity.high;
    return true;
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

uint32_t dataset_chunk_size(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->source->chunking.chunk_size;
}

uint32_t dataset_chunk_count(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    uint32_t size = dataset->source->chunking.chunk_size;
    return dataset->count / size + (dataset->count % size != 0);
}

uint32_t dataset_chunk_of(const struct dataset *dataset, uint32_t index, uint32_t *slot)
{
    index_at(dataset, index);
    uint32_t position = dataset->source->chunking.positions[index], size = dataset->source->chunking.chunk_size;
    if (slot)
        *slot = position % size;
    return position / size;
}

const uint32_t *dataset_chunk_members(const struct dataset *dataset, uint32_t chunk, uint32_t *count)
{
    CHECK(chunk < dataset_chunk_count(dataset));
    uint32_t size = dataset->source->chunking.chunk_size, first = chunk * size;
    *count = dataset->count - first < size ? dataset->count - first : size;
    return dataset->source->chunking.members + first;
}
