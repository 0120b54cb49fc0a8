/* connection.c: see connection_priv.h. The socket never blocks by itself: waiting is poll's, up to the caller's
 * deadline. */
#include "client/connection_priv.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"

#define CONNECT_RETRY_MS 10 /* while the daemon's backlog is full */
#define PASSED_FDS_MAX 4    /* room for more than the one expected, so that surplus ones are seen and closed */

uint64_t deadline_after(int64_t timeout_ms)
{
    uint64_t now = clock_now_ns();
    if (timeout_ms < 0 || (uint64_t)timeout_ms > (UINT64_MAX - 1 - now) / CLOCK_NS_PER_MS)
        return DEADLINE_NONE;
    return now + (uint64_t)timeout_ms * CLOCK_NS_PER_MS;
}

int deadline_left_ms(uint64_t deadline_ns)
{
    if (deadline_ns == DEADLINE_NONE)
        return -1;
    uint64_t now = clock_now_ns();
    if (now >= deadline_ns)
        return 0;
    uint64_t left = (deadline_ns - now + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS;
    return left > INT_MAX ? INT_MAX : (int)left;
}

static int wait_for(int fd, short events, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd poll_fd = {.fd = fd, .events = events};
        int wait_ms = deadline_left_ms(deadline_ns);
        int ready = poll(&poll_fd, 1, wait_ms);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return LARDER_EIO;
        if (ready == 0 && wait_ms == 0)
            return LARDER_ETIMEOUT;
    }
}

static int connect_error(const char *path, int number, struct error *err)
{
    if (number == ENOENT || number == ECONNREFUSED || number == ENOTDIR)
        return error_set(
            err, LARDER_EGONE,
            "no daemon answers at %s (%s): start larderd, or set LARDER_SOCKET to the socket of one that runs", path,
            strerror(number));
    if (number == EACCES || number == EPERM)
        return error_set(
            err, LARDER_EPERM,
            "this user may not connect to the daemon's socket %s: ask its owner, or start a daemon of your own", path);
    if (number == EAGAIN)
        return error_set(err, LARDER_ETIMEOUT, "the daemon at %s does not accept connections: it is busy or stopped",
                         path);
    return error_set(err, LARDER_EIO, "connecting to %s failed: %s", path, strerror(number));
}

static int connect_to(int fd, const char *path, uint64_t deadline_ns, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1); /* socket_path_check has looked at its length */
    for (;;) {
        if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 || errno == EISCONN)
            return 0;
        int number = errno, left_ms = deadline_left_ms(deadline_ns);
        if (number == EAGAIN && left_ms != 0) /* poll cannot wait for room in the queue */
            poll(NULL, 0, left_ms < 0 || left_ms > CONNECT_RETRY_MS ? CONNECT_RETRY_MS : left_ms);
        else if (number != EINTR)
            return connect_error(path, number, err);
    }
}

/* Anybody who may write to the socket's folder could answer there, and the program trains on what comes. */
static int check_peer(int fd, const char *path, struct error *err)
{
    struct ucred peer;
    socklen_t len = sizeof peer;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        return error_set(err, LARDER_EIO, "whose process answers at %s is not known: %s", path, strerror(errno));
    if (peer.uid == geteuid() || peer.uid == 0)
        return 0;
    return error_set(err, LARDER_EPERM,
                     "the process that answers at %s (pid %d) is user %u's, and only a daemon of your own (user %u) or "
                     "root's is trusted: set LARDER_SOCKET to one",
                     path, (int)peer.pid, (unsigned)peer.uid, (unsigned)geteuid());
}

int descriptor_error(struct connection *connection, int number, const char *what, struct error *err)
{
    connection->no_descriptor = number == EMFILE || number == ENFILE;
    if (connection->no_descriptor)
        return error_set(err, LARDER_ELIMIT,
                         "%s: no file descriptor is free (%s): raise the limit (ulimit -n), or close files", what,
                         strerror(number));
    return error_set(err, LARDER_EIO, "%s: %s", what, strerror(number));
}

