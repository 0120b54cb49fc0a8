/* session.h: the clients' connections. The session decides who may connect and which requests are lawful, and keeps
 * what is still to be sent.
 *
 * One thread, on epoll, owns the listening socket and every connection. It checks each request against the protocol's
 * state of its connection, and hands lawful ones to the owner through callbacks in its own thread. Any thread may
 * answer.
 *
 *   connect ─▶ HELLO ─▶ WELCOME ─▶ REGISTER ─▶ on_register … REGISTERED ─▶ on_classes, on_next, on_release … ─▶ on_gone
 *       └─ another user's, or one too many: ERROR            └─ the client leaves, or breaks the protocol (ERROR) ─▶ ┘
 *
 * A connection speaks the protocol version of its HELLO. Answers go out in it, and TURNS only to clients that know it.
 *
 * No client can make the owner see an unlawful request (a second REGISTER, credits beyond WIRE_CREDITS_MAX, the release
 * of a batch that it does not hold, an earlier epoch, a second question before the answer to the first). Nor can it
 * make memory grow past the bounds below, hold up another client, or keep anything after its socket is closed. */
#ifndef LARDER_SERVER_SESSION_SESSION_H
#define LARDER_SERVER_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/wire.h"

#define SESSION_CONNECTIONS_MAX 32768u
#define SESSION_HELD_MAX (2 * WIRE_CREDITS_MAX) /* batches a connection may hold unreleased */
#define SESSION_REQUESTS_MAX 2048u              /* requests of one connection in SESSION_WINDOW_MS; the rest waits */
#define SESSION_ABANDON_COST 512u               /* leaving an epoch before its end counts as this many requests */
#define SESSION_WINDOW_MS 100
/* if more is unsent, the client's requests wait in the socket */
#define SESSION_OUTBOX_HIGH_BYTES (UINT64_C(1) << 20)
/* If more is unsent, the connection is closed. All that one of our clients can ask for is less: however long it is
 * stopped, it loses nothing. */
#define SESSION_OUTBOX_MAX_BYTES (UINT64_C(20) << 20)
#define SESSION_GREETING_MS 30000 /* time that a client has from connecting to registering */
#define SESSION_LINGER_MS 1000    /* time that a client has to read the error that closes it */
#define SESSION_STOP_MS 500       /* the same when the daemon stops */

struct session;

/* The identity of a client. The kernel gave pid and uid when the client connected; the client gave the name in its
 * HELLO. */
struct session_peer {
    int32_t pid;
    uint32_t uid;
    char client[WIRE_CLIENT_MAX + 1];
};

/* The owner's callbacks. The session's thread calls them, with no lock held, in the order of the client's requests.
 * `client` names a connection; its number is never used again for another. A callback may wait briefly for room in the
 * owner's queue. That holds up every client, and so bounds them all together. Texts in reg are borrowed for the call.
 */
struct session_handlers {
    void *ctx;
    /* Called at most once for each connection. The owner answers with REGISTERED or a fatal error. Until then the
     * client may only leave. file_fd came with the message (flags WIRE_WITH_FILE) and is the owner's to close; -1:
     * none came. The client chose what it refers to, and may change that at any time. */
    void (*on_register)(void *ctx, uint64_t client, uint32_t seq, const struct session_peer *peer,
                        const struct wire_register *reg, int file_fd);
    /* A client has at most one such request open. The owner answers with CLASSES or an error. */
    void (*on_classes)(void *ctx, uint64_t client, uint32_t seq, uint32_t first);
    /* A client never has more than WIRE_CREDITS_MAX credits outstanding, and its epochs never go back. A NEXT that
     * arrives after its epoch's LAST batch was sent does nothing and is not handed on. The first NEXT of an epoch has
     * credits. */
    void (*on_next)(void *ctx, uint64_t client, const struct wire_next *next);
    void (*on_release)(void *ctx, uint64_t client, uint64_t batch); /* a batch that was sent and not yet released */
    /* A client has at most one such question open. The owner answers with session_send_fd, a STATE, or with an error
     * that is not fatal. NULL: the owner has no tokens, and clients are told so. */
    void (*on_state_get)(void *ctx, uint64_t client, uint32_t seq, const struct wire_state_get *get);
    /* A client has at most one such question open. The owner answers with session_send_fd, a COLUMN, or with an error
     * that is not fatal. The name is borrowed for the call. NULL: the owner has no columns, and clients are told so. */
    void (*on_column_get)(void *ctx, uint64_t client, uint32_t seq, const struct wire_text *name);
    /* Called exactly once for each on_register, as the client's last callback: what the client held is free. The
     * connection is closed before. So a client that reads a batch, and then finds the connection open, knows that the
     * batch's memory was still its own. bye: the client has said BYE. */
    void (*on_gone)(void *ctx, uint64_t client, bool bye);
    /* Called at most once: the socket's file was removed, moved or replaced, and no client can come any more. Connected
     * clients are still served. The session has given up its lock, and another daemon may take the path. NULL: the
     * owner need not know. */
    void (*on_lost)(void *ctx);
};

