/* http.c: libmicrohttpd's one polling thread on a listening socket of our own, so that a port in use is told apart. */
#include "server/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/check.h"

#define HTTP_MAGIC UINT32_C(0x50545448)
#define HTTP_CONNECTION_BYTES 32768u
#define HTTP_BACKLOG 16

static const char text_plain[] = "text/plain; charset=utf-8";

struct http {
    uint32_t magic;
    uint16_t port;
    struct MHD_Daemon *daemon;
    struct http_handlers handlers;
};

/* reply sends text and takes it over. NULL: the daemon has nothing to say any more. */
static enum MHD_Result reply(struct MHD_Connection *connection, unsigned status, const char *type, char *text,
                             size_t len)
{
    struct MHD_Response *response;
    if (text) {
        response = MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    } else {
        static char stopping[] = "stopping\n";
        status = MHD_HTTP_SERVICE_UNAVAILABLE;
        type = text_plain;
        response = MHD_create_response_from_buffer(sizeof stopping - 1, stopping, MHD_RESPMEM_PERSISTENT);
    }
    if (!response) {
        free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

static enum MHD_Result reply_line(struct MHD_Connection *connection, unsigned status, const char *line)
{
    return reply(connection, status, text_plain, xstrdup(line), strlen(line));
}

static enum MHD_Result reply_metrics(const struct http *http, struct MHD_Connection *connection)
{
    size_t len = 0;
    char *text = http->handlers.metrics_text(http->handlers.ctx, &len);
    return reply(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text, len);
}

static enum MHD_Result reply_status(const struct http *http, struct MHD_Connection *connection)
{
    char *text = http->handlers.status_json(http->handlers.ctx);
    return reply(connection, MHD_HTTP_OK, "application/json", text, text ? strlen(text) : 0);
}

static enum MHD_Result reply_ready(const struct http *http, struct MHD_Connection *connection)
{
    if (http->handlers.ready(http->handlers.ctx))
        return reply_line(connection, MHD_HTTP_OK, "ready\n");
    return reply_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "not ready\n");
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes, void **state)
{
    const struct http *http = arg;
    static int begun;
    (void)version;
    (void)upload;
    CHECK_MAGIC(http, HTTP_MAGIC);
    if (!*state) { /* the header alone; answering now would close the connection on a request with a body */
        *state = &begun;
        return MHD_YES;
    }
    if (*upload_bytes) {
        *upload_bytes = 0; /* a body nobody asked for, read and dropped piece by piece */
        return MHD_YES;
    }
    bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    enum MHD_Result (*answer)(const struct http *, struct MHD_Connection *) = NULL;
    if (strcmp(url, "/metrics") == 0)
        answer = reply_metrics;
    else if (strcmp(url, "/api/v1/status") == 0)
        answer = reply_status;
    else if (strcmp(url, "/-/ready") == 0)
        answer = reply_ready;
    else if (strcmp(url, "/-/healthy") != 0)
        return reply_line(connection, MHD_HTTP_NOT_FOUND,
                          "not found: there are /metrics, /api/v1/status, /-/healthy and /-/ready\n");
    if (!get)
        return reply_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are possible\n");
    return answer ? answer(http, connection) : reply_line(connection, MHD_HTTP_OK, "healthy\n");
}

struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    };
    socklen_t len;
};

static int parse_address(const char *text, uint16_t port, struct address *out, struct error *err)
{
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET, text, &out->v4.sin_addr) == 1 && ntohl(out->v4.sin_addr.s_addr) >> 24 == 127) {
        out->v4.sin_family = AF_INET;
        out->v4.sin_port = htons(port);
        out->len = sizeof out->v4;
        return 0;
    }
    memset(out, 0, sizeof *out);
    if (inet_pton(AF_INET6, text, &out->v6.sin6_addr) == 1 && IN6_IS_ADDR_LOOPBACK(&out->v6.sin6_addr)) {
        out->v6.sin6_family = AF_INET6;
        out->v6.sin6_port = htons(port);
        out->len = sizeof out->v6;
        return 0;
    }
    return error_set(err, LARDER_EINVAL, "metrics.address '%s' is not a loopback address: write 127.0.0.1 or ::1",
                     text);
}

static int listen_at(const char *text, uint16_t port, int *out, struct error *err)
{
    struct address address;
    int one = 1, rc = parse_address(text, port, &address, err);
    if (rc)
        return rc;
    int fd = socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* Without it the port of a daemon that just ended stays taken for a minute. Two that listen are still refused. */
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, &address.any, address.len) == 0 && listen(fd, HTTP_BACKLOG) == 0) {
        *out = fd;
        return 0;
    }
    int failed = errno;
    if (fd >= 0)
        close(fd);
    if (failed == EADDRINUSE)
        return error_set(err, LARDER_EBUSY,
                         "port %u of %s is in use (by another larderd perhaps): set metrics.port to a "
                         "free one, or to 0 for no metrics",
                         port, text);
    if (failed == EACCES)
        return error_set(err, LARDER_EPERM, "may not listen on port %u of %s: set metrics.port to one above 1023", port,
                         text);
    return error_set(err, LARDER_EIO, "cannot listen on port %u of %s: %s", port, text, strerror(failed));
}

static uint16_t port_of(int fd)
{
    struct address address = {.len = sizeof address.v6};
    if (getsockname(fd, &address.any, &address.len) != 0)
        return 0;
    return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port : address.v6.sin6_port);
}

/* start_daemon starts the polling thread with all signals blocked: they are the main thread's. */
static struct MHD_Daemon *start_daemon(struct http *http, int fd)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    struct MHD_Daemon *daemon =
        MHD_start_daemon(MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ITC, http->port, NULL, NULL,
                         on_request, http, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
                         (unsigned)HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)HTTP_IDLE_S,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_CONNECTION_BYTES, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

int http_start(const char *address, uint16_t port, const struct http_handlers *handlers, struct http **out,
               struct error *err)
{
    int fd = -1, rc = listen_at(address, port, &fd, err);
    if (rc)
        return rc;
    struct http *http = calloc(1, sizeof *http);
    if (http) {
        http->magic = HTTP_MAGIC;
        http->handlers = *handlers;
        http->port = port_of(fd);
        http->daemon = start_daemon(http, fd);
    }
    if (!http || !http->daemon) {
        close(fd);
        free(http);
        return error_set(err, LARDER_EIO,
                         "cannot start the HTTP endpoint on port %u of %s: out of memory, descriptors or "
                         "threads",
                         port, address);
    }
    *out = http;
    return 0;
}

uint16_t http_port(const struct http *http)
{
    CHECK_MAGIC(http, HTTP_MAGIC);
    return http->port;
}

void http_stop(struct http *http)
{
    if (!http)
        return;
    CHECK_MAGIC(http, HTTP_MAGIC);
    MHD_stop_daemon(http->daemon); /* closes the listening socket too */
    http->magic = 0;
    free(http);
}
