/* read.c: samples out of a store. Samples that lie near each other come with one read, straight into the callers'
 * buffers; what lies between them is read and dropped. Every sample's content hash is checked: damaged bytes cost the
 * sample, and never reach anybody. Any thread. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/store/store.h"
#include "common/check.h"
#include "common/clock.h"

#define GAP_BYTES_MAX (256u << 10) /* reading past a gap of this size costs less than another request */
#define DROP_BYTES (32u << 10)
#define PARTS_MAX 512
#define RUN_BYTES_MAX (1u << 20) /* A longer request gains nothing, and whoever has little time waits for its end. */

_Static_assert(PARTS_MAX <= IOV_MAX, "one system call takes all parts");
_Static_assert(CHUNK_SAMPLES_MAX <= UINT16_MAX, "the order of reads is in 16 bits");

/* One request under construction: reads[order[first]] … reads[order[last]], in the order of their places. */
struct run {
    const struct dataset *dataset;
    struct sample_read *reads;
    const uint16_t *order;
    uint32_t first, count;
    uint64_t offset, len_bytes;
    struct iovec parts[PARTS_MAX];
    int part_count;
    char dropped[DROP_BYTES];
};

static int segment_error(const struct dataset *dataset, uint32_t index, int code, const char *what, struct error *err)
{
    char name[STORE_NAME_MAX];
    struct shown root, key;
    store_segment_name(store_segment_of(dataset->store, dataset_chunk_of(dataset, index, NULL)), name);
    return error_set(err, code, "%s/%s: sample %s: %s", path_shown(dataset->index.root, &root), name,
                     path_shown(dataset_key(dataset, index), &key), what);
}

static int segment_open(const struct dataset *dataset, uint32_t segment, bool *away)
{
    char name[STORE_NAME_MAX];
    store_segment_name(segment, name);
    return medium_open(&(struct medium){.root = dataset->index.root}, name, away);
}

/* Bytes that are not what the index says: those of another store that has come to this place, or damage. */
static int wrong_bytes(const struct dataset *dataset, uint32_t index, const char *what, struct error *err)
{
    if (!store_unchanged(dataset->index.root, dataset->store))
        return segment_error(dataset, index, LARDER_ECHANGED, "the store was replaced; open the dataset again", err);
    return segment_error(dataset, index, LARDER_EFORMAT, what, err);
}

static int system_error(const struct dataset *dataset, uint32_t index, int number, struct error *err)
{
    char what[128];
    if (number == 0)
        return wrong_bytes(dataset, index, "the segment ends before it: it was truncated", err);
    errno = number;
    snprintf(what, sizeof what, "cannot read it: %m");
    return segment_error(dataset, index, number == EISDIR ? LARDER_EFORMAT : errno_code(number), what, err);
}

static int open_error(const struct dataset *dataset, uint32_t index, int number, bool away, struct error *err)
{
    if (away)
        return segment_error(dataset, index, LARDER_EIO, "the store's folder is not there", err);
    return system_error(dataset, index, number, err);
}

static int check_content(const struct dataset *dataset, uint32_t index, const void *buf, struct error *err)
{
    XXH128_hash_t hash = XXH3_128bits(buf, dataset->samples[index].size);
    const struct identity *expected = &dataset->store->checksums[index];
    if (hash.low64 == expected->low && hash.high64 == expected->high)
        return 0;
    return wrong_bytes(dataset, index, "its bytes are damaged (another content hash); run larder verify", err);
}

static bool never_readable(const struct dataset *dataset, uint32_t index, struct error *err)
{
    if (!(dataset->samples[index].flags & INDEX_UNREACHABLE))
        return false;
    segment_error(dataset, index, LARDER_ENOENT, "it could not be read when the store was packed", err);
    return true;
}

static int read_one(const struct dataset *dataset, uint32_t index, int fd, void *buf, struct error *err)
{
    if (file_read_at(fd, buf, dataset->samples[index].size, dataset->store->offsets[index]))
        return system_error(dataset, index, errno, err);
    return check_content(dataset, index, buf, err);
}

int store_read(const struct dataset *dataset, uint32_t index, void *buf, struct error *err)
{
    uint32_t segment = store_segment_of(dataset->store, dataset_chunk_of(dataset, index, NULL));
    if (never_readable(dataset, index, err))
        return err ? err->code : LARDER_ENOENT;
    bool away;
    int fd = segment_open(dataset, segment, &away);
    if (fd < 0)
        return open_error(dataset, index, errno, away, err);
    int code = read_one(dataset, index, fd, buf, err);
    close(fd);
    return code;
}

