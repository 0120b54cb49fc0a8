/* cluster_sent.c: requests to other nodes that have no answer yet. */
#include "common/check.h"
#include "server/driver/cluster_priv.h"

struct cluster_sent *cluster_send(struct driver_cluster *cluster, const struct cluster_sent *sent,
                                  const struct peer_message *message, bool fresh, uint32_t whole_ms)
{
    uint64_t number = ++cluster->numbers, ticket;
    if (peering_ask(cluster->peering, sent->node, message, number, fresh, whole_ms, &ticket))
        return NULL;
    if (sent->type == PEER_PROBE)
        cluster->counts.probes++;
    else
        cluster->counts.requests++;
    cluster->sent = xgrow(cluster->sent, sizeof *cluster->sent, &cluster->sent_cap, cluster->n_sent + 1);
    struct cluster_sent *put = &cluster->sent[cluster->n_sent++];
    *put = *sent;
    put->number = number;
    put->ticket = ticket;
    return put;
}

bool cluster_sent_take(struct driver_cluster *cluster, uint64_t number, struct cluster_sent *out)
{
    for (size_t i = 0; i < cluster->n_sent; i++) {
        if (cluster->sent[i].number != number)
            continue;
        *out = cluster->sent[i];
        cluster->sent[i] = cluster->sent[--cluster->n_sent];
        return true;
    }
    return false;
}
