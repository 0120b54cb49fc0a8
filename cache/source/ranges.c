/* ranges.c: reads samples that lie in ranges of blobs. Samples that lie near each other come with one read, straight
 * into the callers' buffers; what lies between them is read and dropped. Every sample is checked: bytes that are not
 * its own cost the sample, and never reach anybody. Any thread. */
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/file.h"
#include "cache/source/source.h"
#include "common/check.h"
#include "common/clock.h"

#define GAP_BYTES_MAX (256u << 10) /* reading past a gap of this size costs less than another request */
#define DROP_BYTES (32u << 10)
#define PARTS_MAX 512
#define LEADS_MAX 64
#define HASHED_AT_ONCE (64u << 10)
#define HASHED_WHOLE_MAX (32u << 20) /* the largest sample that is held to be hashed */
#define RUN_BYTES_MAX (1u << 20) /* A longer request gains nothing, and whoever has little time waits for its end. */

_Static_assert(PARTS_MAX <= IOV_MAX, "one system call takes all parts");
_Static_assert(CHUNK_SAMPLES_MAX <= UINT16_MAX, "the order of reads is in 16 bits");

/* One request under construction: reads[order[first]] … reads[order[last]], in the order of their places. */
struct run {
    const struct source *source;
    struct sample_read *reads;
    const uint16_t *order;
    uint32_t first, count;
    uint64_t offset, len_bytes;
    struct iovec parts[PARTS_MAX];
    int part_count;
    char dropped[DROP_BYTES];
    char leads[LEADS_MAX][LEAD_BYTES_MAX]; /* one a sample, in their order */
};

static void fail(const struct source *source, struct sample_read *read, int why)
{
    source->kind->failed(source, read->index, why, &read->err);
}

/* What the blob has of a sample: its length, and where it belongs. */
static uint64_t stored_bytes(const struct source *source, const struct sample_read *read, uint8_t **to)
{
    uint32_t head = source->kind->head_bytes ? source->kind->head_bytes(source, read->index) : 0;
    *to = (uint8_t *)read->buf + head;
    return index_size(&source->index, read->index) - head;
}

static void read_one(const struct source *source, struct sample_read *read, void *lead, int fd)
{
    uint64_t offset = read->place.offset;
    uint32_t before = source->kind->lead_bytes;
    uint8_t *to;
    uint64_t size = stored_bytes(source, read, &to);
    if ((before && file_read_at(fd, lead, before, offset - before)) || file_read_at(fd, to, size, offset))
        fail(source, read, errno); /* 0 is READ_ENDS */
    else
        source->kind->check(source, read->index, lead, read->buf, &read->err);
}

/* Reads what the run has gathered. When the one request fails each sample is tried alone, so that a bad block costs
 * only the samples that lie on it. */
static void finish_run(struct run *run, int fd)
{
    const struct source *source = run->source;
    bool whole = run->part_count && medium_read_parts(fd, run->parts, run->part_count, run->offset) == 0;
    for (uint32_t i = 0; i < run->count; i++) {
        struct sample_read *read = &run->reads[run->order[run->first + i]];
        if (whole)
            source->kind->check(source, read->index, run->leads[i], read->buf, &read->err);
        else
            read_one(source, read, run->leads[i], fd);
    }
    bool same = run->count == 0 || !source->kind->is_blob ||
                source->kind->is_blob(source, run->reads[run->order[run->first]].place.blob, fd);
    for (uint32_t i = 0; !same && i < run->count; i++)
        fail(source, &run->reads[run->order[run->first + i]], READ_CHANGED);
    run->first += run->count;
    run->count = run->len_bytes = 0;
    run->part_count = 0;
}

/* Adds the next sample of the order; false when it does not go with what is there. */
static bool extend_run(struct run *run, const struct sample_read *read)
{
    uint32_t lead = run->source->kind->lead_bytes;
    uint8_t *to;
    uint64_t offset = read->place.offset - lead, size = stored_bytes(run->source, read, &to);
    uint64_t end = run->offset + run->len_bytes;
    if (run->count == 0) {
        run->offset = end = offset;
    } else if (offset < end || offset - end > GAP_BYTES_MAX || offset + lead + size - run->offset > RUN_BYTES_MAX ||
               run->part_count + GAP_BYTES_MAX / DROP_BYTES + 3 > PARTS_MAX || (lead && run->count == LEADS_MAX)) {
        return false;
    }
    for (uint64_t gap = offset - end; gap;) {
        size_t piece = gap < DROP_BYTES ? gap : DROP_BYTES;
        run->parts[run->part_count++] = (struct iovec){.iov_base = run->dropped, .iov_len = piece};
        gap -= piece;
    }
    if (lead)
        run->parts[run->part_count++] = (struct iovec){.iov_base = run->leads[run->count], .iov_len = lead};
    if (size)
        run->parts[run->part_count++] = (struct iovec){.iov_base = to, .iov_len = size};
    run->len_bytes = offset + lead + size - run->offset;
    run->count++;
    return true;
}

static int compare_places(const void *a, const void *b, void *context)
{
    const struct sample_read *reads = context;
    const struct sample_place *left = &reads[*(const uint16_t *)a].place, *right = &reads[*(const uint16_t *)b].place;
    if (left->blob != right->blob)
        return left->blob < right->blob ? -1 : 1;
    return (left->offset > right->offset) - (left->offset < right->offset);
}

