/* conn.c: reads one connection's requests within bounds, checks them against the protocol and hands them on.
 *
 * All of this runs in the session's thread. A request that breaks a rule costs the connection: the client gets a fatal
 * error that says which rule it broke, and what it sends afterwards is read and dropped until it leaves. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log.h"
#include "server/session/session_priv.h"

#define READS_AT_ONCE 16 /* most requests read from one connection before the others are served */

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

/* move changes the phase, unless a fatal error was posted meanwhile; then it returns false. */
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
    pthread_mutex_lock(&session->lock);
    conn->version = msg->version;
    pthread_mutex_unlock(&session->lock);
    if (move(session, conn, CONN_NEW, CONN_GREETED))
        conn_post(session, conn, &welcome);
}

/* take_register hands a descriptor that came with the message on to the owner; *file_fd is -1 then. */
static void take_register(struct session *session, struct conn *conn, const struct wire_message *msg, int *file_fd)
{
    const struct session_handlers *handlers = &session->config.handlers;
    conn->epochs = msg->reg.epochs ? msg->reg.epochs : WIRE_EPOCHS_MAX;
    if (!move(session, conn, CONN_GREETED, CONN_REGISTERING))
        return;
    conn->told_owner = true;
    conn->deadline_ns = SESSION_NEVER;
    int fd = *file_fd;
    *file_fd = -1;
    handlers->on_register(handlers->ctx, conn->id, msg->seq, &conn->peer, &msg->reg, fd);
}

/* ask_locked notes a question. Those that are open have different numbers, so that one answer does not close two. */
static int ask_locked(struct conn_asked *asked, const struct wire_message *msg, struct error *why)
{
    static const char *const names[] = {"CLASSES_GET", "STATE_GET", "COLUMN_GET"};
    enum conn_question_kind kind = conn_question_of(msg->type);
    if (asked->questions[kind].open)
        return error_set(why, LARDER_EINVAL, "%s came before the answer to the one before", names[kind]);
    for (int other = 0; other < CONN_QUESTIONS; other++) {
        if (asked->questions[other].open && asked->questions[other].seq == msg->seq)
            return error_set(why, LARDER_EINVAL, "%s has the number of a question that is open, %u", names[kind],
                             msg->seq);
    }
    if (msg->seq == 0) /* errors that answer nothing have this number */
        return error_set(why, LARDER_EINVAL, "%s has no number", names[kind]);
    asked->questions[kind] = (struct conn_question){.open = true, .seq = msg->seq};
    return 0;
}

/* next_locked checks a NEXT. It returns 0 when the owner is to have it, 1 when it has no effect, or an error. */
static int next_locked(struct conn *conn, const struct wire_next *next, struct error *why)
{
    struct conn_asked *asked = &conn->asked;
    if (asked->begun && next->epoch < asked->epoch)
        return error_set(why, LARDER_EINVAL, "NEXT asks for epoch %u, and %u has begun", next->epoch, asked->epoch);
    if (!asked->begun || next->epoch > asked->epoch) {
        if (next->credits == 0)
            return error_set(why, LARDER_EINVAL, "NEXT waits for epoch %u and has asked for no batch of it",
                             next->epoch);
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
        handlers->on_next(handlers->ctx, conn->id, &msg->next);
    else if (msg->type == WIRE_RELEASE)
        handlers->on_release(handlers->ctx, conn->id, msg->release.batch);
    else if (msg->type == WIRE_CLASSES_GET)
        handlers->on_classes(handlers->ctx, conn->id, msg->seq, msg->classes_get.first);
    else if (msg->type == WIRE_STATE_GET && handlers->on_state_get)
        handlers->on_state_get(handlers->ctx, conn->id, msg->seq, &msg->state_get);
    else if (msg->type == WIRE_COLUMN_GET && handlers->on_column_get)
        handlers->on_column_get(handlers->ctx, conn->id, msg->seq, &msg->column_get.name);
    else
        session_send_error(session, conn->id, msg->seq, LARDER_EINVAL, false, "this daemon gives none");
}

static void take_of_registered(struct session *session, struct conn *conn, const struct wire_message *msg)
{
    struct error why;
    if (msg->type == WIRE_NEXT && msg->next.epoch >= conn->epochs) {
        error_set(&why, LARDER_EEND, "NEXT asks for epoch %u of a job that has %u", msg->next.epoch, conn->epochs);
        conn_tell(session, conn, msg->seq, &why);
        return;
    }
    pthread_mutex_lock(&session->lock);
    bool closing = conn->phase != CONN_REGISTERED || conn->killed;
    int rc = closing                     ? 1
             : msg->type == WIRE_NEXT    ? next_locked(conn, &msg->next, &why)
             : msg->type == WIRE_RELEASE ? release_locked(&conn->held, msg->release.batch, &why)
                                         : ask_locked(&conn->asked, msg, &why);
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
    default: return "after REGISTERED come CLASSES_GET, NEXT, RELEASE, STATE_GET, COLUMN_GET and BYE";
    }
}

