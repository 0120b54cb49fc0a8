/* threads.c: the threads of a pack.
 *
 * They take chunks in order, read their samples and write them where they belong in the segment's temporary file.
 * Whoever finishes a segment's last chunk writes its header and footer, syncs and renames it. The calling thread waits
 * and reports progress. See struct pack for what belongs to whom. */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/pack/pack_priv.h"
#include "common/cgroup.h"
#include "common/check.h"
#include "common/log.h"

#define PROGRESS_MS 100

/* A thread's working memory. */
struct packer {
    struct pack *pack;
    uint8_t *bytes;
    size_t cap_bytes;
    struct sample_read *reads; /* chunk_size of them */
    struct rewritten rewritten;
};

/* ── one chunk ── */

static int stopped(const struct pack *pack, struct error *err)
{
    return error_set(err, LARDER_EGONE, "%s: packing was stopped; the same call goes on where it stood", pack->dest);
}

/* Rewriting takes so long that nobody waits for a whole chunk to end. */
static bool is_to_stop(struct pack *pack)
{
    pthread_mutex_lock(&pack->lock);
    bool stop = pack->stop || pack->error.code;
    pthread_mutex_unlock(&pack->lock);
    return stop;
}

/* Reads a chunk's samples to their places in the packer's buffer. */
static void read_chunk(struct packer *packer, uint32_t first, uint32_t count)
{
    const struct pack *pack = packer->pack;
    uint64_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = pack->chunking.members[first + i];
        packer->reads[i].index = index;
        packer->reads[i].buf = packer->bytes + at;
        pack->settled[first + i] = pack->notes_origins && origins_settled(dataset_source(pack->dataset), index);
        at += dataset_size(pack->dataset, index);
    }
    dataset_read_many(pack->dataset, packer->reads, count, 0);
}

/* A sample that cannot be read ends the pack, or is kept as one that never can be. */
static int leave_out(const struct pack *pack, struct sample_read *read, struct store_entry *entry, struct error *err)
{
    int code = read->err.code;
    if (!pack->options->skip_unreadable || code == LARDER_ENOMEM || code == LARDER_ELIMIT || code == LARDER_ECHANGED)
        return error_set(err, code, "%s", read->err.text);
    log_warn("msg=\"sample left out of the store\" err=\"%s\"", read->err.text);
    memset(read->buf, 0, dataset_size(pack->dataset, read->index));
    *entry = (struct store_entry){.flags = INDEX_UNREACHABLE};
    return 0;
}

/* Records what a sample is that was read, and rewrites it if it is to be rewritten. */
static int take_sample(struct packer *packer, struct sample_read *read, struct store_entry *entry, struct error *err)
{
    struct pack *pack = packer->pack;
    uint64_t size = dataset_size(pack->dataset, read->index);
    XXH128_hash_t hash = XXH3_128bits(read->buf, size);
    *entry = (struct store_entry){.hash = {.low = hash.low64, .high = hash.high64}, .size = size};
    entry->checksum = entry->hash;
    entry->source_bytes = size;
    if (pack->origin)
        entry->source_bytes = pack->origin->source_bytes[read->index];
    if (pack->origin && !pack->origin->foreign)
        entry->hash = pack->origin->hashes[read->index];
    if (!pack->options->rewrite)
        return 0;
    return is_to_stop(pack) ? stopped(pack, err) : pack_rewrite_sample(pack, read, entry, &packer->rewritten, err);
}

static int take_chunk_samples(struct packer *packer, uint32_t first, uint32_t count, struct error *err)
{
    int code = 0;
    for (uint32_t i = 0; !code && i < count; i++) {
        struct sample_read *read = &packer->reads[i];
        struct store_entry *entry = &packer->pack->entries[first + i];
        if (!read->err.code)
            code = take_sample(packer, read, entry, err);
        if (!code && read->err.code)
            code = leave_out(packer->pack, read, entry, err);
    }
    return code;
}

static void temporary_path(const struct pack *pack, uint32_t segment, char path[PATH_MAX])
{
    char name[STORE_NAME_MAX];
    store_segment_name(segment, name);
    int len = snprintf(path, PATH_MAX, "%s/%s" FILE_TEMPORARY, pack->dest, name);
    CHECK(len < PATH_MAX); /* pack_prepare saw that there is room */
}

