/* verify.c: reads every byte of a store and names what is wrong with it, chunk by chunk, in the calling
 * thread. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/file.h"
#include "cache/pack/pack.h"
#include "cache/store/store.h"
#include "common/clock.h"

#define PROGRESS_NS (100 * CLOCK_NS_PER_MS)

struct verify {
    const char *root;
    struct source *source;
    const struct store *store; /* the source's */
    store_progress_fn *report;
    store_problem_fn *problem;
    void *context;
    uint64_t problems;
    struct store_progress progress;
    uint64_t reported_ns;
    uint8_t *bytes; /* a chunk, with the zeros before it */
};

/* The segment being read. */
struct open_segment {
    uint32_t number, first_position, samples;
    uint64_t data_end, footer_bytes;
    int fd;
    char name[STORE_NAME_MAX];
};

static void problem(struct verify *verify, const char *file, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void problem(struct verify *verify, const char *file, const char *fmt, ...)
{
    char what[ERROR_TEXT_MAX];
    struct shown shown;
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    verify->problems++;
    if (verify->problem)
        verify->problem(verify->context, path_shown(file, &shown), what);
}

/* false: stop. */
static bool report(struct verify *verify, bool now)
{
    uint64_t now_ns = clock_now_ns();
    if (!verify->report || (!now && now_ns - verify->reported_ns < PROGRESS_NS))
        return true;
    verify->reported_ns = now_ns;
    return verify->report(verify->context, &verify->progress);
}

static bool all_zero(const uint8_t *bytes, uint64_t len_bytes)
{
    return len_bytes == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, len_bytes - 1) == 0);
}

/* Checks one chunk, from the end of the chunk before it: zeros and samples alternate. The last chunk reaches up to the
 * footer. */
static void check_chunk(struct verify *verify, const struct open_segment *open, uint32_t first, uint32_t end,
                        uint64_t *at)
{
    const struct store *store = verify->store;
    const uint32_t *members = verify->source->chunking.members;
    uint64_t start = *at, cursor = start, chunk_end;
    if (end == open->first_position + open->samples) {
        chunk_end = open->data_end;
    } else {
        uint32_t last = members[end - 1];
        chunk_end = store->offsets[last] + index_size(&verify->source->index, last);
    }
    *at = chunk_end;
    if (file_read_at(open->fd, verify->bytes, chunk_end - start, start)) {
        problem(verify, open->name, "cannot read bytes %llu to %llu: %s", (unsigned long long)start,
                (unsigned long long)chunk_end, errno ? strerror(errno) : "it ends before");
        return;
    }
    for (uint32_t position = first; position < end; position++) {
        uint32_t number = members[position];
        const struct index_sample sample = index_sample(&verify->source->index, number);
        uint64_t offset = store->offsets[number];
        if (!all_zero(verify->bytes + (cursor - start), offset - cursor))
            problem(verify, open->name, "damaged between bytes %llu and %llu, where zeros belong",
                    (unsigned long long)cursor, (unsigned long long)offset);
        XXH128_hash_t hash = XXH3_128bits(verify->bytes + (offset - start), sample.size);
        struct shown key;
        if (!(sample.flags & INDEX_UNREACHABLE) &&
            (hash.low64 != store->checksums[number].low || hash.high64 != store->checksums[number].high))
            problem(verify, open->name, "sample %s is damaged (%llu bytes at %llu)",
                    path_shown(index_key(&verify->source->index, number), &key), (unsigned long long)sample.size,
                    (unsigned long long)offset);
        cursor = offset + sample.size;
    }
    if (!all_zero(verify->bytes + (cursor - start), chunk_end - cursor))
        problem(verify, open->name, "damaged between bytes %llu and %llu, where zeros belong",
                (unsigned long long)cursor, (unsigned long long)chunk_end);
}

static int check_data(struct verify *verify, const struct open_segment *open)
{
    uint32_t size = verify->source->chunking.chunk_size, end = open->first_position + open->samples;
    uint64_t at = STORE_HEADER_BYTES;
    for (uint32_t first = open->first_position; first < end; first += size) {
        uint32_t chunk_end = end - first < size ? end : first + size;
        uint64_t before = at;
        check_chunk(verify, open, first, chunk_end, &at);
        verify->progress.samples_done += chunk_end - first;
        verify->progress.bytes_done += at - before;
        if (!report(verify, false))
            return LARDER_EGONE;
    }
    return 0;
}

