/* daemon.h: larderd put together: catalog, arena, workers, engine, sessions, control, HTTP; started in one order, stopped
 * in the other. One owner thread (main). */
#ifndef LARDER_SERVER_DAEMON_H
#define LARDER_SERVER_DAEMON_H

#include "common/error.h"
#include "server/config.h"

struct daemon;

/* daemon_start listens when it returns 0. The configuration must outlive the daemon. LARDER_EBUSY: another daemon has the
 * socket. */
int daemon_start(const struct config *config, struct daemon **out, struct error *err);
/* daemon_idle_s gives for how long no client has been connected; 0 while one is. */
double daemon_idle_s(struct daemon *daemon);
/* daemon_drained_fd gives a descriptor that poll finds readable when it was drained and no job is left: then it should be
 * stopped. The daemon's own. */
int daemon_drained_fd(const struct daemon *daemon);
/* daemon_stop tells the clients, ends what is under way, and frees everything. */
void daemon_stop(struct daemon *daemon);

#endif
