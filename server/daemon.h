/* daemon.h: larderd put together: catalog, arena, workers, engine, sessions, control, HTTP; started in one order,
 * stopped in the other. One owner thread (main). */
#ifndef LARDER_SERVER_DAEMON_H
#define LARDER_SERVER_DAEMON_H

#include <stdbool.h>

#include "common/error.h"
#include "server/config/config.h"

struct daemon;

/* go_on is called, in the caller's thread, whenever there is progress with starting; when it gives false, daemon_start
 * gives up with LARDER_EGONE. */
struct daemon_progress {
    bool (*go_on)(void *ctx);
    void *ctx;
};

/* daemon_start listens when it returns 0. It waits for another daemon that is leaving. The configuration must outlive
 * the daemon. LARDER_EBUSY: another daemon has the socket. */
int daemon_start(const struct config *config, const struct daemon_progress *progress, struct daemon **out,
                 struct error *err);
/* daemon_idle_s gives for how long no client has been connected; 0 while one is. */
double daemon_idle_s(struct daemon *daemon);
/* daemon_drained_fd gives a descriptor that poll finds readable when it was drained and no job is left: then it should
 * be stopped. The daemon's own. */
int daemon_drained_fd(const struct daemon *daemon);
/* daemon_stop tells the clients, ends what is under way, and frees everything. */
void daemon_stop(struct daemon *daemon);

#endif
