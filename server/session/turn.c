/* turn.c: serves a connection in the session's thread: what it waits for in epoll, what its state requires, and its
 * end. */
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "server/session/session_priv.h"

void session_sweep_at(struct session *session, uint64_t when_ns)
{
    if (when_ns < session->due.sweep_ns)
        session->due.sweep_ns = when_ns;
}

int session_watch(struct session *session, int how, int fd, uint32_t events, uint64_t id)
{
    struct epoll_event event = {.events = events, .data = {.u64 = id}};
    return epoll_ctl(session->epoll_fd, how, fd, &event);
}

void conn_update_interest(struct session *session, struct conn *conn)
{
    pthread_mutex_lock(&session->lock);
    bool full = conn->outbox.bytes > SESSION_OUTBOX_HIGH_BYTES && conn->phase != CONN_CLOSING;
    pthread_mutex_unlock(&session->lock);
    bool spent = conn->window.requests >= SESSION_REQUESTS_MAX;
    if (spent)
        session_sweep_at(session, conn->window.end_ns);
    uint32_t events = EPOLLRDHUP | (full || spent ? 0 : (uint32_t)EPOLLIN) |
                      (conn->socket.blocked ? (uint32_t)EPOLLOUT : 0);
    /* The socket takes more all the while, and what is awaited is that the client reads: each of its reads is an edge.
     * Requests are edges too then. When some are left in the socket, a registration anew tells of them. */
    if (conn->socket.draining)
        events |= EPOLLOUT | EPOLLET;
    bool tell_again = conn->socket.draining && conn->socket.unread && events & EPOLLIN;
    if (events == conn->socket.interest && !tell_again)
        return;
    CHECK(session_watch(session, EPOLL_CTL_MOD, conn->socket.fd, events, conn->id) == 0);
    conn->socket.interest = events;
    if (tell_again)
        conn->socket.unread = false;
}

static void take_place_locked(struct conn_table *table, const struct conn *conn)
{
    uint32_t place = conn->id & 0xffff;
    table->at[place] = NULL;
    table->free_places[table->n_free++] = place;
    table->n_conns--;
}

void conn_close(struct session *session, struct conn *conn)
{
    pthread_mutex_lock(&session->lock);
    take_place_locked(&session->table, conn);
    session->counts.connections -= !conn->refused;
    session->counts.registered -= conn->registered;
    if (conn->dirty) {
        TAILQ_REMOVE(&session->dirty, conn, next_dirty);
        session->n_dirty--;
    }
    session->counts.outbox_bytes -= conn->outbox.bytes;
    pthread_mutex_unlock(&session->lock);
    conn_free_outbox(conn);

    /* The socket is closed before the owner frees what the client held: a client that has read a batch looks for the
     * hang-up to learn whether others could have had the memory meanwhile. */
    close(conn->socket.fd);
    if (conn->told_owner)
        session->config.handlers.on_gone(session->config.handlers.ctx, conn->id, conn->said_bye);
    free(conn);
}

void conn_advance(struct session *session, struct conn *conn)
{
    pthread_mutex_lock(&session->lock);
    bool killed = conn->killed, closing = conn->phase == CONN_CLOSING;
    pthread_mutex_unlock(&session->lock);
    if (killed) {
        log_warn_limited("msg=\"closed a client that does not read what it asked for\" pid=%d client=\"%s\"",
                         conn->peer.pid, conn->peer.client);
        conn_close(session, conn);
        return;
    }
    if (!conn_flush(session, conn)) {
        conn_read(session, conn, true);
        conn_close(session, conn);
        return;
    }
    if (closing) {
        uint64_t wait_ms = session->stop_begun ? SESSION_STOP_MS : SESSION_LINGER_MS;
        uint64_t deadline = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
        if (deadline < conn->deadline_ns)
            conn->deadline_ns = deadline;
        session_sweep_at(session, conn->deadline_ns);
        pthread_mutex_lock(&session->lock);
        bool sent = STAILQ_EMPTY(&conn->outbox.messages);
        pthread_mutex_unlock(&session->lock);
        if (sent && !conn->socket.shut)
            conn->socket.shut = shutdown(conn->socket.fd, SHUT_WR) == 0;
    }
    conn_update_interest(session, conn);
}
