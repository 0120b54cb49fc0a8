/* files.c: samples that are files of their own: whether a file is the one that was indexed, and its bytes. A file is
 * known by device, inode, size and modification time.
 *
 * An identity that outlives the daemon has the change time too, as what sets the file apart. Device numbers are given
 * anew when a machine starts, and files that were unpacked from an archive may have the size and the modification time
 * of others. No program can set a change time. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/file.h"
#include "cache/source/files.h"
#include "common/check.h"
#include "common/clock.h"
#include "common/random.h"

#define FILES_UNDER_WAY 8
#define HASHED_AT_ONCE 65536
#define AHEAD_PART 4 /* a fourth of a piece's time may go into opening files ahead */

/* False: the index is of a checkpoint, and the sample's key in it is none that an index has. */
static bool sample_path(const struct index *index, size_t number, char path[PATH_MAX])
{
    const char *key = index_key(index, number);
    int len = snprintf(path, PATH_MAX, "%s/%s", index->root, key);
    return len > 0 && len < PATH_MAX && (!index->whole || key_is_below(key));
}

static bool same_but_device(const struct index *index, size_t number, const struct stat *st)
{
    const struct index_sample sample = index_sample(index, number);
    char path[PATH_MAX];
    if ((uint64_t)st->st_size != sample.size || file_mtime_ns(st) != sample.mtime_ns)
        return false;
    return st->st_ino == sample.inode || (sample_path(index, number, path) && !medium_inodes_last(path));
}

/* Asks the next sample that lay on the same device. */
static bool remounted(const struct index *index, size_t number, uint64_t now)
{
    uint64_t device = index_sample(index, number).device;
    size_t other = number;
    do {
        other = other + 1 < index->sample_count ? other + 1 : 0;
        if (other == number)
            return false;
    } while (index_sample(index, other).device != device);
    char path[PATH_MAX];
    struct stat st;
    return sample_path(index, other, path) && stat(path, &st) == 0 && st.st_dev == now &&
           same_but_device(index, other, &st);
}

/* is_unchanged tells whether a file is the one that was indexed, whatever its change time. */
static bool is_unchanged(const struct index *index, size_t number, const struct stat *st)
{
    return same_but_device(index, number, st) && st->st_dev == index_sample(index, number).device;
}

/* is_unchanged_or_remounted does the same, but also accepts a new device number if another sample of the old device
 * has that number now. Then the whole file system was mounted anew. */
static bool is_unchanged_or_remounted(const struct index *index, size_t number, const struct stat *st)
{
    return same_but_device(index, number, st) &&
           (st->st_dev == index_sample(index, number).device || remounted(index, number, st->st_dev));
}

bool index_follow_mount(struct index *index)
{
    uint64_t before = index->folders[0].device, now = medium_device(index->root);
    if (!now || now == before)
        return false;
    for (size_t i = 0; i < index->folder_count; i++) {
        if (index->folders[i].device == before)
            index->folders[i].device = now;
    }
    if (!index->device_was)
        index->device_was = before; /* of the samples, which are packed */
    for (size_t i = 0; i < index->blob_count; i++) {
        if (index->blobs[i].device == before)
            index->blobs[i].device = now;
    }
    return true;
}

bool file_untouched(const struct index *index, size_t number, const struct stat *st)
{
    return is_unchanged(index, number, st) && file_ctime_ns(st) == index_sample(index, number).ctime_ns;
}

void file_look(int root_fd, struct index *index, size_t number)
{
    struct index_sample *sample = &index->samples[number];
    const char *path = index->strings + sample->key;
    struct stat st;
    if (fstatat(root_fd, path, &st, 0)) { /* no identity to share: its own path is what it is known by */
        sample->flags |= INDEX_UNREACHABLE;
        sample->device = UINT64_MAX;
        sample->inode = XXH3_64bits_withSeed(path, strlen(path), XXH3_64bits(index->root, strlen(index->root)));
        return;
    }
    sample->size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    sample->device = st.st_dev;
    sample->inode = st.st_ino;
    sample->mtime_ns = file_mtime_ns(&st);
    sample->ctime_ns = file_ctime_ns(&st);
}

/* A file that cannot be looked at now does not count as changed: reading it will say why. */
static bool file_differs(int root_fd, const struct index *index, size_t number)
{
    bool unreachable = index_flags(index, number) & INDEX_UNREACHABLE;
    struct stat st;
    if (fstatat(root_fd, index_key(index, number), &st, 0))
        return !unreachable && (errno == ENOENT || errno == ENOTDIR);
    return unreachable || (S_ISREG(st.st_mode) && !is_unchanged(index, number, &st)) ||
           (index_content(index, number) && !file_untouched(index, number, &st));
}

/* All files that could not be looked at. */
static bool unreachable_unchanged(int root_fd, const struct index *index, const struct interrupt *interrupt)
{
    for (size_t i = 0; index->unreachable && i < index->sample_count; i++) {
        if (index_flags(index, i) & INDEX_UNREACHABLE &&
            (interrupt_is_set(interrupt) || file_differs(root_fd, index, i)))
            return false;
    }
    return true;
}

