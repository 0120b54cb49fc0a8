/* Peers of the control socket that are too many, rude, or read no answers: the next one is served. */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/control/control.h"
#include "tests/unit/server/control/control_fixture.h"

/* connect_plainly connects to the control socket without nng. */
static int connect_plainly(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", control_path);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* closed_within counts the connections that their peer has closed, until there are `wanted` or a minute passed. */
static size_t closed_within(struct pollfd *fds, size_t count, size_t wanted)
{
    size_t closed = 0;
    uint64_t until_ns = clock_now_ns() + 60 * CLOCK_NS_PER_S;
    while (closed < wanted && clock_now_ns() < until_ns) {
        poll(fds, (nfds_t)count, 100);
        for (size_t i = 0; i < count; i++) {
            char bytes[64];
            if (fds[i].fd >= 0 && fds[i].revents && read(fds[i].fd, bytes, sizeof bytes) <= 0) {
                close(fds[i].fd);
                fds[i].fd = -1;
                closed++;
            }
        }
    }
    return closed;
}

/* Idle connections beyond the limit are closed, and a client comes through once the others are gone. */
static void test_connection_limit(void **state)
{
    (void)state;
    enum { MORE = 20 };
    struct peer peer;
    struct pollfd fds[CONTROL_CONNECTIONS_MAX + MORE];
    static const unsigned char hello[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}; /* a REQ peer's */
    assert_string_equal(start_daemon(&peer), "listening\n");
    for (size_t i = 0; i < CONTROL_CONNECTIONS_MAX + MORE; i++) {
        fds[i] = (struct pollfd){.fd = connect_plainly(), .events = POLLIN};
        assert_int_equal(send(fds[i].fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    }
    assert_int_equal(closed_within(fds, CONTROL_CONNECTIONS_MAX + MORE, MORE), MORE);
    for (size_t i = 0; i < CONTROL_CONNECTIONS_MAX + MORE; i++) {
        if (fds[i].fd >= 0)
            close(fds[i].fd);
    }
    assert_ping();
    stop_daemon(&peer);
}

/* Peers that close at once, send nonsense, or say nothing do not keep the control socket from answering the next. */
static void test_rude_peers(void **state)
{
    (void)state;
    struct peer peer;
    static const char *const says[] = {"GET / HTTP/1.1\r\n\r\n", "x", ""};
    int fds[3];
    assert_string_equal(start_daemon(&peer), "listening\n");
    kill(peer.pid, SIGSTOP); /* so that it surely finds the connection closed when it comes to it */
    close(connect_plainly());
    kill(peer.pid, SIGCONT);
    assert_ping();
    for (size_t i = 0; i < 3; i++) {
        fds[i] = connect_plainly();
        send(fds[i], says[i], strlen(says[i]), MSG_NOSIGNAL);
        assert_ping();
    }
    for (size_t i = 0; i < 3; i++)
        close(fds[i]);
    stop_daemon(&peer);
}

/* ask_on sends status requests and reads nothing, until the daemon has closed the connection or nothing went through
 * for half a minute; gives how many went. */
static unsigned ask_on(int fd)
{
    static const char request[] = "{\"v\":1,\"op\":\"status\"}";
    unsigned char frame[9 + 4 + sizeof request - 1] = {1, [8] = 4 + sizeof request - 1, [9] = 0x80}; /* SP over ipc */
    struct pollfd poll_fd = {.fd = fd, .events = POLLOUT};
    unsigned sent = 0;
    memcpy(frame + 13, request, sizeof request - 1);
    for (; poll(&poll_fd, 1, 30000) == 1 && !(poll_fd.revents & POLLHUP); sent++) {
        frame[12] = (unsigned char)sent;
        if (send(fd, frame, sizeof frame, MSG_NOSIGNAL) != sizeof frame)
            break;
    }
    return sent;
}

/* A peer that asks and asks and reads no answer keeps nobody else from being answered, and loses its connection. */
static void test_unread_answers(void **state)
{
    (void)state;
    static const unsigned char hello[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0}; /* a REQ peer's */
    struct peer peer;
    assert_string_equal(start_daemon(&peer), "listening\n");
    struct pollfd rude = {.fd = connect_plainly(), .events = POLLRDHUP};
    assert_int_equal(send(rude.fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    assert_true(ask_on(rude.fd) > 16); /* how many the kernel keeps for it is chance */
    for (int i = 0; i < 3; i++)
        assert_ping();
    assert_int_equal(poll(&rude, 1, 60000), 1);
    close(rude.fd);
    assert_int_equal(run_larder("drain", NULL, NULL), 0);
    stop_daemon(&peer);
}

int main(int argc, char **argv)
{
    if (!control_begin(argc, argv))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rude_peers),
        cmocka_unit_test(test_unread_answers),
        cmocka_unit_test(test_connection_limit),
    };
    return cmocka_run_group_tests(tests, NULL, control_end);
}
