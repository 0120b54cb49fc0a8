/* members.h: which nodes are in the cluster, as one of them sees it. Pure: events with the time come in, actions go
 * out. One thread owns it.
 *
 * A list (etcd's keys, or one without leases) says whom to try; answers say who is there. A node whose key is gone is
 * probed, and stays while it answers. A node that keeps its lease is UP, whatever probes say: whether a pair of nodes
 * can talk is for circuits. In a list without leases, all nodes are probed.
 *
 *   UP ── says so ──▶ LEAVING
 *   UP, LEAVING ── no lease, and MEMBERS_UNANSWERED probes failed in a row ──▶ LOST
 *   LOST ── listed with a lease, or answers ──▶ UP or LEAVING
 *   LOST ── not listed for MEMBERS_FORGET_NS ──▶ forgotten */
#ifndef LARDER_SERVER_CLUSTER_MEMBERS_H
#define LARDER_SERVER_CLUSTER_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/cluster/map.h"

#define MEMBERS_UNANSWERED 2
#define MEMBERS_PROBE_NS UINT64_C(2000000000)   /* time between two probes of a node */
#define MEMBERS_VIEW_NS UINT64_C(2000000000)    /* time between two changes of the view */
#define MEMBERS_FORGET_NS UINT64_C(60000000000) /* time that a node which no list has stays LOST */
#define MEMBERS_KEEPALIVES 3                    /* keepalives in the time of a lease */
#define MEMBERS_ACTIONS_MAX (2 * MAP_NODES_MAX + 3)

enum member_state { MEMBER_UNKNOWN, MEMBER_UP, MEMBER_LEAVING, MEMBER_LOST };

enum members_event_type {
    MEMBERS_TICK,
    MEMBERS_LISTED,         /* a key was added or changed; or a list has the node */
    MEMBERS_VANISHED,       /* the key was removed */
    MEMBERS_PROBE_ANSWERED, /* results of PROBE actions */
    MEMBERS_PROBE_FAILED,
    MEMBERS_DATA_ANSWERED, /* the node answered something else */
    MEMBERS_LEASE_GRANTED, /* results of REGISTER and KEEPALIVE */
    MEMBERS_LEASE_LOST,    /* the lease is dead */
    MEMBERS_LEASE_FAILED,  /* nobody answered */
    MEMBERS_LEAVE,         /* this node leaves */
};

struct members_event {
    enum members_event_type type;
    uint64_t now_ns;               /* no earlier than in the event before */
    uint8_t id[MAP_NODE_ID_BYTES]; /* LISTED … DATA_ANSWERED */
    uint64_t boot;                 /* LISTED and answers; 0: not known */
    uint32_t weight;               /* LISTED: 1 … MAP_WEIGHT_MAX */
    bool leaving;                  /* LISTED and PROBE_ANSWERED */
    uint64_t revision;             /* LISTED, VANISHED: the list's */
};

enum members_action_type {
    MEMBERS_PROBE,     /* ask the node; tell the result in time */
    MEMBERS_REGISTER,  /* grant a lease and put this node's key, with its present state */
    MEMBERS_KEEPALIVE, /* keep the lease alive */
    MEMBERS_REBOOTED,  /* the node has started anew: what it had for others is gone */
    MEMBERS_FORGOTTEN, /* the node is no longer known */
    MEMBERS_CHANGED,   /* the view */
};

struct members_action {
    enum members_action_type type;
    uint8_t id[MAP_NODE_ID_BYTES]; /* PROBE, REBOOTED, FORGOTTEN */
};

/* The nodes that maps are made of: those that are UP. */
struct members_view {
    uint64_t revision; /* the list's when the view was made */
    uint32_t n_nodes;
    struct map_node nodes[MAP_NODES_MAX]; /* ascending by id */
};

struct member {
    struct map_node node;
    uint64_t boot; /* 0: not known yet */
    enum member_state state;
    bool listed, leaving, probing;
    uint32_t unanswered; /* probes in a row */
    uint64_t probe_at, lost_at;
};

enum members_lease { MEMBERS_LEASE_NONE, MEMBERS_LEASE_ASKED, MEMBERS_LEASE_HELD };

struct members {
    bool leased; /* the list has leases */
    uint64_t lease_ns;
    enum members_lease lease;
    bool asked_before;   /* ASKED only: before this node's state changed, so its key is to be put once more */
    uint64_t lease_at;   /* when the lease is next asked for, or kept alive */
    uint32_t n_members;  /* includes this node, which is the first */
    uint64_t n_refused;  /* listed nodes for which there was no room */
    uint64_t revision;   /* revision of the last change of the list */
    bool changed;        /* the view is to be made anew */
    uint64_t changed_at; /* when the view was last made; it has been made at least once */
    struct members_view view;
    struct member members[MAP_NODES_MAX];
};

/* members_init begins with this node alone. leased says whether the list has leases, of lease_ns. */
void members_init(struct members *members, const struct map_node *self, bool leased, uint64_t lease_ns,
                  uint64_t now_ns);
/* members_step takes an event and returns the number of actions, in order. There is room for MEMBERS_ACTIONS_MAX.
 * Events about unknown nodes change nothing. */
size_t members_step(struct members *members, const struct members_event *event, struct members_action *actions);
/* members_alarm returns when the next TICK is wanted; UINT64_MAX: never. */
uint64_t members_alarm(const struct members *members);
/* members_state returns the node's state now, which the view may learn later. */
enum member_state members_state(const struct members *members, const uint8_t id[MAP_NODE_ID_BYTES]);
/* members_away tells whether the node is LOST or LEAVING, or was restarted since it had this boot. It returns false for
 * an UNKNOWN node: that node may list this one without being in this node's list. */
bool members_away(const struct members *members, const uint8_t id[MAP_NODE_ID_BYTES], uint64_t boot);

#endif