/* 0, or -1 where something did not come. */
static int read_parts(int fd, struct run *run)
{
    struct iovec *part = run->parts;
    int left = run->part_count;
    uint64_t offset = run->offset;
    while (left) {
        ssize_t got = preadv(fd, part, left, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return -1;
        offset += (uint64_t)got;
        for (; left && (size_t)got >= part->iov_len; left--)
            got -= (ssize_t)part++->iov_len;
        if (left) {
            part->iov_base = (char *)part->iov_base + got;
            part->iov_len -= (size_t)got;
        }
    }
    return 0;
}

/* Reads what the run has gathered. When the one request fails each sample is tried alone, so that a bad block costs
 * only the samples that lie on it. */
static void finish_run(struct run *run, int fd)
{
    bool whole = run->part_count && read_parts(fd, run) == 0;
    for (uint32_t i = 0; i < run->count; i++) {
        struct sample_read *read = &run->reads[run->order[run->first + i]];
        if (whole)
            check_content(run->dataset, read->index, read->buf, &read->err);
        else
            read_one(run->dataset, read->index, fd, read->buf, &read->err);
    }
    run->first += run->count;
    run->count = run->len_bytes = 0;
    run->part_count = 0;
}

/* Adds the next sample of the order; false when it does not go with what is there. */
static bool extend_run(struct run *run, uint32_t index, void *buf)
{
    uint64_t offset = run->dataset->store->offsets[index], size = run->dataset->samples[index].size;
    uint64_t end = run->offset + run->len_bytes;
    if (run->count == 0) {
        run->offset = end = offset;
    } else if (offset < end || offset - end > GAP_BYTES_MAX || offset + size - run->offset > RUN_BYTES_MAX ||
               run->part_count + GAP_BYTES_MAX / DROP_BYTES + 2 > PARTS_MAX) {
        return false;
    }
    for (uint64_t gap = offset - end; gap;) {
        size_t piece = gap < DROP_BYTES ? gap : DROP_BYTES;
        run->parts[run->part_count++] = (struct iovec){.iov_base = run->dropped, .iov_len = piece};
        gap -= piece;
    }
    if (size)
        run->parts[run->part_count++] = (struct iovec){.iov_base = buf, .iov_len = size};
    run->len_bytes = offset + size - run->offset;
    run->count++;
    return true;
}

struct by_position {
    const struct dataset *dataset;
    const struct sample_read *reads;
};

static int compare_positions(const void *a, const void *b, void *context)
{
    const struct by_position *by = context;
    const uint32_t *positions = by->dataset->chunking.positions;
    uint32_t left = positions[by->reads[*(const uint16_t *)a].index];
    uint32_t right = positions[by->reads[*(const uint16_t *)b].index];
    return (left > right) - (left < right);
}

/* The reads that can be tried at all, in the order of their places; the others have their error. */
static uint32_t order_reads(const struct dataset *dataset, struct sample_read *reads, uint32_t count, uint16_t *order)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        CHECK(reads[i].index < dataset->count);
        reads[i].err.code = 0;
        if (!never_readable(dataset, reads[i].index, &reads[i].err))
            order[kept++] = (uint16_t)i;
    }
    qsort_r(order, kept, sizeof *order, compare_positions, &(struct by_position){.dataset = dataset, .reads = reads});
    return kept;
}

/* The file that a run reads from: the segment that was opened last. */
struct open_segment {
    uint32_t number;
    int fd, code; /* code: the errno when it could not be opened */
    bool away;
};

static void open_next(struct open_segment *segment, const struct dataset *dataset, uint32_t number)
{
    if (segment->fd >= 0)
        close(segment->fd);
    segment->fd = segment_open(dataset, number, &segment->away);
    segment->code = errno;
    segment->number = number;
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

uint32_t store_read_many(const struct dataset *dataset, struct sample_read *reads, uint32_t count, uint64_t until_ns)
{
    uint16_t order[CHUNK_SAMPLES_MAX];
    struct run run;
    run.dataset = dataset;
    run.reads = reads;
    run.order = order;
    run.first = run.count = 0;
    run.len_bytes = run.offset = 0;
    run.part_count = 0;
    uint32_t kept = order_reads(dataset, reads, count, order), at = 0;
    struct open_segment segment = {.number = UINT32_MAX, .fd = -1};
    for (; at < kept; at++) {
        struct sample_read *read = &reads[order[at]];
        uint32_t number = store_segment_of(dataset->store, dataset_chunk_of(dataset, read->index, NULL));
        if (number != segment.number) {
            finish_run(&run, segment.fd);
            open_next(&segment, dataset, number);
        }
        if (segment.fd < 0) {
            open_error(dataset, read->index, segment.code, segment.away, &read->err);
            run.first++;
        } else if (!extend_run(&run, read->index, read->buf)) {
            finish_run(&run, segment.fd);
            if (until_ns && clock_now_ns() > until_ns)
                break;
            CHECK(extend_run(&run, read->index, read->buf));
        }
    }
    finish_run(&run, segment.fd);
    if (segment.fd >= 0)
        close(segment.fd);
    return count_failed(reads, count, order + at, kept - at);
}
