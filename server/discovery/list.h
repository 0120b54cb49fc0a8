/* list.h: finds the other nodes without etcd: a list of addresses, from the settings, from Slurm, or from a name in
 * DNS. Each address is asked with the peers' own probe who lives there.
 *
 * Such a list has no leases and no config: members.h has to be told that nothing is leased, the map's bound is the
 * default, and every node counts with weight 1.
 *
 * Everything runs in the network client's thread, the tell function too. */
#ifndef LARDER_SERVER_DISCOVERY_LIST_H
#define LARDER_SERVER_DISCOVERY_LIST_H

#include "common/net/client.h"
#include "server/discovery/discovery.h"

struct list_config {
    const struct net_tls *tls; /* NULL: plain HTTP; borrowed as long as the client lives */
    uint64_t cluster;          /* the hash of its name, as peers tell it */
    uint8_t self[MAP_NODE_ID_BYTES];
    uint64_t boot;
    discovery_tell *tell;
    void *arg;
};

struct list;

/* list_start begins with no addresses. The caller frees *out with list_destroy. LARDER_ELIMIT, LARDER_EGONE. */
int list_start(const struct list_config *config, struct net_client *client, struct list **out, struct error *err);
/* list_destroy is for after net_client_stop. Accepts NULL. */
void list_destroy(struct list *list);
/* list_set returns the whole list anew: "host:port" each, copied. Any thread. LARDER_ELIMIT, LARDER_EGONE. */
int list_set(struct list *list, const char *const *addresses, size_t count);
/* list_source says whether the source of the addresses can be read; events UP and DOWN. Any thread. */
int list_source(struct list *list, bool is_up);

#endif
