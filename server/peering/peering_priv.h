/* peering_priv.h: what the files of this folder share. peering_message.c knows messages alone, peering_event.c tells
 * events, peering_find.c has discovery and the addresses, peering_ask.c and peering_answer.c the two directions,
 * peering.c the life. */
#ifndef LARDER_SERVER_PEERING_PEERING_PRIV_H
#define LARDER_SERVER_PEERING_PEERING_PRIV_H

#include <pthread.h>

#include "common/net/client.h"
#include "common/net/identity.h"
#include "common/net/serve.h"
#include "server/discovery/dns.h"
#include "server/discovery/etcd.h"
#include "server/discovery/list.h"
#include "server/peering/peering.h"

#define PEERING_MAGIC 0x70656572u
#define PEERING_TYPE "application/x-larder"
#define PEERING_URL_MAX (DISCOVERY_URL_MAX + 16) /* longest URL, with a message's path */
/* as many again may have been removed from the list */
#define PEERING_ADDRESSES_MAX (size_t)(2 * DISCOVERY_NODES_MAX)

struct peering_address {
    uint8_t node[PEER_NODE_BYTES];
    char *name, *url; /* owned */
    bool listed;      /* false: it has vanished, and is kept until it is forgotten */
};

/* Members without a lock are written by peering_start alone, which holds the lock until all are set. */
struct peering {
    uint32_t magic;
    uint64_t cluster; /* the hash of its name */
    uint8_t self[PEER_NODE_BYTES];
    uint64_t boot;
    void (*tell)(void *arg, struct peering_event *event);
    void *arg;
    char *name, *host, *bundle;   /* the cluster's name, where to listen, the bundle's path or NULL; owned */
    uint16_t port;                /* the port that it listens at */
    uint16_t node_port;           /* the port that others use */
    struct net_identity identity; /* all zero without a bundle */
    struct net_tls tls, etcd_tls; /* used with a bundle */
    /* length of the last BATCH: the next is likely as long. Only the client's thread uses it */
    size_t batch_bytes;
    pthread_mutex_t lock;
    pthread_cond_t change; /* `left` has changed */
    bool open;             /* this field and those below are under the lock. Events may be told */
    bool stopping;         /* serve and client may be gone */
    bool leaves, left;     /* peering_leave was called; and etcd has done it */
    struct net_serve *serve;
    struct net_client *client;
    struct list *list;          /* NULL with etcd */
    struct dns *dns;            /* NULL but for DNS */
    struct etcd *etcd;          /* NULL but for etcd */
    struct discovery_node node; /* this one, as etcd has it */
    struct peering_address addresses[PEERING_ADDRESSES_MAX];
    size_t n_addresses;
};

/* ── peering_message.c ── */

/* peering_path returns the path of a request's type; NULL: it is no request. */
const char *peering_path(enum peer_type type);
/* peering_suits says whether an answer of this type may come to a request of that. */
bool peering_suits(enum peer_type request, enum peer_type answer);
/* peering_encode returns the message as bytes, which the caller frees. LARDER_ELIMIT, LARDER_ENOMEM. */
int peering_encode(const struct peer_message *message, uint8_t **out, size_t *len_bytes);
/* peering_head returns the length of the message that a body begins with: the rest are a BATCH's payloads. */
size_t peering_head(const uint8_t *body, size_t len_bytes);
/* peering_payload returns the sum of the entries' lengths. */
size_t peering_payload(const struct peer_batch *batch);

/* ── peering_event.c ── */

/* peering_tell gives the event to the receiver. It waits while peering_start is at work. */
void peering_tell(struct peering *peering, struct peering_event *event);

/* ── peering_find.c ── */

/* A way to find the other nodes. */
struct discovery_kind {
    /* begins to look for others, and waits for nobody; what it has started is the peering's to end, even if it fails */
    int (*start)(struct peering *peering, const struct peering_config *config, struct error *err);
    bool has_keys; /* each node keeps a key of its own there, with its address and a lease */
};

extern const struct discovery_kind peering_kinds[]; /* by enum peering_discovery */

/* peering_find begins to look for others. The caller ends all that it started, even if it fails. */
int peering_find(struct peering *peering, const struct peering_config *config, struct error *err);
/* peering_url_locked returns a node's address; NULL: it is not known. Valid as long as the lock is held. */
const char *peering_url_locked(const struct peering *peering, const uint8_t node[PEER_NODE_BYTES]);
void peering_forget_all(struct peering *peering);

/* ── peering_answer.c ── */

void peering_requested(void *user, struct net_serve_request *request); /* the server's on_request */

#endif
