/* serve_priv.h: what the server's files share. serve_listen.c and serve_peer.c know no server. serve_exchange.c has the
 * requests of the connections, serve.c the thread and the life. */
#ifndef LARDER_COMMON_NET_SERVE_PRIV_H
#define LARDER_COMMON_NET_SERVE_PRIV_H

#include <gnutls/gnutls.h>
#include <microhttpd.h>
#include <netdb.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <time.h>

#include "common/check.h"
#include "common/net/serve.h"

#define SERVE_MAGIC 0x6e657473u
#define SERVE_WHY_MAX 256                           /* bytes of a reason */
#define SERVE_ADDRESS_MAX (NI_MAXHOST + NI_MAXSERV) /* bytes of an address with its port */

/* The contents of a verified certificate. */
struct serve_identity {
    struct net_peer peer;
    char *texts[NET_PEER_NAMES_MAX + 1]; /* owned; what peer points to */
    time_t expires_s;                    /* since the epoch */
};

/* A request from the end of its headers to the last byte of its answer. The lock guards the second half. */
struct exchange {
    struct connection *connection;
    char *path;
    uint8_t *body;
    size_t body_bytes, body_cap;
    bool handed;      /* on_request was called */
    unsigned refused; /* refuse it with this status when the body has come; 0: do not */
    bool suspended;   /* libmicrohttpd leaves the connection alone until it is resumed */
    uint64_t ticket;  /* this field and those below are under the lock. 0: on_request does not have it, or no more */
    bool answered;    /* its answer is in `ready` */
    TAILQ_ENTRY(exchange) link;
    struct MHD_Response *response; /* NULL: none yet, or libmicrohttpd has it */
    unsigned status;
};

TAILQ_HEAD(exchange_list, exchange);

/* A connection. It is the server's thread's own. */
struct connection {
    TAILQ_ENTRY(connection) link;
    struct net_serve *serve;
    struct MHD_Connection *library;
    int fd;
    uint32_t slot;
    uint64_t deadline_ns; /* UINT64_MAX: none, since the request waits for its answer */
    bool hung_up;         /* the other side closed it, or a half of it */
    bool asked;           /* there was a request */
    bool believed;        /* identity is set */
    struct serve_identity identity;
    struct exchange *exchange; /* NULL: between two requests */
    char address[SERVE_ADDRESS_MAX];
};

TAILQ_HEAD(connection_list, connection);

struct net_serve {
    uint32_t magic;
    struct net_serve_options options; /* the options, with defaults filled in */
    uint16_t port;
    struct MHD_Daemon *daemon;
    int epoll_fd, wake_fd;
    pthread_t thread;
    struct connection_list connections; /* this field and those below are the thread's own */
    uint32_t *free_slots, n_free_slots;
    uint64_t last_serial;
    bool ended; /* a connection ended in the last run: if all places were taken, only the next run listens again */
    pthread_mutex_t lock;
    /* This member and those below are under the lock. Indexed by ticket modulo their number. */
    struct exchange **slots;
    struct exchange_list ready; /* answered, and suspended or about to be */
    struct net_serve_counts counts;
    bool stopping;
};

/* serve_wake has the thread look at `ready` and `stopping`. */
static inline void serve_wake(struct net_serve *serve)
{
    CHECK(eventfd_write(serve->wake_fd, 1) == 0);
}

/* serve_listen opens a socket that listens, and tells its port. */
int serve_listen(const char *host, uint16_t port, int *fd, uint16_t *chosen, struct error *err);
/* serve_address writes "address:port". */
void serve_address(const struct sockaddr *address, char *out, size_t cap);

/* serve_believe says whether the other side's certificate holds, and fills identity if so, else why (SERVE_WHY_MAX
 * bytes) and who (as many; "" without a certificate). */
bool serve_believe(gnutls_session_t session, const char *cluster, struct serve_identity *identity, char *why,
                   char *who);
void serve_identity_clear(struct serve_identity *identity);

/* exchange_access and exchange_completed are libmicrohttpd's callbacks; the server is their arg. */
enum MHD_Result exchange_access(void *arg, struct MHD_Connection *library, const char *url, const char *method,
                                const char *version, const char *data, size_t *len_bytes, void **state);
void exchange_completed(void *arg, struct MHD_Connection *library, void **state, enum MHD_RequestTerminationCode how);
/* exchange_resume has libmicrohttpd go on with a request that was answered or dropped. */
void exchange_resume(struct exchange *exchange);
/* exchange_drop takes the ticket back, unless the request is answered, and tells on_drop. */
void exchange_drop(struct exchange *exchange);

#endif
