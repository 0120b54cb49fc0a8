/* sharing_sent.c: requests to other nodes that have no answer yet. */
#include "common/check.h"
#include "server/sharing/sharing_priv.h"

struct sharing_sent *sharing_send(struct sharing *sharing, const struct sharing_sent *sent,
                                  const struct peer_message *message, bool fresh, uint32_t whole_ms)
{
    uint64_t number = ++sharing->numbers, ticket;
    if (peering_ask(sharing->peering, sent->node, message, number, fresh, whole_ms, &ticket))
        return NULL;
    if (sent->type == PEER_PROBE)
        sharing->counts.probes++;
    else if (sent->type != PEER_ATTACH || sent->serial) /* an ATTACH of no anchor only tells of wants */
        sharing->counts.requests++;
    sharing->sent = xgrow(sharing->sent, sizeof *sharing->sent, &sharing->sent_cap, sharing->n_sent + 1);
    struct sharing_sent *put = &sharing->sent[sharing->n_sent++];
    *put = *sent;
    put->number = number;
    put->ticket = ticket;
    return put;
}

bool sharing_sent_take(struct sharing *sharing, uint64_t number, struct sharing_sent *out)
{
    for (size_t i = 0; i < sharing->n_sent; i++) {
        if (sharing->sent[i].number != number)
            continue;
        *out = sharing->sent[i];
        sharing->sent[i] = sharing->sent[--sharing->n_sent];
        return true;
    }
    return false;
}