static int write_chunk(const struct pack *pack, uint32_t chunk, const uint8_t *bytes, struct error *err)
{
    char path[PATH_MAX];
    temporary_path(pack, pack->layout.chunks[chunk].segment, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0)
        return file_error(err, path, "make it");
    int code = 0;
    if (file_write_at(fd, bytes, pack->layout.chunks[chunk].len_bytes, pack->layout.chunks[chunk].offset))
        code = file_error(err, path, "write it");
    close(fd);
    return code;
}

static int seal_segment(const struct pack *pack, uint32_t number, int fd, const char *path, struct error *err)
{
    const struct store_segment *segment = &pack->layout.segments[number];
    uint32_t samples = store_segment_samples(segment, pack->chunking.chunk_size, pack->layout.sample_count);
    const struct store_footer facts = {
        .plan = {pack->plan[0], pack->plan[1]}, .version = pack->layout.version, .number = number, .count = samples};
    uint64_t footer_bytes = store_footer_bytes(samples, facts.version);
    uint8_t header[STORE_HEADER_BYTES], *footer = malloc(footer_bytes);
    if (!footer)
        return pack_no_memory(err);
    store_header_put(header, pack->plan, facts.version, number);
    const struct store_entry *entries = pack->entries + (size_t)segment->first_chunk * pack->chunking.chunk_size;
    store_footer_put(footer, &facts, entries);
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
static bool count_chunk(struct pack *pack, uint32_t chunk, uint64_t source_bytes)
{
    uint32_t samples = layout_chunk_samples(&pack->layout, chunk);
    pthread_mutex_lock(&pack->lock);
    bool last = --pack->chunks_left[pack->layout.chunks[chunk].segment] == 0;
    pack->progress.samples_done += samples;
    pack->progress.bytes_done += source_bytes;
    pack->progress.bytes_packed += pack->layout.chunks[chunk].len_bytes;
    pack_count(pack, chunk * pack->chunking.chunk_size, samples);
    pthread_mutex_unlock(&pack->lock);
    return last;
}

static int pack_chunk(struct packer *packer, uint32_t chunk, struct error *err)
{
    struct pack *pack = packer->pack;
    const uint8_t *bytes;
    uint64_t len_bytes = pack->layout.chunks[chunk].len_bytes;
    if (len_bytes > packer->cap_bytes) {
        free(packer->bytes);
        packer->cap_bytes = 0;
        packer->bytes = malloc(len_bytes);
        if (!packer->bytes)
            return pack_no_memory(err);
        packer->cap_bytes = len_bytes;
    }
    packer->rewritten.len_bytes = 0;
    uint32_t first = chunk * pack->chunking.chunk_size, count = layout_chunk_samples(&pack->layout, chunk);
    read_chunk(packer, first, count);
    int code = take_chunk_samples(packer, first, count, err);
    if (code)
        return code;
    bytes = pack->options->rewrite ? packer->rewritten.bytes : packer->bytes;
    if (pack->options->rewrite && !pack_place(pack, chunk, packer->rewritten.len_bytes))
        return 0; /* nothing more is packed: the thread that failed says why */
    code = write_chunk(pack, chunk, bytes, err);
    if (!code && count_chunk(pack, chunk, len_bytes))
        code = finish_segment(pack, pack->layout.chunks[chunk].segment, err);
    return code;
}

static void *pack_chunks(void *argument)
{
    struct pack *pack = argument;
    struct packer packer = {.pack = pack, .reads = malloc(pack->chunking.chunk_size * sizeof *packer.reads)};
    struct error err = {0};
    int code = packer.reads ? 0 : pack_no_memory(&err);
    uint32_t chunk;
    while (!code && (chunk = take_chunk(pack)) < pack->layout.chunk_count)
        code = pack_chunk(&packer, chunk, &err);
    free(packer.bytes);
    free(packer.reads);
    free(packer.rewritten.bytes);
    pthread_mutex_lock(&pack->lock);
    if (code && !pack->error.code)
        pack->error = err;
    pthread_cond_broadcast(&pack->placed);
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

int pack_run(struct pack *pack, store_progress_fn *report, void *context, struct error *err)
{
    uint32_t wanted = pack->options->threads ? pack->options->threads : cgroup_cores(""), started = 0;
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
        return stopped(pack, err);
    return 0;
}
