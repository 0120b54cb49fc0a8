/* http.c: runs libmicrohttpd. The endpoint opens the listening socket itself, so that it can tell when a port is in
 * use. It also runs the loop itself, to bound the time of a whole request: the library only limits a connection's
 * silence.
 *
 * Anybody on the machine may connect and ask without end. Two bounds limit the processor time of that, and keep health
 * checks answered. Answers that take work are limited in rate; further requests wait, suspended. And the thread rests
 * after each round, in proportion to the processor time of the round. */
#include "server/control/http.h"

#include <limits.h>
#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/thread.h"
#include "server/control/http_priv.h"
#include "server/control/page.h"

#define HTTP_MAGIC UINT32_C(0x50545448)
#define HTTP_CONNECTION_BYTES 32768u
#define PAUSE_MAX_MS 500
#define REST_SHARE 19 /* the thread rests 19 times as long as it works: it takes 1/20 of a processor … */
#define REST_MAX_NS (50 * CLOCK_NS_PER_MS) /* … or a little more where a round takes long */
#define ROUND_RUNS_MAX 32                  /* the library lets in about eight newcomers in each run */

static const char text_plain[] = "text/plain; charset=utf-8";

struct http {
    uint32_t magic;
    uint16_t port;
    char *path; /* the unix socket's path; NULL: it listens on TCP */
    struct socket_file file;
    struct MHD_Daemon *daemon;
    struct http_handlers handlers;
    struct visits visits; /* only the thread uses it, and the next two */
    uint64_t moved;       /* connections that came, and that went */
    uint64_t paced_ns;    /* time by which all answers so far would have gone out at answers_per_s */
    int epoll_fd, wake_fd;
    atomic_bool stopping; /* set before wake_fd is written, read by the thread */
    pthread_t thread;
};

static const char text_html[] = "text/html; charset=utf-8";

/* add_headers says what the answer is. Names in it are clients' bytes: no browser may take them for something else, and
 * no other site's page may have them. */
static void add_headers(struct MHD_Response *response, unsigned status, const char *type)
{
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    MHD_add_response_header(response, "Content-Security-Policy",
                            type == text_html ? page_policy : "default-src 'none'");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
}

static enum MHD_Result send_response(struct MHD_Connection *connection, unsigned status, const char *type,
                                     struct MHD_Response *response)
{
    add_headers(response, status, type);
    enum MHD_Result queued = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return queued;
}

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
    return send_response(connection, status, type, response);
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

static enum MHD_Result reply_live(const struct http *http, struct MHD_Connection *connection)
{
    char *text = http->handlers.live_json(http->handlers.ctx);
    return reply(connection, MHD_HTTP_OK, "application/json", text, text ? strlen(text) : 0);
}

/* reply_history takes ?span=SECONDS and ?job=NAME. */
static enum MHD_Result reply_history(const struct http *http, struct MHD_Connection *connection)
{
    const char *job = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "job");
    const char *span = MHD_lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND, "span");
    bool number = span && *span && strlen(span) <= 6 && strspn(span, "0123456789") == strlen(span);
    if (span && !number)
        return reply_line(connection, MHD_HTTP_BAD_REQUEST, "span is a number of seconds, from 60 to 86400\n");
    char *text = http->handlers.history_json(http->handlers.ctx, job, number ? (uint32_t)atoi(span) : 0);
    return reply(connection, MHD_HTTP_OK, "application/json", text, text ? strlen(text) : 0);
}

static enum MHD_Result reply_page(const struct http *http, struct MHD_Connection *connection)
{
    (void)http;
    struct MHD_Response *response = MHD_create_response_from_buffer(page_bytes, (void *)(uintptr_t)page_html,
                                                                    MHD_RESPMEM_PERSISTENT);
    return response ? send_response(connection, MHD_HTTP_OK, text_html, response) : MHD_NO;
}

static enum MHD_Result reply_ready(const struct http *http, struct MHD_Connection *connection)
{
    if (http->handlers.ready(http->handlers.ctx))
        return reply_line(connection, MHD_HTTP_OK, "ready\n");
    return reply_line(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "not ready\n");
}

/* is_for_us says whether the client wanted this machine's loopback. A browser that was led here by another site's name,
 * which its owner points to this machine, sends that name. */
static bool is_for_us(const struct http *http, struct MHD_Connection *connection)
{
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
    return http->path || !host || http_host_is_loopback(host);
}

