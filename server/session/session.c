/* session.c: the session's life, its thread's loop, who is let in, and what happens by the clock. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/session/session_priv.h"
#include "server/workers/thread.h"

#define EVENTS_AT_ONCE 64
#define ACCEPTS_AT_ONCE 64
#define ACCEPT_PAUSE_MS 100 /* after the process ran out of descriptors */
#define ID_LISTEN 0         /* connections' ids begin above what the table's places take */
#define ID_WAKE 1
#define PLACES_MAX 65536u

_Static_assert(SESSION_CONNECTIONS_MAX + SESSION_REFUSALS_MAX <= PLACES_MAX, "a place fits 16 bits");

/* ── what epoll is asked ─────────────────────────────────────────────────────────────────────────────────────────── */

static void sweep_at(struct session *session, uint64_t when_ns)
{
    if (when_ns < session->sweep_ns)
        session->sweep_ns = when_ns;
}

static int watch(struct session *session, int how, int fd, uint32_t events, uint64_t id)
{
    struct epoll_event event = {.events = events, .data = {.u64 = id}};
    return epoll_ctl(session->epoll_fd, how, fd, &event);
}

static void update_interest(struct session *session, struct conn *conn)
{
    pthread_mutex_lock(&session->lock);
    bool full = conn->outbox_bytes > SESSION_OUTBOX_HIGH_BYTES && conn->phase != CONN_CLOSING;
    pthread_mutex_unlock(&session->lock);
    bool spent = conn->window_requests >= SESSION_REQUESTS_MAX;
    if (spent)
        sweep_at(session, conn->window_end_ns);
    uint32_t events = EPOLLRDHUP | (full || spent ? 0 : (uint32_t)EPOLLIN) | (conn->blocked ? (uint32_t)EPOLLOUT : 0);
    if (events == conn->interest)
        return;
    CHECK(watch(session, EPOLL_CTL_MOD, conn->fd, events, conn->id) == 0);
    conn->interest = events;
}

/* ── the end of a connection ─────────────────────────────────────────────────────────────────────────────────────── */

static void close_conn(struct session *session, struct conn *conn)
{
    pthread_mutex_lock(&session->lock);
    uint32_t place = conn->id & 0xffff;
    session->conns[place] = NULL;
    session->free_places[session->n_free++] = place;
    session->n_conns--;
    session->counts.connections -= !conn->refused;
    session->counts.registered -= conn->registered;
    if (conn->dirty) {
        TAILQ_REMOVE(&session->dirty, conn, next_dirty);
        session->n_dirty--;
    }
    conn_free_outbox_locked(session, conn);
    pthread_mutex_unlock(&session->lock);

    close(conn->fd); /* first: a client looks for the hang-up after it has read, and before others can have the place */
    if (conn->told_owner)
        session->config.handlers.on_gone(session->config.handlers.ctx, conn->id);
    free(conn);
}

/* advance does what a connection's state asks for: send, or end. The connection may be gone afterwards. */
static void advance(struct session *session, struct conn *conn)
{
    pthread_mutex_lock(&session->lock);
    bool killed = conn->killed, closing = conn->phase == CONN_CLOSING;
    pthread_mutex_unlock(&session->lock);
    if (killed) {
        log_warn_limited("msg=\"closed a client that does not read what it asked for\" pid=%d client=\"%s\"",
                         conn->peer.pid, conn->peer.client);
        close_conn(session, conn);
        return;
    }
    if (!conn_flush(session, conn)) {
        conn_read(session, conn, true);
        close_conn(session, conn);
        return;
    }
    if (closing) {
        uint64_t wait_ms = session->stop_begun ? SESSION_STOP_MS : SESSION_LINGER_MS;
        uint64_t deadline = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
        if (deadline < conn->deadline_ns)
            conn->deadline_ns = deadline;
        sweep_at(session, conn->deadline_ns);
        pthread_mutex_lock(&session->lock);
        bool sent = STAILQ_EMPTY(&conn->outbox);
        pthread_mutex_unlock(&session->lock);
        if (sent && !conn->shut)
            conn->shut = shutdown(conn->fd, SHUT_WR) == 0;
    }
    update_interest(session, conn);
}

/* ── the beginning of one ────────────────────────────────────────────────────────────────────────────────────────── */

/* When even the places for refusals are taken, a client is told what fits its socket's buffer at once, and no more. */
static void turn_away(const struct session *session, int fd)
{
    uint8_t buf[256];
    char text[128];
    size_t len;
    snprintf(text, sizeof text, "the daemon has its %u clients: close one first", session->config.connections_max);
    struct wire_message msg = {.type = WIRE_ERROR,
                               .error = {.code = LARDER_ELIMIT, .fatal = 1, .text = {text, (uint32_t)strlen(text)}}};
    if (wire_encode(&msg, buf, sizeof buf, &len) == 0)
        (void)!send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL); /* a client that left is told nothing */
    close(fd);
}

