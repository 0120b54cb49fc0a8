/* The HTTP endpoint, asked over plain sockets. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/clock.h"
#include "common/log_recent.h"
#include "server/control/http.h"
#include "server/control/live.h"
#include "server/control/page.h"

static atomic_bool is_ready, is_stopping;

static char *metrics_text(void *ctx, size_t *len_bytes)
{
    (void)ctx;
    *len_bytes = 12;
    return is_stopping ? NULL : strdup("larder_up 1\n");
}

static char *status_json(void *ctx)
{
    (void)ctx;
    return is_stopping ? NULL : strdup("{\"v\":1}");
}

static char *history_json(void *ctx, const char *job, uint32_t span_s)
{
    char *text = NULL;
    (void)ctx;
    return asprintf(&text, "{\"job\":%zu,\"span_s\":%u}", job ? strlen(job) : 0, span_s) < 0 ? NULL : text;
}

static bool ready(void *ctx)
{
    (void)ctx;
    return is_ready;
}

static char *live_text(void *ctx)
{
    (void)ctx;
    return is_stopping ? NULL : live_json(strdup("{\"v\":1}"), strdup("[]"));
}

static const struct http_handlers handlers = {.metrics_text = metrics_text,
                                              .status_json = status_json,
                                              .live_json = live_text,
                                              .history_json = history_json,
                                              .ready = ready};

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* ask sends a request and gives the whole answer; the server closes the connection. */
static const char *ask(uint16_t port, const char *request)
{
    static char answer[131072];
    size_t len = 0;
    ssize_t got;
    int fd = connect_to(port);
    for (size_t left = strlen(request); left > 0;) {
        ssize_t wrote = send(fd, request, left, MSG_NOSIGNAL);
        if (wrote <= 0)
            break;
        request += wrote;
        left -= (size_t)wrote;
    }
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    while (poll(&poll_fd, 1, 60000) == 1 && (got = read(fd, answer + len, sizeof answer - 1 - len)) > 0)
        len += (size_t)got;
    answer[len] = '\0';
    close(fd);
    return answer;
}

static const char *get(uint16_t port, const char *method, const char *path)
{
    char request[256];
    snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", method, path);
    return ask(port, request);
}

static void assert_answer(const char *answer, const char *status, const char *header, const char *body)
{
    char line[64];
    snprintf(line, sizeof line, "HTTP/1.1 %s", status);
    const char *end = strstr(answer, "\r\n\r\n");
    if (strncmp(answer, line, strlen(line)) != 0 || !end || (header && !strstr(answer, header)))
        fail_msg("expected %s and %s, got: %s", status, header, answer);
    assert_string_equal(end + 4, body);
}

static struct http *start(void)
{
    struct http *http = NULL;
    struct error err;
    is_ready = true;
    is_stopping = false;
    if (http_start("127.0.0.1", 0, &handlers, &http, &err) != 0)
        fail_msg("%s", err.text);
    assert_true(http_port(http) > 0);
    return http;
}

/* Each path answers with its handler's text and type, to GET and, without the body, to HEAD. */
static void test_paths(void **state)
{
    (void)state;
    struct http *http = start();
    uint16_t port = http_port(http);
    assert_answer(get(port, "GET", "/metrics"), "200", "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n",
                  "larder_up 1\n");
    assert_answer(get(port, "HEAD", "/metrics"), "200", "Content-Length: 12\r\n", "");
    assert_answer(get(port, "GET", "/api/v1/status"), "200", "Content-Type: application/json\r\n", "{\"v\":1}");
    assert_answer(get(port, "GET", "/api/v1/status?x=y"), "200", NULL, "{\"v\":1}");
    assert_answer(get(port, "GET", "/-/healthy"), "200", NULL, "healthy\n");
    assert_answer(get(port, "GET", "/-/ready"), "200", NULL, "ready\n");
    is_ready = false;
    assert_answer(get(port, "GET", "/-/ready"), "503", NULL, "not ready\n");
    is_stopping = true;
    assert_answer(get(port, "GET", "/metrics"), "503", NULL, "stopping\n");
    assert_answer(get(port, "GET", "/api/v1/status"), "503", NULL, "stopping\n");
    http_stop(http);
}

