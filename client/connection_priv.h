/* connection_priv.h: the seqpacket connection to the daemon sends and receives whole messages, with deadlines.
 *
 * Life: connection_init → [ connection_dial → send / receive … → connection_hang_up ] … → connection_close. After a
 * call has failed with anything but LARDER_ETIMEOUT, the dialled connection is useless. A connection belongs to one
 * thread. In a forked child its descriptors are -1 (see fork.c).
 *
 * The program polls neither the socket nor the timer, but an epoll set of both. So the descriptor keeps its number, and
 * stays the same open file, for as long as the loader lives, whether or not a daemon is connected. */
#ifndef LARDER_CLIENT_CONNECTION_PRIV_H
#define LARDER_CLIENT_CONNECTION_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "common/socket_path.h"
#include "common/wire.h"

#define DEADLINE_NONE UINT64_MAX
#define ALARM_OFF UINT64_C(0)
#define ALARM_NOW UINT64_C(1)

struct connection {
    int fd;             /* the socket; -1: not connected */
    int set_fd;         /* the program polls it: readable when fd is, or when the alarm has gone off */
    int alarm_fd;       /* a timer */
    uint64_t alarm_ns;  /* time that the timer is set to */
    bool no_descriptor; /* the last attempt failed because this process had none free */
    char path[SOCKET_PATH_MAX];
    uint8_t *in;  /* WIRE_REPLY_MAX bytes: the message received last, from which its decoded form borrows */
    uint8_t *out; /* WIRE_REQUEST_MAX bytes: the message being sent */
    struct connection *previous, *next; /* fork.c's list, under its mutex */
};

/* deadline_after turns a time-out into a time of the monotonic clock, in ns. For a negative one it returns
 * DEADLINE_NONE. */
uint64_t deadline_after(int64_t timeout_ms);
static inline uint64_t deadline_first(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}
/* deadline_left_ms returns what poll takes: rounded up, so that a wait does not end early and spin; -1 for none. */
int deadline_left_ms(uint64_t deadline_ns);

/* connection_init makes what lasts as long as the loader: the buffers, the set and the alarm. LARDER_ELIMIT,
 * LARDER_EINVAL (the path), LARDER_ENOMEM, LARDER_EIO. */
int connection_init(struct connection *connection, const char *path, struct error *err);

/* connection_dial connects to the socket at the connection's path. LARDER_EGONE when nobody answers there, LARDER_EPERM
 * when the process that answers is neither this user's nor root's. On failure it is not connected. */
int connection_dial(struct connection *connection, uint64_t deadline_ns, struct error *err);

/* connection_hang_up closes the socket; it accepts one that is closed. */
void connection_hang_up(struct connection *connection);

/* descriptor_error sets the error of a call that makes a descriptor, and has failed with errno `number`: LARDER_ELIMIT,
 * with what to do, where none is free, else LARDER_EIO. Gives the code, and sets no_descriptor. */
int descriptor_error(struct connection *connection, int number, const char *what, struct error *err);
/* connection_close hangs up and frees what connection_init made, as far as it got; it accepts a closed connection. */
void connection_close(struct connection *connection);

/* connection_alarm has the set be readable from at_ns on, until the next call says otherwise. ALARM_OFF: not because of
 * the alarm. ALARM_NOW: at once. */
void connection_alarm(struct connection *connection, uint64_t at_ns);

/* connection_send sends one message, and with it the descriptor passed_fd unless that is -1; the caller closes it.
 * LARDER_ETIMEOUT when the daemon does not take it in time; then nothing was sent. */
int connection_send(struct connection *connection, const struct wire_message *msg, int passed_fd, uint64_t deadline_ns,
                    struct error *err);

/* connection_receive waits for one message; *out borrows from the connection until the next call. A descriptor that
 * comes with it goes to *passed_fd, which the caller closes; -1 when none came. If passed_fd is NULL none may come:
 * LARDER_EFORMAT. LARDER_EGONE when the daemon is gone. */
int connection_receive(struct connection *connection, struct wire_message *out, int *passed_fd, uint64_t deadline_ns,
                       struct error *err);

/* connection_daemon_error copies an ERROR message's code and text to err, and returns the code. One that says of the
 * job that it is gone, while the daemon stays, is LARDER_ECANCELLED. */
int connection_daemon_error(const struct wire_error *message, struct error *err);

/* connection_lost says, without waiting, whether the daemon has closed its end. */
bool connection_lost(const struct connection *connection);

/* In fork.c: a forked child closes its copies of the descriptors of all connections on the list. fork_enlist makes the
 * set and the alarm and puts the connection on the list; fork_delist closes all and takes it off. fork_socket makes
 * connection->fd and fork_hang_up closes it. fork_enlist and fork_socket return 0, or LARDER_EIO with errno. */
int fork_enlist(struct connection *connection);
void fork_delist(struct connection *connection);
int fork_socket(struct connection *connection);
void fork_hang_up(struct connection *connection);

#endif