int connection_init(struct connection *connection, const char *path, struct error *err)
{
    int rc = socket_path_check(path, err);
    if (rc)
        return rc;
    *connection = (struct connection){.fd = -1, .set_fd = -1, .alarm_fd = -1};
    memcpy(connection->path, path, strlen(path) + 1);
    connection->in = malloc(WIRE_REPLY_MAX);
    connection->out = malloc(WIRE_REQUEST_MAX);
    if (!connection->in || !connection->out)
        rc = error_set(err, LARDER_ENOMEM, "no memory for the connection's buffers");
    else if (fork_enlist(connection) != 0)
        rc = descriptor_error(connection, errno, "no descriptor for the loader", err);
    if (rc) {
        free(connection->in);
        free(connection->out);
        connection->in = connection->out = NULL;
    }
    return rc;
}

int connection_dial(struct connection *connection, uint64_t deadline_ns, struct error *err)
{
    connection->no_descriptor = false;
    if (fork_socket(connection) != 0)
        return descriptor_error(connection, errno, "no socket could be made", err);
    int rc = connect_to(connection->fd, connection->path, deadline_ns, err);
    if (rc == 0)
        rc = check_peer(connection->fd, connection->path, err);
    if (rc)
        fork_hang_up(connection);
    return rc;
}

void connection_hang_up(struct connection *connection)
{
    fork_hang_up(connection);
}

void connection_close(struct connection *connection)
{
    if (!connection->in)
        return;
    fork_delist(connection);
    free(connection->in);
    free(connection->out);
    connection->in = connection->out = NULL;
}

void connection_alarm(struct connection *connection, uint64_t at_ns)
{
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(at_ns / CLOCK_NS_PER_S), .tv_nsec = (long)(at_ns % CLOCK_NS_PER_S)}};
    if (connection->alarm_fd < 0 || connection->alarm_ns == at_ns)
        return;
    timerfd_settime(connection->alarm_fd, TFD_TIMER_ABSTIME, &at, NULL);
    connection->alarm_ns = at_ns;
}

static int gone(const struct connection *connection, struct error *err)
{
    return error_set(err, LARDER_EGONE,
                     "the daemon at %s has gone away or closed this connection (its log says why, unless it was "
                     "killed); start it again if need be",
                     connection->path);
}

static void pass_fd(struct msghdr *header, char *control, size_t size, int fd)
{
    header->msg_control = control;
    header->msg_controllen = size;
    struct cmsghdr *at = CMSG_FIRSTHDR(header);
    at->cmsg_level = SOL_SOCKET;
    at->cmsg_type = SCM_RIGHTS;
    at->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(at), &fd, sizeof fd);
}

int connection_send(struct connection *connection, const struct wire_message *msg, int passed_fd, uint64_t deadline_ns,
                    struct error *err)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {.iov_base = connection->out};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    int rc = wire_encode(msg, connection->out, WIRE_REQUEST_MAX, &part.iov_len);
    if (rc)
        return error_set(err, rc, "a request does not fit the protocol's bounds (%s)", larder_err_name(rc));
    if (passed_fd >= 0)
        pass_fd(&header, control.bytes, sizeof control.bytes, passed_fd);
    for (;;) {
        if (sendmsg(connection->fd, &header, MSG_NOSIGNAL) >= 0)
            return 0;
        if (errno == EPIPE || errno == ECONNRESET || errno == ECONNREFUSED || errno == ENOTCONN)
            return gone(connection, err);
        if (errno == EAGAIN || errno == ENOBUFS) {
            rc = wait_for(connection->fd, POLLOUT, deadline_ns);
            if (rc == LARDER_ETIMEOUT)
                return error_set(err, rc, "the daemon at %s does not take requests: it is busy or stopped",
                                 connection->path);
        } else if (errno != EINTR) {
            rc = LARDER_EIO;
        }
        if (rc)
            return error_set(err, rc, "sending to the daemon at %s failed: %s", connection->path, strerror(errno));
    }
}

