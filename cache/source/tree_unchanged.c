/* tree_unchanged.c: whether a tree still is as it was indexed. See tree_priv.h. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache/source/tree_priv.h"
#include "common/clock.h"
#include "common/random.h"

static bool folder_unchanged(int root_fd, const char *path, struct index_folder *folder, bool *settled)
{
    struct stat st;
    if (!(folder->flags & FOLDER_FRESH)) {
        return fstatat(root_fd, *path ? path : ".", &st, 0) == 0 && st.st_dev == folder->device &&
               st.st_ino == folder->inode && file_mtime_ns(&st) == folder->mtime_ns;
    }
    struct index_folder now = {0};
    int fd = folder_open(root_fd, path, &now);
    if (fd < 0)
        return false;
    if (folder_list(fd, NULL, NULL, &now.listing) || now.device != folder->device || now.inode != folder->inode ||
        now.mtime_ns != folder->mtime_ns || now.listing != folder->listing)
        return false;
    folder->flags = now.flags;
    *settled |= !(now.flags & FOLDER_FRESH);
    return true;
}

/* A file that cannot be looked at now does not count as changed: reading it will say why. */
static bool file_differs(int root_fd, const struct index *index, size_t number)
{
    const struct index_sample *sample = &index->samples[number];
    struct stat st;
    if (fstatat(root_fd, index->strings + sample->key, &st, 0))
        return !(sample->flags & INDEX_UNREACHABLE) && (errno == ENOENT || errno == ENOTDIR);
    return sample->flags & INDEX_UNREACHABLE || (S_ISREG(st.st_mode) && !file_unchanged(index, number, &st));
}

void tree_note_reachable(struct index *index)
{
    index->all_reachable = true;
    for (size_t i = 0; i < index->sample_count; i++)
        index->all_reachable = index->all_reachable && !(index->samples[i].flags & INDEX_UNREACHABLE);
}

/* All files that could not be looked at. */
static bool unreachable_unchanged(int root_fd, const struct index *index, const struct interrupt *interrupt)
{
    for (size_t i = 0; !index->all_reachable && i < index->sample_count; i++) {
        if (index->samples[i].flags & INDEX_UNREACHABLE &&
            (interrupt_is_set(interrupt) || file_differs(root_fd, index, i)))
            return false;
    }
    return true;
}

/* All files of a small tree; of a large one a random one in each of FILES_LOOKED_AT equal parts, others each time. */
static bool files_unchanged(int root_fd, const struct index *index, const struct interrupt *interrupt)
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

bool tree_unchanged(struct source *source, const struct interrupt *interrupt, bool *settled)
{
    struct index *index = &source->index;
    *settled = false;
    int root_fd = open(index->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0)
        return false;
    bool unchanged = true;
    for (size_t i = 0; unchanged && i < index->folder_count; i++)
        unchanged = !interrupt_is_set(interrupt) &&
                    folder_unchanged(root_fd, index->strings + index->folders[i].path, &index->folders[i], settled);
    unchanged = unchanged && unreachable_unchanged(root_fd, index, interrupt);
    unchanged = unchanged && files_unchanged(root_fd, index, interrupt);
    close(root_fd);
    return unchanged;
}
