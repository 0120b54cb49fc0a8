/* test_serve_hostile.c: the server against those who send too much, too slowly, or no HTTP. They are refused or cut
 * off, on_request sees none of it, and the next request is served. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "serving.h"

#define BODY_MAX 100000

static int connect_to(const struct serving *serving)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(net_serve_port(serving->serve)),
                                  .sin_addr = {inet_addr(SERVING_HOST)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* The server may have closed already: what cannot be sent is not. */
static void say_bytes(int fd, const char *bytes, size_t len_bytes)
{
    for (ssize_t sent; len_bytes > 0; bytes += sent, len_bytes -= (size_t)sent)
        if ((sent = send(fd, bytes, len_bytes, MSG_NOSIGNAL)) <= 0)
            return;
}

static void say(int fd, const char *text)
{
    say_bytes(fd, text, strlen(text));
}

/* Reads until the headers of an answer are here and gives its status; 0: the connection ended before. */
static int hear(int fd)
{
    char heard[2048] = "";
    size_t len = 0;
    ssize_t got = 1;
    while (got > 0 && !strstr(heard, "\r\n\r\n") && len < sizeof heard - 1) {
        got = read(fd, heard + len, sizeof heard - 1 - len);
        if (got > 0)
            heard[len += (size_t)got] = 0;
    }
    return strstr(heard, "\r\n\r\n") ? atoi(heard + strlen("HTTP/1.1 ")) : 0;
}

static void wait_for_end(int fd)
{
    char heard[4096];
    while (read(fd, heard, sizeof heard) > 0)
        ;
    close(fd);
}

static void check_alive(struct serving *serving)
{
    int fd = connect_to(serving);
    say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok");
    assert_int_equal(hear(fd), 200);
    close(fd);
}

/* A declared length is refused at its limit and not before; a chunked body as soon as it is longer. The connection
 * goes on. */
static void test_too_long(void **state)
{
    (void)state;
    struct serving *serving = serving_start((struct net_serve_options){.body_max = BODY_MAX});
    char head[128], *bytes = xcalloc(1, BODY_MAX + 1);
    int fd = connect_to(serving);
    for (size_t more = 0; more <= 1; more++) {
        sprintf(head, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n", BODY_MAX + more);
        int other = connect_to(serving);
        say(other, head);
        say_bytes(other, bytes, BODY_MAX + more);
        assert_int_equal(hear(other), more ? 413 : 200);
        close(other);
    }
    assert_int_equal(serving_count(serving).refused_size, 1);
    say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 11; i++) {
        say(fd, "2710\r\n");
        say_bytes(fd, bytes, 10000);
        say(fd, "\r\n");
    }
    say(fd, "0\r\n\r\n");
    assert_int_equal(hear(fd), 413);
    say(fd, "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n");
    assert_in_range(hear(fd), 400, 413);
    wait_for_end(fd);
    assert_int_equal(serving_count(serving).requests, 1);
    check_alive(serving);
    serving_stop(serving);
    free(bytes);
}

/* All bodies together have a limit; memory that is free again is given again. */
static void test_all_bodies(void **state)
{
    (void)state;
    struct serving *serving = serving_start(
        (struct net_serve_options){.body_max = BODY_MAX, .bodies_max = 2 * BODY_MAX});
    char *bytes = xcalloc(1, BODY_MAX);
    static const char head[] = "POST /later HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n";
    for (int round = 0; round < 3; round++) {
        int fds[3];
        for (int i = 0; i < 3; i++) {
            fds[i] = connect_to(serving);
            say(fds[i], head);
            say_bytes(fds[i], bytes, i == 2 ? BODY_MAX : BODY_MAX - 1);
            if (i == 2)
                continue;
            while (serving_count(serving).bodies_bytes < (i + 1u) * BODY_MAX)
                usleep(1000);
        }
        int third = hear(fds[2]);
        say(fds[0], "x");
        say(fds[1], "x");
        assert_int_equal(hear(fds[0]), 200);
        assert_int_equal(hear(fds[1]), 200);
        assert_int_equal(third, 503);
        for (int i = 0; i < 3; i++)
            close(fds[i]);
    }
    assert_int_equal(serving_count(serving).refused_full, 3);
    check_alive(serving);
    serving_stop(serving);
    free(bytes);
}