static enum MHD_Result respond(const struct http *http, struct MHD_Connection *connection, const char *url,
                               const char *method)
{
    if (!is_for_us(http, connection))
        return reply_line(connection, MHD_HTTP_FORBIDDEN, "ask for localhost, 127.0.0.1 or [::1]\n");
    bool get = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    enum MHD_Result (*answer)(const struct http *, struct MHD_Connection *) = NULL;
    if (strcmp(url, "/") == 0)
        answer = reply_page;
    else if (strcmp(url, "/metrics") == 0)
        answer = reply_metrics;
    else if (strcmp(url, "/api/v1/status") == 0)
        answer = reply_status;
    else if (strcmp(url, "/api/v1/live") == 0)
        answer = reply_live;
    else if (strcmp(url, "/api/v1/history") == 0)
        answer = reply_history;
    else if (strcmp(url, "/-/ready") == 0)
        answer = reply_ready;
    else if (strcmp(url, "/-/healthy") != 0)
        return reply_line(connection, MHD_HTTP_NOT_FOUND,
                          "not found: there are /, /metrics, /api/v1/status, /api/v1/live, /api/v1/history, /-/healthy "
                          "and /-/ready\n");
    if (!get)
        return reply_line(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are possible\n");
    return answer ? answer(http, connection) : reply_line(connection, MHD_HTTP_OK, "healthy\n");
}

/* ── connections ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static struct visit *visit_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct http *http = arg;
    http->moved++;
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        *context = visits_begin(&http->visits,
                                MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd);
    else
        visit_is_over(*context);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    (void)arg, (void)state, (void)code;
    visit_asks(visit_of(connection)); /* the time limit of the next request begins here */
}

/* count_answer puts off what comes next. That is never by more than one pause: many who ask at the same time are
 * answered together after it, and who asks after they have gone does not wait for what they had too much. */
static void count_answer(struct http *http)
{
    const struct http_handlers *of = &http->handlers;
    if (!of->answers_per_s)
        return;
    uint64_t now = clock_now_ns(), each = CLOCK_NS_PER_S / of->answers_per_s, saved = each * of->answers_at_once;
    uint64_t least = now > saved ? now - saved : 0, most = now + PAUSE_MAX_MS * CLOCK_NS_PER_MS;
    uint64_t paced = (http->paced_ns > least ? http->paced_ns : least) + each;
    http->paced_ns = paced < most ? paced : most;
}

/* Health checks take next to no work, and who makes them acts on a late answer. */
static bool is_paced(const char *url)
{
    return strcmp(url, "/-/healthy") != 0 && strcmp(url, "/-/ready") != 0;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                  const char *version, const char *upload, size_t *upload_bytes, void **state)
{
    struct http *http = arg;
    static int begun;
    (void)version;
    (void)upload;
    CHECK_MAGIC(http, HTTP_MAGIC);
    if (!*state) { /* only the header is here; an answer would close the connection on a request with a body */
        *state = &begun;
        return MHD_YES;
    }
    if (*upload_bytes) {
        *upload_bytes = 0; /* a request needs no body, so it is read and dropped piece by piece */
        return MHD_YES;
    }
    struct visit *visit = visit_of(connection);
    if (!visit || visit->ended)
        return MHD_NO;
    if (is_paced(url)) {
        if (!visit->waited && clock_now_ns() < http->paced_ns) {
            visit_waits(visit, connection);
            MHD_suspend_connection(connection);
            return MHD_YES;
        }
        count_answer(http);
    }
    enum MHD_Result queued = respond(http, connection, url, method);
    visit_is_answered(visit);
    return queued;
}

/* ── the thread ──────────────────────────────────────────────────────────────────────────────────────────────────── */

static int wait_ms(const struct http *http)
{
    MHD_UNSIGNED_LONG_LONG library_ms;
    uint64_t deadline = visits_next_deadline(&http->visits), now = clock_now_ns(), wait = UINT64_MAX;
    if (http->paced_ns < deadline && visits_wait(&http->visits))
        deadline = http->paced_ns;
    if (deadline != UINT64_MAX)
        wait = deadline <= now ? 0 : (deadline - now) / CLOCK_NS_PER_MS + 1;
    if (MHD_get_timeout(http->daemon, &library_ms) == MHD_YES && library_ms < wait)
        wait = library_ms;
    return wait == UINT64_MAX ? -1 : wait > INT_MAX ? INT_MAX : (int)wait;
}

