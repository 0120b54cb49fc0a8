/* connection_priv.h: the seqpacket connection to the daemon sends and receives whole messages, with deadlines.
 *
 * Life: connection_open → send / receive … → connection_close. Once a call has failed with anything but
 * LARDER_ETIMEOUT, the connection is of no more use. It belongs to one thread. In a forked child fd is -1 (see
 * fork.c). */
#ifndef LARDER_CLIENT_CONNECTION_PRIV_H
#define LARDER_CLIENT_CONNECTION_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "common/socket_path.h"
#include "common/wire.h"

#define DEADLINE_NONE UINT64_MAX

struct connection {
    int fd; /* -1: closed */
    char path[SOCKET_PATH_MAX];
    uint8_t *in;  /* WIRE_REPLY_MAX bytes: the message received last, from which its decoded form borrows */
    uint8_t *out; /* WIRE_REQUEST_MAX bytes: the message being sent */
    struct connection *previous, *next; /* fork.c's list, under its mutex */
};

/* deadline_after turns a time-out into a point of the monotonic clock, in ns. A negative one gives DEADLINE_NONE. */
uint64_t deadline_after(int64_t timeout_ms);

/* connection_open connects to the socket at path. LARDER_EGONE when nobody answers there, LARDER_EPERM when the process
 * that answers is neither this user's nor root's. */
int connection_open(struct connection *connection, const char *path, uint64_t deadline_ns, struct error *err);

/* connection_close closes the connection; it accepts a closed one. */
void connection_close(struct connection *connection);

/* connection_send sends one message. LARDER_ETIMEOUT when the daemon does not take it in time; then nothing was
 * sent. */
int connection_send(struct connection *connection, const struct wire_message *msg, uint64_t deadline_ns,
                    struct error *err);

/* connection_receive waits for one message; *out borrows from the connection until the next call. A descriptor that
 * comes with it goes to *passed_fd, which the caller closes; -1 when none came. Where passed_fd is NULL none may
 * come: LARDER_EFORMAT. LARDER_EGONE when the daemon is gone. */
int connection_receive(struct connection *connection, struct wire_message *out, int *passed_fd, uint64_t deadline_ns,
                       struct error *err);

/* connection_lost says, without waiting, whether the daemon has closed its end. */
bool connection_lost(const struct connection *connection);

/* In fork.c: fork_socket makes connection->fd and fork_close closes it. A child that is forked in between closes its
 * copy. */
int fork_socket(struct connection *connection); /* 0, or LARDER_EIO with errno */
void fork_close(struct connection *connection);

#endif
