/* etcd_priv.h: what the files etcd*.c share. All of it is the network client's thread's own. */
#ifndef LARDER_SERVER_DISCOVERY_ETCD_PRIV_H
#define LARDER_SERVER_DISCOVERY_ETCD_PRIV_H

#include "server/discovery/etcd.h"
#include "server/discovery/etcd_answer.h"
#include "server/discovery/etcd_ask.h"

#define ETCD_MAGIC 0x65746364u
#define ETCD_CONNECT_MS 2000
#define ETCD_WHOLE_MS 5000 /* time-out of any request but a watch */
#define ETCD_URL_MAX (NET_URL_MAX + 64)

/* Bytes of an answer, as far as they came. */
struct etcd_heard {
    char *data;
    size_t len_bytes, cap;
};

/* A request, one at a time. It is sent to one endpoint after the other until one answers. */
struct etcd_op {
    struct etcd *etcd;
    const char *path; /* below /v3/ */
    char *body;
    struct etcd_heard heard;
    size_t endpoint;  /* the endpoint that is being asked */
    size_t n_tried;   /* endpoints */
    bool busy;        /* until done was called */
    bool logging_in;  /* it waits for a token */
    bool logged_anew; /* its token was refused, and it got another */
    uint32_t token;   /* the token that it was sent with */
    bool told;        /* its last refusal was logged */
    /* done is given the answer, or NULL: nobody gave one. answer->code may be not 0. */
    void (*done)(struct etcd *etcd, const struct etcd_answer *answer);
};

enum etcd_format { ETCD_FORMAT_UNKNOWN, ETCD_FORMAT_OURS, ETCD_FORMAT_OTHER };

enum etcd_leaves { ETCD_STAYS, ETCD_LEAVES_NEXT, ETCD_LEFT };

struct etcd {
    uint32_t magic;
    struct net_client *client; /* borrowed */
    const struct net_tls *tls; /* borrowed */
    discovery_tell *tell;
    void *arg;
    char *endpoints[ETCD_ENDPOINTS_MAX];
    size_t n_endpoints, endpoint; /* endpoint: the one to ask */
    char *user, *password, *auth; /* auth: the header with the token; NULL: none yet */
    uint32_t n_tokens;            /* so far: the number of the one in auth */
    bool no_login;                /* etcd wants none */
    uint32_t lease_s, bound;
    char *config_key, *prefix;       /* prefix: of the nodes' keys */
    bool silent[ETCD_ENDPOINTS_MAX]; /* did not answer when last asked, which was logged */
    bool is_up, is_down;             /* the state that was told last; neither: none yet */
    struct etcd_op login, lease_op, follow_op;

    /* etcd_lease.c */
    char *self_key, *self_value; /* NULL: never registered */
    int64_t lease;               /* 0: none */
    bool granted_anew;           /* while registering */
    bool wants_register, wants_keepalive;
    enum etcd_leaves leaves;

    /* etcd_follow.c, etcd_watch.c, etcd_keys.c */
    enum etcd_format format;
    bool config_told;
    uint32_t bound_told;
    uint64_t wait_ms; /* before the next attempt */
    int64_t revision; /* revision of the pages being read; then that of the last change */
    char *last_key;   /* last key of the last page; NULL: the first page comes */
    size_t last_key_bytes;
    uint32_t n_pages;
    uint64_t watch; /* its ticket; NET_TICKET_NONE: none runs */
    size_t watch_endpoint;
    char *watch_body;
    void (*watch_ended)(struct etcd *etcd);
    struct etcd_heard line;
    uint32_t n_listed;
    struct etcd_listed {
        uint8_t id[MAP_NODE_ID_BYTES];
        bool seen; /* while reading all keys */
    } listed[DISCOVERY_NODES_MAX];
};

/* etcd_hear adds bytes; LARDER_ELIMIT: more than ETCD_ANSWER_MAX. */
int etcd_hear(struct etcd_heard *heard, const void *data, size_t len_bytes);
/* etcd_ask begins an op that is not busy; it takes the body over. */
void etcd_ask(struct etcd *etcd, struct etcd_op *op, const char *path, char *body,
              void (*done)(struct etcd *etcd, const struct etcd_answer *answer));
/* etcd_headers fills in the headers that every request has, and returns their number. */
size_t etcd_headers(const struct etcd *etcd, const char *headers[NET_HEADERS_MAX]);
/* etcd_failed: this endpoint did not answer. The next one is asked from now on, and a watch there is ended. */
void etcd_failed(struct etcd *etcd, size_t endpoint, const char *text);
void etcd_answered(struct etcd *etcd, size_t endpoint);

void etcd_tell(struct etcd *etcd, const struct discovery_event *event);
void etcd_tell_members(struct etcd *etcd, const struct members_event *event, const struct discovery_node *node);

/* etcd_lease_next begins what is wanted of the lease, unless something is under way. */
void etcd_lease_next(struct etcd *etcd);
/* etcd_lease_refuse: this node cannot register now. */
void etcd_lease_refuse(struct etcd *etcd);

/* etcd_follow begins to follow from the start. */
void etcd_follow(struct etcd *etcd);
/* etcd_watch watches from the revision behind the last one; `ended` is called when the watch is over. */
void etcd_watch(struct etcd *etcd, void (*ended)(struct etcd *etcd));
/* etcd_keys_begin and etcd_keys_end stand around the reading of all keys: what was not among them has vanished. */
void etcd_keys_begin(struct etcd *etcd);
void etcd_keys_end(struct etcd *etcd, int64_t revision);
/* etcd_take_kv tells the change of a node's key, at this revision of the store. */
void etcd_take_kv(struct etcd *etcd, const struct etcd_kv *kv, int64_t revision);

#endif
