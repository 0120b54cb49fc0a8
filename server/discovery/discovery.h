/* discovery.h: what the ways of finding the other nodes (etcd, a list, DNS) have in common: each tells events, of which
 * most are for server/cluster/members.h. */
#ifndef LARDER_SERVER_DISCOVERY_DISCOVERY_H
#define LARDER_SERVER_DISCOVERY_DISCOVERY_H

#include "server/cluster/members.h"

#define DISCOVERY_NODES_MAX 128 /* listed at a time; members takes fewer */
#define DISCOVERY_NAME_MAX 256  /* bytes of each text, its NUL included */
#define DISCOVERY_URL_MAX 512
#define DISCOVERY_VERSION_MAX 64
#define DISCOVERY_ROOTS_MAX 2048 /* all roots together, each with its NUL */

/* A node's description of itself. */
struct discovery_node {
    uint8_t id[MAP_NODE_ID_BYTES];
    uint64_t boot, prep_id;
    uint32_t weight; /* 1 … MAP_WEIGHT_MAX */
    bool leaving;
    uint32_t n_roots;
    char name[DISCOVERY_NAME_MAX], url[DISCOVERY_URL_MAX], version[DISCOVERY_VERSION_MAX];
    char roots[DISCOVERY_ROOTS_MAX]; /* n_roots texts, one behind the other */
};

enum discovery_event_type {
    DISCOVERY_MEMBERS, /* an event for members_step; a LISTED one comes with its node */
    DISCOVERY_CONFIG,  /* the agreed settings of the cluster; comes before the first LISTED */
    DISCOVERY_UP,      /* the list can be read */
    DISCOVERY_DOWN,    /* it cannot; what it said before holds on */
    DISCOVERY_LEFT,    /* this node's lease was given back, or etcd does not answer */
};

struct discovery_event {
    enum discovery_event_type type;
    struct members_event members;
    const struct discovery_node *node; /* borrowed for the call */
    uint32_t bound;                    /* CONFIG: percent, as in map_desc */
};

/* A function that is told events, in the network client's thread, one at a time. It must not wait. */
typedef void discovery_tell(void *arg, const struct discovery_event *event);

#endif
