/* store_pack.c: packs a dataset into a store.
 *
 * The layout follows from the sizes alone, so every chunk's place is known before anything is written: threads take chunks
 * in order, read their samples and write them where they belong in the segment's temporary file. Whoever finishes a
 * segment's last chunk writes its header and footer, syncs and renames it. A run that is gone on with takes the finished
 * segments' hashes from their footers. The index comes last; with it the folder becomes a store.
 *
 * lock guards what says so in struct pack; entries of a chunk belong to the thread that took it until the segment is
 * finished. The calling thread waits and reports progress. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/store_pack_priv.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"

#define SEGMENT_BYTES_DEFAULT (UINT64_C(256) << 20)
#define CHUNK_SIZE_DEFAULT 64
#define PROGRESS_MS 100

struct pack {
    const struct dataset *dataset;
    const struct store_options *options;
    const char *dest;
    struct chunking chunking;
    struct layout layout;
    uint64_t plan[2];
    struct store_entry *entries; /* by position */
    uint32_t *chunks_left;       /* by segment; lock */
    pthread_mutex_t lock;
    pthread_cond_t progressed;   /* a thread ended */
    uint32_t next_chunk;         /* lock */
    uint32_t running;            /* threads; lock */
    bool stop;                   /* lock */
    struct error error;          /* the first one; lock */
    struct store_progress progress; /* lock */
};

/* What one thread works with. */
struct packer {
    struct pack *pack;
    uint8_t *bytes;
    size_t cap_bytes;
    struct sample_read *reads; /* chunk_size of them */
};

void store_options_default(struct store_options *options)
{
    *options = (struct store_options){.chunk_size = CHUNK_SIZE_DEFAULT, .seed = 1, .segment_bytes = SEGMENT_BYTES_DEFAULT};
}

/* ── one chunk ── */

static int out_of_memory(struct error *err)
{
    return error_set(err, LARDER_ENOMEM, "out of memory while packing");
}

/* Reads a chunk's samples to their places in the packer's buffer and records what they are. */
static int read_chunk(struct packer *packer, uint32_t chunk, uint32_t *skipped, struct error *err)
{
    struct pack *pack = packer->pack;
    uint32_t first = chunk * pack->chunking.chunk_size, count = layout_chunk_samples(&pack->layout, chunk);
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = pack->chunking.members[first + i];
        packer->reads[i].index = index;
        packer->reads[i].buf = packer->bytes + at;
        at += dataset_size(pack->dataset, index);
    }
    dataset_read_many(pack->dataset, packer->reads, count);
    for (uint32_t i = 0; i < count; i++) {
        struct sample_read *read = &packer->reads[i];
        uint64_t size = dataset_size(pack->dataset, read->index);
        struct store_entry *entry = &pack->entries[first + i];
        if (read->err.code && (!pack->options->skip_unreadable || read->err.code == LARDER_ENOMEM ||
                               read->err.code == LARDER_ELIMIT || read->err.code == LARDER_ECHANGED))
            return error_set(err, read->err.code, "%s", read->err.text);
        if (read->err.code) {
            log_warn("msg=\"sample left out of the store\" err=\"%s\"", read->err.text);
            memset(read->buf, 0, size);
            *entry = (struct store_entry){.flags = INDEX_UNREACHABLE};
            ++*skipped;
            continue;
        }
        XXH128_hash_t hash = XXH3_128bits(read->buf, size);
        *entry = (struct store_entry){.hash = {.low = hash.low64, .high = hash.high64}, .size = size};
    }
    return 0;
}

static void temporary_path(const struct pack *pack, uint32_t segment, char path[PATH_MAX])
{
    char name[STORE_NAME_MAX];
    store_segment_name(segment, name);
    int len = snprintf(path, PATH_MAX, "%s/%s" FILE_TEMPORARY, pack->dest, name);
    CHECK(len < PATH_MAX); /* pack_prepare saw that there is room */
}