/* The reads that can be tried at all, in the order of their places; the others have their error. */
static uint32_t order_reads(const struct source *source, struct sample_read *reads, uint32_t count, uint16_t *order)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct sample_read *read = &reads[i];
        CHECK(read->index < source->index.sample_count);
        read->err.code = 0;
        if (index_flags(&source->index, read->index) & INDEX_UNREACHABLE) {
            fail(source, read, READ_UNREACHED);
            continue;
        }
        read->place = source->kind->place(source, read->index);
        if (read->place.offset < source->kind->lead_bytes) {
            fail(source, read, READ_CHANGED);
            continue;
        }
        order[kept++] = (uint16_t)i;
    }
    qsort_r(order, kept, sizeof *order, compare_places, reads);
    return kept;
}

/* The file that a run reads from: the blob that was opened last. */
struct open_blob {
    uint32_t number;
    int fd, why; /* why: as for source_kind's failed, when it could not be opened */
};

static void open_next(struct open_blob *blob, const struct source *source, uint32_t number)
{
    char name[BLOB_NAME_MAX];
    bool away;
    if (blob->fd >= 0)
        close(blob->fd);
    blob->fd = medium_open(&source->medium, source->kind->blob_name(source, number, name), &away);
    blob->why = away ? READ_AWAY : errno;
    blob->number = number;
}

/* count_failed returns how many reads failed, and leaves those that were not begun: `order` has them. */
static uint32_t count_failed(struct sample_read *reads, uint32_t count, const uint16_t *order, uint32_t n_left)
{
    uint32_t failed = 0;
    for (uint32_t i = 0; i < count; i++) {
        reads[i].left = false;
        failed += reads[i].err.code != 0;
    }
    for (uint32_t i = 0; i < n_left; i++)
        reads[order[i]].left = true;
    return failed;
}

uint32_t ranges_read(const struct source *source, struct sample_read *reads, uint32_t count, uint64_t until_ns)
{
    uint16_t order[CHUNK_SAMPLES_MAX];
    struct run run;
    run.source = source;
    run.reads = reads;
    run.order = order;
    run.first = run.count = 0;
    run.len_bytes = run.offset = 0;
    run.part_count = 0;
    uint32_t kept = order_reads(source, reads, count, order), at = 0;
    struct open_blob blob = {.number = UINT32_MAX, .fd = -1};
    for (; at < kept; at++) {
        struct sample_read *read = &reads[order[at]];
        if (read->place.blob != blob.number) {
            finish_run(&run, blob.fd);
            open_next(&blob, source, read->place.blob);
        }
        if (blob.fd < 0) {
            fail(source, read, blob.why);
            run.first++;
        } else if (!extend_run(&run, read)) {
            finish_run(&run, blob.fd);
            if (until_ns && clock_now_ns() > until_ns)
                break;
            CHECK(extend_run(&run, read));
        }
    }
    finish_run(&run, blob.fd);
    if (blob.fd >= 0)
        close(blob.fd);
    return count_failed(reads, count, order + at, kept - at);
}

/* hash_stored hashes a sample as it lies in its open blob, piece by piece. It returns 0, or why that failed, as for
 * source_kind's failed: READ_ENDS is 0 too, so *whole says whether it came to the end. */
static int hash_stored(int fd, uint64_t offset, uint64_t len_bytes, const struct interrupt *interrupt,
                       XXH3_state_t *state, bool *whole)
{
    uint8_t piece[HASHED_AT_ONCE];
    *whole = false;
    for (uint64_t at = 0, part; at < len_bytes; at += part) {
        part = len_bytes - at < sizeof piece ? len_bytes - at : sizeof piece;
        if (interrupt_is_set(interrupt))
            return EINTR;
        if (file_read_at(fd, piece, part, offset + at))
            return errno;
        XXH3_128bits_update(state, piece, part);
    }
    *whole = true;
    return 0;
}

/* hash_large hashes a sample that is too large to be held: as it is stored, and unchecked. */
static int hash_large(const struct source *source, uint32_t index, const struct interrupt *interrupt,
                      struct identity *out, struct error *err)
{
    struct sample_read read = {.index = index, .place = source->kind->place(source, index)};
    struct open_blob blob = {.fd = -1};
    XXH3_state_t *state = XXH3_createState();
    uint8_t *unused;
    bool whole = false;
    if (!state)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    XXH3_128bits_reset(state);
    open_next(&blob, source, read.place.blob);
    int why = blob.fd < 0 ? blob.why
                          : hash_stored(blob.fd, read.place.offset, stored_bytes(source, &read, &unused), interrupt,
                                        state, &whole);
    if (whole && source->kind->is_blob && !source->kind->is_blob(source, read.place.blob, blob.fd)) {
        whole = false;
        why = READ_CHANGED;
    }
    XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    if (blob.fd >= 0)
        close(blob.fd);
    if (interrupt_is_set(interrupt))
        return error_set(err, LARDER_EGONE, "nobody wants it any more");
    if (!whole)
        return source->kind->failed(source, index, why, err);
    *out = (struct identity){.low = hash.low64, .high = hash.high64};
    return 0;
}

int ranges_hash(const struct source *source, uint32_t index, const struct interrupt *interrupt, struct identity *out,
                struct error *err)
{
    uint64_t size = index_size(&source->index, index);
    if (size > HASHED_WHOLE_MAX)
        return hash_large(source, index, interrupt, out, err);
    struct sample_read read = {.index = index, .buf = malloc(size + 1)};
    int code = 0;
    if (interrupt_is_set(interrupt))
        code = error_set(err, LARDER_EGONE, "nobody wants it any more");
    else if (!read.buf)
        code = error_set(err, LARDER_ENOMEM, "out of memory");
    else if (source->kind->read(source, &read, 1, 0))
        code = error_set(err, read.err.code, "%s", read.err.text);
    if (!code) {
        XXH128_hash_t hash = XXH3_128bits(read.buf, size);
        *out = (struct identity){.low = hash.low64, .high = hash.high64};
    }
    free(read.buf);
    return code;
}
