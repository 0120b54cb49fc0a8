/* etcd.h: finds the other nodes in etcd, through its JSON gateway, and keeps this node's key there.
 *
 * It follows the cluster's nodes from the start on: it agrees on the config, reads all keys, then watches from there.
 * When the watch ends, for any reason, it reads all keys again. It asks one endpoint after another; after a failure it
 * asks the next. Trouble is logged once, and once more when it is over.
 *
 * This node's own key depends on members.h: for its actions REGISTER and KEEPALIVE call etcd_register and
 * etcd_keepalive, and the results are told as events LEASE_GRANTED, LEASE_LOST and LEASE_FAILED.
 *
 * Everything runs in the network client's thread, the tell function too. The calls here hand over and return at once;
 * any thread. */
#ifndef LARDER_SERVER_DISCOVERY_ETCD_H
#define LARDER_SERVER_DISCOVERY_ETCD_H

#include "common/net/client.h"
#include "server/discovery/discovery.h"

#define ETCD_ENDPOINTS_MAX 16
#define ETCD_CLUSTER_MAX 128 /* bytes of a cluster's name */
#define ETCD_LEASE_MIN_S 2   /* etcd gives no shorter ones */
#define ETCD_LEASE_MAX_S 3600

struct etcd_config {
    const char *const *endpoints; /* "https://host:2379"; copied */
    size_t n_endpoints;
    const struct net_tls *tls;   /* borrowed as long as the client lives; may be NULL */
    const char *user, *password; /* copied; NULL: nobody logs in */
    const char *cluster;         /* its name: printable, without a slash; copied */
    uint32_t lease_s;
    uint32_t bound; /* the bound to propose if the cluster has no config yet */
    discovery_tell *tell;
    void *arg;
};

struct etcd;

/* etcd_start begins to follow the cluster. The client is borrowed. The caller frees *out with etcd_destroy.
 * LARDER_EINVAL (a setting is wrong), LARDER_EGONE, LARDER_ELIMIT (of the client). */
int etcd_start(const struct etcd_config *config, struct net_client *client, struct etcd **out, struct error *err);
/* etcd_destroy is for after net_client_stop, which ends all that is under way here. Accepts NULL. */
void etcd_destroy(struct etcd *etcd);

/* etcd_register puts this node's key with a lease, a new one where there is none. The result is LEASE_GRANTED or
 * LEASE_FAILED. The node is copied. LARDER_EINVAL, LARDER_ELIMIT (the node's texts; or of the client), LARDER_EGONE:
 * no result comes. */
int etcd_register(struct etcd *etcd, const struct discovery_node *self, struct error *err);
/* etcd_keepalive keeps the lease alive. LEASE_LOST: it is dead. LEASE_FAILED: nobody answered. */
int etcd_keepalive(struct etcd *etcd);
/* etcd_leave gives the lease back, and the key goes with it. The result is a LEFT event. From here on registering and
 * keeping alive do nothing and have no result; the others are still followed. */
int etcd_leave(struct etcd *etcd);

#endif