static int check_footer(struct verify *verify, const struct open_segment *open)
{
    const struct store *store = verify->store;
    uint8_t *bytes = malloc(open->footer_bytes);
    struct store_entry *entries = malloc((size_t)open->samples * sizeof *entries);
    struct error err;
    const struct store_footer footer = {.plan = {store->plan[0], store->plan[1]},
                                        .version = store->version,
                                        .number = open->number,
                                        .count = open->samples};
    int code = bytes && entries ? 0 : LARDER_ENOMEM;
    if (!code && file_read_at(open->fd, bytes, open->footer_bytes, open->data_end))
        problem(verify, open->name, "cannot read its footer: %s", errno ? strerror(errno) : "it ends before");
    else if (!code && store_footer_parse(bytes, open->footer_bytes, &footer, entries, &err))
        problem(verify, open->name, "%s", err.text);
    else if (!code) {
        for (uint32_t i = 0; i < open->samples; i++) {
            uint32_t number = verify->source->chunking.members[open->first_position + i];
            const struct index_sample sample = index_sample(&verify->source->index, number);
            const struct identity *hash = &store->hashes[number], *checksum = &store->checksums[number];
            uint64_t source_bytes = store->source_bytes ? store->source_bytes[number] : sample.size;
            uint32_t form = store->forms ? store->forms[number] : 0;
            if (entries[i].size != sample.size || entries[i].form != form || entries[i].flags != sample.flags ||
                entries[i].source_bytes != source_bytes || memcmp(&entries[i].hash, hash, sizeof *hash) != 0 ||
                memcmp(&entries[i].checksum, checksum, sizeof *checksum) != 0) {
                problem(verify, open->name, "its footer and the index do not agree");
                break;
            }
        }
    }
    free(bytes);
    free(entries);
    return code;
}

static int check_open_segment(struct verify *verify, const struct open_segment *open)
{
    const struct store *store = verify->store;
    uint64_t expected = store->segments[open->number].file_bytes;
    uint8_t header[STORE_HEADER_BYTES];
    struct stat st;
    if (fstat(open->fd, &st) || !S_ISREG(st.st_mode)) {
        problem(verify, open->name, "not a regular file");
        return 0;
    }
    if (file_read_at(open->fd, header, sizeof header, 0)) {
        problem(verify, open->name, "cannot read its header: %s", errno ? strerror(errno) : "it was truncated");
        return 0;
    }
    const char *wrong = store_header_check(header, store->plan, store->version, open->number);
    if (wrong)
        problem(verify, open->name, "%s", wrong);
    if ((uint64_t)st.st_size != expected) {
        problem(verify, open->name, "%s: %lld bytes, the index says %llu",
                (uint64_t)st.st_size < expected ? "truncated" : "too long", (long long)st.st_size,
                (unsigned long long)expected);
        return 0;
    }
    int code = check_data(verify, open);
    return code ? code : check_footer(verify, open);
}

static int check_segment(struct verify *verify, uint32_t number)
{
    const struct store_segment *segment = &verify->store->segments[number];
    char path[PATH_MAX];
    uint32_t chunk_size = verify->source->chunking.chunk_size;
    struct open_segment open_segment = {.number = number, .first_position = segment->first_chunk * chunk_size};
    open_segment.samples = store_segment_samples(segment, chunk_size, (uint32_t)verify->source->index.sample_count);
    open_segment.footer_bytes = store_footer_bytes(open_segment.samples, verify->store->version);
    open_segment.data_end = segment->file_bytes - open_segment.footer_bytes;
    store_segment_name(number, open_segment.name);
    if (snprintf(path, sizeof path, "%s/%s", verify->root, open_segment.name) >= (int)sizeof path)
        return LARDER_ELIMIT;
    open_segment.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (open_segment.fd < 0) {
        problem(verify, open_segment.name, "cannot open it: %s", strerror(errno));
        return 0;
    }
    posix_fadvise(open_segment.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    int code = check_open_segment(verify, &open_segment);
    close(open_segment.fd);
    return code;
}

/* Whether a name is one that the store's folder must hold. */
static bool belongs(const struct verify *verify, const char *name)
{
    char expected[STORE_NAME_MAX];
    unsigned number;
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, STORE_INDEX_NAME) == 0 ||
        strcmp(name, ORIGINS_NAME) == 0)
        return true;
    if (sscanf(name, STORE_SEGMENT_FORMAT, &number) != 1 || number >= verify->store->segment_count)
        return false;
    store_segment_name(number, expected);
    return strcmp(name, expected) == 0;
}