/* The page comes whole, under a policy that names its script and style by their hashes. What it asks for has all parts,
 * with a client's bytes as JSON texts, and nothing lets a browser take an answer for something else. */
static void test_page(void **state)
{
    (void)state;
    struct http *http = start();
    uint16_t port = http_port(http);
    static const char line[] = "time=x level=warn msg=\"<script>\" job=\"a\\\"b\"\n";
    const char *answer = get(port, "GET", "/"), *end = strstr(answer, "\r\n\r\n");
    assert_non_null(end);
    assert_int_equal(strlen(end + 4), page_bytes);
    assert_memory_equal(end + 4, page_html, page_bytes);
    assert_non_null(strstr(answer, "Content-Type: text/html; charset=utf-8\r\n"));
    assert_non_null(strstr(answer, page_policy));
    assert_non_null(strstr(page_policy, "default-src 'none'; script-src 'sha256-"));
    assert_non_null(strstr(page_policy, "; style-src 'sha256-"));
    assert_null(strstr(page_policy, "unsafe"));
    log_recent_keep(true, line, sizeof line - 1);
    assert_answer(get(port, "GET", "/api/v1/live"), "200", "X-Content-Type-Options: nosniff\r\n",
                  "{\"v\":1,\"status\":{\"v\":1},\"tree\":[],\"warnings\":[\"time=x level=warn "
                  "msg=\\\"<script>\\\" job=\\\"a\\\\\\\"b\\\"\"]}");
    assert_non_null(strstr(get(port, "GET", "/metrics"), "Content-Security-Policy: default-src 'none'\r\n"));
    assert_answer(get(port, "POST", "/"), "405", NULL, "only GET and HEAD are possible\n");
    is_stopping = true;
    assert_answer(get(port, "GET", "/api/v1/live"), "503", NULL, "stopping\n");
    http_stop(http);
}

/* Other paths and methods are refused by the right status, a body is read and dropped, and nonsense does no harm. */
static void test_refused(void **state)
{
    (void)state;
    struct http *http = start();
    uint16_t port = http_port(http);
    const char *not_found = "not found: there are /, /metrics, /api/v1/status, /api/v1/live, /api/v1/history, "
                            "/-/healthy and /-/ready\n";
    assert_answer(get(port, "GET", "/page"), "404", NULL, not_found);
    assert_answer(get(port, "GET", "/metrics/"), "404", NULL, not_found);
    assert_answer(get(port, "POST", "/nowhere"), "404", NULL, not_found);
    assert_answer(get(port, "DELETE", "/metrics"), "405", "Allow: GET, HEAD\r\n", "only GET and HEAD are possible\n");
    assert_answer(
        ask(port, "POST /metrics HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello"),
        "405", NULL, "only GET and HEAD are possible\n");
    ask(port, "\1\2\3 nonsense\r\n\r\n");
    char *large = malloc(100001);
    memset(large, 'a', 100000);
    large[100000] = '\0';
    ask(port, large);
    free(large);
    assert_answer(get(port, "GET", "/-/healthy"), "200", NULL, "healthy\n");
    http_stop(http);
}

