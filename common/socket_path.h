/* socket_path.h: where the daemon listens when nobody says otherwise. Daemon, C library and command line tool all use
 * it, and client/python/larder/_socket_path.py has the same rule. */
#ifndef LARDER_COMMON_SOCKET_PATH_H
#define LARDER_COMMON_SOCKET_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "common/error.h"

#define SOCKET_PATH_MAX 108 /* sun_path, its NUL included */

/* socket_path_default writes the session socket's path. It is the first of these:
 *   $LARDER_SOCKET, where it is set and not empty
 *   $XDG_RUNTIME_DIR/larder/larder.sock and /run/larder/larder.sock, where a socket of this user's or root's is, to
 *     which this user may connect; or where this user alone may write to the folder, or make it, and there is room
 *   /tmp/larder-UID/larder.sock, and where /tmp cannot be written to, the same in /dev/shm
 * TMPDIR does not count: all of a user's processes must come to the same path. It creates nothing. LARDER_EPERM when
 * the last folder is not this user's (the text says what to do). LARDER_ELIMIT when the path does not fit into a
 * socket's address, or into `size` bytes. */
int socket_path_default(char *buf, size_t size, struct error *err);

/* socket_path_is_shared: the path is one of the last kind, in this user's folder in /tmp or /dev/shm. */
bool socket_path_is_shared(const char *path);

/* socket_path_control writes the path of the control socket: the session socket's path with ".control" behind it. */
int socket_path_control(const char *session_path, char *buf, size_t size, struct error *err);

/* socket_path_check says whether a path fits a socket's address: 0, LARDER_EINVAL (empty) or LARDER_ELIMIT. */
int socket_path_check(const char *path, struct error *err);

#endif