/* take_fds keeps the first descriptor that came and closes the others. It returns how many came. */
static int take_fds(struct msghdr *header, int *first_fd)
{
    int count = 0;
    *first_fd = -1;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at; at = CMSG_NXTHDR(header, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(at) + i * sizeof fd, sizeof fd);
            if (count++ == 0)
                *first_fd = fd;
            else
                close(fd);
        }
    }
    return count;
}

static int receive_raw(struct connection *connection, struct msghdr *header, uint64_t deadline_ns, size_t *len_bytes,
                       struct error *err)
{
    unsigned resets = 0;
    for (;;) {
        ssize_t got = recvmsg(connection->fd, header, MSG_CMSG_CLOEXEC);
        if (got > 0) {
            *len_bytes = (size_t)got;
            return 0;
        }
        int rc = 0;
        if (got == 0)
            return gone(connection, err);
        if (errno == ECONNRESET && resets++ == 0)
            continue; /* reported once, ahead of what the daemon had still sent: its last ERROR perhaps */
        if (errno == ECONNRESET || errno == EPIPE || errno == ENOTCONN)
            return gone(connection, err);
        if (errno == EAGAIN)
            rc = wait_for(connection->fd, POLLIN, deadline_ns);
        else if (errno != EINTR)
            rc = LARDER_EIO;
        if (rc == LARDER_ETIMEOUT)
            return error_set(err, rc, "the daemon at %s has sent nothing within the time given", connection->path);
        if (rc)
            return error_set(err, rc, "receiving from the daemon at %s failed: %s", connection->path, strerror(errno));
    }
}

int connection_receive(struct connection *connection, struct wire_message *out, int *passed_fd, uint64_t deadline_ns,
                       struct error *err)
{
    union {
        char bytes[CMSG_SPACE(PASSED_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = connection->in, .iov_len = WIRE_REPLY_MAX};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    size_t len = 0;
    int rc = receive_raw(connection, &header, deadline_ns, &len, err);
    if (rc)
        return rc;
    int fd;
    int n_fds = take_fds(&header, &fd);
    bool lost = passed_fd && n_fds == 0 && header.msg_flags & MSG_CTRUNC;
    if (lost) /* the kernel drops descriptors for which the process has no place */
        rc = descriptor_error(connection, EMFILE, "it passed a descriptor, which was lost", err);
    else if (n_fds > (passed_fd ? 1 : 0) || header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        rc = error_set(err, LARDER_EFORMAT, "a message too long, or with descriptors nobody asked for");
    else
        rc = wire_decode(connection->in, len, out, err);
    if (rc == 0 && out->version != WIRE_VERSION && out->type != WIRE_ERROR) /* an older daemon can only refuse */
        rc = error_set(err, LARDER_EVERSION,
                       "it speaks protocol version %u, this client version %d: install the same release of Larder on "
                       "both sides",
                       out->version, WIRE_VERSION);
    if (rc) {
        if (fd >= 0)
            close(fd);
        return error_prefix(err, rc, "the daemon at %s", connection->path);
    }
    if (passed_fd)
        *passed_fd = fd;
    return 0;
}

bool connection_lost(const struct connection *connection)
{
    struct pollfd poll_fd = {.fd = connection->fd, .events = 0};
    int ready;
    do {
        ready = poll(&poll_fd, 1, 0);
    } while (ready < 0 && errno == EINTR);
    return connection->fd < 0 || ready < 0 || (ready > 0 && poll_fd.revents & (POLLHUP | POLLERR | POLLNVAL));
}

int connection_daemon_error(const struct wire_error *message, struct error *err)
{
    bool cancelled = message->code == LARDER_EGONE && !message->fatal;
    return error_set(err, cancelled ? LARDER_ECANCELLED : message->code, "%.*s", (int)message->text.len_bytes,
                     message->text.data);
}
