/* medium.h: the files' medium: where the bytes of a source lie. It opens what lies below a folder; it knows no samples.
 * Any thread may call these functions; they block. */
#ifndef LARDER_CACHE_MEDIUM_MEDIUM_H
#define LARDER_CACHE_MEDIUM_MEDIUM_H

#include <stdbool.h>
#include <stdint.h>

struct iovec;

/* A folder with a source's files. */
struct medium {
    const char *root;       /* absolute path, borrowed */
    uint64_t device, inode; /* as they were when the source was indexed; 0: not known */
};

/* medium_open opens a file below the root for reading. It returns the fd, which the caller owns, or -1 with errno.
 * *away says that the root, the file's folder, or the folder that a link leads to is not there. Then the failure says
 * nothing about the file. */
int medium_open(const struct medium *medium, const char *name, bool *away);
/* medium_read_parts reads neighbouring parts of a file from an offset on. It returns 0, or -1 if not all of them came.
 * It changes the parts. */
int medium_read_parts(int fd, struct iovec *parts, int count, uint64_t offset);
/* medium_run calls fn(context): in the calling thread, or aside (common/aside.h) on a file system that lets no process
 * go which waits for it. */
void medium_run(const struct medium *medium, void (*fn)(void *context), void *context);
/* medium_reads_ahead says whether the system brings a file's bytes ahead without making the caller wait. A FUSE file
 * system takes a dozen such requests and makes who has more wait, and may bring the bytes again for the read. */
bool medium_reads_ahead(const struct medium *medium);
/* medium_device returns the number of the device that a folder lies on now; 0: it cannot be found out. It opens the
 * folder, because to look at one that is mounted when it is used does not mount it. */
uint64_t medium_device(const char *root);
/* medium_is_local says whether a path lies on a disk that only this machine's kernel writes to, so that every write
 * shows in a file's change time, and that answers: ext4, XFS or Btrfs, by the table of mounts. It asks no other file
 * system. A path that leads over a link is none, for it may end elsewhere. */
bool medium_is_local(const char *path);
/* medium_inodes_last says whether files keep their inodes: false for a path on FUSE, FAT, exFAT or SMB. */
bool medium_inodes_last(const char *path);

#endif