/* Takes fd over, whatever comes of it. */
static struct conn *add_conn(struct session *session, int fd)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn) {
        close(fd);
        return NULL;
    }
    conn->fd = fd;
    conn->phase = CONN_NEW;
    conn->deadline_ns = clock_now_ns() + SESSION_GREETING_MS * CLOCK_NS_PER_MS; /* or it would take a place for nothing */
    conn->interest = EPOLLIN | EPOLLRDHUP;
    STAILQ_INIT(&conn->outbox);
    pthread_mutex_lock(&session->lock);
    bool room = session->n_free > 0;
    if (room) {
        uint32_t place = session->free_places[--session->n_free];
        conn->id = ++session->counter << 16 | place;
        conn->refused = session->counts.connections >= session->config.connections_max;
        session->conns[place] = conn;
        session->n_conns++;
        session->counts.connections += !conn->refused;
    }
    pthread_mutex_unlock(&session->lock);
    sweep_at(session, conn->deadline_ns);
    if (room && watch(session, EPOLL_CTL_ADD, fd, conn->interest, conn->id) == 0)
        return conn;
    if (room) {
        close_conn(session, conn); /* closes fd too */
    } else {
        free(conn);
        turn_away(session, fd);
    }
    return NULL;
}

static void refuse(struct session *session, struct conn *conn, const struct error *why)
{
    log_warn_limited("msg=\"a client was refused\" pid=%d uid=%u err=\"%s\"", conn->peer.pid, conn->peer.uid,
                     why->text);
    pthread_mutex_lock(&session->lock);
    session->counts.refused++;
    session->counts.connections -= !conn->refused;
    conn->refused = true;
    pthread_mutex_unlock(&session->lock);
    conn_fail(session, conn, 0, why);
    advance(session, conn);
}

static void admit(struct session *session, int fd)
{
    int buffer = WIRE_REPLY_MAX + 4096;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    struct ucred cred = {.uid = UINT32_MAX};
    socklen_t len = sizeof cred;
    bool known = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0;
    struct conn *conn = add_conn(session, fd);
    if (!conn) {
        pthread_mutex_lock(&session->lock);
        session->counts.refused++;
        pthread_mutex_unlock(&session->lock);
        return;
    }
    conn->peer.pid = cred.pid;
    conn->peer.uid = cred.uid;
    struct error why;
    if (!known || (cred.uid != geteuid() && cred.uid != 0)) {
        error_set(&why, LARDER_EPERM,
                  "the daemon at %s serves user %u only, and this is user %u: start a daemon of your own",
                  session->path, geteuid(), cred.uid);
        refuse(session, conn, &why);
    } else if (conn->refused) {
        error_set(&why, LARDER_ELIMIT, "the daemon at %s has its %u clients: close one first", session->path,
                  session->config.connections_max);
        refuse(session, conn, &why);
    } else {
        log_debug_limited("msg=\"client connected\" pid=%d uid=%u", cred.pid, cred.uid);
    }
}

static void pause_accepting(struct session *session)
{
    log_warn_limited("msg=\"no client can be accepted now: raise the limit on open files (ulimit -n)\" err=\"%s\"",
                     strerror(errno));
    watch(session, EPOLL_CTL_MOD, session->listen_fd, 0, ID_LISTEN);
    session->accept_resume_ns = clock_now_ns() + ACCEPT_PAUSE_MS * CLOCK_NS_PER_MS;
    sweep_at(session, session->accept_resume_ns);
}

static void accept_some(struct session *session)
{
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        int fd = accept4(session->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            pthread_mutex_lock(&session->lock);
            session->counts.accepted++;
            pthread_mutex_unlock(&session->lock);
            admit(session, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_accepting(session);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

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
        advance(session, conn);
        pthread_mutex_lock(&session->lock);
    }
    /* Those that came meanwhile wrote the eventfd, since wake_pending was false. */
    pthread_mutex_unlock(&session->lock);
}

static void begin_stop(struct session *session)
{
    session->stop_begun = true;
    session->accept_resume_ns = session->look_ns = SESSION_NEVER;
    session_listen_close(session);
    struct error why;
    error_set(&why, LARDER_EGONE, "the daemon at %s is stopping", session->path);
    for (uint32_t place = 0; place < session->n_places; place++) {
        struct conn *conn = session->conns[place]; /* only this thread changes the table */
        if (conn) {
            conn_fail(session, conn, 0, &why);
            advance(session, conn);
        }
    }
}

/* Nobody can come any more when the socket's file is gone or another is in its place; those who are here stay. The
 * place is given up, so that another daemon can have it meanwhile. */
static void look_after_socket(struct session *session, uint64_t now)
{
    session->look_ns = now + SESSION_LOOK_MS * CLOCK_NS_PER_MS;
    if (!session_listen_lost(session))
        return;
    session->look_ns = session->accept_resume_ns = SESSION_NEVER;
    session_listen_close(session);
    session_lock_release(session);
    log_error("msg=\"the socket was removed, moved or replaced by somebody: no client can come any more, the daemon "
              "serves those it has and stops after the last; start another, and keep its folder from being cleaned "
              "up\" socket=\"%s\"", session->path);
    if (session->config.handlers.on_lost)
        session->config.handlers.on_lost(session->config.handlers.ctx);
}

static void sweep(struct session *session)
{
    uint64_t now = clock_now_ns();
    if (now < session->sweep_ns)
        return;
    session->sweep_ns = SESSION_NEVER;
    if (now >= session->look_ns)
        look_after_socket(session, now);
    sweep_at(session, session->look_ns);
    if (now >= session->accept_resume_ns) {
        session->accept_resume_ns = SESSION_NEVER;
        watch(session, EPOLL_CTL_MOD, session->listen_fd, EPOLLIN, ID_LISTEN);
    }
    sweep_at(session, session->accept_resume_ns);
    for (uint32_t place = 0; place < session->n_places; place++) {
        struct conn *conn = session->conns[place];
        if (!conn)
            continue;
        if (now >= conn->deadline_ns) {
            close_conn(session, conn);
            continue;
        }
        sweep_at(session, conn->deadline_ns);
        if (now >= conn->window_end_ns)
            conn->window_requests = 0;
        update_interest(session, conn);
    }
}

static void on_event(struct session *session, uint64_t id, uint32_t events)
{
    if (id == ID_LISTEN) {
        if (session->listen_fd >= 0)
            accept_some(session);
        return;
    }
    if (id == ID_WAKE) {
        uint64_t count;
        ssize_t got = read(session->wake_fd, &count, sizeof count);
        (void)got; /* nothing there: another turn took it */
        return;
    }
    pthread_mutex_lock(&session->lock);
    struct conn *conn = conn_find_locked(session, id);
    pthread_mutex_unlock(&session->lock);
    if (!conn) /* closed earlier in this turn */
        return;
    bool peer_gone = events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR);
    if ((events & EPOLLIN || peer_gone) && !conn_read(session, conn, peer_gone))
        close_conn(session, conn);
    else
        advance(session, conn);
}

