/* serve.c: the server's thread, its connections and its life.
 *
 * libmicrohttpd runs in our own loop and not in its own thread. So one wait serves its sockets, answers of other
 * threads, connections that end while their request waits, and deadlines. Only this thread makes libmicrohttpd calls
 * that concern a connection. */
#include "common/net/serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/net/serve_priv.h"
#include "common/thread.h"

#define EVENTS_MAX 64
#define SWEEP_MS 250 /* between two looks at all deadlines */
#define TLS_PRIORITIES "NORMAL:-VERS-ALL:+VERS-TLS1.3"

/* ── connections ── */

/* While a request is suspended libmicrohttpd does not look at its connection, so we do. An edge says once that the
 * other side closed. */
static void watch(struct connection *connection)
{
    struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = connection};
    if (epoll_ctl(connection->serve->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event) != 0)
        connection->hung_up = true; /* no memory: its requests are answered at once or not at all */
}

static void begin_connection(struct net_serve *serve, struct MHD_Connection *library, void **context)
{
    struct connection *connection = xcalloc(1, sizeof *connection);
    CHECK(serve->n_free_slots > 0); /* libmicrohttpd begins no more connections than there are slots */
    connection->serve = serve;
    connection->library = library;
    connection->slot = serve->free_slots[--serve->n_free_slots];
    connection->fd = MHD_get_connection_info(library, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    connection->deadline_ns = clock_now_ns() + serve->options.transfer_ms * CLOCK_NS_PER_MS;
    serve_address(MHD_get_connection_info(library, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr,
                  connection->address, sizeof connection->address);
    watch(connection);
    TAILQ_INSERT_TAIL(&serve->connections, connection, link);
    pthread_mutex_lock(&serve->lock);
    serve->counts.connections++;
    serve->counts.open++;
    pthread_mutex_unlock(&serve->lock);
    if (serve->n_free_slots == 0)
        log_warn_limited("msg=\"all connections are taken, so others wait\" connections=%u",
                         serve->options.connections);
    *context = connection;
}

static void end_connection(struct net_serve *serve, struct connection *connection)
{
    bool silent = serve->options.key && !connection->asked;
    CHECK(!connection->exchange);
    if (silent)
        log_info_limited("msg=\"a connection ended before its first request\" address=\"%s\"", connection->address);
    epoll_ctl(serve->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
    TAILQ_REMOVE(&serve->connections, connection, link);
    serve->free_slots[serve->n_free_slots++] = connection->slot;
    serve->ended = true;
    pthread_mutex_lock(&serve->lock);
    serve->counts.open--;
    serve->counts.silent += silent;
    pthread_mutex_unlock(&serve->lock);
    serve_identity_clear(&connection->identity);
    free(connection);
}

static void notify(void *arg, struct MHD_Connection *library, void **context, enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        begin_connection(arg, library, context);
    else
        end_connection(arg, *context);
}

static void hang_up(struct connection *connection)
{
    connection->hung_up = true;
    if (connection->exchange && connection->exchange->suspended) {
        exchange_drop(connection->exchange);
        exchange_resume(connection->exchange);
    }
}

/* libmicrohttpd sees the end of the connection and closes it. */
static void end_late(struct net_serve *serve)
{
    struct connection *connection;
    uint64_t now_ns = clock_now_ns();
    TAILQ_FOREACH(connection, &serve->connections, link) {
        if (connection->deadline_ns > now_ns)
            continue;
        log_info_limited("msg=\"a connection was too slow and is ended\" address=\"%s\" in=\"%s\"", connection->address,
                         connection->exchange ? "a request" : "no request");
        connection->deadline_ns = UINT64_MAX;
        pthread_mutex_lock(&serve->lock);
        serve->counts.late++;
        pthread_mutex_unlock(&serve->lock);
        shutdown(connection->fd, SHUT_RDWR);
    }
}

/* ── the thread ── */

/* Resumes the requests that were answered, and tells whether the server goes on. */
static bool take_answers(struct net_serve *serve)
{
    struct exchange *exchange;
    pthread_mutex_lock(&serve->lock);
    bool stopping = serve->stopping;
    while ((exchange = TAILQ_FIRST(&serve->ready))) {
        TAILQ_REMOVE(&serve->ready, exchange, link);
        exchange->answered = false;
        pthread_mutex_unlock(&serve->lock);
        exchange_resume(exchange);
        pthread_mutex_lock(&serve->lock);
    }
    pthread_mutex_unlock(&serve->lock);
    return !stopping;
}

static void take_events(struct net_serve *serve, int timeout_ms)
{
    struct epoll_event events[EVENTS_MAX];
    int n = epoll_wait(serve->epoll_fd, events, EVENTS_MAX, timeout_ms);
    for (int i = 0; i < n; i++) {
        eventfd_t value;
        if (events[i].data.ptr == serve)
            eventfd_read(serve->wake_fd, &value);
        else if (events[i].data.ptr != serve->daemon)
            hang_up(events[i].data.ptr);
    }
}

static int wait_ms(const struct net_serve *serve, uint64_t sweep_ns)
{
    MHD_UNSIGNED_LONG_LONG library_ms;
    if (serve->ended || (MHD_get_timeout(serve->daemon, &library_ms) == MHD_YES && library_ms == 0))
        return 0;
    if (TAILQ_EMPTY(&serve->connections))
        return -1;
    uint64_t now_ns = clock_now_ns();
    return sweep_ns <= now_ns ? 0 : (int)((sweep_ns - now_ns) / CLOCK_NS_PER_MS + 1);
}

/* Tells of all that waits, and ends libmicrohttpd, which wants no connection suspended then. */
static void wind_down(struct net_serve *serve)
{
    struct connection *connection;
    TAILQ_FOREACH(connection, &serve->connections, link) {
        hang_up(connection);
    }
    MHD_stop_daemon(serve->daemon);
    CHECK(TAILQ_EMPTY(&serve->connections) && TAILQ_EMPTY(&serve->ready));
}

static void *run(void *arg)
{
    struct net_serve *serve = arg;
    uint64_t sweep_ns = 0;
    while (take_answers(serve)) {
        serve->ended = false;
        MHD_run(serve->daemon);
        uint64_t now_ns = clock_now_ns();
        if (sweep_ns <= now_ns) {
            end_late(serve);
            sweep_ns = now_ns + SWEEP_MS * CLOCK_NS_PER_MS;
        }
        take_events(serve, wait_ms(serve, sweep_ns));
    }
    wind_down(serve);
    return NULL;
}

/* ── life ── */

static void set_default(uint32_t *number, uint32_t value)
{
    *number = *number ? *number : value;
}

static int check_options(struct net_serve *serve, const struct net_serve_options *options, struct error *err)
{
    struct net_serve_options *ours = &serve->options;
    *ours = *options;
    set_default(&ours->connections, 1024);
    set_default(&ours->address_connections, 64);
    set_default(&ours->idle_ms, 60000);
    set_default(&ours->transfer_ms, 30000);
    ours->header_bytes = ours->header_bytes ? ours->header_bytes : 32 << 10;
    ours->body_max = ours->body_max ? ours->body_max : 16 << 20;
    ours->bodies_max = ours->bodies_max ? ours->bodies_max : 256 << 20;
    CHECK(ours->host && ours->on_request);
    CHECK(!ours->key == !ours->cert && !ours->key == !ours->ca);
    if (ours->connections > NET_SERVE_CONNECTIONS_MAX)
        return error_set(err, LARDER_EINVAL, "%u connections are more than %d", ours->connections,
                         NET_SERVE_CONNECTIONS_MAX);
    return 0;
}

static void log_library(void *arg, const char *format, va_list values)
{
    char text[256];
    (void)arg;
    vsnprintf(text, sizeof text, format, values);
    text[strcspn(text, "\r\n")] = 0;
    log_info_limited("msg=\"libmicrohttpd says\" text=\"%s\"", text);
}

static ino_t inode_of(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 ? st.st_ino : 0;
}

/* On success libmicrohttpd owns fd. On failure it may have closed it. */
static bool start_library(struct net_serve *serve, int fd)
{
    const struct net_serve_options *options = &serve->options;
    struct MHD_OptionItem tls[] = {{options->key ? MHD_OPTION_HTTPS_MEM_CERT : MHD_OPTION_END, 0,
                                    (void *)(uintptr_t)options->cert},
                                   {MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)(uintptr_t)options->key},
                                   {MHD_OPTION_HTTPS_MEM_TRUST, 0, (void *)(uintptr_t)options->ca},
                                   {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES},
                                   {MHD_OPTION_END, 0, NULL}};
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    serve->daemon = MHD_start_daemon(
        flags | (options->key ? MHD_USE_TLS : 0), serve->port, NULL, NULL, exchange_access, serve,
        MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
        (unsigned)options->connections, MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)options->address_connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, options->header_bytes, MHD_OPTION_NOTIFY_CONNECTION, notify, serve,
        MHD_OPTION_NOTIFY_COMPLETED, exchange_completed, serve, MHD_OPTION_ARRAY, tls, MHD_OPTION_END);
    return serve->daemon != NULL;
}

static bool start_loop(struct net_serve *serve)
{
    struct epoll_event library = {.events = EPOLLIN, .data.ptr = serve->daemon};
    struct epoll_event wake = {.events = EPOLLIN, .data.ptr = serve};
    int fd = MHD_get_daemon_info(serve->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    serve->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    serve->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return serve->epoll_fd >= 0 && serve->wake_fd >= 0 &&
           epoll_ctl(serve->epoll_fd, EPOLL_CTL_ADD, fd, &library) == 0 &&
           epoll_ctl(serve->epoll_fd, EPOLL_CTL_ADD, serve->wake_fd, &wake) == 0 &&
           thread_start(&serve->thread, "larder-serve", run, serve) == 0;
}

static void release(struct net_serve *serve)
{
    if (serve->wake_fd >= 0)
        close(serve->wake_fd);
    if (serve->epoll_fd >= 0)
        close(serve->epoll_fd);
    pthread_mutex_destroy(&serve->lock);
    free(serve->free_slots);
    free(serve->slots);
    serve->magic = 0;
    free(serve);
}

static int start(struct net_serve *serve, struct error *err)
{
    int fd = -1, rc = serve_listen(serve->options.host, serve->options.port, &fd, &serve->port, err);
    if (rc)
        return rc;
    ino_t inode = inode_of(fd);
    if (!start_library(serve, fd)) {
        if (inode_of(fd) == inode) /* else it is closed, and another thread may have the number by now */
            close(fd);
        return error_set(err, serve->options.key ? LARDER_EINVAL : LARDER_EIO, "cannot serve on port %u of %s: %s",
                         serve->port, serve->options.host,
                         serve->options.key ? "the certificate, its key or the CA's certificate is no good"
                                            : "out of memory or descriptors");
    }
    if (start_loop(serve))
        return 0;
    MHD_stop_daemon(serve->daemon);
    return error_set(err, LARDER_ELIMIT, "cannot serve on port %u of %s: out of descriptors or threads", serve->port,
                     serve->options.host);
}

int net_serve_start(const struct net_serve_options *options, struct net_serve **out, struct error *err)
{
    struct net_serve *serve = xcalloc(1, sizeof *serve);
    serve->magic = SERVE_MAGIC;
    serve->epoll_fd = serve->wake_fd = -1;
    TAILQ_INIT(&serve->connections);
    TAILQ_INIT(&serve->ready);
    pthread_mutex_init(&serve->lock, NULL);
    int rc = check_options(serve, options, err);
    if (rc == 0) {
        uint32_t n = serve->options.connections;
        serve->slots = xcalloc(n, sizeof *serve->slots);
        serve->free_slots = xcalloc(n, sizeof *serve->free_slots);
        while (serve->n_free_slots < n) {
            serve->free_slots[serve->n_free_slots] = serve->n_free_slots;
            serve->n_free_slots++;
        }
        rc = start(serve, err);
    }
    if (rc)
        release(serve);
    else
        *out = serve;
    return rc;
}

void net_serve_stop(struct net_serve *serve)
{
    if (!serve)
        return;
    CHECK_MAGIC(serve, SERVE_MAGIC);
    pthread_mutex_lock(&serve->lock);
    serve->stopping = true;
    pthread_mutex_unlock(&serve->lock);
    serve_wake(serve);
    pthread_join(serve->thread, NULL);
    release(serve);
}

uint16_t net_serve_port(const struct net_serve *serve)
{
    CHECK_MAGIC(serve, SERVE_MAGIC);
    return serve->port;
}

void net_serve_count(struct net_serve *serve, struct net_serve_counts *out)
{
    CHECK_MAGIC(serve, SERVE_MAGIC);
    pthread_mutex_lock(&serve->lock);
    *out = serve->counts;
    pthread_mutex_unlock(&serve->lock);
}
