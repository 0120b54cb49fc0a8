/* daemon.h: puts larderd together from the catalog, the arena, the workers, the engine, the session, the control socket
 * and HTTP. They are started in one order and stopped in the other. One thread (main) makes all calls. */
#ifndef LARDER_SERVER_DAEMON_H
#define LARDER_SERVER_DAEMON_H

#include <stdbool.h>

#include "common/error.h"
#include "server/config/config.h"

struct daemon;

/* daemon_start calls go_on, in the caller's thread, whenever there is progress with starting. If go_on gives false,
 * daemon_start gives up with LARDER_EGONE. */
struct daemon_progress {
    bool (*go_on)(void *ctx);
    void *ctx;
};

/* daemon_start starts a daemon, which listens when this returns 0. It waits for another daemon that is leaving. The
 * configuration is borrowed and must outlive the daemon. listen_fd is the service manager's socket at socket.path,
 * which the daemon closes, or -1. The caller ends the daemon with daemon_stop. LARDER_EBUSY: another daemon has the
 * socket. Other codes come from the parts. */
int daemon_start(const struct config *config, int listen_fd, const struct daemon_progress *progress,
                 struct daemon **out, struct error *err);
/* daemon_idle_s returns for how many seconds no client has been connected. 0: a client is connected. */
double daemon_idle_s(struct daemon *daemon);
/* daemon_check comes back once the engine has dealt with all that was waiting for it. One that hangs, hangs here. */
void daemon_check(struct daemon *daemon);
/* daemon_end_fd returns a descriptor that poll finds readable once the daemon should be stopped: it was drained and no
 * job is left, it has left its cluster, or it is to make room for another. The daemon owns the descriptor. */
int daemon_end_fd(const struct daemon *daemon);
/* daemon_leave has a node of a cluster leave it: it gives to no further epoch of other nodes' jobs. When they have what
 * they want of those under way, after GUESTS_LEAVE_NS at the latest, daemon_end_fd tells. All else goes on. A daemon
 * that is in no cluster has left at once. */
void daemon_leave(struct daemon *daemon);
/* daemon_stop tells the clients and ends what is under way, which waits for storage where that does not answer.
 * daemon_destroy frees what is left then, without waiting. Both accept NULL. */
void daemon_stop(struct daemon *daemon);
void daemon_destroy(struct daemon *daemon);
/* daemon_forsake is for a process that ends while daemon_stop hangs: what samples are under work is forgotten, for
 * nobody died of them, and the arena's memory given back, as far as no client has it mapped. Any thread may call it,
 * before daemon_destroy. */
void daemon_forsake(struct daemon *daemon);

#endif
