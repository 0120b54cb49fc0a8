/* read.c: the bytes of samples; a tree's here, a store's in store_read.c. Any thread; nothing here changes a
 * dataset but its stale mark. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/store/store.h"
#include "common/aside.h"
#include "common/check.h"
#include "common/clock.h"

#define FILES_UNDER_WAY 8
#define HASHED_AT_ONCE 65536

/* A file was changed in place, which its folder's time does not show: the next open must not trust what was recorded,
 * nor may the next start. */
static void mark_stale(const struct dataset *dataset)
{
    atomic_bool *stale = (atomic_bool *)&dataset->stale; /* the one part of a const dataset that changes */
    if (!atomic_exchange(stale, true) && dataset->checkpoint)
        unlink(dataset->checkpoint);
}

static int read_failed(const char *path, int number, struct error *err)
{
    errno = number;
    return file_error(err, path, "read it");
}

static int changed(const struct dataset *dataset, const char *path, const char *how, struct error *err)
{
    struct shown shown;
    mark_stale(dataset);
    return error_set(err, LARDER_ECHANGED, "%s: changed since it was indexed: %s; open the dataset again",
                     path_shown(path, &shown), how);
}

static int check_unchanged(const struct dataset *dataset, uint32_t index, const char *path, int fd, struct error *err)
{
    const struct index_sample *sample = &dataset->samples[index];
    struct shown shown;
    struct stat st;
    if (fstat(fd, &st))
        return read_failed(path, errno, err);
    if (sample->flags & INDEX_UNREACHABLE) {
        mark_stale(dataset);
        return error_set(err, LARDER_ENOENT, "%s: it could not be reached when it was indexed; open the dataset again",
                         path_shown(path, &shown));
    }
    if (!S_ISREG(st.st_mode))
        return error_set(err, LARDER_EFORMAT, "%s: not a regular file", path_shown(path, &shown));
    if ((uint64_t)st.st_size != sample->size) {
        char how[96];
        snprintf(how, sizeof how, "%lld bytes, was %llu", (long long)st.st_size, (unsigned long long)sample->size);
        return changed(dataset, path, how, err);
    }
    if (file_mtime_ns(&st) != sample->mtime_ns)
        return changed(dataset, path, "it has another modification time", err);
    if (!file_unchanged_or_remounted(&dataset->index, index, &st))
        return changed(dataset, path, "it is another file", err);
    return 0;
}

static void sample_path(const struct dataset *dataset, uint32_t index, char path[PATH_MAX])
{
    CHECK(index < dataset->count);
    const char *key = dataset->index.strings + dataset->samples[index].key;
    int len = snprintf(path, PATH_MAX, "%s/%s", dataset->index.root, key);
    CHECK(len > 0 && len < PATH_MAX);
}

static int open_failed(const struct dataset *dataset, uint32_t index, const char *path, bool away, struct error *err)
{
    int number = errno;
    struct shown shown;
    if (number == EMFILE || number == ENFILE)
        return read_failed(path, number, err);
    if (dataset->samples[index].flags & INDEX_UNREACHABLE)
        return error_set(err, LARDER_ENOENT, "%s: cannot be read, and could not when it was indexed: %s",
                         path_shown(path, &shown), strerror(number));
    if (away)
        return error_set(err, LARDER_EIO, "%s: what it lies in is not there: %s", path_shown(path, &shown),
                         strerror(number));
    if (number == ENXIO)
        return error_set(err, LARDER_EFORMAT, "%s: not a regular file", path_shown(path, &shown));
    if (number == ENOENT || number == ENOTDIR)
        mark_stale(dataset);
    return read_failed(path, number, err);
}

/* Opens a sample's file as long as it is what was indexed: *fd, which the caller closes, or an error. */
static int sample_open(const struct dataset *dataset, uint32_t index, int *fd, struct error *err)
{
    char path[PATH_MAX];
    sample_path(dataset, index, path);
    const struct index *from = &dataset->index;
    const struct medium medium = {.root = from->root, .inode = from->folders[0].inode};
    bool away;
    int opened = medium_open(&medium, dataset_key(dataset, index), &away);
    if (opened < 0)
        return open_failed(dataset, index, path, away, err);
    int code = check_unchanged(dataset, index, path, opened, err);
    if (code)
        close(opened);
    else
        *fd = opened;
    return code;
}

/* Reads an open file, and looks afterwards whether it was written to meanwhile: then some bytes may be old and some
 * new. */
static int sample_fetch(const struct dataset *dataset, uint32_t index, int fd, void *buf, struct error *err)
{
    struct stat st;
    bool whole = file_read_at(fd, buf, dataset->samples[index].size, 0) == 0;
    int number = errno;
    if (whole && fstat(fd, &st) == 0 && file_unchanged(&dataset->index, index, &st))
        return 0;
    char path[PATH_MAX];
    sample_path(dataset, index, path);
    if (whole)
        return check_unchanged(dataset, index, path, fd, err);
    return number ? read_failed(path, number, err) : changed(dataset, path, "it became shorter while it was read", err);
}

