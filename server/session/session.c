/* session.c: the session's life, its thread's loop, and what happens by the clock. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/thread.h"
#include "server/session/session_priv.h"

#define EVENTS_AT_ONCE 64
#define PLACES_MAX 65536u

_Static_assert(SESSION_CONNECTIONS_MAX + SESSION_REFUSALS_MAX <= PLACES_MAX, "a place fits 16 bits");

/* ── the loop ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void serve_dirty(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    session->wake_pending = false;
    for (uint32_t n = session->n_dirty; n > 0 && session->n_dirty > 0; n--) {
        struct conn *conn = TAILQ_FIRST(&session->dirty);
        TAILQ_REMOVE(&session->dirty, conn, next_dirty);
        session->n_dirty--;
        conn->dirty = false;
        pthread_mutex_unlock(&session->lock);
        conn_advance(session, conn);
        pthread_mutex_lock(&session->lock);
    }
    /* Connections that became dirty meanwhile have written the eventfd, since wake_pending was false. */
    pthread_mutex_unlock(&session->lock);
}

static void begin_stop(struct session *session)
{
    session->stop_begun = true;
    session->due.accept_ns = session->due.look_ns = SESSION_NEVER;
    session_listen_close(&session->listener);
    struct error why;
    error_set(&why, LARDER_EGONE, "the daemon at %s is stopping", session->listener.path);
    for (uint32_t place = 0; place < session->table.n_places; place++) {
        struct conn *conn = session->table.at[place]; /* only this thread changes the table */
        if (conn) {
            conn_fail(session, conn, 0, &why);
            conn_advance(session, conn);
        }
    }
}

/* look_after_socket checks that the socket's file is still in its place. If it is gone or another file is there, no new
 * client can connect. Then the session gives the path up, so that another daemon can have it, and goes on serving the
 * connected clients. */
static void look_after_socket(struct session *session, uint64_t now)
{
    session->due.look_ns = now + SESSION_LOOK_MS * CLOCK_NS_PER_MS;
    if (!session_listen_lost(&session->listener))
        return;
    session->due.look_ns = session->due.accept_ns = SESSION_NEVER;
    session_listen_close(&session->listener);
    session_lock_release(&session->listener);
    log_error("msg=\"the socket was removed, moved or replaced by somebody: no client can come any more, the daemon "
              "serves those it has and stops after the last; start another, and keep its folder from being cleaned "
              "up\" socket=\"%s\"",
              session->listener.path);
    if (session->config.handlers.on_lost)
        session->config.handlers.on_lost(session->config.handlers.ctx);
}

static void sweep(struct session *session)
{
    uint64_t now = clock_now_ns();
    if (now < session->due.sweep_ns)
        return;
    session->due.sweep_ns = SESSION_NEVER;
    if (now >= session->due.look_ns)
        look_after_socket(session, now);
    session_sweep_at(session, session->due.look_ns);
    if (now >= session->due.accept_ns) {
        session->due.accept_ns = SESSION_NEVER;
        session_watch(session, EPOLL_CTL_MOD, session->listener.fd, EPOLLIN, SESSION_ID_LISTEN);
    }
    session_sweep_at(session, session->due.accept_ns);
    for (uint32_t place = 0; place < session->table.n_places; place++) {
        struct conn *conn = session->table.at[place];
        if (!conn)
            continue;
        if (now >= conn->deadline_ns) {
            conn_close(session, conn);
            continue;
        }
        session_sweep_at(session, conn->deadline_ns);
        if (now >= conn->window.end_ns)
            conn->window.requests = 0;
        conn_update_interest(session, conn);
    }
}

static void on_event(struct session *session, uint64_t id, uint32_t events)
{
    if (id == SESSION_ID_LISTEN) {
        if (session->listener.fd >= 0)
            session_accept(session);
        return;
    }
    if (id == SESSION_ID_WAKE) {
        uint64_t count;
        ssize_t got = read(session->wake_fd, &count, sizeof count);
        (void)got; /* it may have been read before */
        return;
    }
    pthread_mutex_lock(&session->lock);
    struct conn *conn = conn_find_locked(&session->table, id);
    pthread_mutex_unlock(&session->lock);
    if (!conn) /* an earlier event of this round closed the connection */
        return;
    bool peer_gone = events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR);
    if ((events & EPOLLIN || peer_gone) && !conn_read(session, conn, peer_gone))
        conn_close(session, conn);
    else
        conn_advance(session, conn);
}

static int time_left_ms(const struct session *session)
{
    if (session->due.sweep_ns == SESSION_NEVER)
        return -1;
    uint64_t now = clock_now_ns();
    return now >= session->due.sweep_ns ? 0 : (int)((session->due.sweep_ns - now) / CLOCK_NS_PER_MS) + 1;
}

