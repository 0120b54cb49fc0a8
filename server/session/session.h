/* session.h: the clients' connections: who may connect, what a lawful request is, and what is still to be sent.
 *
 * One thread, on epoll, owns the listening socket and every connection. It checks requests against the protocol's state
 * of their connection, and hands lawful ones to the owner through callbacks in its own thread; answers come from any
 * thread.
 *
 *   connect ─▶ HELLO ─▶ WELCOME ─▶ REGISTER ─▶ on_register … REGISTERED ─▶ on_classes, on_next, on_release ─▶ on_gone
 *       └─ another user's, or one too many: ERROR            └─ the client leaves, or breaks the protocol (ERROR) ─▶ ┘
 *
 * What no client can do, whatever it sends: make the owner see an unlawful request (a second REGISTER, credits
 * beyond WIRE_CREDITS_MAX, a batch released that it does not hold, an earlier epoch), make memory grow (bounds
 * below), hold up another client, or keep anything after its socket is closed. */
#ifndef LARDER_SERVER_SESSION_SESSION_H
#define LARDER_SERVER_SESSION_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"
#include "common/wire.h"

#define SESSION_CONNECTIONS_MAX 32768u
#define SESSION_HELD_MAX (2 * WIRE_CREDITS_MAX) /* batches a connection may hold unreleased */
#define SESSION_REQUESTS_MAX 2048u              /* of one connection in SESSION_WINDOW_MS; the rest waits */
#define SESSION_ABANDON_COST 512u               /* requests that leaving an epoch before its end counts for */
#define SESSION_WINDOW_MS 100
#define SESSION_OUTBOX_HIGH_BYTES (UINT64_C(1) << 20) /* unsent: above, the connection's requests wait in its socket */
#define SESSION_OUTBOX_MAX_BYTES (UINT64_C(16) << 20) /* unsent: above, the connection is closed */
#define SESSION_GREETING_MS 30000                     /* for a client that has connected to register */
#define SESSION_LINGER_MS 1000                        /* for a client to read the error it is closed with */
#define SESSION_STOP_MS 500                           /* the same, when the daemon stops */

struct session;

/* Who a client is: pid and uid as the kernel gave them when it connected, the name as it said in HELLO. */
struct session_peer {
    int32_t pid;
    uint32_t uid;
    char client[WIRE_CLIENT_MAX + 1];
};

/* Called in the session's thread, with no lock held, in the order of the client's requests. `client` names a connection
 * and is never used again for another. A callback may wait briefly (for room in the owner's queue): that holds up every
 * client, and is what bounds them all together. Texts in reg are borrowed for the call. */
struct session_handlers {
    void *ctx;
    /* Once a connection at most. To be answered by REGISTERED, or by a fatal error: until then the client may only
     * leave. */
    void (*on_register)(void *ctx, uint64_t client, uint32_t seq, const struct session_peer *peer,
                        const struct wire_register *reg);
    /* One at a time; answered by CLASSES or an error. */
    void (*on_classes)(void *ctx, uint64_t client, uint32_t seq, uint32_t first);
    /* At most WIRE_CREDITS_MAX credits outstanding; epochs never go back. A NEXT that arrives after its epoch's LAST
     * batch was sent does nothing and is not handed on. */
    void (*on_next)(void *ctx, uint64_t client, uint32_t epoch, uint32_t credits);
    void (*on_release)(void *ctx, uint64_t client, uint64_t batch); /* a batch that was sent and not yet released */
    /* Exactly once for each on_register, and nothing after it: what the client held is free. The connection is closed
     * by then, so that a client which has read a batch, and then finds it open, has read what it was sent. */
    void (*on_gone)(void *ctx, uint64_t client);
    /* Once at most: the socket's file was removed, moved or replaced, and no client can come any more; those who are
     * connected are served. The lock has been given up: another daemon may take the path. NULL: the owner does not
     * mind. */
    void (*on_lost)(void *ctx);
};

/* session_listen makes this process the daemon of a socket path: takes the lock PATH.lock, which it holds until
 * session_destroy (or on_lost), makes the folder (0700) if it is missing, replaces the socket of a daemon that was
 * killed, and listens (mode 0600). The folder must be safe from others (common/socket_folder.h). Clients that connect
 * wait until session_start. LARDER_EBUSY (another daemon: the text has its pid), LARDER_ELIMIT (path too long, or no
 * socket buffer for the largest message), LARDER_EINVAL (something else is in the socket's place), LARDER_EPERM (also:
 * an unsafe folder), LARDER_ENOENT (the folder's own folder is missing), LARDER_EIO. */
int session_listen(const char *path, struct session **out, struct error *err);

struct session_config {
    uint32_t connections_max; /* 1 … SESSION_CONNECTIONS_MAX; one more gets LARDER_ELIMIT */
    int arena_fd;             /* borrowed until session_stop has returned; goes to each client */
    uint64_t arena_bytes;
    struct session_handlers handlers;
};

/* session_start begins the thread. LARDER_ELIMIT, LARDER_EIO. */
int session_start(struct session *session, const struct session_config *config, struct error *err);

/* session_stop accepts no more, removes the socket if it is still its own, tells every client that the daemon is
 * stopping, sends what it can and waits for them to leave, all within SESSION_STOP_MS; then closes. on_gone comes for
 * all: the owner must go on taking callbacks until this returns. Harmless when the thread was not started, or has
 * ended. */
void session_stop(struct session *session);
/* session_destroy accepts NULL; stops first; gives the lock up. Nobody may call session_send any more. */
void session_destroy(struct session *session);

/* session_send sends a message, encoded and copied before it returns, in the order of the calls. Never blocks; any
 * thread, callbacks included. Only REGISTERED, CLASSES, BATCH and ERROR are the owner's to send. LARDER_EGONE: the
 * connection is gone or going, nothing was sent, on_gone comes or came. LARDER_ELIMIT: its outbox ran over, or it
 * would hold more than SESSION_HELD_MAX batches, and it is being closed. A message that cannot be encoded gives
 * wire_encode's code, and the client, which waits for it, a fatal error. */
int session_send(struct session *session, uint64_t client, const struct wire_message *msg);
/* session_send_error: the same for an error; too long a text is cut. fatal: the connection is closed once the client
 * has read it and left, or after SESSION_LINGER_MS; its leases last until then. */
int session_send_error(struct session *session, uint64_t client, uint32_t seq, int code, bool fatal, const char *text);

struct session_counts {
    uint32_t connections;     /* open now, refused ones apart */
    uint32_t registered;      /* of these, past REGISTERED */
    uint64_t accepted;        /* since the start, and so all below */
    uint64_t refused;         /* another user's, or one too many */
    uint64_t protocol_errors; /* connections closed for what they sent */
    uint64_t overflows;       /* connections closed because they did not read */
    uint64_t outbox_bytes;    /* unsent now, all connections */
};
void session_counts(struct session *session, struct session_counts *out);

#endif
