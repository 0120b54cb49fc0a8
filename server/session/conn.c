/* conn.c: reads one connection's requests within bounds, checks them against the protocol and hands them on.
 *
 * All of this runs in the session's thread. A request that breaks a rule costs the connection: the client gets a fatal
 * error that says which rule it broke, and what it sends afterwards is read and dropped until it leaves. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/session/session_priv.h"

#define READS_AT_ONCE 16 /* requests read from one connection before others get their turn */

/* ── answers ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void protocol_error(struct session *session, struct conn *conn, uint32_t seq, const struct error *why)
{
    log_warn_limited("msg=\"a client broke the protocol\" pid=%d client=\"%s\" err=\"%s\"", conn->peer.pid,
                     conn->peer.client, why->text);
    pthread_mutex_lock(&session->lock);
    session->counts.protocol_errors++;
    pthread_mutex_unlock(&session->lock);
    conn_fail(session, conn, seq, why);
}

static enum conn_phase phase_of(struct session *session, const struct conn *conn)
{
    pthread_mutex_lock(&session->lock);
    enum conn_phase phase = conn->killed ? CONN_CLOSING : conn->phase;
    pthread_mutex_unlock(&session->lock);
    return phase;
}

/* move changes the phase, unless a fatal error was posted meanwhile; then it gives false. */
static bool move(struct session *session, struct conn *conn, enum conn_phase from, enum conn_phase to)
{
    pthread_mutex_lock(&session->lock);
    bool moved = conn->phase == from && !conn->killed;
    if (moved)
        conn->phase = to;
    pthread_mutex_unlock(&session->lock);
    return moved;
}

/* ── requests ────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* keep_name keeps a client's name for logs and the status, without quotes and unprintable bytes. */
static void keep_name(struct session_peer *peer, const struct wire_text *name)
{
    uint32_t len = name->len_bytes < WIRE_CLIENT_MAX ? name->len_bytes : WIRE_CLIENT_MAX;
    for (uint32_t i = 0; i < len; i++) {
        char c = name->data[i];
        peer->client[i] = c > ' ' && c < 0x7f && c != '"' && c != '\\' ? c : '?';
    }
    peer->client[len] = '\0';
}

static void take_hello(struct session *session, struct conn *conn, const struct wire_message *msg)
{
    keep_name(&conn->peer, &msg->hello.client);
    struct wire_message welcome = {.type = WIRE_WELCOME,
                                   .seq = msg->seq,
                                   .welcome = {.arena_bytes = session->config.arena_bytes,
                                               .daemon_pid = (uint32_t)getpid(),
                                               .batch_max = WIRE_BATCH_MAX}};
    if (move(session, conn, CONN_NEW, CONN_GREETED))
        conn_post(session, conn, &welcome);
}

static void take_register(struct session *session, struct conn *conn, const struct wire_message *msg)
{
    const struct session_handlers *handlers = &session->config.handlers;
    conn->epochs = msg->reg.epochs;
    if (!move(session, conn, CONN_GREETED, CONN_REGISTERING))
        return;
    conn->told_owner = true;
    conn->deadline_ns = SESSION_NEVER;
    handlers->on_register(handlers->ctx, conn->id, msg->seq, &conn->peer, &msg->reg);
}

static int ask_classes_locked(struct conn_asked *asked, uint32_t seq, struct error *why)
{
    if (asked->classes)
        return error_set(why, LARDER_EINVAL, "CLASSES_GET came before the answer to the one before");
    asked->classes = true;
    asked->classes_seq = seq;
    return 0;
}

/* next_locked checks a NEXT. It gives 0 when the owner is to have it, 1 when it has no effect, or an error. */
static int next_locked(struct conn *conn, const struct wire_next *next, struct error *why)
{
    struct conn_asked *asked = &conn->asked;
    if (asked->begun && next->epoch < asked->epoch)
        return error_set(why, LARDER_EINVAL, "NEXT asks for epoch %u, and %u has begun", next->epoch, asked->epoch);
    if (!asked->begun || next->epoch > asked->epoch) {
        if (asked->begun && !asked->over) /* beginning an epoch is work in proportion to the dataset */
            conn->window.requests += SESSION_ABANDON_COST;
        asked->begun = true;
        asked->over = false;
        asked->epoch = next->epoch;
        asked->credits = 0;
    }
    if (asked->over)
        return 1;
    if (next->credits > WIRE_CREDITS_MAX - asked->credits)
        return error_set(why, LARDER_EINVAL,
                         "NEXT asks for %u batches with %u still to come, and %d may be asked for at once",
                         next->credits, asked->credits, WIRE_CREDITS_MAX);
    asked->credits += next->credits;
    return 0;
}

static int release_locked(struct held_batches *held, uint64_t batch, struct error *why)
{
    for (uint32_t i = 0; i < held->count; i++) {
        if (held->at[i].batch == batch) {
            memmove(&held->at[i], &held->at[i + 1], sizeof *held->at * (--held->count - i));
            return 0;
        }
    }
    return error_set(why, LARDER_EINVAL, "RELEASE of batch %llu, which this client does not hold",
                     (unsigned long long)batch);
}

static void hand_on(struct session *session, const struct conn *conn, const struct wire_message *msg)
{
    const struct session_handlers *handlers = &session->config.handlers;
    if (msg->type == WIRE_NEXT)
        handlers->on_next(handlers->ctx, conn->id, msg->next.epoch, msg->next.credits);
    else if (msg->type == WIRE_RELEASE)
        handlers->on_release(handlers->ctx, conn->id, msg->release.batch);
    else
        handlers->on_classes(handlers->ctx, conn->id, msg->seq, msg->classes_get.first);
}

