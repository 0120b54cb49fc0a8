/* leaving.h: waits for a daemon that leaves. Such a daemon no longer serves its socket, but holds the socket's lock
 * until all that was its own is free. Any thread may call this. */
#ifndef LARDER_SERVER_LEAVING_H
#define LARDER_SERVER_LEAVING_H

#include <stdbool.h>

/* leaving_wait returns false when somebody serves the socket. Otherwise it waits at most a tenth of a second for the
 * end of the process that the lock file names, and returns true: the caller should look at the lock again. */
bool leaving_wait(const char *socket_path);

#endif