/* A browser that another site's name led here gets nothing, whatever that name looks like. */
static void test_hosts(void **state)
{
    (void)state;
    struct http *http = start();
    static const struct {
        const char *host, *status;
    } rows[] = {{"localhost", "200"},
                {"LOCALHOST:9450", "200"},
                {"127.0.0.1:9450", "200"},
                {"127.1.2.3", "200"},
                {"[::1]:9450", "200"},
                {"[::1]", "200"},
                {"site.example", "403"},
                {"127.0.0.1.a", "403"},
                {"localhost.a:80", "403"},
                {"192.168.0.1", "403"},
                {"[::2]", "403"},
                {"[::1].a", "403"},
                {"::1", "403"},
                {"localhost:1.a", "403"},
                {":", "403"},
                {"[", "403"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char request[256], line[32];
        snprintf(request, sizeof request, "GET /metrics HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                 rows[i].host);
        snprintf(line, sizeof line, "HTTP/1.1 %s", rows[i].status);
        const char *answer = ask(http_port(http), request);
        if (strncmp(answer, line, strlen(line)) != 0)
            fail_msg("host %s got %s", rows[i].host, answer);
    }
    assert_answer(ask(http_port(http), "GET /-/healthy HTTP/1.0\r\n\r\n"), "200", NULL, "healthy\n");
    http_stop(http);
}

/* More connections than are allowed wait or are closed; those within the limit go on being served. */
static void test_connections(void **state)
{
    (void)state;
    struct http *http = start();
    int fds[HTTP_CONNECTIONS_MAX - 1];
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        fds[i] = connect_to(http_port(http));
    assert_answer(get(http_port(http), "GET", "/-/healthy"), "200", NULL, "healthy\n");
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        close(fds[i]);
    http_stop(http);
}

/* say sends part of a request. */
static bool say(int fd, const char *text)
{
    return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text);
}

static bool is_closed(int fd, int wait_ms)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    char byte;
    return poll(&poll_fd, 1, wait_ms) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

/* With all places taken by requests that never end the oldest makes room for one that does, and only that. */
static void test_room_for_newcomers(void **state)
{
    (void)state;
    struct http *http = start();
    int fds[HTTP_CONNECTIONS_MAX];
    uint64_t began_ns = clock_now_ns();
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        fds[i] = connect_to(http_port(http));
        assert_true(say(fds[i], "GET /metrics HTTP/1.1\r\n"));
        if (i == 0) /* surely the oldest */
            assert_answer(get(http_port(http), "GET", "/-/healthy"), "200", NULL, "healthy\n");
    }
    assert_answer(get(http_port(http), "GET", "/-/healthy"), "200", NULL, "healthy\n");
    assert_true(is_closed(fds[0], 60000));
    size_t closed = 0;
    for (size_t i = 1; i < HTTP_CONNECTIONS_MAX; i++)
        closed += is_closed(fds[i], 0);
    if (clock_now_ns() - began_ns < HTTP_REQUEST_S * CLOCK_NS_PER_S) /* else their own time may be over as well */
        assert_int_equal(closed, 0);
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        close(fds[i]);
    http_stop(http);
}

/* A request that trickles in, never silent for long and never whole, has its time; so has a connection that is kept
 * alive and asks nothing more. */
