/* service.h: what a service manager (systemd) and the daemon tell each other, by its plain protocols: datagrams to
 * $NOTIFY_SOCKET, the watchdog's period in $WATCHDOG_USEC, and descriptor 3, a socket at which it listens for the
 * daemon ($LISTEN_FDS). Without a service manager all of it does nothing. Main's thread makes all calls. */
#ifndef LARDER_SERVER_SERVICE_H
#define LARDER_SERVER_SERVICE_H

#include <stddef.h>

#include "common/error.h"

/* service_notify sends the manager lines, such as "READY=1". It never blocks. Lines that cannot be sent are lost. */
void service_notify(const char *lines);

/* service_watchdog_ms returns how often the manager is to hear of the daemon: twice in the time that it waits. 0: it
 * does not wait. */
unsigned service_watchdog_ms(void);

/* service_socket takes over the socket that the manager listens at: *fd (the caller's) and its path. *fd is -1 when
 * there is none. LARDER_EINVAL: there is something else than one listening unix socket of sequential packets with a
 * path. */
int service_socket(int *fd, char *path, size_t size, struct error *err);

#endif
