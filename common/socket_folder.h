/* socket_folder.h: in whose folder a socket may lie. A user who may rename or remove files in a folder decides who
 * answers at a socket there. The same holds for each folder above it, up to the root. */
#ifndef LARDER_COMMON_SOCKET_FOLDER_H
#define LARDER_COMMON_SOCKET_FOLDER_H

#include "common/error.h"

/* socket_folder_prepare makes the folder of a socket's path (mode 0700) when it alone is missing, and checks it. The
 * folder, each folder above it and each symbolic link on the way must belong to this user or to root. Others may
 * write to none of them, except with the sticky bit (as /tmp), which keeps them from what is not theirs. In a user
 * namespace, an owner that is not mapped cannot be told from root and counts as root; but clients check the daemon's
 * user as well. LARDER_EPERM (the text names the folder that is at fault, and what to do), LARDER_ENOENT (the
 * folder's own folder is missing), LARDER_EINVAL, LARDER_ELIMIT, LARDER_EIO. */
int socket_folder_prepare(const char *socket_path, struct error *err);

#endif
