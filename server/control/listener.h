/* listener.h: the control socket's place in the file system. The listener also sees to it that new connections get
 * through the socket.
 *
 * nng removes its listener's file by name when it closes, whoever owns the file by then. So nng listens under a name of
 * its own, and the listener renames the file to the name that peers know. At the end nng finds nothing to remove, and
 * listener_withdraw removes the file if it is still the listener's own.
 *
 * nng before 1.6 has a fault (its issue 1518): a peer that connects and closes at once ends the listener for good, and
 * all later peers wait in vain. A killed `larder status` can do that. So the control's thread looks every
 * LISTENER_PROBE_MS whether a new connection gets through, and listens anew if it does not. Clients that waited connect
 * again by themselves. nng loses some descriptors and memory at each restart. The descriptors are closed (leftovers.h);
 * because of the memory there are at most RESTARTS_MAX. A connection that only takes long, or waits for a descriptor,
 * causes no restart. */
#ifndef LARDER_SERVER_CONTROL_LISTENER_H
#define LARDER_SERVER_CONTROL_LISTENER_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/error.h"
#include "common/socket_file.h"
#include "common/socket_path.h"
#include "server/control/leftovers.h"

#define LISTENER_PROBE_MS 2000

struct listener {
    nng_socket socket;
    char path[SOCKET_PATH_MAX];
    pthread_mutex_t place; /* guards file, stopping and left */
    struct socket_file file;
    bool stopping, left; /* stopping: listener_withdraw was called; left: listener_leave was called */
    /* Once the control's thread runs, only that thread uses the following, up to arrivals_before. */
    nng_listener nng;
    bool listening, lost;
    struct leftovers leftovers; /* connections of earlier listeners */
    unsigned restarts;          /* restarts of nng's listener */
    int probe_fd;               /* a probe's connection that nng has not accepted yet; -1: there is none */
    unsigned arrivals_before;   /* the value of arrivals when that connection was begun */
    /* on_pipe, which nng calls from several threads, counts both; gets_through reads arrivals. */
    atomic_uint connections, arrivals;
};

/* listener_init takes a path that socket_path_check has passed. listener_clear frees, after nng has closed the socket.
 */
void listener_init(struct listener *listener, nng_socket socket, const char *path);
/* listener_open begins to listen and puts the socket's file in its place. */
int listener_open(struct listener *listener, struct error *err);
/* listener_probe listens anew if no connection gets through. It may wait for seconds. */
void listener_probe(struct listener *listener);
/* listener_leave removes the socket's file if it is still the listener's own, and makes the listener never put it there
 * again: another daemon may have the place. Any thread. */
void listener_leave(struct listener *listener);
/* listener_withdraw does the same, before nng closes the socket. */
void listener_withdraw(struct listener *listener);
void listener_clear(struct listener *listener);
/* listener_fail says what nng's error means for the control socket. */
int listener_fail(int rv, const char *path, struct error *err);

#endif
