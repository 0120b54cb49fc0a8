/* peering_message.c: the messages as HTTP carries them: their paths, their lengths, and which answers which. Pure. */
#include <stdlib.h>

#include "common/little_endian.h"
#include "server/peering/peering_priv.h"

#define FIXED_MAX 512u /* bytes of any message without its blobs */

/* Offsets of the type and of the counts of entries in a BATCH, and its length without entries (peer_wire.c). A wrong
 * length does not decode. */
#define TYPE_AT 2
#define COUNT_AT 29
#define BAD_AT 31
#define BATCH_BYTES 33u

const char *peering_path(enum peer_type type)
{
    switch (type) {
    case PEER_PROBE: return "/1/probe";
    case PEER_ATTACH: return "/1/attach";
    case PEER_NEXT: return "/1/next";
    case PEER_WITHDRAW: return "/1/withdraw";
    case PEER_DETACH: return "/1/detach";
    case PEER_STATE_GET: return "/1/state";
    default: return NULL;
    }
}

bool peering_suits(enum peer_type request, enum peer_type answer)
{
    switch (answer) {
    case PEER_ALIVE: return request == PEER_PROBE;
    case PEER_ATTACHED: return request == PEER_ATTACH;
    case PEER_BATCH:
    case PEER_EMPTY: return request == PEER_NEXT;
    case PEER_WITHDRAWN: return request == PEER_WITHDRAW;
    case PEER_DONE: return request == PEER_DETACH;
    case PEER_STATE: return request == PEER_STATE_GET;
    case PEER_REFUSED:
    case PEER_STALE:
    case PEER_GONE: return request != PEER_PROBE;
    default: return false;
    }
}

static size_t blobs_of(const struct peer_message *message)
{
    switch (message->type) {
    case PEER_ATTACH:
        return (size_t)message->attach.path.len_bytes + message->attach.pipeline.len_bytes +
               message->attach.view.len_bytes;
    case PEER_WITHDRAW: return message->guest.ids.len_bytes;
    case PEER_STATE_GET: return message->state_get.job.len_bytes;
    case PEER_ALIVE: return message->alive.version.len_bytes;
    case PEER_REFUSED: return message->refused.text.len_bytes;
    case PEER_BATCH: return message->batch.count * PEER_ENTRY_BYTES + message->batch.bad * PEER_BAD_BYTES;
    case PEER_WITHDRAWN:
    case PEER_STATE: return message->ids.len_bytes;
    default: return 0;
    }
}

int peering_encode(const struct peer_message *message, uint8_t **out, size_t *len_bytes)
{
    size_t cap = FIXED_MAX + blobs_of(message);
    uint8_t *bytes = malloc(cap);
    if (!bytes)
        return LARDER_ENOMEM;
    int rc = peer_encode(message, bytes, cap, len_bytes);
    if (rc)
        free(bytes);
    else
        *out = bytes;
    return rc;
}

size_t peering_head(const uint8_t *body, size_t len_bytes)
{
    if (len_bytes < BATCH_BYTES || get_u16(body + TYPE_AT) != PEER_BATCH)
        return len_bytes;
    size_t head = BATCH_BYTES + get_u16(body + COUNT_AT) * PEER_ENTRY_BYTES + get_u16(body + BAD_AT) * PEER_BAD_BYTES;
    return head < len_bytes ? head : len_bytes;
}

size_t peering_payload(const struct peer_batch *batch)
{
    size_t sum = 0;
    for (uint32_t i = 0; i < batch->count; i++)
        sum += peer_entry_get(batch, i).len_bytes;
    return sum;
}