static void test_slow_requests(void **state)
{
    (void)state;
    enum { LINES_MAX = 120 }; /* one in half a second */
    struct http *http = start();
    int slow = connect_to(http_port(http)), idle = connect_to(http_port(http)), lines = 0;
    assert_true(say(idle, "GET /-/ready HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    assert_true(say(slow, "GET /-/ready HTTP/1.1\r\n"));
    while (!is_closed(slow, 500) && lines < LINES_MAX) {
        say(slow, "X-More: yes\r\n");
        lines++;
    }
    assert_in_range(lines, 1, LINES_MAX - 1);
    char answer[4096];
    ssize_t got, len = 0;
    struct pollfd poll_fd = {.fd = idle, .events = POLLIN};
    while (poll(&poll_fd, 1, 60000) == 1 && (got = recv(idle, answer, sizeof answer, 0)) > 0)
        len += got;
    assert_true(len > 0 && poll_fd.revents);
    close(slow);
    close(idle);
    http_stop(http);
}

static const char *ask_unix(const char *path)
{
    static char answer[4096];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = 0;
    ssize_t got;
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_true(say(fd, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
    while ((got = read(fd, answer + len, sizeof answer - 1 - len)) > 0)
        len += (size_t)got;
    answer[len] = '\0';
    close(fd);
    return answer;
}

/* On a unix socket it answers the same, to its user alone; one that a killed daemon left is replaced, one that answers
 * is not, and what another has put in its place stays there. */
static void test_unix_socket(void **state)
{
    (void)state;
    char folder[] = "/tmp/larder-http-XXXXXX", path[64];
    struct http *http = NULL, *second = NULL;
    struct error err;
    struct stat st;
    is_stopping = false;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/m", folder);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int stale = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(stale, (struct sockaddr *)&address, sizeof address), 0);
    close(stale);
    assert_int_equal(http_start_unix(path, &handlers, &http, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(http_port(http), 0);
    assert_answer(ask_unix(path), "200", NULL, "larder_up 1\n");
    assert_int_equal(http_start_unix(path, &handlers, &second, &err), LARDER_EBUSY);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(http_start_unix(path, &handlers, &second, &err), 0);
    http_stop(http);
    assert_answer(ask_unix(path), "200", NULL, "larder_up 1\n");
    http_stop(second);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(chmod(folder, 0777), 0);
    assert_int_equal(http_start_unix(path, &handlers, &second, &err), LARDER_EPERM);
    assert_int_equal(rmdir(folder), 0);
}

/* A port in use and an address that others could reach are refused with what to do; a port is free again after a stop.
 */
static void test_start_errors(void **state)
{
    (void)state;
    struct http *http = start(), *second = NULL;
    uint16_t port = http_port(http);
    struct error err;
    char expected[256];
    assert_int_equal(http_start("127.0.0.1", port, &handlers, &second, &err), LARDER_EBUSY);
    snprintf(expected, sizeof expected,
             "port %u of 127.0.0.1 is in use (by another larderd perhaps): set metrics.port to a free one, or to 0 for "
             "no metrics",
             port);
    assert_string_equal(err.text, expected);
    assert_int_equal(http_start("0.0.0.0", 0, &handlers, &second, &err), LARDER_EINVAL);
    assert_string_equal(err.text, "metrics.address '0.0.0.0' is not a loopback address: write 127.0.0.1 or ::1");
    assert_null(second);
    get(port, "GET", "/-/healthy");
    http_stop(http);
    assert_int_equal(http_start("127.0.0.1", port, &handlers, &second, &err), 0);
    http_stop(second);
    http_stop(NULL);
}

/* Who asks without end gets some answers at once, and then so many a second. */
static void test_pace(void **state)
{
    (void)state;
    struct http_handlers paced = handlers;
    struct http *http;
    paced.answers_per_s = 100;
    paced.answers_at_once = 20;
    assert_int_equal(http_start("127.0.0.1", 0, &paced, &http, NULL), 0);
    uint64_t began_ns = clock_now_ns();
    for (int i = 0; i < 120; i++)
        assert_non_null(strstr(ask(http_port(http), "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n"), "200 OK"));
    assert_true(clock_now_ns() - began_ns > CLOCK_NS_PER_S * 8 / 10);
    http_stop(http);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    while ((text = strstr(text, part))) {
        text++;
        count++;
    }
    return count;
}

/* Health checks are answered while others wait for their turn, however many requests these have sent; those that wait
 * get their answers too, and make room for newcomers; a stop does not wait for them. */
static void test_health_outside_the_pace(void **state)
{
    (void)state;
    enum { REQUESTS = 200, CHECKS = 60 };
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    static char answers[65536];
    struct http_handlers paced = handlers;
    struct http *http;
    size_t len = 0;
    paced.answers_per_s = 1;
    paced.answers_at_once = 1;
    is_stopping = false;
    assert_int_equal(http_start("127.0.0.1", 0, &paced, &http, NULL), 0);
    int asking = connect_to(http_port(http)), waiting[HTTP_CONNECTIONS_MAX];
    for (int i = 0; i < REQUESTS; i++)
        assert_true(say(asking, request));
    for (int i = 0; i < CHECKS; i++)
        assert_answer(get(http_port(http), "GET", i % 2 ? "/-/ready" : "/-/healthy"), "200", NULL,
                      i % 2 ? "ready\n" : "healthy\n");
    while (count_of(answers, "200 OK") < 2) {
        ssize_t got = recv(asking, answers + len, sizeof answers - 1 - len, 0);
        assert_true(got > 0);
        len += (size_t)got;
    }
    assert_true(count_of(answers, "200 OK") < CHECKS);
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
        waiting[i] = connect_to(http_port(http));
        assert_true(say(waiting[i], request));
        assert_answer(get(http_port(http), "GET", "/-/healthy"), "200", NULL, "healthy\n");
    }
    http_stop(http);
    for (size_t i = 0; i < HTTP_CONNECTIONS_MAX; i++)
        close(waiting[i]);
    close(asking);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_page),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_connections),
        cmocka_unit_test(test_room_for_newcomers),
        cmocka_unit_test(test_slow_requests),
        cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_start_errors),
        cmocka_unit_test(test_pace),
        cmocka_unit_test(test_health_outside_the_pace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