/* What the store says of the files that it was packed from. Older ones say nothing. */
static void check_origins(struct verify *verify)
{
    uint8_t *bytes;
    const uint8_t *origins;
    size_t count;
    struct error err;
    int code = origins_load(verify->root, NULL, &bytes, &origins, &count, &err);
    free(bytes);
    if (code && code != LARDER_ENOENT)
        problem(verify, ORIGINS_NAME, "%s", err.text);
}

static void check_foreign(struct verify *verify)
{
    DIR *dir = opendir(verify->root);
    if (!dir) {
        problem(verify, ".", "cannot list the store's folder: %s", strerror(errno));
        return;
    }
    for (const struct dirent *entry; (entry = readdir(dir));) {
        if (!belongs(verify, entry->d_name))
            problem(verify, entry->d_name, "does not belong to this store");
    }
    closedir(dir);
}

/* The most that check_chunk reads at once: a chunk, and what may lie before it. */
static int make_buffer(struct verify *verify)
{
    const struct store *store = verify->store;
    const struct chunking *chunking = &verify->source->chunking;
    uint64_t most = 0;
    for (uint32_t i = 0; i < store->segment_count; i++) {
        const struct store_segment *segment = &store->segments[i];
        uint32_t count = (uint32_t)verify->source->index.sample_count;
        uint32_t samples = store_segment_samples(segment, chunking->chunk_size, count);
        uint64_t start = STORE_HEADER_BYTES,
                 data_end = segment->file_bytes - store_footer_bytes(samples, store->version);
        verify->progress.bytes_total += data_end - start;
        for (uint32_t j = 0; j < samples; j++) {
            uint32_t number = chunking->members[segment->first_chunk * chunking->chunk_size + j];
            bool last = j + 1 == samples;
            uint64_t end = last ? data_end : store->offsets[number] + index_size(&verify->source->index, number);
            if (last || (j + 1) % chunking->chunk_size == 0) {
                most = end - start > most ? end - start : most;
                start = end;
            }
        }
    }
    verify->progress.samples_total = verify->source->index.sample_count;
    verify->progress.packing = store->packing;
    verify->bytes = malloc(most ? most : 1);
    return verify->bytes ? 0 : LARDER_ENOMEM;
}

int store_verify(const char *path, store_progress_fn *progress, store_problem_fn *problem_fn, void *context,
                 struct error *err)
{
    struct verify verify = {.root = path, .report = progress, .problem = problem_fn, .context = context};
    struct shown shown;
    struct error found = {0};
    int code = source_index(&store_kind, &(struct source_wish){.text = path}, &verify.source, &found);
    if (code == LARDER_EFORMAT || code == LARDER_EVERSION) /* the version may be what is damaged */
        problem(&verify, STORE_INDEX_NAME, "%s", found.text);
    if (code)
        return error_set(err, code, "%s", found.text);
    verify.store = store_of(verify.source);
    code = make_buffer(&verify);
    for (uint32_t i = 0; !code && i < verify.store->segment_count; i++)
        code = check_segment(&verify, i);
    if (!code) {
        check_origins(&verify);
        check_foreign(&verify);
    }
    report(&verify, true);
    free(verify.bytes);
    source_free(&verify.source);
    if (code == LARDER_EGONE)
        return error_set(err, code, "%s: verifying was stopped", path_shown(path, &shown));
    if (code)
        return error_set(err, code, "%s: out of memory, or its path is too long", path_shown(path, &shown));
    if (verify.problems)
        return error_set(err, LARDER_EFORMAT, "%s: %llu problem%s", path_shown(path, &shown),
                         (unsigned long long)verify.problems, verify.problems == 1 ? "" : "s");
    return 0;
}