static int wait_ms(const struct session *session)
{
    if (session->sweep_ns == SESSION_NEVER)
        return -1;
    uint64_t now = clock_now_ns();
    return now >= session->sweep_ns ? 0 : (int)((session->sweep_ns - now) / CLOCK_NS_PER_MS) + 1;
}

static void *session_main(void *arg)
{
    struct session *session = arg;
    struct epoll_event events[EVENTS_AT_ONCE];
    for (;;) {
        int n = epoll_wait(session->epoll_fd, events, EVENTS_AT_ONCE, wait_ms(session));
        for (int i = 0; i < n; i++)
            on_event(session, events[i].data.u64, events[i].events);
        serve_dirty(session);
        sweep(session);
        pthread_mutex_lock(&session->lock);
        bool stopping = session->stopping;
        pthread_mutex_unlock(&session->lock);
        if (stopping && !session->stop_begun)
            begin_stop(session);
        if (session->stop_begun && session->n_conns == 0)
            return NULL;
    }
}

/* ── life ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

int session_listen(const char *path, struct session **out, struct error *err)
{
    struct session *session = xcalloc(1, sizeof *session);
    session->magic = SESSION_MAGIC;
    session->path = xstrdup(path);
    session->lock_fd = session->listen_fd = session->epoll_fd = session->wake_fd = -1;
    session->accept_resume_ns = SESSION_NEVER; /* sweep_ns and look_ns are 0: due at once */
    TAILQ_INIT(&session->dirty);
    pthread_mutex_init(&session->lock, NULL);
    int rc = session_listen_open(session, err);
    if (rc) {
        session_destroy(session);
        return rc;
    }
    *out = session;
    return 0;
}

static int open_descriptors(struct session *session, struct error *err)
{
    session->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    session->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (session->epoll_fd >= 0 && session->wake_fd >= 0 &&
        watch(session, EPOLL_CTL_ADD, session->listen_fd, EPOLLIN, ID_LISTEN) == 0 &&
        watch(session, EPOLL_CTL_ADD, session->wake_fd, EPOLLIN, ID_WAKE) == 0)
        return 0;
    return error_set(err, LARDER_EIO, "starting the sessions at %s: %s", session->path, strerror(errno));
}

int session_start(struct session *session, const struct session_config *config, struct error *err)
{
    CHECK_MAGIC(session, SESSION_MAGIC);
    CHECK(!session->started && session->listen_fd >= 0);
    CHECK(config->connections_max > 0 && config->connections_max <= SESSION_CONNECTIONS_MAX);
    int rc = open_descriptors(session, err);
    if (rc)
        return rc;
    session->config = *config;
    session->buffer = xmalloc(WIRE_REQUEST_MAX);
    session->n_places = session->n_free = config->connections_max + SESSION_REFUSALS_MAX;
    session->conns = xcalloc(session->n_places, sizeof(struct conn *));
    session->free_places = xcalloc(session->n_places, sizeof *session->free_places);
    for (uint32_t i = 0; i < session->n_places; i++)
        session->free_places[i] = session->n_places - 1 - i;
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
    session_listen_close(session);
    session_lock_release(session);
    close_open(session->epoll_fd);
    close_open(session->wake_fd);
    pthread_mutex_destroy(&session->lock);
    free(session->conns);
    free(session->free_places);
    free(session->buffer);
    free(session->lock_path);
    free(session->path);
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