static bool is_of_registered(enum wire_type type)
{
    return type == WIRE_CLASSES_GET || type == WIRE_NEXT || type == WIRE_RELEASE || type == WIRE_STATE_GET ||
           type == WIRE_COLUMN_GET;
}

/* check_message looks at what every message must keep to: one version, and a descriptor only where one belongs. */
static int check_message(const struct conn *conn, enum conn_phase phase, const struct wire_message *msg, int fd,
                         struct error *why)
{
    bool with_file = msg->type == WIRE_REGISTER && msg->reg.flags & WIRE_WITH_FILE;
    if (phase != CONN_NEW && msg->version != conn->version)
        return error_set(why, LARDER_EINVAL, "a message of version %u after a HELLO of version %u", msg->version,
                         conn->version);
    if (fd >= 0 && !with_file)
        return error_set(why, LARDER_EINVAL,
                         "a message of type %d with a descriptor: only a REGISTER that says so has one",
                         (int)msg->type);
    if (fd < 0 && with_file)
        return error_set(why, LARDER_EINVAL, "REGISTER says that a descriptor comes with it, and none came");
    return 0;
}

static void take(struct session *session, struct conn *conn, const struct wire_message *msg, int *fd)
{
    enum conn_phase phase = phase_of(session, conn);
    struct error why;
    if (phase == CONN_CLOSING) {
        return;
    } else if (check_message(conn, phase, msg, *fd, &why)) {
        protocol_error(session, conn, msg->seq, &why);
    } else if (phase == CONN_NEW && msg->type == WIRE_HELLO) {
        take_hello(session, conn, msg);
    } else if (phase == CONN_GREETED && msg->type == WIRE_REGISTER) {
        take_register(session, conn, msg, fd);
    } else if (phase == CONN_REGISTERED && is_of_registered(msg->type)) {
        take_of_registered(session, conn, msg);
    } else {
        error_set(&why, LARDER_EINVAL, "a message of type %d: %s", (int)msg->type, expected(phase));
        protocol_error(session, conn, msg->seq, &why);
    }
}

/* ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* read_one takes what conn_receive gave. It takes fd over. */
static void read_one(struct session *session, struct conn *conn, size_t len_bytes, int fd, struct error *why)
{
    struct wire_message msg;
    if (phase_of(session, conn) == CONN_CLOSING) {
        /* dropped */
    } else if (why->code == LARDER_ELIMIT) {
        log_warn_limited("msg=\"a client's descriptor could not be taken\" pid=%d client=\"%s\" err=\"%s\"",
                         conn->peer.pid, conn->peer.client, why->text);
        conn_fail(session, conn, 0, why);
    } else if (why->code || wire_decode(session->buffer, len_bytes, &msg, why)) {
        protocol_error(session, conn, 0, why);
    } else {
        take(session, conn, &msg, &fd);
    }
    if (fd >= 0)
        close(fd);
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
    conn->socket.unread = true;
    for (uint32_t i = 0; i < reads && (peer_gone || may_read(&conn->window)); i++) {
        struct error why;
        int fd;
        ssize_t got = conn_receive(session, conn, &fd, &why);
        conn->socket.unread = got != 0;
        if (got == 0)
            return !peer_gone;
        conn->said_bye = got > 0 && !why.code && fd < 0 && says_bye(session, (size_t)got);
        if (got < 0 || conn->said_bye)
            return false;
        if (conn->window.requests++ == 0)
            conn->window.end_ns = clock_now_ns() + SESSION_WINDOW_MS * CLOCK_NS_PER_MS;
        read_one(session, conn, (size_t)got, fd, &why);
    }
    return !peer_gone;
}
