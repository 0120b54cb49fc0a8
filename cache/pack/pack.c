/* pack.c: packs a dataset into a store.
 *
 * The layout follows from the sizes alone, so every chunk's place is known before anything is written by the threads of
 * threads.c. A run that is gone on with takes the finished segments' hashes from their footers. The index
 * comes last; with it the folder becomes a store. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cache/pack/pack_priv.h"
#include "common/check.h"

#define SEGMENT_BYTES_DEFAULT (UINT64_C(256) << 20)

void store_options_default(struct store_options *options)
{
    *options = (struct store_options){
        .chunk_size = CHUNK_SAMPLES_DEFAULT, .seed = CHUNK_SEED_DEFAULT, .segment_bytes = SEGMENT_BYTES_DEFAULT};
}

static uint64_t segment_bytes(const struct layout *layout, const struct store_segment *segment)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < segment->chunk_count; i++)
        sum += layout->chunks[segment->first_chunk + i].len_bytes;
    return sum;
}

/* Takes over the segments that an interrupted run finished. */
static int resume(struct pack *pack, struct error *err)
{
    for (uint32_t i = 0; i < pack->layout.segment_count; i++) {
        const struct store_segment *segment = &pack->layout.segments[i];
        uint32_t samples = store_segment_samples(segment, pack->chunking.chunk_size, pack->layout.sample_count);
        struct store_entry *entries = pack->entries + (size_t)segment->first_chunk * pack->chunking.chunk_size;
        const struct store_footer footer = {
            .plan = {pack->plan[0], pack->plan[1]}, .version = pack->layout.version, .number = i, .count = samples};
        uint64_t source_bytes = segment_bytes(&pack->layout, segment);
        bool finished;
        int code = pack_find_segment(pack->dest, &footer, &pack->layout, entries, &finished, err);
        if (code)
            return code;
        if (!finished)
            continue;
        pack->chunks_left[i] = 0;
        pack->progress.samples_done += samples;
        pack->progress.samples_resumed += samples;
        pack->progress.bytes_done += source_bytes;
        pack->progress.bytes_packed += segment_bytes(&pack->layout, segment);
        pack_count(pack, segment->first_chunk * pack->chunking.chunk_size, samples);
    }
    return 0;
}

static int check_room(const struct pack *pack, struct error *err)
{
    struct statvfs fs;
    uint64_t needed = 0;
    if (pack->options->max_side) /* the sizes are those of images that will be smaller; writing will tell */
        return 0;
    for (uint32_t i = 0; i < pack->layout.segment_count; i++)
        needed += pack->chunks_left[i] ? pack->layout.segments[i].file_bytes : 0;
    if (statvfs(pack->dest, &fs) || (uint64_t)fs.f_bavail * fs.f_frsize >= needed)
        return 0; /* if the system does not tell, writing will */
    struct shown shown;
    return error_set(err, LARDER_ELIMIT, "%s: the store needs %.1f MiB more and its disk has %.1f MiB left",
                     path_shown(pack->dest, &shown), (double)needed / (1 << 20),
                     (double)fs.f_bavail * (double)fs.f_frsize / (1 << 20));
}