bool session_turn(struct session *session, int wait_ms)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int n = epoll_wait(session->epoll_fd, events, EVENTS_AT_ONCE, wait_ms);
    for (int i = 0; i < n; i++)
        on_event(session, events[i].data.u64, events[i].events);
    serve_dirty(session);
    sweep(session);
    pthread_mutex_lock(&session->lock);
    bool stopping = session->stopping;
    pthread_mutex_unlock(&session->lock);
    if (stopping && !session->stop_begun)
        begin_stop(session);
    return !session->stop_begun || session->table.n_conns > 0;
}

static void *session_main(void *arg)
{
    struct session *session = arg;
    while (session_turn(session, time_left_ms(session)))
        ;
    return NULL;
}

/* ── life ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* make_session makes a session that listens at a path; fd: with a service manager's socket, or -1. */
static int make_session(const char *path, int fd, struct session **out, struct error *err)
{
    struct session *session = xcalloc(1, sizeof *session);
    session->magic = SESSION_MAGIC;
    session->listener.path = xstrdup(path);
    session->listener.lock_fd = session->epoll_fd = session->wake_fd = -1;
    session->listener.fd = fd;
    session->listener.adopted = fd >= 0;
    session->due.accept_ns = SESSION_NEVER; /* sweep_ns and look_ns are 0: due at once */
    TAILQ_INIT(&session->dirty);
    pthread_mutex_init(&session->lock, NULL);
    int rc = session_listen_open(&session->listener, err);
    if (rc) {
        session_destroy(session);
        return rc;
    }
    *out = session;
    return 0;
}

int session_listen(const char *path, struct session **out, struct error *err)
{
    return make_session(path, -1, out, err);
}

int session_adopt(const char *path, int fd, struct session **out, struct error *err)
{
    return make_session(path, fd, out, err);
}

static int open_descriptors(struct session *session, struct error *err)
{
    session->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    session->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (session->epoll_fd >= 0 && session->wake_fd >= 0 &&
        session_watch(session, EPOLL_CTL_ADD, session->listener.fd, EPOLLIN, SESSION_ID_LISTEN) == 0 &&
        session_watch(session, EPOLL_CTL_ADD, session->wake_fd, EPOLLIN, SESSION_ID_WAKE) == 0)
        return 0;
    return error_set(err, LARDER_EIO, "starting the sessions at %s: %s", session->listener.path, strerror(errno));
}

static void make_table(struct conn_table *table, uint32_t places)
{
    table->n_places = table->n_free = places;
    table->at = xcalloc(places, sizeof(struct conn *));
    table->free_places = xcalloc(places, sizeof *table->free_places);
    for (uint32_t i = 0; i < places; i++)
        table->free_places[i] = places - 1 - i;
}

int session_prepare(struct session *session, const struct session_config *config, struct error *err)
{
    CHECK(!session->started && session->listener.fd >= 0);
    CHECK(config->connections_max > 0 && config->connections_max <= SESSION_CONNECTIONS_MAX);
    int rc = open_descriptors(session, err);
    if (rc)
        return rc;
    session->config = *config;
    session->buffer = xmalloc(WIRE_REQUEST_MAX);
    make_table(&session->table, config->connections_max + SESSION_REFUSALS_MAX);
    return 0;
}

int session_start(struct session *session, const struct session_config *config, struct error *err)
{
    CHECK_MAGIC(session, SESSION_MAGIC);
    int rc = session_prepare(session, config, err);
    if (rc)
        return rc;
    int failed = thread_start(&session->thread, "larder-session", session_main, session);
    if (failed)
        return error_set(err, LARDER_ELIMIT, "the sessions' thread could not be started (%s): raise ulimit -u",
                         strerror(failed));
    session->started = true;
    return 0;
}

void session_stop(struct session *session)
{
    CHECK_MAGIC(session, SESSION_MAGIC);
    if (!session->started)
        return;
    pthread_mutex_lock(&session->lock);
    session->stopping = true;
    pthread_mutex_unlock(&session->lock);
    session_wake(session);
    pthread_join(session->thread, NULL);
    session->started = false;
}

static void close_open(int fd)
{
    if (fd >= 0)
        close(fd);
}

void session_destroy(struct session *session)
{
    if (!session)
        return;
    session_stop(session);
    session_listen_close(&session->listener);
    session_lock_release(&session->listener);
    close_open(session->epoll_fd);
    close_open(session->wake_fd);
    pthread_mutex_destroy(&session->lock);
    free(session->table.at);
    free(session->table.free_places);
    free(session->buffer);
    free(session->listener.lock_path);
    free(session->listener.path);
    session->magic = 0;
    free(session);
}

void session_counts(struct session *session, struct session_counts *out)
{
    CHECK_MAGIC(session, SESSION_MAGIC);
    pthread_mutex_lock(&session->lock);
    *out = session->counts;
    pthread_mutex_unlock(&session->lock);
}
