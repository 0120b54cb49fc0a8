/* session_priv.h: what the session's files share.
 *
 *   session.c  the session's life, the thread's loop, deadlines
 *   accept.c   accepts connections, or refuses them
 *   listen.c   the socket's place in the file system, and the lock that says who is the daemon
 *   turn.c     one connection: what it waits for in epoll, what its state asks for, its end
 *   conn.c     one connection: its requests, and the protocol's rules
 *   receive.c  one connection: reading a datagram, and a descriptor with it
 *   out.c      one connection: what is still to be sent
 *
 * The session's thread owns the descriptors and everything that is not under the lock. The lock guards what
 * session_send touches: a connection's phase, credits, held batches and outbox, and the table that finds the
 * connection. Nobody does I/O or calls back with the lock held. */
#ifndef LARDER_SERVER_SESSION_SESSION_PRIV_H
#define LARDER_SERVER_SESSION_SESSION_PRIV_H

#include <pthread.h>
#include <sys/queue.h>

#include "common/log.h"
#include "common/socket_file.h"
#include "server/session/session.h"

#define SESSION_MAGIC 0x53455353u /* "SESS" */
#define SESSION_REFUSALS_MAX 16u  /* places beyond connections_max, in which clients are told why they are refused */
#define SESSION_NEVER UINT64_MAX
/* epoll's data for the listening socket and for waking the thread. The ids of connections are larger than both. */
#define SESSION_ID_LISTEN 0
#define SESSION_ID_WAKE 1
#define SESSION_LOOK_MS 1000 /* between two looks at the socket's file */

enum conn_phase {
    CONN_NEW,         /* HELLO has not come */
    CONN_GREETED,     /* WELCOME is on its way; REGISTER has not come */
    CONN_REGISTERING, /* the owner has the REGISTER */
    CONN_REGISTERED,
    CONN_CLOSING, /* a fatal error is on its way; requests are dropped until the client leaves or its deadline comes */
};

struct out_message {
    STAILQ_ENTRY(out_message) next;
    size_t len_bytes;
    int fd;              /* goes along; -1: none */
    bool owns_fd;        /* fd is closed with the message; otherwise it is the arena's */
    enum wire_type type; /* the message's */
    uint8_t data[];
};

struct held_batch {
    uint64_t batch;
    uint32_t count; /* samples; a batch of 0 samples holds no memory and need not be released */
};

/* The batches that a client was sent and has not released, in the order of sending. */
struct held_batches {
    uint32_t count;
    struct held_batch at[SESSION_HELD_MAX];
};

/* A connection's own descriptor, and what epoll and the kernel were told about it. */
struct conn_socket {
    int fd;
    uint32_t interest; /* the epoll events that it was registered for */
    bool blocked;      /* the socket took no more */
    bool draining;     /* the next message waits until the client has read all that was sent */
    bool unread;       /* requests may be left in the socket that no edge will tell of */
    bool shut;         /* the daemon's direction is shut down */
};

/* The number of requests of a connection since a window began. SESSION_REQUESTS_MAX bounds it. */
struct conn_window {
    uint64_t end_ns;
    uint32_t requests;
};

/* Messages that are still to be sent to a client. */
struct conn_outbox {
    STAILQ_HEAD(, out_message) messages;
    uint64_t bytes; /* bytes of all messages */
};

/* A request that the owner answers. */
struct conn_question {
    bool open;    /* its answer is still to come (a STATE_GET's and a COLUMN_GET's: to be sent) */
    uint32_t seq; /* the number that the answer carries */
};

enum conn_question_kind { CONN_CLASSES, CONN_STATE, CONN_COLUMN, CONN_QUESTIONS };

/* A client's requests that are not answered completely. */
struct conn_asked {
    bool begun, over; /* begun: a NEXT of `epoch` came; over: that epoch's LAST batch was sent */
    uint32_t epoch;
    uint32_t credits;                               /* batches of that epoch that are still to be sent */
    struct conn_question questions[CONN_QUESTIONS]; /* open ones have different numbers */
};

/* conn_question_of returns the question that a type of message asks or answers; CONN_QUESTIONS: it does neither. */
static inline enum conn_question_kind conn_question_of(enum wire_type type)
{
    switch (type) {
    case WIRE_CLASSES_GET:
    case WIRE_CLASSES: return CONN_CLASSES;
    case WIRE_STATE_GET:
    case WIRE_STATE: return CONN_STATE;
    case WIRE_COLUMN_GET:
    case WIRE_COLUMN: return CONN_COLUMN;
    default: return CONN_QUESTIONS;
    }
}

struct conn {
    uint64_t id; /* immutable: its place in the table in the low 16 bits, a counter above them */

    /* Only the session's thread uses what follows. */
    struct conn_socket socket;
    struct conn_window window;
    struct session_peer peer;
    uint32_t epochs; /* epochs that the client may ask for */
    bool told_owner; /* on_register was called */
    bool said_bye;
    bool refused;         /* the client is only told why it is refused; it does not count as a connection */
    uint64_t deadline_ns; /* before REGISTER and in CLOSING: when the connection is closed at the latest */

    /* session->lock guards what follows. */
    enum conn_phase phase;
    uint16_t version; /* protocol version of the client's HELLO; before it came, the oldest */
    bool killed;      /* the connection is to be closed at once, even if messages are unsent */
    bool registered;
    bool dirty; /* it is in session->dirty */
    TAILQ_ENTRY(conn) next_dirty;
    struct conn_outbox outbox;
    struct conn_asked asked;
    struct held_batches held;
};

