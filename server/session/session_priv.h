/* session_priv.h: what the session's files share.
 *
 *   session.c  life, the thread's loop, deadlines
 *   accept.c   who is let in
 *   listen.c   the socket's place in the file system and the lock that says who is the daemon
 *   turn.c     one connection: what epoll is asked, what its state asks for, its end
 *   conn.c     one connection: reading, and the protocol's rules
 *   out.c      one connection: what is still to be sent
 *
 * The session's thread owns the descriptors and everything not under the lock. The lock covers what session_send
 * touches: a connection's phase, credits, held batches and outbox, and the table that finds it. No I/O and no
 * callback happens with the lock held. */
#ifndef LARDER_SERVER_SESSION_SESSION_PRIV_H
#define LARDER_SERVER_SESSION_SESSION_PRIV_H

#include <pthread.h>
#include <sys/queue.h>

#include "common/log.h"
#include "common/socket_file.h"
#include "server/session/session.h"

#define SESSION_MAGIC 0x53455353u /* "SESS" */
#define SESSION_REFUSALS_MAX 16u  /* places beyond connections_max, for telling a client why it is refused */
#define SESSION_NEVER UINT64_MAX
#define SESSION_ID_LISTEN 0 /* what epoll tells of; connections' ids begin above what the table's places take */
#define SESSION_ID_WAKE 1
#define SESSION_LOOK_MS 1000 /* between two looks at the socket's file */

enum conn_phase {
    CONN_NEW,         /* HELLO has not come */
    CONN_GREETED,     /* WELCOME is on its way; REGISTER has not come */
    CONN_REGISTERING, /* the owner has the REGISTER */
    CONN_REGISTERED,
    CONN_CLOSING, /* a fatal error is on its way; requests are thrown away until the client leaves or the deadline */
};

struct out_message {
    STAILQ_ENTRY(out_message) next;
    size_t len_bytes;
    bool with_arena; /* the descriptor goes along */
    uint8_t data[];
};

struct held_batch {
    uint64_t batch;
    uint32_t count; /* samples; an empty batch holds nothing, and need not be released */
};

/* What a client was sent and has not released, in the order of sending. */
struct held_batches {
    uint32_t count;
    struct held_batch at[SESSION_HELD_MAX];
};

/* A connection's own descriptor, and what epoll and the kernel were told about it. */
struct conn_socket {
    int fd;
    uint32_t interest; /* epoll events asked for */
    bool blocked;      /* the socket took no more */
    bool shut;         /* our direction is closed */
};

/* A connection's requests since a window began, which SESSION_REQUESTS_MAX bounds. */
struct conn_window {
    uint64_t end_ns;
    uint32_t requests;
};

/* What is still to be sent to a client. */
struct conn_outbox {
    STAILQ_HEAD(, out_message) messages;
    uint64_t bytes; /* of all of them */
};

/* What a client has asked for, of which it has not got all. */
struct conn_asked {
    bool begun, over; /* a NEXT of `epoch` came; its LAST batch was sent */
    uint32_t epoch;
    uint32_t credits;     /* outstanding of that epoch */
    bool classes;         /* a CLASSES_GET waits for its answer … */
    uint32_t classes_seq; /* … which carries this number */
};

struct conn {
    uint64_t id; /* immutable: a counter above, the place in the table in the low 16 bits */

    /* the session's thread */
    struct conn_socket socket;
    struct conn_window window;
    struct session_peer peer;
    uint32_t epochs;      /* as registered */
    bool told_owner;      /* on_register was called */
    bool refused;         /* never counted as a connection */
    uint64_t deadline_ns; /* until REGISTER, and CLOSING: when it ends without the client's help */

    /* session->lock */
    enum conn_phase phase;
    bool killed; /* to be closed at once, whatever is unsent */
    bool registered;
    bool dirty; /* in session->dirty */
    TAILQ_ENTRY(conn) next_dirty;
    struct conn_outbox outbox;
    struct conn_asked asked;
    struct held_batches held;
};

/* The socket's place in the file system. The owner has it until session_start and after session_stop, the session's
 * thread in between. */
struct session_listener {
    char *path, *lock_path;  /* malloc'ed, the session's */
    struct socket_file file; /* at path */
    int fd, lock_fd;         /* -1: closed */
};

/* When the session's thread is to do what it does by the clock; SESSION_NEVER: not again. */
struct session_due {
    uint64_t accept_ns; /* accepting begins again; SESSION_NEVER: it was not paused */
    uint64_t look_ns;   /* whether the socket is still at its path */
    uint64_t sweep_ns;  /* the next of all these, of deadlines and of windows */
};

/* The connections by place, and the places that are free. Only the session's thread changes it, under the lock. */
struct conn_table {
    struct conn **at;
    uint32_t n_places, n_conns;
    uint32_t *free_places, n_free;
    uint64_t counter; /* of all connections there were */
};

struct session {
    uint32_t magic;
    struct session_config config;
    struct session_listener listener;
    int epoll_fd, wake_fd;
    pthread_t thread;
    bool started; /* owner's */

    /* the session's thread */
    uint8_t *buffer; /* of WIRE_REQUEST_MAX */
    bool stop_begun;
    struct session_due due;

    pthread_mutex_t lock; /* everything below */
    struct conn_table table;
    TAILQ_HEAD(, conn) dirty; /* have something to send, or to be closed */
    uint32_t n_dirty;
    bool wake_pending; /* the eventfd is, or is about to be, written */
    bool stopping;
    struct session_counts counts;
};

/* listen.c */
int session_listen_open(struct session_listener *listener, struct error *err); /* with path set, all the rest of that */
/* session_listen_lost tells whether the socket's file is gone, or another is in its place. */
bool session_listen_lost(const struct session_listener *listener);
/* session_listen_close stops listening, and removes the socket's file if it is still there. */
void session_listen_close(struct session_listener *listener);
void session_lock_release(struct session_listener *listener); /* gives the lock up; harmless when that was done */

/* accept.c; the session's thread. session_accept lets in a turn's worth of those who wait to connect. */
void session_accept(struct session *session);

/* turn.c; the session's thread. session_sweep_at sees to it that the loop looks at all deadlines at when_ns, if not
 * before. session_watch is epoll_ctl. conn_update_interest asks epoll for what the connection waits for. */
void session_sweep_at(struct session *session, uint64_t when_ns);
int session_watch(struct session *session, int how, int fd, uint32_t events, uint64_t id);
void conn_update_interest(struct session *session, struct conn *conn);
/* conn_advance does what a connection's state asks for: send, or end. The connection may be gone afterwards. */
void conn_advance(struct session *session, struct conn *conn);
/* conn_close ends the connection and frees it. */
void conn_close(struct session *session, struct conn *conn);

/* conn.c; the session's thread. conn_read reads a turn's worth of requests, or all there is when the peer is
 * gone; false when the connection is over and is to be closed. */
bool conn_read(struct session *session, struct conn *conn, bool peer_gone);

/* out.c. These three are the session's thread's: conn_fail posts a fatal error, conn_flush sends until the
 * socket is full or it was a turn's worth, and gives false when the client is gone. */
void conn_post(struct session *session, struct conn *conn, const struct wire_message *msg);
void conn_fail(struct session *session, struct conn *conn, uint32_t seq, const struct error *why);
bool conn_flush(struct session *session, struct conn *conn);
void conn_free_outbox_locked(struct session *session, struct conn *conn);
struct conn *conn_find_locked(const struct conn_table *table, uint64_t id); /* NULL when there is none */
void session_wake(struct session *session);

#endif