static int build_index(const struct pack *pack, struct index *index, struct store *store)
{
    const struct dataset *dataset = pack->dataset;
    uint32_t count = pack->layout.sample_count;
    index->samples = calloc(count, sizeof *index->samples);
    index->classes = calloc(dataset_classes(dataset), sizeof *index->classes);
    store->offsets = malloc(count * sizeof *store->offsets);
    store->hashes = malloc(count * sizeof *store->hashes);
    store->checksums = malloc(count * sizeof *store->checksums);
    store->source_bytes = malloc(count * sizeof *store->source_bytes);
    store->forms = malloc(count * sizeof *store->forms);
    store->version = pack->layout.version;
    store->packing = pack_how(pack->options);
    store->segments = malloc(pack->layout.segment_count * sizeof *store->segments);
    if (!index->samples || !index->classes || !store->offsets || !store->hashes || !store->checksums ||
        !store->source_bytes || !store->forms || !store->segments)
        return LARDER_ENOMEM;
    memcpy(store->segments, pack->layout.segments, pack->layout.segment_count * sizeof *store->segments);
    store->segment_count = pack->layout.segment_count;
    store->seed = pack->options->seed;
    memcpy(store->plan, pack->plan, sizeof store->plan);
    int code = 0;
    for (index->class_count = 0; !code && index->class_count < dataset_classes(dataset); index->class_count++)
        code = index_text(index, dataset_class(dataset, (uint32_t)index->class_count), NULL,
                          &index->classes[index->class_count]);
    for (uint32_t chunk = 0, position = 0; chunk < pack->layout.chunk_count; chunk++) {
        uint64_t offset = pack->layout.chunks[chunk].offset;
        for (uint32_t i = layout_chunk_samples(&pack->layout, chunk); i; i--, position++) {
            uint32_t number = pack->chunking.members[position];
            store->offsets[number] = offset;
            const struct store_entry *entry = &pack->entries[position];
            store->hashes[number] = entry->hash;
            store->checksums[number] = entry->checksum;
            store->source_bytes[number] = entry->source_bytes;
            store->forms[number] = (uint8_t)entry->form;
            offset += pack->options->rewrite ? entry->size : dataset_size(dataset, number);
        }
    }
    char own[LOG_KEY_BYTES];
    for (uint32_t i = 0; !code && i < count; i++) {
        const struct store_entry *entry = &pack->entries[pack->chunking.positions[i]];
        struct index_sample *sample = &index->samples[index->sample_count++];
        *sample = (struct index_sample){.size = entry->size, .flags = entry->flags, .label = dataset_label(dataset, i)};
        code = index_text(index, index_store_key(&dataset_source(dataset)->index, i, own), NULL, &sample->key);
    }
    return code;
}

static int write_index(const struct pack *pack, struct error *err)
{
    struct index index = {0};
    struct store store = {0};
    uint8_t *bytes = NULL;
    size_t len_bytes;
    char path[PATH_MAX];
    int code = build_index(pack, &index, &store);
    if (!code)
        code = store_index_encode(&index, &pack->chunking, &store, &bytes, &len_bytes);
    if (code) {
        pack_no_memory(err);
    } else if (folder_sync(pack->dest)) { /* the segments' names before the index's */
        code = file_error(err, pack->dest, "sync it");
    } else {
        snprintf(path, sizeof path, "%s/" STORE_INDEX_NAME, pack->dest);
        code = file_replace(path, 0644, bytes, len_bytes, err);
    }
    if (!code)
        pack_finish(pack->dest);
    free(bytes);
    index_free(&index);
    store_free(&store);
    return code;
}

static int make_plan(struct pack *pack, struct error *err)
{
    const struct store_options *options = pack->options;
    uint32_t count = dataset_count(pack->dataset);
    if (chunking_shuffle(count, options->chunk_size, options->seed, &pack->chunking))
        return pack_no_memory(err);
    int code = layout_make(pack->dataset, &pack->chunking, options->segment_bytes, pack_version(options), &pack->layout,
                           err);
    if (code)
        return code;
    pack->entries = calloc(count, sizeof *pack->entries);
    pack->settled = calloc(count, sizeof *pack->settled);
    pack->chunks_left = calloc(pack->layout.segment_count, sizeof *pack->chunks_left);
    pack->chunks_placed = calloc(pack->layout.segment_count, sizeof *pack->chunks_placed);
    if (!pack->entries || !pack->settled || !pack->chunks_left || !pack->chunks_placed || pack_plan(pack, pack->plan))
        return pack_no_memory(err);
    pack->progress.samples_total = count;
    for (uint32_t i = 0; i < pack->layout.segment_count; i++)
        pack->chunks_left[i] = pack->layout.segments[i].chunk_count;
    for (uint32_t i = 0; i < pack->layout.chunk_count; i++)
        pack->progress.bytes_total += pack->layout.chunks[i].len_bytes;
    return 0;
}

