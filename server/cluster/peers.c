#include "server/cluster/peers.h"

#include <string.h>

static bool is_id(const uint8_t a[MAP_NODE_ID_BYTES], const uint8_t b[MAP_NODE_ID_BYTES])
{
    return memcmp(a, b, MAP_NODE_ID_BYTES) == 0;
}

static bool in_view(const struct members_view *view, const uint8_t id[MAP_NODE_ID_BYTES])
{
    for (uint32_t i = 0; i < view->n_nodes; i++) {
        if (is_id(view->nodes[i].id, id))
            return true;
    }
    return false;
}

void peers_init(struct peers *peers, const struct map_node *self)
{
    *peers = (struct peers){.view = {.n_nodes = 1}, .probe_at = UINT64_MAX};
    memcpy(peers->self, self->id, sizeof peers->self);
    peers->view.nodes[0] = *self;
}

uint32_t peers_number(const struct peers *peers, const uint8_t id[MAP_NODE_ID_BYTES])
{
    if (is_id(peers->self, id))
        return PEER_SELF;
    for (uint32_t number = 0; number < MAP_NODES_MAX; number++) {
        if (peers->all[number].known && is_id(peers->all[number].id, id))
            return number;
    }
    return PEER_UNKNOWN;
}

/* see_circuits finds out when the first peer is to be probed, after a circuit has changed. */
static void see_circuits(struct peers *peers)
{
    peers->probe_at = UINT64_MAX;
    for (uint32_t number = 0; number < MAP_NODES_MAX; number++) {
        const struct peer *peer = &peers->all[number];
        if (peer->known && peer->circuit.state == CIRCUIT_OPEN && peer->circuit.probe_at < peers->probe_at)
            peers->probe_at = peer->circuit.probe_at;
    }
}

/* place returns a free number; when all are taken, that of a node that is in no view any more. There are at most as
 * many nodes in a view as numbers. */
static struct peer *place(struct peers *peers)
{
    struct peer *old = NULL;
    for (uint32_t number = 0; number < MAP_NODES_MAX; number++) {
        struct peer *peer = &peers->all[number];
        if (!peer->known)
            return peer;
        old = in_view(&peers->view, peer->id) ? old : peer;
    }
    return old;
}

void peers_see(struct peers *peers, const struct members_view *view)
{
    peers->view = *view;
    peers->changes++;
    for (uint32_t i = 0; i < view->n_nodes; i++) {
        if (peers_number(peers, view->nodes[i].id) != PEER_UNKNOWN)
            continue;
        struct peer *peer = place(peers);
        *peer = (struct peer){.known = true};
        memcpy(peer->id, view->nodes[i].id, sizeof peer->id);
    }
    see_circuits(peers);
}

static struct peer *peer_at(struct peers *peers, uint32_t number)
{
    return number < MAP_NODES_MAX && peers->all[number].known ? &peers->all[number] : NULL;
}

void peers_forget(struct peers *peers, const uint8_t id[MAP_NODE_ID_BYTES])
{
    struct peer *peer = peer_at(peers, peers_number(peers, id));
    if (peer)
        *peer = (struct peer){0};
    see_circuits(peers);
}

bool peers_asks(const struct peers *peers, uint32_t number)
{
    const struct peer *peer = number < MAP_NODES_MAX ? &peers->all[number] : NULL;
    return number == PEER_SELF ||
           (peer && peer->known && peer->circuit.state == CIRCUIT_CLOSED && in_view(&peers->view, peer->id));
}

void peers_answered(struct peers *peers, uint32_t number)
{
    struct peer *peer = peer_at(peers, number);
    if (peer)
        circuit_answered(&peer->circuit);
}

void peers_failed(struct peers *peers, uint32_t number, uint64_t now_ns, bool refused)
{
    struct peer *peer = peer_at(peers, number);
    if (peer)
        circuit_failed(&peer->circuit, now_ns, refused);
    see_circuits(peers);
}

void peers_probed(struct peers *peers, uint32_t number, uint64_t now_ns, bool answered)
{
    struct peer *peer = peer_at(peers, number);
    if (peer)
        circuit_probed(&peer->circuit, now_ns, answered);
    see_circuits(peers);
}

uint32_t peers_probe(struct peers *peers, uint64_t now_ns)
{
    for (uint32_t number = 0; number < MAP_NODES_MAX && peers->probe_at <= now_ns; number++) {
        struct peer *peer = peer_at(peers, number);
        if (peer && circuit_probe(&peer->circuit, now_ns)) {
            see_circuits(peers);
            return number;
        }
    }
    return PEER_UNKNOWN;
}

uint64_t peers_alarm(const struct peers *peers)
{
    return peers->probe_at;
}