/* session_listen makes this process the daemon of a socket path. It makes the folder (0700) if it is missing; the
 * folder must be safe from others (common/socket_folder.h). It takes the lock PATH.lock, which the session holds until
 * session_destroy or on_lost. It replaces the socket of a daemon that was killed, and listens (mode 0600). Clients that
 * connect wait until session_start. The caller destroys the session.
 *
 * LARDER_EBUSY: another daemon has the path; the text has its pid. LARDER_ELIMIT: the path is too long, or there is no
 * socket buffer for the largest message. LARDER_EINVAL: something else is in the socket's place. LARDER_EPERM: also for
 * an unsafe folder. LARDER_ENOENT: the folder's parent is missing. LARDER_EIO. */
int session_listen(const char *path, struct session **out, struct error *err);

/* session_adopt does the same with a socket that a service manager made at the path and listens at. The session takes
 * fd over, and leaves the socket's file alone. Whoever that file's mode lets connect may be a client: who that is, the
 * manager says. */
int session_adopt(const char *path, int fd, struct session **out, struct error *err);

struct session_config {
    uint32_t connections_max; /* 1 … SESSION_CONNECTIONS_MAX; one more gets LARDER_ELIMIT */
    int arena_fd;             /* sent to each client; borrowed until session_stop has returned */
    uint64_t arena_bytes;
    struct session_handlers handlers;
};

/* session_start begins the thread. LARDER_ELIMIT, LARDER_EIO. */
int session_start(struct session *session, const struct session_config *config, struct error *err);

/* session_stop accepts no more clients and removes the socket if it is still the session's own. It tells every client
 * that the daemon is stopping, sends what it can, and waits for the clients to leave. After at most SESSION_STOP_MS it
 * closes the connections. on_gone comes for each, so the owner must go on taking callbacks until this returns. It does
 * nothing when the thread was not started, or has ended. */
void session_stop(struct session *session);
/* session_destroy stops first, gives the lock up and frees. Nobody may call session_send any more. Accepts NULL. */
void session_destroy(struct session *session);

/* session_send sends a message to a client. It copies the message before it returns, keeps the order of the calls, and
 * never blocks. Any thread may call it, callbacks included. The owner sends only REGISTERED, CLASSES, TURNS, BATCH and
 * ERROR. TURNS for a client of version 4 is passed over.
 *
 * LARDER_EGONE: the connection is gone or going; nothing was sent, and on_gone comes or came. LARDER_ELIMIT: its outbox
 * ran over, or the client would hold more than SESSION_HELD_MAX batches; the connection is being closed. When a message
 * cannot be encoded, session_send returns wire_encode's code and sends the client, which waits for the message, a fatal
 * error. */
int session_send(struct session *session, uint64_t client, const struct wire_message *msg);
/* session_send_fd sends STATE or COLUMN, the answers to on_state_get and on_column_get, or DONE, with a descriptor. The
 * session takes fd over in any case, and closes it when the message is sent or the connection ends. An answer goes out
 * when the client has read all that came before, and the client cannot ask again earlier. So a client that does not
 * read holds no more than one descriptor of a STATE and one of a COLUMN in the session, and one in its socket; and one
 * of a DONE for each other rank of its job. Gives what session_send returns. */
int session_send_fd(struct session *session, uint64_t client, const struct wire_message *msg, int fd);
/* session_send_error sends an error in the same way, and cuts a text that is too long. fatal: the connection is closed
 * once the client has read the error and left, or after SESSION_LINGER_MS; the client's leases last until then. */
int session_send_error(struct session *session, uint64_t client, uint32_t seq, int code, bool fatal, const char *text);

struct session_counts {
    uint32_t connections;     /* open at the call, without refused ones */
    uint32_t registered;      /* those of them that were sent REGISTERED */
    uint64_t accepted;        /* connections accepted since the start */
    uint64_t refused;         /* since the start: of another user, or one too many */
    uint64_t protocol_errors; /* since the start: closed because the client broke the protocol */
    uint64_t overflows;       /* since the start: closed because the client did not read */
    uint64_t outbox_bytes;    /* unsent at the call, over all connections */
};
/* session_counts may be called from any thread. */
void session_counts(struct session *session, struct session_counts *out);

#endif