static int write_chunk(const struct packer *packer, uint32_t chunk, struct error *err)
{
    const struct pack *pack = packer->pack;
    char path[PATH_MAX];
    temporary_path(pack, pack->layout.chunks[chunk].segment, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return file_error(err, path, "make it");
    int code = 0;
    if (file_write_at(fd, packer->bytes, pack->layout.chunks[chunk].len_bytes, pack->layout.chunks[chunk].offset))
        code = file_error(err, path, "write it");
    close(fd);
    return code;
}

static int seal_segment(const struct pack *pack, uint32_t number, int fd, const char *path, struct error *err)
{
    const struct store_segment *segment = &pack->layout.segments[number];
    uint32_t samples = store_segment_samples(segment, pack->chunking.chunk_size, pack->layout.sample_count);
    uint64_t footer_bytes = store_footer_bytes(samples);
    uint8_t header[STORE_HEADER_BYTES], *footer = malloc(footer_bytes);
    if (!footer)
        return out_of_memory(err);
    store_header_put(header, pack->plan, number);
    store_footer_put(footer, pack->plan, number, pack->entries + (size_t)segment->first_chunk * pack->chunking.chunk_size, samples);
    int code = 0;
    if (file_write_at(fd, header, sizeof header, 0) ||
        file_write_at(fd, footer, footer_bytes, segment->file_bytes - footer_bytes) || fsync(fd))
        code = file_error(err, path, "write it");
    free(footer);
    return code;
}

static int finish_segment(const struct pack *pack, uint32_t number, struct error *err)
{
    char path[PATH_MAX], final[PATH_MAX];
    temporary_path(pack, number, path);
    memcpy(final, path, sizeof final);
    final[strlen(final) - strlen(FILE_TEMPORARY)] = '\0';
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return file_error(err, path, "open it");
    int code = seal_segment(pack, number, fd, path, err);
    close(fd);
    if (!code && rename(path, final))
        code = file_error(err, path, "rename it");
    return code;
}

/* ── threads ── */

/* The next chunk of a segment that is not finished, or the number of chunks. */
static uint32_t take_chunk(struct pack *pack)
{
    pthread_mutex_lock(&pack->lock);
    uint32_t end = pack->layout.chunk_count, chunk = pack->stop || pack->error.code ? end : pack->next_chunk;
    while (chunk < end && pack->chunks_left[pack->layout.chunks[chunk].segment] == 0)
        chunk++;
    if (chunk < end)
        pack->next_chunk = chunk + 1;
    pthread_mutex_unlock(&pack->lock);
    return chunk;
}

/* Says whether that was the segment's last chunk. */
static bool count_chunk(struct pack *pack, uint32_t chunk, uint32_t skipped)
{
    pthread_mutex_lock(&pack->lock);
    bool last = --pack->chunks_left[pack->layout.chunks[chunk].segment] == 0;
    pack->progress.samples_done += layout_chunk_samples(&pack->layout, chunk);
    pack->progress.bytes_done += pack->layout.chunks[chunk].len_bytes;
    pack->progress.samples_skipped += skipped;
    pthread_mutex_unlock(&pack->lock);
    return last;
}

static int pack_chunk(struct packer *packer, uint32_t chunk, struct error *err)
{
    struct pack *pack = packer->pack;
    uint32_t skipped = 0;
    uint64_t len_bytes = pack->layout.chunks[chunk].len_bytes;
    if (len_bytes > packer->cap_bytes) {
        free(packer->bytes);
        packer->cap_bytes = 0;
        packer->bytes = malloc(len_bytes);
        if (!packer->bytes)
            return out_of_memory(err);
        packer->cap_bytes = len_bytes;
    }
    int code = read_chunk(packer, chunk, &skipped, err);
    if (!code)
        code = write_chunk(packer, chunk, err);
    if (!code && count_chunk(pack, chunk, skipped))
        code = finish_segment(pack, pack->layout.chunks[chunk].segment, err);
    return code;
}

static void *pack_chunks(void *argument)
{
    struct pack *pack = argument;
    struct packer packer = {.pack = pack, .reads = malloc(pack->chunking.chunk_size * sizeof *packer.reads)};
    struct error err = {0};
    int code = packer.reads ? 0 : out_of_memory(&err);
    uint32_t chunk;
    while (!code && (chunk = take_chunk(pack)) < pack->layout.chunk_count)
        code = pack_chunk(&packer, chunk, &err);
    free(packer.bytes);
    free(packer.reads);
    pthread_mutex_lock(&pack->lock);
    if (code && !pack->error.code)
        pack->error = err;
    pack->running--;
    pthread_cond_signal(&pack->progressed);
    pthread_mutex_unlock(&pack->lock);
    return NULL;
}

static void wait_for_threads(struct pack *pack, store_progress_fn *report, void *context)
{
    pthread_mutex_lock(&pack->lock);
    while (pack->running) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += PROGRESS_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&pack->progressed, &pack->lock, &until);
        struct store_progress progress = pack->progress;
        pthread_mutex_unlock(&pack->lock);
        bool stop = report && !report(context, &progress);
        pthread_mutex_lock(&pack->lock);
        pack->stop |= stop;
    }
    pthread_mutex_unlock(&pack->lock);
}

