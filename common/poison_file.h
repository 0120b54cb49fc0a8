/* poison_file.h: where the file of poison.h lies, and its bytes.
 *
 * It lies beside the daemon's socket: that folder is its user's own and on this machine, and only one daemon at a time
 * has the socket. */
#ifndef LARDER_COMMON_POISON_FILE_H
#define LARDER_COMMON_POISON_FILE_H

#include <stddef.h>

#include "common/error.h"
#include "common/socket_path.h"

#define POISON_PATH_BYTES (SOCKET_PATH_MAX + 16)

/* poison_file_path writes the file's path: the session socket's with ".poison" behind it. */
void poison_file_path(const char *socket_path, char out[POISON_PATH_BYTES]);
/* poison_file_load returns the bytes of the file at path, malloc'ed, the caller's. It follows no link and waits for
 * nobody. LARDER_ENOENT: there is no file; LARDER_EFORMAT (no regular file, or too large), LARDER_EPERM, LARDER_EIO,
 * LARDER_ENOMEM. */
int poison_file_load(const char *path, void **bytes, size_t *len_bytes, struct error *err);

#endif