static void resume_waiting(struct http *http, bool due)
{
    struct MHD_Connection *connection;
    while ((connection = visits_next_waiting(&http->visits, due)))
        MHD_resume_connection(connection);
}

/* run_round answers who is there. A run of the library lets newcomers in, the next one reads what they ask, and closes
 * those that made room for them. */
static void run_round(struct http *http)
{
    uint64_t moved = UINT64_MAX;
    uint64_t now = clock_now_ns(); /* taken before, so that no request is late because answers took long */
    resume_waiting(http, now >= http->paced_ns);
    for (int i = 0; i < ROUND_RUNS_MAX && http->moved != moved; i++) {
        moved = http->moved;
        MHD_run(http->daemon);
        resume_waiting(http, false); /* those that made room */
    }
    visits_end_late(&http->visits, now);
}

static void *run(void *arg)
{
    struct http *http = arg;
    while (!atomic_load(&http->stopping)) {
        struct pollfd fds[] = {{.fd = http->epoll_fd, .events = POLLIN}, {.fd = http->wake_fd, .events = POLLIN}};
        poll(fds, 2, wait_ms(http));
        uint64_t began_ns = clock_thread_ns();
        run_round(http);
        uint64_t rest_ns = (clock_thread_ns() - began_ns) * REST_SHARE;
        struct timespec rest = {.tv_nsec = (long)(rest_ns < REST_MAX_NS ? rest_ns : REST_MAX_NS)};
        ppoll(&fds[1], 1, &rest, NULL);
    }
    return NULL;
}

/* ── life ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* start_daemon starts the library on fd. Once it succeeds, the library owns fd. */
static bool start_daemon(struct http *http, int fd)
{
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, http->port, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)(HTTP_CONNECTIONS_MAX + HTTP_CONNECTIONS_SPARE),
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_CONNECTION_BYTES, MHD_OPTION_NOTIFY_CONNECTION, on_connection,
        http, MHD_OPTION_NOTIFY_COMPLETED, on_completed, NULL, MHD_OPTION_END);
    if (!http->daemon)
        return false;
    http->epoll_fd = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    http->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return http->wake_fd >= 0 && thread_start(&http->thread, "larder-http", run, http) == 0;
}

static void release(struct http *http)
{
    if (http->path)
        socket_file_remove(http->path, &http->file); /* before it is closed: see socket_file.h */
    if (http->daemon) {
        resume_waiting(http, true);    /* the library stops no daemon with suspended connections */
        MHD_stop_daemon(http->daemon); /* closes the listening socket too */
    }
    if (http->wake_fd >= 0)
        close(http->wake_fd);
    free(http->path);
    http->magic = 0;
    free(http);
}

/* start_on serves on fd and takes it over. path is that of a unix socket, whose file http_stop removes. NULL: TCP. */
static int start_on(int fd, const char *path, const struct socket_file *file, const struct http_handlers *handlers,
                    struct http **out)
{
    struct http *http = xcalloc(1, sizeof *http);
    http->magic = HTTP_MAGIC;
    http->handlers = *handlers;
    http->port = http_listen_port(fd);
    http->path = path ? xstrdup(path) : NULL;
    http->file = *file;
    http->wake_fd = -1;
    if (start_daemon(http, fd)) {
        *out = http;
        return 0;
    }
    bool taken = http->daemon;
    release(http);
    if (!taken)
        close(fd);
    return LARDER_EIO;
}

int http_start(const char *address, uint16_t port, const struct http_handlers *handlers, struct http **out,
               struct error *err)
{
    struct socket_file none = {.known = false};
    int fd = -1, rc = http_listen_tcp(address, port, &fd, err);
    if (rc)
        return rc;
    rc = start_on(fd, NULL, &none, handlers, out);
    return rc ? error_set(err, rc,
                          "cannot start the HTTP endpoint on port %u of %s: out of memory, descriptors or threads",
                          port, address)
              : 0;
}

int http_start_unix(const char *path, const struct http_handlers *handlers, struct http **out, struct error *err)
{
    struct socket_file file;
    int fd = -1, rc = http_listen_unix(path, &fd, &file, err);
    if (rc)
        return rc;
    rc = start_on(fd, path, &file, handlers, out);
    return rc ? error_set(err, rc, "cannot start the HTTP endpoint at %s: out of memory, descriptors or threads", path)
              : 0;
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
    atomic_store(&http->stopping, true);
    CHECK(eventfd_write(http->wake_fd, 1) == 0);
    pthread_join(http->thread, NULL);
    release(http);
}