static int run_threads(struct pack *pack, store_progress_fn *report, void *context, struct error *err)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t wanted = pack->options->threads ? pack->options->threads : cores > 0 ? (uint32_t)cores : 1, started = 0;
    pthread_t threads[STORE_THREADS_MAX];
    pack->running = wanted < STORE_THREADS_MAX ? wanted : STORE_THREADS_MAX;
    wanted = pack->running;
    while (started < wanted && pthread_create(&threads[started], NULL, pack_chunks, pack) == 0)
        started++;
    pthread_mutex_lock(&pack->lock);
    pack->running -= wanted - started; /* fewer threads do as well */
    pthread_mutex_unlock(&pack->lock);
    wait_for_threads(pack, report, context);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    if (!started)
        return error_set(err, LARDER_ELIMIT, "cannot start a thread");
    if (pack->error.code)
        return error_set(err, pack->error.code, "%s", pack->error.text);
    if (pack->stop)
        return error_set(err, LARDER_EGONE, "%s: packing was stopped; the same call goes on where it stood", pack->dest);
    return 0;
}

/* ── the whole ── */

/* Takes over the segments that an interrupted run finished. */
static int resume(struct pack *pack, struct error *err)
{
    for (uint32_t i = 0; i < pack->layout.segment_count; i++) {
        const struct store_segment *segment = &pack->layout.segments[i];
        uint32_t samples = store_segment_samples(segment, pack->chunking.chunk_size, pack->layout.sample_count);
        struct store_entry *entries = pack->entries + (size_t)segment->first_chunk * pack->chunking.chunk_size;
        bool finished;
        int code = pack_find_segment(pack->dest, pack->plan, i, segment, entries, samples, &finished, err);
        if (code)
            return code;
        if (!finished)
            continue;
        pack->chunks_left[i] = 0;
        pack->progress.samples_done += samples;
        pack->progress.samples_resumed += samples;
        for (uint32_t j = 0; j < segment->chunk_count; j++)
            pack->progress.bytes_done += pack->layout.chunks[segment->first_chunk + j].len_bytes;
        for (uint32_t j = 0; j < samples; j++)
            pack->progress.samples_skipped += (entries[j].flags & INDEX_UNREACHABLE) != 0;
    }
    return 0;
}

