/* leaving.h: a daemon that leaves no longer serves its socket, and holds the socket's lock until
 * all that was its own is free. Any thread. */
#ifndef LARDER_SERVER_LEAVING_H
#define LARDER_SERVER_LEAVING_H

#include <stdbool.h>

/* leaving_wait gives false when somebody serves the socket. Otherwise it waits for the end of the process that the lock
 * file names, a tenth of a second at most, and gives true: look at the lock again. */
bool leaving_wait(const char *socket_path);

#endif
