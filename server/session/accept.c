/* accept.c: accepts connections, or refuses them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "server/session/session_priv.h"

#define ACCEPTS_AT_ONCE 64
#define ACCEPT_PAUSE_MS 100 /* after the process ran out of descriptors */

/* turn_away refuses a client when even the places for refusals are taken. The client gets what fits its socket's buffer
 * at once, and no more. */
static void turn_away(const struct session *session, int fd)
{
    uint8_t buf[256];
    char text[128];
    size_t len;
    snprintf(text, sizeof text, "the daemon has its %u clients: close one first", session->config.connections_max);
    struct wire_message msg = {.type = WIRE_ERROR,
                               .version = WIRE_VERSION_OLDEST,
                               .error = {.code = LARDER_ELIMIT, .fatal = 1, .text = {text, (uint32_t)strlen(text)}}};
    if (wire_encode(&msg, buf, sizeof buf, &len) == 0)
        (void)!send(fd, buf, len, MSG_DONTWAIT | MSG_NOSIGNAL); /* a client that left is told nothing */
    close(fd);
}

/* give_place_locked returns the connection a place and its id. False: no place is free. */
static bool give_place_locked(struct conn_table *table, struct conn *conn)
{
    if (table->n_free == 0)
        return false;
    uint32_t place = table->free_places[--table->n_free];
    conn->id = ++table->counter << 16 | place;
    table->at[place] = conn;
    table->n_conns++;
    return true;
}

/* add_conn makes a connection of fd, which it takes over in any case. */
static struct conn *add_conn(struct session *session, int fd)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn) {
        log_warn_limited("msg=\"a client was turned away: no memory for its connection\"");
        close(fd);
        return NULL;
    }
    conn->socket.fd = fd;
    conn->phase = CONN_NEW;
    conn->version = WIRE_VERSION_OLDEST;
    /* A client that never registers must not keep a place for ever. */
    conn->deadline_ns = clock_now_ns() + SESSION_GREETING_MS * CLOCK_NS_PER_MS;
    conn->socket.interest = EPOLLIN | EPOLLRDHUP;
    STAILQ_INIT(&conn->outbox.messages);
    pthread_mutex_lock(&session->lock);
    bool room = give_place_locked(&session->table, conn);
    if (room) {
        conn->refused = session->counts.connections >= session->config.connections_max;
        session->counts.connections += !conn->refused;
    }
    pthread_mutex_unlock(&session->lock);
    session_sweep_at(session, conn->deadline_ns);
    if (room && session_watch(session, EPOLL_CTL_ADD, fd, conn->socket.interest, conn->id) == 0)
        return conn;
    if (room) {
        conn_close(session, conn); /* closes fd too */
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
    conn_advance(session, conn);
}

void session_admit(struct session *session, int fd)
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
    bool welcome = session->listener.adopted || cred.uid == geteuid() || cred.uid == 0;
    if (!known || !welcome) {
        error_set(&why, LARDER_EPERM,
                  "the daemon at %s serves user %u only, and this is user %u: start a daemon of your own",
                  session->listener.path, geteuid(), cred.uid);
        refuse(session, conn, &why);
    } else if (conn->refused) {
        error_set(&why, LARDER_ELIMIT, "the daemon at %s has its %u clients: close one first", session->listener.path,
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
    session_watch(session, EPOLL_CTL_MOD, session->listener.fd, 0, SESSION_ID_LISTEN);
    session->due.accept_ns = clock_now_ns() + ACCEPT_PAUSE_MS * CLOCK_NS_PER_MS;
    session_sweep_at(session, session->due.accept_ns);
}

void session_accept(struct session *session)
{
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        int fd = accept4(session->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            pthread_mutex_lock(&session->lock);
            session->counts.accepted++;
            pthread_mutex_unlock(&session->lock);
            session_admit(session, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_accepting(session);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}
