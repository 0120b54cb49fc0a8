/* socket_file.h: the file that a listening unix socket has in the file system. It is made and recognised here, and
 * removed only while it is still one's own.
 *
 * A file is known by device and inode. While its socket listens the kernel keeps the inode, so no later file can
 * have the same. So remove or compare a file before its socket is closed. */
#ifndef LARDER_COMMON_SOCKET_FILE_H
#define LARDER_COMMON_SOCKET_FILE_H

#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"

struct socket_file {
    dev_t device;
    ino_t inode;
    bool known; /* false: this process has no file */
};

/* socket_file_note fills out with the file that is at path. It returns false, with errno, when that cannot be looked
 * at. */
bool socket_file_note(const char *path, struct socket_file *out);
/* socket_file_lost says whether the file is no longer at path: it is gone, or another one is in its place. When path
 * cannot be looked at for another reason it returns false. */
bool socket_file_lost(const char *path, const struct socket_file *file);
/* socket_file_remove removes the file from path while it is still there, and forgets it. */
void socket_file_remove(const char *path, struct socket_file *file);

/* socket_file_clear removes the socket that a killed process left at path, if any. type is SOCK_SEQPACKET or
 * SOCK_STREAM. LARDER_EBUSY when a process answers there: *pid says which one (0: not known), and the caller writes the
 * text. LARDER_EINVAL when something else is in the way; LARDER_EPERM, LARDER_EIO. */
int socket_file_clear(const char *path, int type, pid_t *pid, struct error *err);

/* socket_file_listen makes a socket that does not block and listens at path, with mode 0600 from the first moment
 * on. Nothing may be there yet. The caller closes *fd, after socket_file_remove. LARDER_EPERM, LARDER_ENOENT,
 * LARDER_EIO. */
int socket_file_listen(const char *path, int type, int *fd, struct socket_file *file, struct error *err);

/* socket_file_error fills err from errno, with the text "what path: why", and returns the code. */
int socket_file_error(struct error *err, const char *what, const char *path);

#endif