/* All files of a small source; of a large one a random one in each of FILES_LOOKED_AT equal parts, others each time. */
static bool drawn_unchanged(int root_fd, const struct index *index, const struct interrupt *interrupt)
{
    struct rng rng;
    random_seed(&rng, clock_now_ns());
    size_t count = index->sample_count, looks = count <= FILES_ALL_MAX ? count : FILES_LOOKED_AT;
    for (size_t i = 0; i < looks; i++) {
        size_t first = count * i / looks, end = count * (i + 1) / looks;
        if (interrupt_is_set(interrupt) || file_differs(root_fd, index, first + random_below(&rng, end - first)))
            return false;
    }
    return true;
}

bool files_unchanged(const struct index *index, const struct interrupt *interrupt)
{
    int root_fd = open(index->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return false;
    bool same = unreachable_unchanged(root_fd, index, interrupt) && drawn_unchanged(root_fd, index, interrupt);
    close(root_fd);
    return same;
}

struct identity files_identity(const struct source *source, uint32_t index, uint64_t apart, uint64_t seed)
{
    const struct index_sample sample = source_sample(source, index);
    return index_identity(&sample, apart, NULL, seed);
}

/* ── reading ── */

/* A file was changed in place, which its folder's time does not show: the next open must not trust what was
 * recorded. */
static void note_changed(const struct source *source)
{
    atomic_store((atomic_bool *)&source->changed, true); /* the one part of a const source that changes */
}

static int read_failed(const char *path, int number, struct error *err)
{
    errno = number;
    return file_error(err, path, "read it");
}

static int changed(const struct source *source, const char *path, const char *how, struct error *err)
{
    struct shown shown;
    note_changed(source);
    return error_set(err, LARDER_ECHANGED, "%s: changed since it was indexed: %s; open the dataset again",
                     path_shown(path, &shown), how);
}

static int check_unchanged(const struct source *source, uint32_t index, const char *path, int fd, struct error *err)
{
    const struct index_sample sample = index_sample(&source->index, index);
    struct shown shown;
    struct stat st;
    if (fstat(fd, &st))
        return read_failed(path, errno, err);
    if (sample.flags & INDEX_UNREACHABLE) {
        note_changed(source);
        return error_set(err, LARDER_ENOENT, "%s: it could not be reached when it was indexed; open the dataset again",
                         path_shown(path, &shown));
    }
    if (!S_ISREG(st.st_mode))
        return error_set(err, LARDER_EFORMAT, "%s: not a regular file", path_shown(path, &shown));
    if ((uint64_t)st.st_size != sample.size) {
        char how[96];
        snprintf(how, sizeof how, "%lld bytes, was %llu", (long long)st.st_size, (unsigned long long)sample.size);
        return changed(source, path, how, err);
    }
    if (file_mtime_ns(&st) != sample.mtime_ns)
        return changed(source, path, "it has another modification time", err);
    if (!is_unchanged_or_remounted(&source->index, index, &st))
        return changed(source, path, "it is another file", err);
    return 0;
}

static void path_of(const struct source *source, uint32_t index, char path[PATH_MAX])
{
    CHECK(index < source->index.sample_count && sample_path(&source->index, index, path));
}

static int open_failed(const struct source *source, uint32_t index, const char *path, bool away, struct error *err)
{
    int number = errno;
    struct shown shown;
    if (number == EMFILE || number == ENFILE)
        return read_failed(path, number, err);
    if (index_flags(&source->index, index) & INDEX_UNREACHABLE)
        return error_set(err, LARDER_ENOENT, "%s: cannot be read, and could not when it was indexed: %s",
                         path_shown(path, &shown), strerror(number));
    if (away)
        return error_set(err, LARDER_EIO, "%s: what it lies in is not there: %s", path_shown(path, &shown),
                         strerror(number));
    if (number == ENXIO)
        return error_set(err, LARDER_EFORMAT, "%s: not a regular file", path_shown(path, &shown));
    if (number == ENOENT || number == ENOTDIR)
        note_changed(source);
    return read_failed(path, number, err);
}

/* Opens a sample's file as long as it is what was indexed: *fd, which the caller closes, or an error. */
static int sample_open(const struct source *source, uint32_t index, int *fd, struct error *err)
{
    char path[PATH_MAX];
    struct shown shown;
    if (!sample_path(&source->index, index, path)) {
        note_changed(source); /* so the checkpoint is made anew */
        return error_set(err, LARDER_EFORMAT, "%s: the kept index is damaged at sample %u; open the dataset again",
                         path_shown(source->index.root, &shown), index);
    }
    bool away;
    const char *key = index_key(&source->index, index);
    int opened = medium_open(&source->medium, key, &away);
    if (opened < 0)
        return open_failed(source, index, path, away, err);
    int code = check_unchanged(source, index, path, opened, err);
    if (code)
        close(opened);
    else
        *fd = opened;
    return code;
}

/* Whether the bytes of a file are those that its sample is known by, if it is known by its bytes. A file that was
 * written to has another change time, which the next index has. Where not, the store that says so is not to be
 * believed. */
static int check_content(const struct source *source, uint32_t index, const void *bytes, const struct stat *st,
                         struct error *err)
{
    if (!index_content_differs(&source->index, index, bytes))
        return 0;
    char path[PATH_MAX];
    path_of(source, index, path);
    if (file_untouched(&source->index, index, st))
        atomic_store((atomic_bool *)&source->doubted, true); /* a part that changes, as note_changed's */
    return changed(source, path, "its bytes are others than those that were packed into a store", err);
}

/* Reads an open file, and looks afterwards whether it was written to meanwhile: then some bytes may be old and some
 * new. */
static int sample_fetch(const struct source *source, uint32_t index, int fd, void *buf, struct error *err)
{
    struct stat st = {0};
    bool whole = file_read_at(fd, buf, index_size(&source->index, index), 0) == 0;
    int number = errno;
    if (whole && fstat(fd, &st) == 0 && is_unchanged(&source->index, index, &st))
        return check_content(source, index, buf, &st, err);
    char path[PATH_MAX];
    path_of(source, index, path);
    if (whole) {
        int code = check_unchanged(source, index, path, fd, err);
        return code ? code : check_content(source, index, buf, &st, err);
    }
    return number ? read_failed(path, number, err) : changed(source, path, "it became shorter while it was read", err);
}

/* hash_open hashes an open file, and looks afterwards as sample_fetch does. */
static int hash_open(const struct source *source, uint32_t index, int fd, const struct interrupt *interrupt,
                     struct identity *out, struct error *err)
{
    uint8_t bytes[HASHED_AT_ONCE];
    char path[PATH_MAX];
    uint64_t size = index_size(&source->index, index);
    XXH3_state_t *state = XXH3_createState();
    int code = state ? 0 : error_set(err, LARDER_ENOMEM, "out of memory");
    path_of(source, index, path);
    if (state)
        XXH3_128bits_reset(state);
    for (uint64_t at = 0, part; !code && at < size; at += part) {
        part = size - at < sizeof bytes ? size - at : sizeof bytes;
        if (interrupt_is_set(interrupt))
            code = file_interrupted(path, err);
        else if (file_read_at(fd, bytes, part, at))
            code = errno ? read_failed(path, errno, err)
                         : changed(source, path, "it became shorter while it was read", err);
        else
            XXH3_128bits_update(state, bytes, part);
    }
    if (!code)
        code = check_unchanged(source, index, path, fd, err);
    XXH128_hash_t hash = {0};
    if (!code)
        hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    if (!code)
        *out = (struct identity){.low = hash.low64, .high = hash.high64};
    return code;
}

int files_hash(const struct source *source, uint32_t index, const struct interrupt *interrupt, struct identity *out,
               struct error *err)
{
    int fd;
    if (interrupt_is_set(interrupt))
        return error_set(err, LARDER_EGONE, "nobody wants it any more");
    int code = sample_open(source, index, &fd, err);
    if (!code) {
        code = hash_open(source, index, fd, interrupt, out, err);
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

/* open_next opens a file that will be read soon. ahead: the system brings its bytes meanwhile. */
static int open_next(const struct source *source, struct sample_read *read, bool ahead)
{
    int fd = -1;
    read->err.code = 0;
    read->left = false;
    if (sample_open(source, read->index, &fd, &read->err) == 0 && ahead)
        posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    return fd;
}

/* Some files are opened ahead of the one being read, so that a disk has several requests to choose from. Where opening
 * takes long, as over a network, a piece that ends after a time would spend it on files that it leaves: then none is
 * opened ahead after a part of the time, and what is quick about such storage is to have more readers. */
uint32_t files_read(const struct source *source, struct sample_read *reads, uint32_t count, uint64_t until_ns)
{
    int fds[FILES_UNDER_WAY];
    uint32_t failed = 0;
    bool ahead = medium_reads_ahead(&source->medium);
    uint64_t now_ns = until_ns ? clock_now_ns() : 0;
    uint64_t ahead_until_ns = until_ns > now_ns ? now_ns + (until_ns - now_ns) / AHEAD_PART : until_ns;
    for (uint32_t next = 0, done = 0; done < count; done++) {
        if (done > 0 && until_ns && clock_now_ns() > until_ns) {
            leave(reads, count, fds, done, next);
            break;
        }
        while (next < count && next < done + FILES_UNDER_WAY &&
               (next == done || !until_ns || clock_now_ns() < ahead_until_ns)) {
            fds[next % FILES_UNDER_WAY] = open_next(source, &reads[next], ahead);
            next++;
        }
        struct sample_read *read = &reads[done];
        if (read->err.code == 0) {
            sample_fetch(source, read->index, fds[done % FILES_UNDER_WAY], read->buf, &read->err);
            close(fds[done % FILES_UNDER_WAY]);
        }
        failed += read->err.code != 0;
    }
    return failed;
}
