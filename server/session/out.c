/* out.c: what is still to be sent to a connection.
 *
 * Any thread may encode a message into memory of its own and append it. Only the session's thread takes messages off,
 * so the first one stays where it is while that thread sends it without the lock. Appending a message also changes the
 * protocol's state (credits, held batches, phase), so that the state is right before the client can possibly answer. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/sockios.h>

#include "common/check.h"
#include "common/log.h"
#include "server/session/session_priv.h"

#define FIXED_BYTES_MAX (WIRE_HEADER_BYTES + 192) /* the most that a message has besides texts and entries */
/* most messages sent to one connection before the others are served */
#define SENDS_AT_ONCE 64
/* A message takes more of the socket's memory than this. Less is left for a moment of one that is being read. */
#define DRAINED_BYTES_MAX 64

/* ── encoding ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static size_t variable_bytes(const struct wire_message *msg)
{
    switch (msg->type) {
    case WIRE_REGISTERED: return msg->registered.name.len_bytes + (size_t)msg->registered.layout.n * WIRE_FIELD_BYTES;
    case WIRE_CLASSES: return msg->classes.names.len_bytes;
    case WIRE_BATCH: return (size_t)msg->batch.count * WIRE_ENTRY_BYTES;
    case WIRE_TURNS: return (size_t)msg->turns.count * WIRE_TURN_BYTES;
    case WIRE_ERROR: return msg->error.text.len_bytes;
    default: return 0;
    }
}

/* answers_with_fd tells whether a message answers a question with a descriptor, so that it waits until all before it is
 * read, and the question is open until it is sent. */
static bool answers_with_fd(enum wire_type type)
{
    return type == WIRE_STATE || type == WIRE_COLUMN;
}

/* encode makes a message of a version, which goes out with fd. */
static int encode(const struct wire_message *msg, uint16_t version, int fd, struct out_message **out)
{
    size_t cap = FIXED_BYTES_MAX + variable_bytes(msg);
    if (cap > FIXED_BYTES_MAX + WIRE_REPLY_MAX)
        return LARDER_ELIMIT;
    struct out_message *message = malloc(sizeof *message + cap);
    if (!message)
        return LARDER_ENOMEM;
    struct wire_message copy = *msg;
    copy.version = version;
    int rc = wire_encode(&copy, message->data, cap, &message->len_bytes);
    if (rc) {
        free(message);
        return rc;
    }
    message->fd = fd;
    message->type = msg->type;
    message->owns_fd = answers_with_fd(msg->type) || msg->type == WIRE_DONE;
    *out = message;
    return 0;
}

