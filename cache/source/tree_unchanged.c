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
    close(root_fd);
    return unchanged && files_unchanged(index, interrupt);
}