static int pack_to(struct pack *pack, store_progress_fn *report, void *context, struct error *err)
{
    pack->notes_origins = pack_notes_origins(pack);
    int code = resume(pack, err);
    if (!code)
        code = check_room(pack, err);
    if (!code)
        code = pack_run(pack, report, context, err);
    bool noted = false;
    if (!code && pack->notes_origins)
        code = pack_write_origins(pack, &noted, err);
    if (!code)
        code = write_index(pack, err);
    if (!code && noted)
        pack_name_store(pack);
    if (!code && report)
        report(context, &pack->progress);
    return code;
}

static int check_options(const struct store_options *options, struct error *err)
{
    if (options->chunk_size < 1 || options->chunk_size > CHUNK_SAMPLES_MAX)
        return error_set(err, LARDER_EINVAL, "chunk size %u: must be 1 to %d samples", options->chunk_size,
                         CHUNK_SAMPLES_MAX);
    if (options->segment_bytes < STORE_SEGMENT_MIN || options->segment_bytes > STORE_SEGMENT_MAX)
        return error_set(err, LARDER_EINVAL, "segments of %llu bytes: must be 64 KiB to 1 TiB",
                         (unsigned long long)options->segment_bytes);
    if (options->max_side > STORE_SIDE_MAX || (options->max_side && !options->rewrite))
        return error_set(err, LARDER_EINVAL, "images of at most %u pixels a side: must be 1 to %u", options->max_side,
                         STORE_SIDE_MAX);
    if (options->planes && !options->rewrite)
        return error_set(err, LARDER_EINVAL, "nothing is there that would write planes");
    if (options->max_side && (options->quality < 1 || options->quality > 100))
        return error_set(err, LARDER_EINVAL, "quality %u: must be 1 to 100", options->quality);
    if (options->threads > STORE_THREADS_MAX)
        return error_set(err, LARDER_EINVAL, "%u threads: at most %d", options->threads, STORE_THREADS_MAX);
    return 0;
}

static const struct store *origin_of(const struct dataset *dataset, const struct store_options *options)
{
    const struct store *store = store_of(dataset_source(dataset));
    bool rewritten = store && store->version >= STORE_VERSION_REWRITTEN && !store->packing.max_side;
    return rewritten && (store->packing.planes || options->planes) ? store : NULL;
}

/* Samples in planes may only come into a store whose version says that they may be there. */
static int check_source(const struct dataset *dataset, const struct store_options *options, struct error *err)
{
    struct packing packing;
    struct shown shown;
    dataset_packing(dataset, &packing);
    if (!packing.planes || options->rewrite)
        return 0;
    return error_set(err, LARDER_EINVAL, "%s: its samples are in planes, which have to be rewritten",
                     path_shown(dataset_path(dataset), &shown));
}

int store_pack(const struct dataset *dataset, const char *dest, const struct store_options *options,
               store_progress_fn *progress, void *context, struct error *err)
{
    struct pack pack = {.dataset = dataset, .options = options, .dest = dest, .origin = origin_of(dataset, options)};
    int lock_fd = -1;
    pthread_condattr_t monotonic;
    int code = check_options(options, err);
    if (!code)
        code = check_source(dataset, options, err);
    if (code)
        return code;
    CHECK(pthread_condattr_init(&monotonic) == 0 && pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_mutex_init(&pack.lock, NULL) == 0 && pthread_cond_init(&pack.progressed, &monotonic) == 0 &&
          pthread_cond_init(&pack.placed, NULL) == 0);
    pthread_condattr_destroy(&monotonic);
    bool finished = false;
    code = make_plan(&pack, err);
    if (!code)
        code = pack_prepare(dataset, dest, pack.plan, &lock_fd, &finished, err);
    if (!code && !finished)
        code = pack_to(&pack, progress, context, err);
    if (lock_fd >= 0)
        close(lock_fd);
    pthread_cond_destroy(&pack.placed);
    pthread_cond_destroy(&pack.progressed);
    pthread_mutex_destroy(&pack.lock);
    free(pack.entries);
    free(pack.settled);
    free(pack.chunks_left);
    free(pack.chunks_placed);
    layout_free(&pack.layout);
    chunking_free(&pack.chunking);
    return code;
}