/* Whoever does not send a whole request in time, or does not read its answer, is cut off. A request that waits for its
 * answer is not. */
static void test_slow(void **state)
{
    (void)state;
    const size_t big_bytes = 64 << 20; /* more than the sockets' buffers take */
    struct serving *serving = serving_start((struct net_serve_options){.transfer_ms = 400, .idle_ms = 400});
    static const char *const beginnings[] = {"", "POST /echo HTT", "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Le",
                                             "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhell"};
    int idle = connect_to(serving);
    say(idle, "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    int status = hear(idle); /* on a busy machine it may be late already */
    assert_true(status == 200 || status == 0);
    int waiting = connect_to(serving), reader = connect_to(serving);
    say(waiting, "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
    serving_wait(serving, &serving->n_held, 1);
    say(reader, "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    serving_wait(serving, &serving->n_held, 2);
    serving_answer(serving, serving->held[1], xcalloc(1, big_bytes), big_bytes);
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        int fd = connect_to(serving);
        say(fd, beginnings[i]);
        wait_for_end(fd);
    }
    wait_for_end(idle);
    while (atomic_load(&serving->released) < 1u + (status == 200))
        usleep(1000);
    wait_for_end(reader);
    assert_int_equal(serving_count(serving).late, 6);
    serving_answer(serving, serving->held[0], xstrdup("now"), 3);
    assert_int_equal(hear(waiting), 200);
    close(waiting);
    check_alive(serving);
    serving_stop(serving);
}

/* What is no HTTP, has headers without end, or is no POST, is refused. */
static void test_no_request(void **state)
{
    (void)state;
    struct serving *serving = serving_start((struct net_serve_options){.header_bytes = 8192});
    int fd = connect_to(serving);
    say(fd, "GET /echo HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(hear(fd), 405);
    close(fd);
    fd = connect_to(serving);
    say(fd, "\x16\x03\x01\x02\r\n\r\n\x01\x02\x03\r\n\r\n");
    shutdown(fd, SHUT_WR);
    wait_for_end(fd);
    char *line = xmalloc(20000);
    memset(line, 'a', 20000);
    line[19999] = 0;
    fd = connect_to(serving);
    say(fd, "POST /echo HTTP/1.1\r\nHost: x\r\nX-Long: ");
    say(fd, line);
    wait_for_end(fd);
    fd = connect_to(serving);
    say(fd, "POST /");
    say(fd, line);
    wait_for_end(fd);
    free(line);
    assert_int_equal(serving_count(serving).requests, 0);
    check_alive(serving);
    serving_stop(serving);
}

/* One address has so many connections and no more, until one of them ends. */
static void test_connections(void **state)
{
    (void)state;
    struct serving *serving = serving_start((struct net_serve_options){.address_connections = 2});
    int fds[3];
    for (int i = 0; i < 3; i++) {
        fds[i] = connect_to(serving);
        say(fds[i], "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        assert_int_equal(hear(fds[i]), i < 2 ? 200 : 0);
    }
    close(fds[0]);
    close(fds[2]);
    while (serving_count(serving).open > 1)
        usleep(1000);
    check_alive(serving);
    close(fds[1]);
    serving_stop(serving);
}

/* Where all connections are taken, more wait until one ends. Then they are served, though nothing else happens. */
static void test_all_connections(void **state)
{
    (void)state;
    struct serving *serving = serving_start((struct net_serve_options){.connections = 2});
    uint32_t n = 0;
    for (int round = 0; round < 50; round++, n += 3) {
        int fds[3];
        for (int i = 0; i < 3; i++) {
            fds[i] = connect_to(serving);
            say(fds[i], "POST /hold HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        }
        serving_wait(serving, &serving->n_held, n + 2);
        assert_int_equal(serving_count(serving).open, 2);
        close(fds[0]);
        close(fds[1]);
        serving_wait(serving, &serving->n_held, n + 3);
        serving_answer(serving, serving->held[n + 2], xstrdup("now"), 3);
        assert_int_equal(hear(fds[2]), 200);
        close(fds[2]);
        while (serving_count(serving).open > 0)
            usleep(1000);
    }
    serving_stop(serving);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_too_long),   cmocka_unit_test(test_all_bodies),  cmocka_unit_test(test_slow),
        cmocka_unit_test(test_no_request), cmocka_unit_test(test_connections), cmocka_unit_test(test_all_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
