/* fuzz_http.c: proves that whatever bytes clients send to the HTTP endpoint, in whatever pieces and over however many
 * connections, each answer is one of those that it documents, and the next client is served.
 *
 * An input is a list of steps: connect, send so many bytes, leave, end sending. The endpoint is the real one, with its
 * thread, on a unix socket. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/check.h"
#include "server/control/http.h"
#include "tests/fuzz/fuzz.h"

#define CLIENTS 4
#define ANSWER_MAX 65536
#define QUIET_MS 3
#define TRIES 3

static char path[64];
static struct http *http;
static int clients[CLIENTS] = {-1, -1, -1, -1};

static char *metrics_text(void *ctx, size_t *len_bytes)
{
    (void)ctx;
    *len_bytes = strlen("larder_jobs 1\n");
    return strdup("larder_jobs 1\n");
}

static char *status_json(void *ctx)
{
    static unsigned asked;
    (void)ctx;
    return ++asked % 4 ? strdup("{\"v\":1}") : NULL;
}

static char *history_json(void *ctx, const char *job, uint32_t span_s)
{
    char *text = NULL;
    (void)ctx;
    return asprintf(&text, "{\"job\":%zu,\"span_s\":%u}", job ? strlen(job) : 0, span_s) < 0 ? NULL : text;
}

static bool ready(void *ctx)
{
    static unsigned asked;
    (void)ctx;
    return ++asked % 2;
}

static void stop(void)
{
    char folder[sizeof path];
    http_stop(http);
    snprintf(folder, sizeof folder, "%s", path);
    *strrchr(folder, '/') = '\0';
    rmdir(folder);
}

static void start(void)
{
    static const struct http_handlers handlers = {.metrics_text = metrics_text,
                                                  .status_json = status_json,
                                                  .live_json = status_json,
                                                  .history_json = history_json,
                                                  .ready = ready};
    struct error err;
    if (http)
        return;
    char folder[] = "/tmp/larder-fuzz-http-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/s", folder);
    CHECK(http_start_unix(path, &handlers, &http, &err) == 0);
    atexit(stop);
}

static int connect_to(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = 20}; /* several times what the endpoint gives a client */
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0 &&
          setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

/* ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Answers follow one another; libmicrohttpd makes those to requests that are none. */
static void check_answer(const char *answer, size_t len)
{
    static const char *const lines[] = {"100 ", "200 ", "400 ", "404 ", "405 ", "411 ", "413 ",
                                        "414 ", "417 ", "431 ", "500 ", "501 ", "503 ", "505 "};
    if (len < strlen("HTTP/1.1 200 "))
        return; /* cut short, when the connection was */
    CHECK(memcmp(answer, "HTTP/1.1 ", 9) == 0 || memcmp(answer, "HTTP/1.0 ", 9) == 0);
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        if (memcmp(answer + 9, lines[i], 4) == 0)
            return;
    }
    CHECK(!"an answer that http.h does not know");
}

/* take_answers reads until the endpoint closes the connection, or says nothing for a moment: to what is no whole
 * request it would say nothing for seconds. */
static void take_answers(int fd)
{
    static char answer[ANSWER_MAX];
    struct pollfd more = {.fd = fd, .events = POLLIN};
    size_t len = 0;
    shutdown(fd, SHUT_WR);
    for (ssize_t got; len < sizeof answer && poll(&more, 1, QUIET_MS) == 1 &&
                      (got = recv(fd, answer + len, sizeof answer - len, 0)) > 0;)
        len += (size_t)got;
    check_answer(answer, len);
}

/* ask_health returns the length of the answer. 0: the endpoint has closed the connection. */
static size_t ask_health(char *answer, size_t cap)
{
    static const char request[] = "GET /-/healthy HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    size_t len = 0;
    int fd = connect_to();
    CHECK(send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == (ssize_t)sizeof request - 1);
    for (ssize_t got; (got = recv(fd, answer + len, cap - len, 0)) > 0;)
        len += (size_t)got;
    close(fd);
    return len;
}

/* The endpoint closes a connection that stands still for seconds, as one does while this process is stopped. So another
 * one is tried then. */
static void check_served(void)
{
    char answer[1024];
    size_t len = 0;
    for (int tries = 0; len == 0 && tries < TRIES; tries++)
        len = ask_health(answer, sizeof answer - 1);
    answer[len] = '\0';
    CHECK(strncmp(answer, "HTTP/1.1 200 ", 13) == 0 && strstr(answer, "\r\n\r\nhealthy\n"));
}

/* ── inputs ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum step { STEP_SEND, STEP_SEND_MORE, STEP_LEAVE, STEP_END, STEPS };

static void leave(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* One step of two bytes, what and how much, and what it sends. Gives how many bytes it took. */
static size_t step(const uint8_t *data, size_t size)
{
    int *fd = &clients[data[0] / STEPS % CLIENTS];
    size_t len = 0;
    switch ((enum step)(data[0] % STEPS)) {
    case STEP_SEND:
    case STEP_SEND_MORE:
        len = (size_t)data[1] * (data[0] % STEPS == STEP_SEND ? 1 : 64);
        len = len < size - 2 ? len : size - 2;
        *fd = *fd < 0 ? connect_to() : *fd;
        (void)!send(*fd, data + 2, len, MSG_NOSIGNAL | MSG_DONTWAIT); /* the endpoint may have closed it */
        break;
    case STEP_END:
        if (*fd >= 0)
            take_answers(*fd);
        leave(fd);
        break;
    default: leave(fd);
    }
    return len + 2;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    start();
    for (size_t at = 0; at + 2 <= size;)
        at += step(data + at, size - at);
    for (size_t i = 0; i < CLIENTS; i++) {
        if (clients[i] >= 0)
            take_answers(clients[i]);
        leave(&clients[i]);
    }
    check_served();
    return 0;
}

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    static const char *const requests[] = {
        "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /api/v1/status?a=b&c HTTP/1.1\r\nHost: x\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        "HEAD /-/ready HTTP/1.1\r\nHost: x\r\n\r\nGET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
        "PUT /nowhere HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        "GET /api/v1/status HTTP/1.0\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
        "GET http://x/%2d/ready HTTP/1.1\r\nHost: x\r\nCookie: a=b; c\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    };
    if (index >= 2 * (sizeof requests / sizeof *requests))
        return 0;
    const char *request = requests[index / 2];
    size_t len = strlen(request), first = index % 2 ? len / 2 : len; /* at once, and in two pieces */
    CHECK(len + 4 <= cap && first <= UINT8_MAX && len - first <= UINT8_MAX);
    size_t at = 0;
    buf[at++] = STEP_SEND;
    buf[at++] = (uint8_t)first;
    memcpy(buf + at, request, first);
    at += first;
    if (first < len) {
        buf[at++] = STEP_SEND;
        buf[at++] = (uint8_t)(len - first);
        memcpy(buf + at, request + first, len - first);
        at += len - first;
    }
    return at;
}
