/* origins.c: samples of files that are known by their bytes. See origins.h. */
#include "cache/source/origins.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#include "cache/file.h"
#include "cache/source/blobs.h"
#include "cache/source/files.h"
#include "common/little_endian.h"
#include "common/log.h"

#define YOUNG_S 2

const struct seal origins_seal = {.magic = "LDRORIGN", .version = 1, .what = "the store's " ORIGINS_NAME};

/* Whether samples lie in files with others. */
static bool in_blobs(const struct source *source)
{
    return source->kind->is_blob == blobs_is;
}

static bool in_files(const struct source *source)
{
    return source->kind->read == files_read || in_blobs(source);
}

void origins_hint(const struct source *source, char hint[ORIGINS_HINT_MAX])
{
    const char *root = source->index.root, *first = in_blobs(source) ? blobs_name(source, 0, NULL) : "";
    if (in_blobs(source))
        snprintf(hint, ORIGINS_HINT_MAX, ORIGINS_HINT ".%016llx",
                 (unsigned long long)XXH3_64bits_withSeed(first, strlen(first), XXH3_64bits(root, strlen(root))));
    else
        snprintf(hint, ORIGINS_HINT_MAX, ORIGINS_HINT);
}

struct identity origins_file(const struct source *source, uint32_t index)
{
    const struct index_sample sample = index_sample(&source->index, index);
    if (in_blobs(source))
        return source->kind->identity(source, index, (uint64_t)sample.ctime_ns, 0);
    return index_identity(&sample, (uint64_t)sample.ctime_ns, NULL, 0);
}

int origin_compare(const void *a, const void *b)
{
    for (size_t at = 0; at < 16; at += 8) {
        uint64_t one = get_u64((const uint8_t *)a + at), two = get_u64((const uint8_t *)b + at);
        if (one != two)
            return one < two ? -1 : 1;
    }
    return 0;
}

bool origins_suit(const struct source *source)
{
    return in_files(source) && medium_is_local(source->index.root);
}

/* The path of the file that a sample lies in, below the root. */
static const char *file_of(const struct source *source, uint32_t index)
{
    return in_blobs(source) ? blobs_name(source, source->kind->place(source, index).blob, NULL)
                            : index_key(&source->index, index);
}

/* Whether stat told of the file that a sample was indexed in, and of no write since. */
static bool untouched(const struct source *source, uint32_t index, const struct stat *st)
{
    return in_blobs(source) ? blob_untouched(source, source->kind->place(source, index).blob, st) &&
                                  st->st_dev == index_sample(&source->index, index).device
                            : file_untouched(&source->index, index, st);
}

/* The kernel refuses a read lease while anybody has the file open or mapped for writing. Who opens it so in the moment
 * of the lease waits for its end, and this process is sent a signal that is ignored by default. */
static bool has_writer(int fd)
{
    return fcntl(fd, F_SETSIG, SIGURG) || fcntl(fd, F_SETLEASE, F_RDLCK) || fcntl(fd, F_SETLEASE, F_UNLCK);
}

/* A write sets the change time, which no program can choose, but for two: one within the same tick of the clock as the
 * write before, and one to a page that is mapped and was written to already. The lease comes before the times: from
 * then on, every write sets a time of now or later. */
bool origins_settled(const struct source *source, uint32_t index)
{
    struct timespec now;
    struct stat st;
    bool away, settled = false;
    int fd = medium_open(&source->medium, file_of(source, index), &away);
    if (fd < 0)
        return false;
    if (!has_writer(fd) && clock_gettime(CLOCK_REALTIME, &now) == 0 && fstat(fd, &st) == 0) {
        int64_t old_s = (int64_t)now.tv_sec - YOUNG_S;
        settled = S_ISREG(st.st_mode) && untouched(source, index, &st) && st.st_dev == source->medium.device &&
                  st.st_ctim.tv_sec < old_s && st.st_mtim.tv_sec < old_s &&
                  (st.st_uid == geteuid() || st.st_uid == 0) && !(st.st_mode & (S_IWGRP | S_IWOTH));
    }
    close(fd);
    return settled;
}

/* The store that a source's folder names, or else, for files, one of those above it. */
static bool find_store(const struct source *source, char store[PATH_MAX])
{
    char path[PATH_MAX], hint[ORIGINS_HINT_MAX];
    origins_hint(source, hint);
    if (snprintf(path, sizeof path, "%s", source->index.root) >= (int)sizeof path)
        return false;
    ssize_t len;
    while ((len = getxattr(path, hint, store, PATH_MAX - 1)) <= 0) {
        char *slash = strrchr(path, '/');
        if (in_blobs(source) || !slash || slash == path)
            return false;
        *slash = '\0';
    }
    store[len] = '\0';
    return store[0] == '/';
}

