/* file.c: whether a sample's file is the one that was indexed. See tree.h. */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#include "cache/file.h"
#include "cache/medium/medium.h"
#include "cache/source/tree.h"

static bool sample_path(const struct index *index, size_t number, char path[PATH_MAX])
{
    int len = snprintf(path, PATH_MAX, "%s/%s", index->root, index->strings + index->samples[number].key);
    return len > 0 && len < PATH_MAX;
}

static bool same_but_device(const struct index *index, size_t number, const struct stat *st)
{
    const struct index_sample *sample = &index->samples[number];
    char path[PATH_MAX];
    if ((uint64_t)st->st_size != sample->size || file_mtime_ns(st) != sample->mtime_ns)
        return false;
    return st->st_ino == sample->inode || (sample_path(index, number, path) && !medium_inodes_last(path));
}

/* Asks the next sample that lay on the same device. */
static bool remounted(const struct index *index, size_t number, uint64_t now)
{
    size_t other = number;
    do {
        other = other + 1 < index->sample_count ? other + 1 : 0;
        if (other == number)
            return false;
    } while (index->samples[other].device != index->samples[number].device);
    char path[PATH_MAX];
    struct stat st;
    return sample_path(index, other, path) && stat(path, &st) == 0 && st.st_dev == now &&
           same_but_device(index, other, &st);
}

bool file_unchanged(const struct index *index, size_t number, const struct stat *st)
{
    return same_but_device(index, number, st) && st->st_dev == index->samples[number].device;
}

bool file_unchanged_or_remounted(const struct index *index, size_t number, const struct stat *st)
{
    return same_but_device(index, number, st) &&
           (st->st_dev == index->samples[number].device || remounted(index, number, st->st_dev));
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
    for (size_t i = 0; i < index->sample_count; i++) {
        if (index->samples[i].device == before)
            index->samples[i].device = now;
    }
    return true;
}
