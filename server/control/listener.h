/* listener.h: the control socket's place in the file system, and that new connections get through it.
 *
 * nng removes its listener's file by name when it closes, whoever's it is by then. So it listens under a name of its
 * own, and the file is renamed to the one that peers know: at the end nng finds nothing to remove, and
 * listener_withdraw removes what is still its own.
 *
 * nng before 1.6 has a fault (its issue 1518): a peer that connects and closes at once ends the listener for good, and
 * all later ones wait in vain. A killed `larder status` can do that. So the control's thread looks every
 * LISTENER_PROBE_MS whether a new connection gets through, and listens anew when it does not; clients that waited
 * connect again by themselves. nng loses three descriptors each time, which is why there is an end to it: RESTARTS_MAX.
 * What only takes long, or waits for a descriptor, is not counted. */
#ifndef LARDER_SERVER_CONTROL_LISTENER_H
#define LARDER_SERVER_CONTROL_LISTENER_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/error.h"
#include "common/socket_file.h"
#include "common/socket_path.h"

#define LISTENER_PROBE_MS 2000

struct listener {
    nng_socket socket;
    char path[SOCKET_PATH_MAX];
    pthread_mutex_t place; /* file, stopping and left */
    struct socket_file file;
    bool stopping, left; /* listener_withdraw and listener_leave were called */
    nng_listener nng;    /* the control's thread's, once that runs, as what follows */
    bool listening, lost;
    unsigned restarts;        /* of nng's listener */
    int probe_fd;             /* connection that nng has not accepted yet; -1: none */
    unsigned arrivals_before; /* of it */
    /* Counted by on_pipe, which nng calls from several threads; arrivals is read by gets_through. */
    atomic_uint connections, arrivals;
};

/* listener_init takes a path that socket_path_check has passed; listener_clear frees, after nng has closed the
 * socket. */
void listener_init(struct listener *listener, nng_socket socket, const char *path);
int listener_open(struct listener *listener, struct error *err);
/* listener_probe listens anew where no connection gets through. It may wait for seconds. */
void listener_probe(struct listener *listener);
/* listener_leave removes the socket's file, if it is still its own, and makes it no more: another daemon may have the
 * place. Any thread. */
void listener_leave(struct listener *listener);
/* listener_withdraw does the same, before nng closes the socket. */
void listener_withdraw(struct listener *listener);
void listener_clear(struct listener *listener);
/* listener_fail says what nng's error means for the control socket. */
int listener_fail(int rv, const char *path, struct error *err);

#endif
