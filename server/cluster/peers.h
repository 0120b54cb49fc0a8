/* peers.h: the other nodes of the cluster as this one uses them: which it asks, and which it does not ask now because
 * they do not answer. Pure; the time comes in. One thread owns it.
 *
 * A peer has a number, for as long as it is known. The view of the cluster says who is there, and the circuit of the
 * pair whether it is asked. */
#ifndef LARDER_SERVER_CLUSTER_PEERS_H
#define LARDER_SERVER_CLUSTER_PEERS_H

#include "server/cluster/circuit.h"
#include "server/cluster/members.h"

#define PEER_SELF MAP_NODES_MAX /* the number of this node */
#define PEER_UNKNOWN UINT32_MAX

struct peer {
    uint8_t id[MAP_NODE_ID_BYTES];
    bool known;
    struct circuit circuit;
};

struct peers {
    uint8_t self[MAP_NODE_ID_BYTES];
    struct members_view view; /* the present one */
    uint64_t changes;         /* counts changes of the view */
    uint64_t probe_at;        /* when the first peer is to be probed; UINT64_MAX: none is */
    struct peer all[MAP_NODES_MAX];
};

/* peers_init begins with a view of this node alone. */
void peers_init(struct peers *peers, const struct map_node *self);
/* peers_see takes a new view. Nodes that are not in it keep their numbers until peers_forget. */
void peers_see(struct peers *peers, const struct members_view *view);
void peers_forget(struct peers *peers, const uint8_t id[MAP_NODE_ID_BYTES]);
/* peers_number returns the number of a node; PEER_UNKNOWN: it is in no view that was seen. */
uint32_t peers_number(const struct peers *peers, const uint8_t id[MAP_NODE_ID_BYTES]);

/* peers_asks says whether the peer with this number is asked for samples: the view has it, and its circuit is closed.
 * This node always is. */
bool peers_asks(const struct peers *peers, uint32_t number);
/* Results of requests, as circuit.h takes them. A number that nobody has changes nothing. */
void peers_answered(struct peers *peers, uint32_t number);
void peers_failed(struct peers *peers, uint32_t number, uint64_t now_ns, bool refused);
void peers_probed(struct peers *peers, uint32_t number, uint64_t now_ns, bool answered);
/* peers_probe returns the number of a peer to probe now; PEER_UNKNOWN: there is no more. */
uint32_t peers_probe(struct peers *peers, uint64_t now_ns);
/* peers_alarm returns the time of the next call of peers_probe; UINT64_MAX: never. */
uint64_t peers_alarm(const struct peers *peers);

#endif