int origins_load(const char *store, const struct interrupt *interrupt, uint8_t **bytes, const uint8_t **origins,
                 size_t *count, struct error *err)
{
    char path[PATH_MAX];
    size_t len_bytes;
    struct shown shown;
    *bytes = NULL;
    if (snprintf(path, sizeof path, "%s/" ORIGINS_NAME, store) >= (int)sizeof path)
        return error_set(err, LARDER_ENOENT, "%s: the path is too long", path_shown(store, &shown));
    const struct file_wanted wanted = {.path = path, .max_bytes = ORIGINS_BYTES_MAX, .interrupt = interrupt};
    int code = file_load(&wanted, bytes, &len_bytes, err);
    if (code)
        return code;
    code = sealed_open(&origins_seal, *bytes, len_bytes, origins, &len_bytes, err);
    *count = code ? 0 : len_bytes / ORIGIN_BYTES;
    return code ? error_prefix(err, code, "%s", path_shown(path, &shown)) : 0;
}

/* Loads them as those of files of this process's user. It returns why not, or NULL. */
static const char *load_trusted(const char *store, const struct interrupt *interrupt, uint8_t **bytes,
                                const uint8_t **origins, size_t *count)
{
    struct error problem;
    if (!medium_is_local(store))
        return "it lies on no local ext4, XFS or Btrfs, so it might not answer";
    if (file_others_write(store, ".") || file_others_write(store, ORIGINS_NAME))
        return "others than you may write to it";
    int code = origins_load(store, interrupt, bytes, origins, count, &problem);
    if (code == LARDER_ENOENT)
        return "it is gone, or does not say which files it was packed from";
    if (code && code != LARDER_EGONE)
        log_warn_limited("msg=\"a store shares nothing with the files that it was packed from\" err=\"%s\"",
                         problem.text);
    return code ? "its " ORIGINS_NAME " is damaged, too large, or cannot be read" : NULL;
}

static bool is_untouched(int root_fd, const struct source *source, uint32_t index)
{
    struct stat st;
    return fstatat(root_fd, file_of(source, index), &st, 0) == 0 && untouched(source, index, &st);
}

/* Returns for how many of the samples a content was found. root_fd is -1 where no file is looked at. */
static uint32_t match(struct source *source, const uint8_t *origins, size_t count, int root_fd,
                      const struct interrupt *interrupt)
{
    struct index *index = &source->index;
    uint32_t found = 0;
    for (uint32_t i = 0; i < index->sample_count && !interrupt_is_set(interrupt); i++) {
        uint8_t file[16];
        struct identity identity = origins_file(source, i);
        put_u64(put_u64(file, identity.low), identity.high);
        const uint8_t *origin = bsearch(file, origins, count, ORIGIN_BYTES, origin_compare);
        if (!origin || index_flags(index, i) & INDEX_UNREACHABLE || (root_fd >= 0 && !is_untouched(root_fd, source, i)))
            continue;
        index->contents[i] = (struct identity){.low = get_u64(origin + 16), .high = get_u64(origin + 24)};
        found++;
    }
    return found;
}

void origins_find(struct source *source, bool old, const char *apart, const struct interrupt *interrupt)
{
    struct index *index = &source->index;
    char store[PATH_MAX];
    uint8_t *bytes = NULL;
    const uint8_t *origins;
    size_t count;
    if (!in_files(source))
        return;
    source->origins.apart = apart || origins_suit(source) ? apart : "they lie on no local ext4, XFS or Btrfs";
    if (source->origins.apart || !find_store(source, store) || !(source->origins.store = strdup(store)))
        return;
    source->origins.apart = load_trusted(store, interrupt, &bytes, &origins, &count);
    int root_fd = old ? open(index->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (!source->origins.apart && (!old || root_fd >= 0) &&
        (index->contents = calloc(index->sample_count, sizeof *index->contents)))
        source->origins.count = match(source, origins, count, root_fd, interrupt);
    if (source->origins.count == 0) {
        free(index->contents);
        index->contents = NULL;
    }
    if (root_fd >= 0)
        close(root_fd);
    free(bytes);
    if (!source->origins.apart && source->origins.count < index->sample_count)
        source->origins.apart = "these files changed since, or when they were packed they were new, open for writing, "
                                "or writable by others";
}

const char *source_shares(const struct source *source, char text[SHARES_BYTES])
{
    const struct origins *origins = &source->origins;
    const char *apart = origins->apart ? origins->apart : "";
    struct shown store;
    if (origins->store)
        path_shown(origins->store, &store);
    if (!source->kind->shares || !in_files(source))
        snprintf(text, SHARES_BYTES, "%s", source->kind->shares ? source->kind->shares : apart);
    else if (!origins->store)
        snprintf(text, SHARES_BYTES, "%s, and with no store: %s", source->kind->shares,
                 origins->apart ? apart : "their folder names none that was packed from them");
    else if (!origins->count)
        snprintf(text, SHARES_BYTES, "%s, and not with the store %s: %s", source->kind->shares, store.text, apart);
    else if (origins->apart)
        snprintf(text, SHARES_BYTES, "%s, and %u of them with the store %s: of the others, %s", source->kind->shares,
                 origins->count, store.text, apart);
    else
        snprintf(text, SHARES_BYTES, "%s, and with the store %s", source->kind->shares, store.text);
    return text;
}