static void close_own(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void free_message(struct out_message *message)
{
    if (message->owns_fd)
        close_own(message->fd);
    free(message);
}

static struct wire_message error_message(uint32_t seq, int code, bool fatal, const char *text)
{
    size_t len = strlen(text);
    if (len > ERROR_TEXT_MAX)
        len = ERROR_TEXT_MAX;
    if (code > LARDER_EINVAL || code < LARDER_ECHANGED)
        code = LARDER_EIO;
    return (struct wire_message){
        .type = WIRE_ERROR, .seq = seq, .error = {.code = code, .fatal = fatal, .text = {text, (uint32_t)len}}};
}

/* ── state ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

struct conn *conn_find_locked(const struct conn_table *table, uint64_t id)
{
    uint64_t place = id & 0xffff;
    if (place >= table->n_places)
        return NULL;
    struct conn *conn = table->at[place];
    return conn && conn->id == id ? conn : NULL;
}

static void mark_dirty_locked(struct session *session, struct conn *conn)
{
    if (conn->dirty)
        return;
    conn->dirty = true;
    TAILQ_INSERT_TAIL(&session->dirty, conn, next_dirty);
    session->n_dirty++;
}

/* hold_locked notes that the client is about to hold a batch. False when it holds too many. */
static bool hold_locked(struct held_batches *held, uint64_t batch, uint32_t count)
{
    for (uint32_t i = 0; i < held->count && held->count == SESSION_HELD_MAX; i++) {
        if (held->at[i].count == 0) /* clients need not release empty batches */
            memmove(&held->at[i], &held->at[i + 1], sizeof *held->at * (--held->count - i));
    }
    if (held->count == SESSION_HELD_MAX)
        return false;
    held->at[held->count++] = (struct held_batch){batch, count};
    return true;
}

/* batch_locked notes that a batch goes to the client. A batch of an epoch that the client has left meanwhile is still
 * delivered, and the client must release it, but it uses no credit. */
static bool batch_locked(struct conn *conn, const struct wire_batch *batch)
{
    struct conn_asked *asked = &conn->asked;
    if (asked->begun && batch->epoch == asked->epoch) {
        asked->credits -= asked->credits > 0;
        if (batch->flags & WIRE_BATCH_LAST) {
            asked->over = true;
            asked->credits = 0;
        }
    }
    return hold_locked(&conn->held, batch->batch, batch->count);
}

static void note_locked(struct session *session, struct conn *conn, const struct wire_message *msg)
{
    if (msg->type == WIRE_REGISTERED) {
        conn->phase = CONN_REGISTERED;
        conn->registered = true;
        session->counts.registered++;
    }
    if (msg->type == WIRE_ERROR && msg->error.fatal)
        conn->phase = CONN_CLOSING;
}

/* A rank holds as many batches as it may ask for and one more, each with its TURNS. Other answers come only for
 * requests that are read, and none is read behind SESSION_OUTBOX_HIGH_BYTES. */
_Static_assert((WIRE_CREDITS_MAX + UINT64_C(1)) * (WIRE_REPLY_MAX + 64 + WIRE_BATCH_MAX * WIRE_TURN_BYTES) +
                       SESSION_OUTBOX_HIGH_BYTES + WIRE_REPLY_MAX <=
                   SESSION_OUTBOX_MAX_BYTES,
               "a client that keeps the protocol is not closed for what it has not read");

static int kill_locked(struct session *session, struct conn *conn)
{
    conn->killed = true;
    session->counts.overflows++;
    mark_dirty_locked(session, conn);
    return LARDER_ELIMIT;
}

/* post_locked appends a message to the connection's outbox. It takes the message over when it returns 0. */
static int post_locked(struct session *session, struct conn *conn, const struct wire_message *msg,
                       struct out_message *message)
{
    if (!conn || conn->phase == CONN_CLOSING || conn->killed)
        return LARDER_EGONE;
    if (msg->type == WIRE_REGISTERED)
        CHECK(conn->phase == CONN_REGISTERING);
    if (msg->type == WIRE_BATCH || msg->type == WIRE_TURNS || msg->type == WIRE_CLASSES || msg->type == WIRE_STATE ||
        msg->type == WIRE_DONE || msg->type == WIRE_COLUMN)
        CHECK(conn->phase == CONN_REGISTERED);
    if (conn->outbox.bytes + message->len_bytes > SESSION_OUTBOX_MAX_BYTES ||
        (msg->type == WIRE_BATCH && !batch_locked(conn, &msg->batch)))
        return kill_locked(session, conn);
    note_locked(session, conn, msg);
    STAILQ_INSERT_TAIL(&conn->outbox.messages, message, next);
    conn->outbox.bytes += message->len_bytes;
    session->counts.outbox_bytes += message->len_bytes;
    mark_dirty_locked(session, conn);
    return 0;
}

/* ── any thread ──────────────────────────────────────────────────────────────────────────────────────────────────── */

void session_wake(struct session *session)
{
    uint64_t one = 1;
    while (write(session->wake_fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

static int post(struct session *session, uint64_t client, const struct wire_message *msg, struct out_message *message)
{
    pthread_mutex_lock(&session->lock);
    int rc = post_locked(session, conn_find_locked(&session->table, client), msg, message);
    bool wake = rc != LARDER_EGONE && !session->wake_pending;
    session->wake_pending |= wake;
    pthread_mutex_unlock(&session->lock);
    if (rc)
        free_message(message);
    if (wake)
        session_wake(session);
    return rc;
}

/* begin_answer returns the version that the client speaks; 0: it is gone. It notes which question the owner answers.
 * One that is answered with a descriptor stays open until that is sent. */
static uint16_t begin_answer(struct session *session, uint64_t client, const struct wire_message *msg)
{
    pthread_mutex_lock(&session->lock);
    struct conn *conn = conn_find_locked(&session->table, client);
    enum conn_question_kind kind = conn_question_of(msg->type);
    for (int i = 0; conn && i < CONN_QUESTIONS; i++) {
        struct conn_question *question = &conn->asked.questions[i];
        bool answered = question->open && question->seq == msg->seq && (msg->type == WIRE_ERROR || i == (int)kind);
        CHECK(answered || i != (int)kind || !answers_with_fd(msg->type));
        if (answered && !answers_with_fd(msg->type))
            question->open = false;
    }
    uint16_t version = conn ? conn->version : 0;
    pthread_mutex_unlock(&session->lock);
    return version;
}

int session_send_error(struct session *session, uint64_t client, uint32_t seq, int code, bool fatal, const char *text)
{
    CHECK_MAGIC(session, SESSION_MAGIC);
    struct wire_message msg = error_message(seq, code, fatal, text);
    struct out_message *message;
    uint16_t version = begin_answer(session, client, &msg);
    int rc = version ? encode(&msg, version, -1, &message) : LARDER_EGONE;
    return rc ? rc : post(session, client, &msg, message);
}

/* Whether a field is a mask, a sound or an array. */
static bool has_others(const struct sample_layout *layout)
{
    bool has = false;
    for (uint32_t i = 0; i < layout->n; i++)
        has = has || !field_is_image(&layout->fields[i]);
    return has;
}

/* refusal returns the error that takes the place of an answer which could not be encoded, and its text. */
static int refusal(const struct wire_message *msg, uint16_t version, int rc, const char **text)
{
    *text = rc == LARDER_ENOMEM ? "the daemon has no memory for its answer"
                                : "the daemon could not put its answer into a message";
    if (msg->type != WIRE_REGISTERED)
        return rc;
    if (version < 11 && has_others(&msg->registered.layout)) {
        *text =
            "samples of this pipeline are no images alone, and clients of this release know nothing else: install the "
            "release of larder that the daemon is of, or leave masks, sounds and arrays out";
        return LARDER_EVERSION;
    }
    if (version < 12 && sample_layout_is_ragged(&msg->registered.layout)) {
        *text =
            "samples of this pipeline differ in size, which clients of this release do not know: install the release "
            "of larder that the daemon is of, or leave `ragged` out";
        return LARDER_EVERSION;
    }
    if (version >= 8 || msg->registered.layout.n < 2)
        return rc;
    *text =
        "samples of this pipeline are several views, which clients of this release do not know: install the release "
        "of larder that the daemon is of, or give a pipeline that is one list";
    return LARDER_EVERSION;
}

static int answer(struct session *session, uint64_t client, const struct wire_message *msg, int fd)
{
    struct out_message *message;
    uint16_t version = begin_answer(session, client, msg);
    bool passed_over = msg->type == WIRE_TURNS && version < 5;
    int rc = version == 0 ? LARDER_EGONE : passed_over ? 0 : encode(msg, version, fd, &message);
    if (rc == 0 && !passed_over)
        return post(session, client, msg, message);
    close_own(fd);
    if (rc == 0 || rc == LARDER_EGONE)
        return rc;
    const char *text;
    int code = refusal(msg, version, rc, &text);
    log_error_limited("msg=\"an answer could not be encoded\" type=%d err=%s", (int)msg->type, larder_err_name(code));
    session_send_error(session, client, msg->seq, code, true, text);
    return rc;
}

int session_send(struct session *session, uint64_t client, const struct wire_message *msg)
{
    CHECK_MAGIC(session, SESSION_MAGIC);
    CHECK(msg->type == WIRE_REGISTERED || msg->type == WIRE_CLASSES || msg->type == WIRE_TURNS ||
          msg->type == WIRE_BATCH || msg->type == WIRE_ERROR);
    return answer(session, client, msg, -1);
}

int session_send_fd(struct session *session, uint64_t client, const struct wire_message *msg, int fd)
{
    CHECK_MAGIC(session, SESSION_MAGIC);
    CHECK((answers_with_fd(msg->type) || msg->type == WIRE_DONE) && fd >= 0);
    return answer(session, client, msg, fd);
}

/* ── the session's thread ────────────────────────────────────────────────────────────────────────────────────────── */

void conn_post(struct session *session, struct conn *conn, const struct wire_message *msg)
{
    struct out_message *message;
    int rc = encode(msg, conn->version, msg->type == WIRE_WELCOME ? session->config.arena_fd : -1, &message);
    CHECK(rc == 0 || rc == LARDER_ENOMEM);
    if (rc == 0) {
        post(session, conn->id, msg, message);
        return;
    }
    pthread_mutex_lock(&session->lock);
    kill_locked(session, conn);
    pthread_mutex_unlock(&session->lock);
}

void conn_tell(struct session *session, struct conn *conn, uint32_t seq, const struct error *why)
{
    struct wire_message msg = error_message(seq, why->code, false, why->text);
    conn_post(session, conn, &msg);
}

void conn_fail(struct session *session, struct conn *conn, uint32_t seq, const struct error *why)
{
    struct wire_message msg = error_message(seq, why->code, true, why->text);
    conn_post(session, conn, &msg);
}

/* is_drained tells whether the client has read all that was sent. It returns true if the system cannot tell. */
static bool is_drained(const struct conn *conn)
{
    int unread = 0;
    return ioctl(conn->socket.fd, SIOCOUTQ, &unread) != 0 || unread < DRAINED_BYTES_MAX;
}

static ssize_t send_message(const struct conn *conn, const struct out_message *message)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec part = {.iov_base = (void *)(uintptr_t)message->data, .iov_len = message->len_bytes};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (message->fd >= 0) {
        memset(&control, 0, sizeof control);
        header.msg_control = &control;
        header.msg_controllen = sizeof control.bytes;
        struct cmsghdr *at = CMSG_FIRSTHDR(&header);
        at->cmsg_level = SOL_SOCKET;
        at->cmsg_type = SCM_RIGHTS;
        at->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(at), &message->fd, sizeof(int));
    }
    ssize_t sent;
    do {
        sent = sendmsg(conn->socket.fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent;
}

static struct out_message *first(struct session *session, struct conn *conn)
{
    pthread_mutex_lock(&session->lock);
    struct out_message *message = STAILQ_FIRST(&conn->outbox.messages);
    pthread_mutex_unlock(&session->lock);
    return message;
}

/* sent takes the first message off, which was sent. */
static void sent(struct session *session, struct conn *conn, struct out_message *message)
{
    pthread_mutex_lock(&session->lock);
    STAILQ_REMOVE_HEAD(&conn->outbox.messages, next);
    conn->outbox.bytes -= message->len_bytes;
    session->counts.outbox_bytes -= message->len_bytes;
    if (answers_with_fd(message->type))
        conn->asked.questions[conn_question_of(message->type)].open = false;
    pthread_mutex_unlock(&session->lock);
    free_message(message);
}

void conn_free_outbox(struct conn *conn)
{
    while (!STAILQ_EMPTY(&conn->outbox.messages)) {
        struct out_message *message = STAILQ_FIRST(&conn->outbox.messages);
        STAILQ_REMOVE_HEAD(&conn->outbox.messages, next);
        free_message(message);
    }
}

bool conn_flush(struct session *session, struct conn *conn)
{
    conn->socket.blocked = conn->socket.draining = false;
    for (int i = 0; i < SENDS_AT_ONCE; i++) {
        struct out_message *message = first(session, conn);
        if (!message)
            return true;
        if (answers_with_fd(message->type) && !is_drained(conn)) {
            conn->socket.draining = true;
            return true;
        }
        if (send_message(conn, message) < 0) {
            if (errno == EAGAIN) {
                conn->socket.blocked = true;
                return true;
            }
            if (errno != EPIPE && errno != ECONNRESET)
                log_warn_limited("msg=\"sending to a client failed\" pid=%d client=\"%s\" err=\"%s\"", conn->peer.pid,
                                 conn->peer.client, strerror(errno));
            return false;
        }
        sent(session, conn, message);
    }
    conn->socket.blocked = true; /* so epoll is asked, and tells at once whether the socket takes more */
    return true;
}
