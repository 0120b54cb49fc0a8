/* nodes.h: nodes of a cluster for tests: each has an etcd client and members of its own. The test is the thread that
 * owns all of them. No node has a daemon: whether it answers probes is what the test says. */
#ifndef LARDER_TESTS_NODES_H
#define LARDER_TESTS_NODES_H

#include <stdbool.h>

#include "server/discovery/etcd.h"

#define NODES_MAX 6

struct nodes;

struct node {
    struct nodes *nodes;
    uint32_t number;
    struct discovery_node self;
    struct net_client *client; /* NULL: not started, or stopped */
    struct etcd *etcd;
    struct members members;
    bool answers; /* probes of others */
    bool is_up, is_down, has_left;
    uint32_t bound;
    uint32_t n_listed, n_vanished, n_granted, n_lost, n_failed, n_up, n_down, n_probes; /* events and actions so far */
    uint32_t least_view;        /* the fewest nodes in its view since the test set it */
    uint32_t at_url[NODES_MAX]; /* how often each node was listed with its right URL */
};

struct nodes {
    struct mailbox *inbox;
    const char *const *endpoints;
    size_t n_endpoints;
    const char *cluster, *user, *password;
    const struct net_tls *tls;
    uint32_t lease_s;
    struct node all[NODES_MAX];
};

void nodes_init(struct nodes *nodes, const char *const *endpoints, size_t n_endpoints);
void nodes_free(struct nodes *nodes);
/* nodes_start starts a node; nodes_stop ends it as kill -9 would, with no word to etcd. */
struct node *nodes_start(struct nodes *nodes, uint32_t number);
void nodes_stop(struct nodes *nodes, uint32_t number);
/* nodes_until does what the nodes have to do until the condition holds; false: it did not within a minute. */
bool nodes_until(struct nodes *nodes, bool (*holds)(const struct nodes *nodes, uint32_t value), uint32_t value);
/* nodes_for does so for a time. */
void nodes_for(struct nodes *nodes, uint64_t ms);

/* Conditions: every running node that is up sees so many nodes; has heard of so many vanished keys, or more. */
bool nodes_see(const struct nodes *nodes, uint32_t value);
bool nodes_are_up(const struct nodes *nodes, uint32_t value); /* value: unused */
bool nodes_are_down(const struct nodes *nodes, uint32_t value);

#endif
