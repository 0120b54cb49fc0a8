/* client.h: asks other machines over HTTP/1.1, plain or over TLS 1.3.
 *
 * A client is one thread, in which libcurl moves the bytes of all requests. Any thread may submit and cancel; neither
 * waits for the network. Every request that was accepted ends with exactly one call of its `done`.
 *
 * Callbacks (take, done) run in the client's thread, one at a time, with no lock held. They must not wait, since all
 * other requests wait for them; whoever has more to do pushes to a mailbox. They may submit and cancel, but not stop
 * the client.
 *
 * No proxy of the environment is used, no redirection followed, no other protocol spoken. */
#ifndef LARDER_COMMON_NET_CLIENT_H
#define LARDER_COMMON_NET_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define NET_CALLS_MAX 4096          /* most requests of a client at a time, and most alarms */
#define NET_HEADERS_MAX 8           /* most headers of a request */
#define NET_HEADER_BYTES_MAX 65536  /* most bytes of an answer's headers together */
#define NET_URL_MAX 2048            /* bytes */
#define NET_TICKET_NONE UINT64_C(0) /* no request's */

/* This process's own identity, and the authority that it trusts: paths of PEM files, borrowed as long as the client
 * lives. cert and key NULL: this process shows no certificate. */
struct net_tls {
    const char *ca, *cert, *key;
    bool check_names; /* the certificate must bear the host's name; else that the CA signed it suffices */
};

struct net_result {
    /* 0: an answer came, whatever its status. LARDER_EGONE: nobody listens there, or the name is unknown.
     * LARDER_ETIMEOUT. LARDER_EPERM: TLS failed. LARDER_ELIMIT: the answer is too long. LARDER_EIO: the connection
     * broke, or what came is no HTTP. LARDER_EEND: cancelled, or the client stops. LARDER_EINVAL, LARDER_ENOMEM. A
     * code that take gave. */
    int code;
    int status;       /* HTTP's; 0: none came */
    size_t len_bytes; /* bytes of the answer's body that came */
    const char *text; /* text of the failure, with the URL; borrowed for the call */
};

struct net_request {
    const char *url;                      /* http:// or https://; copied */
    const struct net_tls *tls;            /* https:// needs it */
    const char *headers[NET_HEADERS_MAX]; /* "Name: value", copied; NULL: no more */
    const void *body;                     /* borrowed until done; NULL: GET, else POST */
    size_t body_bytes;
    bool fresh;          /* use a new connection */
    uint32_t connect_ms; /* limit for the connection with its TLS handshake; 0: 2 s */
    uint32_t whole_ms;   /* limit from here to the end of the answer, waiting for a connection included; 0: none */
    uint32_t stall_ms;   /* limit without a byte moving in either direction; 0: none */
    size_t answer_max;   /* bytes of body; a longer answer is LARDER_ELIMIT */
    void *answer;        /* room for answer_max bytes, borrowed until done; unused with take */
    /* take is given the body piece by piece; NULL: it goes into answer. Not 0 ends the request with this code. */
    int (*take)(void *arg, int status, const void *data, size_t len_bytes);
    void (*done)(void *arg, const struct net_result *result);
    void *arg;
};

struct net_client;

/* net_client_start starts a client with at most peer_connections connections to one host and port. net_client_stop ends
 * it. LARDER_ENOENT: libcurl is not installed. LARDER_ENOMEM, LARDER_ELIMIT (no thread). */
int net_client_start(uint32_t peer_connections, struct net_client **out, struct error *err);
/* net_client_stop ends all requests with LARDER_EEND, then the thread, and frees the client. When it returns no
 * callback runs any more, and none will. Accepts NULL. */
void net_client_stop(struct net_client *client);

/* net_submit begins a request. *ticket (may be NULL) is written before any callback runs. LARDER_EINVAL (a wrong URL,
 * or https without tls), LARDER_ELIMIT (NET_CALLS_MAX), LARDER_EGONE (the client stops): done is not called. */
int net_submit(struct net_client *client, const struct net_request *request, uint64_t *ticket, struct error *err);
/* net_after calls done in the client's thread, with code 0, when the time has passed. LARDER_ELIMIT, LARDER_EGONE. */
int net_after(struct net_client *client, uint64_t delay_ms, void (*done)(void *arg, const struct net_result *result),
              void *arg, uint64_t *ticket);
/* net_cancel ends a request or alarm with LARDER_EEND, unless it ended before. */
void net_cancel(struct net_client *client, uint64_t ticket);

#endif
