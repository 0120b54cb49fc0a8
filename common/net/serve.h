/* serve.h: answers other machines' POST requests over HTTP/1.1, plain or over TLS 1.3 with a certificate on each side.
 * The other end is client.h.
 *
 * A server is one thread, in which libmicrohttpd moves the bytes of all connections. Each request whose body is whole
 * goes to `on_request`, which need not answer it at once: any thread may answer later, by the request's ticket. A
 * ticket ends with its answer, or with `on_drop` when the connection ended before.
 *
 * Callbacks run in the server's thread, one at a time, with no lock held. They must not wait, since all connections
 * wait for them; longer work goes to a mailbox. They may answer requests, but not stop the server.
 *
 * What never reaches on_request is refused with a status and no body:
 *   403  the certificate is missing, is not signed by the CA, has expired, is not for TLS clients, or is of another
 *        cluster. It is refused before a byte of the body is read. The log says who and why.
 *   405  the method is not POST
 *   413  the body is longer than body_max. The rest of it is read and forgotten.
 *   503  the bodies of all connections take bodies_max
 *   4xx  libmicrohttpd's own, for what is no HTTP, or for headers longer than header_bytes */
#ifndef LARDER_COMMON_NET_SERVE_H
#define LARDER_COMMON_NET_SERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define NET_PEER_NAMES_MAX 8 /* names of a certificate; more are ignored */
#define NET_SERVE_CONNECTIONS_MAX 65536

/* The other side, as its certificate names it. */
struct net_peer {
    const char *names[NET_PEER_NAMES_MAX]; /* the common name, then the DNS names; NULL: no more */
    const char *cluster;                   /* the organisation; NULL: the certificate has none */
};

/* A request as on_request has it. All but the ticket is borrowed for the call. */
struct net_serve_request {
    uint64_t ticket;             /* never 0, never given again by this server */
    const char *path;            /* decoded, without a query */
    const char *address;         /* the other side's, with its port, for the log */
    const struct net_peer *peer; /* NULL: plain HTTP */
    void *body;                  /* NULL: empty. on_request may take it over: it sets NULL here, and frees it later */
    size_t body_bytes;
};

struct net_piece {
    const void *data;
    size_t len_bytes;
};

struct net_answer {
    int status;                     /* HTTP's, 200 to 599 */
    const char *type;               /* Content-Type; NULL: application/octet-stream */
    const struct net_piece *pieces; /* the body, one after the other. The array is copied, its bytes are borrowed */
    uint32_t n_pieces;
    /* release says that the pieces' bytes are not needed any more. It is called once for each answer, by the server's
     * thread or by net_serve_answer itself, with no lock held. NULL: they outlive the server. */
    void (*release)(void *arg);
    void *arg;
};

/* All numbers may be 0 for the default in brackets. Texts are borrowed until net_serve_stop. */
struct net_serve_options {
    const char *host; /* the address or name to listen on */
    uint16_t port;    /* 0: a free one */
    /* PEM texts: the chain of certificates, own one first, its key, and the CAs that are believed. All three NULL:
     * plain HTTP, whoever asks is answered. */
    const char *cert, *key, *ca;
    const char *cluster;          /* the organisation that each certificate must have; NULL: any */
    uint32_t connections;         /* most connections at a time (1024); more wait until one ends */
    uint32_t address_connections; /* most connections from one address (64); more are closed at once */
    size_t header_bytes;          /* most bytes of a request's headers (32 KiB) */
    size_t body_max;              /* most bytes of a request's body (16 MiB) */
    size_t bodies_max;            /* most bytes of all requests that on_request has not received yet (256 MiB) */
    uint32_t idle_ms;             /* time from an answer to the end of the next request's headers (60 s) */
    /* From the connection to the end of its first request's headers, from there to the end of the body, and from an
     * answer to its last byte (30 s). */
    uint32_t transfer_ms;
    void (*on_request)(void *user, struct net_serve_request *request);
    /* on_drop: nobody waits for this answer any more. It may still be given, and is then released. NULL: not told. */
    void (*on_drop)(void *user, uint64_t ticket);
    void *user;
};

/* Since the start, but for the first two. */
struct net_serve_counts {
    uint64_t bodies_bytes; /* memory that bodies take now; bodies_max is its limit */
    uint32_t open;         /* connections now */
    uint64_t connections;  /* begun */
    uint64_t requests;     /* given to on_request */
    uint64_t answers;      /* begun to be sent */
    uint64_t drops;        /* requests whose connection ended before the answer */
    uint64_t refused_peer; /* requests refused for their certificate */
    uint64_t refused_size; /* requests refused with 413 */
    uint64_t refused_full; /* requests refused with 503 */
    uint64_t late;         /* connections ended by idle_ms or transfer_ms */
    uint64_t silent;       /* TLS connections that ended before a request, as after a failed handshake */
};

struct net_serve;

/* net_serve_start listens and answers from then on. Each server is ended by net_serve_stop. LARDER_EINVAL (the host,
 * or a PEM text), LARDER_EBUSY (the port is taken), LARDER_EPERM (the port may not be taken), LARDER_EIO,
 * LARDER_ELIMIT (no thread). */
int net_serve_start(const struct net_serve_options *options, struct net_serve **out, struct error *err);
/* net_serve_stop ends all connections, tells on_drop of each request that was not answered, ends the thread and frees
 * the server. When it returns no callback runs any more, and none will; every answer was released. No other thread may
 * use the server meanwhile. Accepts NULL. */
void net_serve_stop(struct net_serve *serve);
uint16_t net_serve_port(const struct net_serve *serve);

/* net_serve_answer answers a request. Any thread may call it, on_request included; it never waits for the network. A
 * ticket that was dropped or answered before changes nothing: the answer is released. */
void net_serve_answer(struct net_serve *serve, uint64_t ticket, const struct net_answer *answer);
void net_serve_count(struct net_serve *serve, struct net_serve_counts *out);

#endif
