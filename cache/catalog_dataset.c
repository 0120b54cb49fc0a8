/* catalog_dataset.c: a dataset once it is opened: its samples by index and by id, and reading their files. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/catalog_priv.h"
#include "common/check.h"

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

/* Leaves only the samples that tree_unchanged has to look at. */
static void keep_unreachable(struct index *index)
{
    size_t kept = 0;
    for (size_t i = 0; i < index->sample_count; i++) {
        if (index->samples[i].flags & INDEX_UNREACHABLE)
            index->samples[kept++] = index->samples[i];
    }
    struct index_sample *samples = kept ? realloc(index->samples, kept * sizeof *samples) : NULL;
    if (!kept)
        free(index->samples);
    if (samples || !kept)
        index->samples = samples;
    index->sample_count = index->sample_cap = kept;
}

static void dataset_free(struct dataset *dataset)
{
    index_free(&dataset->index);
    free(dataset->samples);
    free(dataset->ids);
    free(dataset->by_id);
    free(dataset->checkpoint);
    dataset->magic = 0;
    free(dataset);
}

int dataset_from_index(struct index *index, sample_id *ids, const char *checkpoint, struct dataset **out)
{
    CHECK(index->sample_count && index->sample_count <= DATASET_SAMPLES_MAX);
    struct dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset)
        return LARDER_ENOMEM;
    dataset->magic = DATASET_MAGIC;
    atomic_init(&dataset->refs, 1);
    atomic_init(&dataset->stale, false);
    dataset->count = (uint32_t)index->sample_count;
    dataset->samples = malloc(index->sample_count * sizeof *dataset->samples);
    dataset->checkpoint = checkpoint ? strdup(checkpoint) : NULL;
    if (!dataset->samples || (checkpoint && !dataset->checkpoint) || order_by_id(dataset, ids) ||
        index_fingerprint(index, dataset->fingerprint)) {
        dataset_free(dataset);
        return LARDER_ENOMEM;
    }
    for (uint32_t i = 0; i < dataset->count; i++) {
        const struct index_sample *from = &index->samples[i];
        dataset->samples[i] = (struct dataset_sample){.key = from->key, .size = from->size, .mtime_ns = from->mtime_ns,
                                                      .label = from->label, .flags = from->flags};
    }
    keep_unreachable(index);
    char *strings = realloc(index->strings, index->strings_len_bytes);
    if (strings) {
        index->strings = strings;
        index->strings_cap_bytes = index->strings_len_bytes;
    }
    dataset->index = *index;
    dataset->ids = ids;
    *index = (struct index){0};
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
    /* acq_rel: whoever frees it sees what every other holder did before letting go. */
    if (atomic_fetch_sub_explicit(&dataset->refs, 1, memory_order_acq_rel) == 1)
        dataset_free(dataset);
}

static const struct dataset_sample *sample_at(const struct dataset *dataset, uint32_t index)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    CHECK(index < dataset->count);
    return &dataset->samples[index];
}

const char *dataset_path(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->index.root;
}

uint32_t dataset_count(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->count;
}

uint32_t dataset_classes(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return (uint32_t)dataset->index.class_count;
}

const char *dataset_class(const struct dataset *dataset, uint32_t label)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return label < dataset->index.class_count ? dataset->index.strings + dataset->index.classes[label] : NULL;
}

void dataset_fingerprint(const struct dataset *dataset, uint64_t out[2])
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    memcpy(out, dataset->fingerprint, sizeof dataset->fingerprint);
}

sample_id dataset_id(const struct dataset *dataset, uint32_t index)
{
    sample_at(dataset, index);
    return dataset->ids[index];
}

int32_t dataset_label(const struct dataset *dataset, uint32_t index)
{
    return sample_at(dataset, index)->label;
}

uint64_t dataset_size(const struct dataset *dataset, uint32_t index)
{
    return sample_at(dataset, index)->size;
}

const char *dataset_key(const struct dataset *dataset, uint32_t index)
{
    return dataset->index.strings + sample_at(dataset, index)->key;
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

const sample_id *dataset_ids(const struct dataset *dataset)
{
    CHECK_MAGIC(dataset, DATASET_MAGIC);
    return dataset->ids;
}

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
    struct shown shown;
    return error_set(err, errno_code(number), "%s: cannot read: %s", path_shown(path, &shown), strerror(number));
}

static int changed(const struct dataset *dataset, const char *path, const char *how, struct error *err)
{
    struct shown shown;
    mark_stale(dataset);
    return error_set(err, LARDER_EFORMAT, "%s: changed since it was indexed: %s; open the dataset again",
                     path_shown(path, &shown), how);
}

static int check_unchanged(const struct dataset *dataset, const struct dataset_sample *sample, const char *path, int fd,
                           struct error *err)
{
    struct stat st;
    if (fstat(fd, &st))
        return read_failed(path, errno, err);
    if (sample->flags & INDEX_UNREACHABLE)
        return changed(dataset, path, "it could not be reached then", err);
    if (!S_ISREG(st.st_mode)) {
        struct shown shown;
        return error_set(err, LARDER_EFORMAT, "%s: not a regular file", path_shown(path, &shown));
    }
    if ((uint64_t)st.st_size != sample->size) {
        char how[96];
        snprintf(how, sizeof how, "%lld bytes, was %llu", (long long)st.st_size, (unsigned long long)sample->size);
        return changed(dataset, path, how, err);
    }
    if ((int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec != sample->mtime_ns)
        return changed(dataset, path, "it has another modification time", err);
    return 0;
}

int dataset_read(const struct dataset *dataset, uint32_t index, void *buf, struct error *err)
{
    const struct dataset_sample *sample = sample_at(dataset, index);
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/%s", dataset->index.root, dataset->index.strings + sample->key);
    CHECK(len > 0 && len < (int)sizeof path);
    int fd;
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); /* never waits for a pipe's other end */
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        int number = errno;
        if ((number == ENOENT || number == ENOTDIR) && !(sample->flags & INDEX_UNREACHABLE))
            mark_stale(dataset);
        return read_failed(path, number, err);
    }
    int code = check_unchanged(dataset, sample, path, fd, err);
    for (uint64_t done = 0; !code && done < sample->size;) {
        ssize_t got = pread(fd, (char *)buf + done, sample->size - done, (off_t)done);
        if (got > 0)
            done += (uint64_t)got;
        else if (got == 0)
            code = changed(dataset, path, "it became shorter while it was read", err);
        else if (errno != EINTR)
            code = read_failed(path, errno, err);
    }
    close(fd);
    return code;
}