/* The socket's place in the file system. The session's thread uses it between session_start and session_stop; before
 * and afterwards the session's owner does. */
struct session_listener {
    char *path, *lock_path;  /* malloc'ed, the session's own */
    struct socket_file file; /* the socket's file at path */
    int fd, lock_fd;         /* -1: closed */
    bool adopted;            /* a service manager made the socket */
};

/* The times at which the session's thread has work to do. SESSION_NEVER: it does not do it again. */
struct session_due {
    uint64_t accept_ns; /* when accepting begins again; SESSION_NEVER: it is not paused */
    uint64_t look_ns;   /* when to look whether the socket is still at its path */
    uint64_t sweep_ns;  /* the earliest of these two, of all deadlines and of all ends of windows */
};

/* The connections by place, and the free places. Only the session's thread changes the table, and holds the lock. */
struct conn_table {
    struct conn **at;
    uint32_t n_places, n_conns;
    uint32_t *free_places, n_free;
    uint64_t counter; /* counts all connections since the start */
};

struct session {
    uint32_t magic;
    struct session_config config;
    struct session_listener listener;
    int epoll_fd, wake_fd;
    pthread_t thread;
    bool started; /* the owner's: the thread runs */

    /* Only the session's thread uses what follows. */
    uint8_t *buffer; /* WIRE_REQUEST_MAX bytes, for one request */
    bool stop_begun;
    struct session_due due;

    pthread_mutex_t lock; /* guards everything below */
    struct conn_table table;
    TAILQ_HEAD(, conn) dirty; /* connections that have something to send or are to be closed */
    uint32_t n_dirty;
    bool wake_pending; /* the eventfd has been written, or is about to be */
    bool stopping;
    struct session_counts counts;
};

/* listen.c: session_listen_open does the work of session_listen. listener->path is set. */
int session_listen_open(struct session_listener *listener, struct error *err);
/* session_listen_lost tells whether the socket's file is gone, or another is in its place. */
bool session_listen_lost(const struct session_listener *listener);
/* session_listen_close stops listening, and removes the socket's file if it is still there. */
void session_listen_close(struct session_listener *listener);
void session_lock_release(struct session_listener *listener); /* gives the lock up; harmless when that was done */

/* accept.c, in the session's thread: session_accept accepts a bounded number of the clients that wait to connect.
 * session_admit makes a connection of a socket, or refuses the client. It takes fd over. */
void session_accept(struct session *session);
void session_admit(struct session *session, int fd);

/* session.c: session_prepare is session_start without the thread. LARDER_EIO. session_turn is one round of the thread's
 * loop: it waits up to wait_ms for an event (-1: without limit), and handles all that is due. False: the session has
 * stopped, and no connection is left. */
int session_prepare(struct session *session, const struct session_config *config, struct error *err);
bool session_turn(struct session *session, int wait_ms);

/* turn.c, in the session's thread: session_sweep_at makes the loop look at all deadlines at when_ns at the latest.
 * session_watch is epoll_ctl. conn_update_interest asks epoll for what the connection waits for. */
void session_sweep_at(struct session *session, uint64_t when_ns);
int session_watch(struct session *session, int how, int fd, uint32_t events, uint64_t id);
void conn_update_interest(struct session *session, struct conn *conn);
/* conn_advance does what a connection's state asks for: it sends, or ends. The connection may be gone afterwards. */
void conn_advance(struct session *session, struct conn *conn);
/* conn_close ends the connection and frees it. */
void conn_close(struct session *session, struct conn *conn);

/* receive.c, in the session's thread: conn_receive reads a datagram into session->buffer and returns its length. 0:
 * there is none at the moment. -1: none will come any more; an empty datagram means that too. A descriptor that came
 * with it goes to *fd, which the caller closes; -1 otherwise. When the datagram is too long, or what came with it
 * cannot be had, why has the reason, and *fd is -1: LARDER_ELIMIT when the daemon has no place for one more descriptor,
 * LARDER_EFORMAT when it is the client's fault. Otherwise why->code is 0. */
ssize_t conn_receive(struct session *session, const struct conn *conn, int *fd, struct error *why);

/* conn.c, in the session's thread: conn_read reads a bounded number of requests, or all when the peer is gone. False:
 * the connection is over and is to be closed. */
bool conn_read(struct session *session, struct conn *conn, bool peer_gone);

/* out.c: only the session's thread calls the first five. conn_post appends a message to the outbox, or kills the
 * connection when there is no memory. conn_tell posts an error; conn_fail posts a fatal one. conn_flush sends until the
 * socket is full or a bounded number of messages was sent; false: the client is gone. conn_free_outbox frees the unsent
 * messages of a connection that the table no longer has. session_wake wakes the session's thread. */
void conn_post(struct session *session, struct conn *conn, const struct wire_message *msg);
void conn_tell(struct session *session, struct conn *conn, uint32_t seq, const struct error *why);
void conn_fail(struct session *session, struct conn *conn, uint32_t seq, const struct error *why);
bool conn_flush(struct session *session, struct conn *conn);
void conn_free_outbox(struct conn *conn);
struct conn *conn_find_locked(const struct conn_table *table, uint64_t id); /* NULL when there is none */
void session_wake(struct session *session);

#endif