static int check_room(const struct pack *pack, struct error *err)
{
    struct statvfs fs;
    uint64_t needed = 0;
    for (uint32_t i = 0; i < pack->layout.segment_count; i++)
        needed += pack->chunks_left[i] ? pack->layout.segments[i].file_bytes : 0;
    if (statvfs(pack->dest, &fs) || (uint64_t)fs.f_bavail * fs.f_frsize >= needed)
        return 0; /* where the system does not tell, writing will */
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
    store->segments = malloc(pack->layout.segment_count * sizeof *store->segments);
    if (!index->samples || !index->classes || !store->offsets || !store->hashes || !store->segments)
        return LARDER_ENOMEM;
    memcpy(store->segments, pack->layout.segments, pack->layout.segment_count * sizeof *store->segments);
    store->segment_count = pack->layout.segment_count;
    store->seed = pack->options->seed;
    memcpy(store->plan, pack->plan, sizeof store->plan);
    int code = 0;
    for (index->class_count = 0; !code && index->class_count < dataset_classes(dataset); index->class_count++)
        code = index_text(index, dataset_class(dataset, (uint32_t)index->class_count), NULL, &index->classes[index->class_count]);
    for (uint32_t chunk = 0, position = 0; chunk < pack->layout.chunk_count; chunk++) {
        uint64_t offset = pack->layout.chunks[chunk].offset;
        for (uint32_t i = layout_chunk_samples(&pack->layout, chunk); i; i--, position++) {
            uint32_t number = pack->chunking.members[position];
            store->offsets[number] = offset;
            store->hashes[number] = pack->entries[position].hash;
            offset += dataset_size(dataset, number);
        }
    }
    for (uint32_t i = 0; !code && i < count; i++) {
        const struct store_entry *entry = &pack->entries[pack->chunking.positions[i]];
        struct index_sample *sample = &index->samples[index->sample_count++];
        *sample = (struct index_sample){.size = entry->size, .flags = entry->flags, .label = dataset_label(dataset, i)};
        code = index_text(index, dataset_key(dataset, i), NULL, &sample->key);
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
        out_of_memory(err);
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
        return out_of_memory(err);
    int code = layout_make(pack->dataset, &pack->chunking, options->segment_bytes, &pack->layout, err);
    if (code)
        return code;
    pack->entries = calloc(count, sizeof *pack->entries);
    pack->chunks_left = calloc(pack->layout.segment_count, sizeof *pack->chunks_left);
    if (!pack->entries || !pack->chunks_left || pack_plan(pack->dataset, options, pack->plan))
        return out_of_memory(err);
    pack->progress.samples_total = count;
    for (uint32_t i = 0; i < pack->layout.segment_count; i++)
        pack->chunks_left[i] = pack->layout.segments[i].chunk_count;
    for (uint32_t i = 0; i < pack->layout.chunk_count; i++)
        pack->progress.bytes_total += pack->layout.chunks[i].len_bytes;
    return 0;
}

static int pack_to(struct pack *pack, store_progress_fn *report, void *context, struct error *err)
{
    int code = resume(pack, err);
    if (!code)
        code = check_room(pack, err);
    if (!code)
        code = run_threads(pack, report, context, err);
    if (!code)
        code = write_index(pack, err);
    if (!code && report)
        report(context, &pack->progress);
    return code;
}

static int check_options(const struct store_options *options, struct error *err)
{
    if (options->chunk_size < 1 || options->chunk_size > CHUNK_SAMPLES_MAX)
        return error_set(err, LARDER_EINVAL, "chunk size %u: must be 1 to %d samples", options->chunk_size, CHUNK_SAMPLES_MAX);
    if (options->segment_bytes < STORE_SEGMENT_MIN || options->segment_bytes > STORE_SEGMENT_MAX)
        return error_set(err, LARDER_EINVAL, "segments of %llu bytes: must be 64 KiB to 1 TiB",
                         (unsigned long long)options->segment_bytes);
    if (options->threads > STORE_THREADS_MAX)
        return error_set(err, LARDER_EINVAL, "%u threads: at most %d", options->threads, STORE_THREADS_MAX);
    return 0;
}

int store_pack(const struct dataset *dataset, const char *dest, const struct store_options *options,
               store_progress_fn *progress, void *context, struct error *err)
{
    struct pack pack = {.dataset = dataset, .options = options, .dest = dest};
    int lock_fd = -1;
    pthread_condattr_t monotonic;
    int code = check_options(options, err);
    if (code)
        return code;
    CHECK(pthread_condattr_init(&monotonic) == 0 && pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0);
    CHECK(pthread_mutex_init(&pack.lock, NULL) == 0 && pthread_cond_init(&pack.progressed, &monotonic) == 0);
    pthread_condattr_destroy(&monotonic);
    bool finished = false;
    code = make_plan(&pack, err);
    if (!code)
        code = pack_prepare(dataset, dest, pack.plan, &lock_fd, &finished, err);
    if (!code && !finished)
        code = pack_to(&pack, progress, context, err);
    if (lock_fd >= 0)
        close(lock_fd);
    pthread_cond_destroy(&pack.progressed);
    pthread_mutex_destroy(&pack.lock);
    free(pack.entries);
    free(pack.chunks_left);
    layout_free(&pack.layout);
    chunking_free(&pack.chunking);
    return code;
}