/* hash_open hashes an open file, and looks afterwards as sample_fetch does. */
static int hash_open(const struct dataset *dataset, uint32_t index, int fd, const struct interrupt *interrupt,
                     struct identity *out, struct error *err)
{
    uint8_t bytes[HASHED_AT_ONCE];
    char path[PATH_MAX];
    uint64_t size = dataset->samples[index].size;
    XXH3_state_t *state = XXH3_createState();
    int code = state ? 0 : error_set(err, LARDER_ENOMEM, "out of memory");
    sample_path(dataset, index, path);
    if (state)
        XXH3_128bits_reset(state);
    for (uint64_t at = 0, part; !code && at < size; at += part) {
        part = size - at < sizeof bytes ? size - at : sizeof bytes;
        if (interrupt_is_set(interrupt))
            code = file_interrupted(path, err);
        else if (file_read_at(fd, bytes, part, at))
            code = errno ? read_failed(path, errno, err)
                         : changed(dataset, path, "it became shorter while it was read", err);
        else
            XXH3_128bits_update(state, bytes, part);
    }
    if (!code)
        code = check_unchanged(dataset, index, path, fd, err);
    XXH128_hash_t hash = {0};
    if (!code)
        hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    if (!code)
        *out = (struct identity){.low = hash.low64, .high = hash.high64};
    return code;
}

static int hash_sample(const struct dataset *dataset, uint32_t index, const struct interrupt *interrupt,
                       struct identity *out, struct error *err)
{
    int fd;
    if (interrupt_is_set(interrupt))
        return error_set(err, LARDER_EGONE, "nobody wants it any more");
    int code = sample_open(dataset, index, &fd, err);
    if (!code) {
        code = hash_open(dataset, index, fd, interrupt, out, err);
        close(fd);
    }
    return code;
}

static int read_sample(const struct dataset *dataset, uint32_t index, void *buf, struct error *err)
{
    int fd;
    if (dataset->store)
        return store_read(dataset, index, buf, err);
    int code = sample_open(dataset, index, &fd, err);
    if (!code) {
        code = sample_fetch(dataset, index, fd, buf, err);
        close(fd);
    }
    return code;
}

/* leave leaves what was not read: files that are open already are closed, and the system goes on bringing them. */
static void leave(struct sample_read *reads, uint32_t count, const int *fds, uint32_t done, uint32_t opened)
{
    for (uint32_t i = done; i < count; i++) {
        if (i < opened && reads[i].err.code == 0)
            close(fds[i % FILES_UNDER_WAY]);
        reads[i].err.code = 0;
        reads[i].left = true;
    }
}

/* Opens some files ahead of the one being read and tells the system that they will be wanted, so that the disk has
 * several requests to choose from. */
static uint32_t read_samples(const struct dataset *dataset, struct sample_read *reads, uint32_t count,
                             uint64_t until_ns)
{
    if (dataset->store)
        return store_read_many(dataset, reads, count, until_ns);
    int fds[FILES_UNDER_WAY];
    uint32_t failed = 0;
    for (uint32_t next = 0, done = 0; done < count; done++) {
        if (done > 0 && until_ns && clock_now_ns() > until_ns) {
            leave(reads, count, fds, done, next);
            break;
        }
        for (; next < count && next < done + FILES_UNDER_WAY; next++) {
            struct sample_read *ahead = &reads[next];
            ahead->err.code = 0;
            ahead->left = false;
            if (sample_open(dataset, ahead->index, &fds[next % FILES_UNDER_WAY], &ahead->err) == 0)
                posix_fadvise(fds[next % FILES_UNDER_WAY], 0, 0, POSIX_FADV_WILLNEED);
        }
        struct sample_read *read = &reads[done];
        if (read->err.code == 0) {
            sample_fetch(dataset, read->index, fds[done % FILES_UNDER_WAY], read->buf, &read->err);
            close(fds[done % FILES_UNDER_WAY]);
        }
        failed += read->err.code != 0;
    }
    return failed;
}

/* ── in the calling thread, or aside ─────────────────────────────────────────────────────────────────────────────── */

enum what { READ_ONE, READ_MANY, HASH_ONE };

struct call {
    enum what what;
    const struct dataset *dataset;
    uint32_t index;    /* or how many */
    uint64_t until_ns; /* for READ_MANY */
    void *buf;         /* or what to read, or where the hash goes */
    const struct interrupt *interrupt;
    struct error *err;
    int result; /* a code, or how many failed */
};

static void make_call(void *ctx)
{
    struct call *call = ctx;
    switch (call->what) {
    case READ_ONE: call->result = read_sample(call->dataset, call->index, call->buf, call->err); break;
    case READ_MANY: call->result = (int)read_samples(call->dataset, call->buf, call->index, call->until_ns); break;
    case HASH_ONE: call->result = hash_sample(call->dataset, call->index, call->interrupt, call->buf, call->err); break;
    }
}

/* A file system whose reads nothing ends has them made aside. */
static int call(struct call call)
{
    const struct dataset *dataset = call.dataset;
    const struct index *index = &dataset->index;
    uint64_t device = dataset->store ? dataset->store->index_device : index->folder_count ? index->folders->device : 0;
    if (device && aside_suits(device))
        aside_run(make_call, &call);
    else
        make_call(&call);
    return call.result;
}

int dataset_read(const struct dataset *dataset, uint32_t index, void *buf, struct error *err)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    CHECK(index < dataset->count);
    return call((struct call){.what = READ_ONE, .dataset = dataset, .index = index, .buf = buf, .err = err});
}

uint32_t dataset_read_many(const struct dataset *dataset, struct sample_read *reads, uint32_t count, uint64_t until_ns)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    CHECK(count <= CHUNK_SAMPLES_MAX);
    return (uint32_t)call(
        (struct call){.what = READ_MANY, .dataset = dataset, .index = count, .buf = reads, .until_ns = until_ns});
}

int dataset_hash(const struct dataset *dataset, uint32_t index, const struct interrupt *interrupt, struct identity *out,
                 struct error *err)
{
    CHECK(!dataset->store && index < dataset->count);
    return call((struct call){
        .what = HASH_ONE, .dataset = dataset, .index = index, .buf = out, .interrupt = interrupt, .err = err});
}
