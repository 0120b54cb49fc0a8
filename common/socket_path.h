/* socket_path.h: where the daemon listens when nobody says otherwise. Daemon, C library and command line tool all use
 * it. */
#ifndef LARDER_COMMON_SOCKET_PATH_H
#define LARDER_COMMON_SOCKET_PATH_H

#include <stddef.h>

#include "common/error.h"

#define SOCKET_PATH_MAX 108 /* sun_path, its NUL included */

/* socket_path_default writes the session socket's path: $LARDER_SOCKET; else $XDG_RUNTIME_DIR/larder/larder.sock; else
 * /run/larder/larder.sock. An empty variable counts as unset, and so does an XDG_RUNTIME_DIR that is not absolute. It
 * creates nothing. LARDER_ELIMIT when the path does not fit into a socket's address, or into `size` bytes. */
int socket_path_default(char *buf, size_t size, struct error *err);

/* socket_path_control writes the path of the control socket: the session socket's path with ".control" behind it. */
int socket_path_control(const char *session_path, char *buf, size_t size, struct error *err);

/* socket_path_check says whether a path fits a socket's address: 0, LARDER_EINVAL (empty) or LARDER_ELIMIT. */
int socket_path_check(const char *path, struct error *err);

#endif