static void take_of_registered(struct session *session, struct conn *conn, const struct wire_message *msg)
{
    struct error why;
    if (msg->type == WIRE_NEXT && conn->epochs > 0 && msg->next.epoch >= conn->epochs) {
        char text[96];
        snprintf(text, sizeof text, "NEXT asks for epoch %u of a job that was registered for %u", msg->next.epoch,
                 conn->epochs);
        session_send_error(session, conn->id, msg->seq, LARDER_EEND, false, text);
        return;
    }
    pthread_mutex_lock(&session->lock);
    bool closing = conn->phase != CONN_REGISTERED || conn->killed;
    int rc = closing                     ? 1
             : msg->type == WIRE_NEXT    ? next_locked(conn, &msg->next, &why)
             : msg->type == WIRE_RELEASE ? release_locked(&conn->held, msg->release.batch, &why)
                                         : ask_classes_locked(&conn->asked, msg->seq, &why);
    pthread_mutex_unlock(&session->lock);
    if (rc < 0)
        protocol_error(session, conn, msg->seq, &why);
    else if (rc == 0)
        hand_on(session, conn, msg);
}

static const char *expected(enum conn_phase phase)
{
    switch (phase) {
    case CONN_NEW: return "HELLO comes first";
    case CONN_GREETED: return "REGISTER comes after HELLO, and once";
    case CONN_REGISTERING: return "nothing but BYE may come before the answer to REGISTER";
    default: return "after REGISTERED come CLASSES_GET, NEXT, RELEASE and BYE";
    }
}

static void take(struct session *session, struct conn *conn, const struct wire_message *msg)
{
    enum conn_phase phase = phase_of(session, conn);
    if (phase == CONN_CLOSING) {
        return;
    } else if (phase == CONN_NEW && msg->type == WIRE_HELLO) {
        take_hello(session, conn, msg);
    } else if (phase == CONN_GREETED && msg->type == WIRE_REGISTER) {
        take_register(session, conn, msg);
    } else if (phase == CONN_REGISTERED &&
               (msg->type == WIRE_CLASSES_GET || msg->type == WIRE_NEXT || msg->type == WIRE_RELEASE)) {
        take_of_registered(session, conn, msg);
    } else {
        struct error why;
        error_set(&why, LARDER_EINVAL, "a message of type %d: %s", (int)msg->type, expected(phase));
        protocol_error(session, conn, msg->seq, &why);
    }
}

/* ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* receive reads a datagram and gives its length. 0: there is none at the moment. -1: none will come any more; an empty
 * datagram means that too. It leaves no room for descriptors, so the kernel closes those that a client sends along. */
static ssize_t receive(struct session *session, struct conn *conn, struct error *why)
{
    for (int resets = 0;;) {
        struct iovec part = {.iov_base = session->buffer, .iov_len = WIRE_REQUEST_MAX};
        struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
        ssize_t got = recvmsg(conn->socket.fd, &header, MSG_DONTWAIT);
        why->code = 0;
        if (got > 0 && header.msg_flags & MSG_TRUNC)
            error_set(why, LARDER_EFORMAT, "a message of more than the %d bytes allowed", WIRE_REQUEST_MAX);
        else if (got > 0 && header.msg_flags & MSG_CTRUNC)
            error_set(why, LARDER_EFORMAT, "a message with descriptors: clients send none");
        if (got > 0)
            return got;
        if (got < 0 && (errno == EINTR || (errno == ECONNRESET && resets++ == 0)))
            continue; /* the kernel tells a reset once, before it gives what the client had sent before it closed */
        return got < 0 && errno == EAGAIN ? 0 : -1;
    }
}

static void read_one(struct session *session, struct conn *conn, size_t len_bytes, struct error *why)
{
    struct wire_message msg;
    if (phase_of(session, conn) == CONN_CLOSING)
        return;
    if (why->code || wire_decode(session->buffer, len_bytes, &msg, why))
        protocol_error(session, conn, 0, why);
    else
        take(session, conn, &msg);
}

static bool says_bye(const struct session *session, size_t len_bytes)
{
    struct wire_message msg;
    return len_bytes == WIRE_HEADER_BYTES && wire_decode(session->buffer, len_bytes, &msg, NULL) == 0 &&
           msg.type == WIRE_BYE;
}

/* may_read tells whether the connection may have one more request read. When the window is over it begins another. */
static bool may_read(struct conn_window *window)
{
    if (window->requests < SESSION_REQUESTS_MAX)
        return true;
    uint64_t now = clock_now_ns();
    if (now < window->end_ns)
        return false;
    window->requests = 0;
    return true;
}

bool conn_read(struct session *session, struct conn *conn, bool peer_gone)
{
    /* A client that left in order released its batches first, so the requests that are still in the socket count. */
    uint32_t reads = peer_gone ? SESSION_REQUESTS_MAX : READS_AT_ONCE;
    for (uint32_t i = 0; i < reads && (peer_gone || may_read(&conn->window)); i++) {
        struct error why;
        ssize_t got = receive(session, conn, &why);
        if (got == 0)
            return !peer_gone;
        if (got < 0 || (!why.code && says_bye(session, (size_t)got)))
            return false;
        if (conn->window.requests++ == 0)
            conn->window.end_ns = clock_now_ns() + SESSION_WINDOW_MS * CLOCK_NS_PER_MS;
        read_one(session, conn, (size_t)got, &why);
    }
    return !peer_gone;
}
