/* receive.c: reads one datagram of a connection, and the descriptor that may come with it. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/session/session_priv.h"

#define PASSED_FDS_MAX 2 /* room for more than the one that may come, so that a surplus one is told from a lost one */

/* take_fds keeps the first descriptor that came, and closes the others. It returns how many came. */
static size_t take_fds(struct msghdr *header, int *fd)
{
    size_t count = 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at; at = CMSG_NXTHDR(header, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        size_t n = (at->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int passed;
            memcpy(&passed, CMSG_DATA(at) + i * sizeof passed, sizeof passed);
            if (count++ == 0)
                *fd = passed;
            else
                close(passed);
        }
    }
    return count;
}

/* check_whole looks whether the datagram, and what came with it, is there completely. The kernel drops descriptors for
 * which the process has no place. */
static void check_whole(const struct msghdr *header, size_t n_fds, struct error *why)
{
    why->code = 0;
    if (header->msg_flags & MSG_TRUNC)
        error_set(why, LARDER_EFORMAT, "a message of more than the %d bytes allowed", WIRE_REQUEST_MAX);
    else if (n_fds > 1 || (n_fds == 1 && header->msg_flags & MSG_CTRUNC))
        error_set(why, LARDER_EFORMAT, "a message with several descriptors, and one may come");
    else if (header->msg_flags & MSG_CTRUNC)
        error_set(why, LARDER_ELIMIT,
                  "the daemon has no place for one more descriptor: raise its limit on open files (ulimit -n)");
}

ssize_t conn_receive(struct session *session, const struct conn *conn, int *fd, struct error *why)
{
    union {
        char bytes[CMSG_SPACE(PASSED_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    for (int resets = 0;;) {
        struct iovec part = {.iov_base = session->buffer, .iov_len = WIRE_REQUEST_MAX};
        struct msghdr header = {
            .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control.bytes};
        ssize_t got = recvmsg(conn->socket.fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        *fd = -1;
        if (got < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)))
            continue; /* the kernel tells a reset once, before it gives what the client had sent before it closed */
        if (got < 0)
            return errno == EAGAIN ? 0 : -1;
        check_whole(&header, take_fds(&header, fd), why);
        if (*fd >= 0 && (got == 0 || why->code)) {
            close(*fd);
            *fd = -1;
        }
        return got > 0 ? got : -1;
    }
}
