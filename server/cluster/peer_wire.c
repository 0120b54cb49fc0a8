/* peer_wire.c: one function a message says its layout, for reading and for writing. */
#include "server/cluster/peer_wire.h"

#include <string.h>

#include "common/little_endian.h"

#define PEER_MAGIC UINT32_C(0x5052444c) /* "LDRP" */

/* A place in a message. Once `bad`, nothing is read or written any more. */
struct cursor {
    const uint8_t *from; /* reading */
    uint8_t *to;         /* writing */
    size_t at, end;
    bool bad;
};

/* Steps over the next len bytes, which begin at *at; false: there are fewer. */
static bool step(struct cursor *cursor, size_t len, size_t *at)
{
    cursor->bad |= len > cursor->end - cursor->at;
    if (cursor->bad)
        return false;
    *at = cursor->at;
    cursor->at += len;
    return true;
}

static void need(struct cursor *cursor, bool holds)
{
    cursor->bad |= !holds;
}

static void number(struct cursor *cursor, uint64_t *value, unsigned len)
{
    size_t at;
    if (!step(cursor, len, &at))
        return;
    uint64_t read = 0;
    for (unsigned i = 0; i < len; i++) {
        if (cursor->to)
            cursor->to[at + i] = (uint8_t)(*value >> 8 * i);
        else
            read |= (uint64_t)cursor->from[at + i] << 8 * i;
    }
    *value = cursor->to ? *value : read;
}

#define NUMBER(cursor, field)                      \
    do {                                           \
        uint64_t number_ = (uint64_t)(field);      \
        number((cursor), &number_, sizeof(field)); \
        (field) = (__typeof__(field))number_;      \
    } while (0)

static void bytes(struct cursor *cursor, uint8_t *data, size_t len)
{
    size_t at;
    if (!step(cursor, len, &at))
        return;
    if (cursor->to)
        memcpy(cursor->to + at, data, len);
    else
        memcpy(data, cursor->from + at, len);
}

/* Bytes whose number is known already. */
static void lent(struct cursor *cursor, struct peer_blob *blob)
{
    size_t at;
    if (!step(cursor, blob->len_bytes, &at))
        return;
    if (cursor->from)
        blob->data = cursor->from + at;
    else if (blob->len_bytes)
        memcpy(cursor->to + at, blob->data, blob->len_bytes);
}

static void blob(struct cursor *cursor, struct peer_blob *blob, uint32_t max)
{
    NUMBER(cursor, blob->len_bytes);
    need(cursor, blob->len_bytes <= max);
    lent(cursor, blob);
}

static void text(struct cursor *cursor, struct peer_blob *value, uint32_t max)
{
    blob(cursor, value, max);
    need(cursor, cursor->bad || value->len_bytes == 0 || memchr(value->data, 0, value->len_bytes) == NULL);
}

/* Four bytes of the message that mean nothing and are 0. */
static void unused(struct cursor *cursor)
{
    uint32_t zero = 0;
    NUMBER(cursor, zero);
    need(cursor, zero == 0);
}

static void attach(struct cursor *cursor, struct peer_attach *attach)
{
    bytes(cursor, attach->anchor, sizeof attach->anchor);
    NUMBER(cursor, attach->anchor_boot);
    NUMBER(cursor, attach->job);
    NUMBER(cursor, attach->epoch);
    NUMBER(cursor, attach->term);
    bytes(cursor, attach->fingerprint, sizeof attach->fingerprint);
    text(cursor, &attach->path, PEER_PATH_MAX);
    NUMBER(cursor, attach->flags);
    text(cursor, &attach->pipeline, PEER_PIPELINE_MAX);
    NUMBER(cursor, attach->pipeline_hash);
    NUMBER(cursor, attach->prep_id);
    NUMBER(cursor, attach->form);
    NUMBER(cursor, attach->slot_bytes);
    NUMBER(cursor, attach->shuffle);
    NUMBER(cursor, attach->seed);
    NUMBER(cursor, attach->together);
    uint64_t weight;
    memcpy(&weight, &attach->weight, sizeof weight);
    NUMBER(cursor, weight);
    memcpy(&attach->weight, &weight, sizeof weight);
    NUMBER(cursor, attach->predecessor);
    NUMBER(cursor, attach->family);
    NUMBER(cursor, attach->members);
    blob(cursor, &attach->view, PEER_REQUEST_MAX);
    if (cursor->to ? dataset_version_is_known(&attach->version) : cursor->at < cursor->end) {
        for (int i = 0; i < 2; i++)
            NUMBER(cursor, attach->version.times[i]);
        for (int i = 0; i < 2; i++)
            NUMBER(cursor, attach->version.content[i]);
        need(cursor, dataset_version_is_known(&attach->version));
    }
    need(cursor, attach->flags <= PEER_ALL_FILES && attach->form <= PEER_ENCODED && attach->shuffle <= SHUFFLE_NONE);
    need(cursor, attach->together <= 1);
    need(cursor, attach->weight >= JOB_WEIGHT_MIN && attach->weight <= JOB_WEIGHT_MAX);
}

static void next(struct cursor *cursor, struct peer_next *next)
{
    NUMBER(cursor, next->guest);
    NUMBER(cursor, next->term);
    NUMBER(cursor, next->seq);
    NUMBER(cursor, next->acked);
    NUMBER(cursor, next->more);
    NUMBER(cursor, next->n);
    NUMBER(cursor, next->extra);
    NUMBER(cursor, next->wait_ms);
    NUMBER(cursor, next->dry_ms);
    need(cursor, next->acked < next->seq && next->n >= 1 && next->n + next->extra <= PEER_SAMPLES_MAX);
    need(cursor, next->wait_ms <= PEER_WAIT_MAX_MS);
}

static void alive(struct cursor *cursor, struct peer_alive *alive)
{
    bytes(cursor, alive->node, sizeof alive->node);
    text(cursor, &alive->version, PEER_TEXT_MAX);
    NUMBER(cursor, alive->prep_id);
    NUMBER(cursor, alive->leaving);
    NUMBER(cursor, alive->guests);
    unused(cursor);
    NUMBER(cursor, alive->revision);
    need(cursor, alive->leaving <= 1);
}

static void batch(struct cursor *cursor, struct peer_batch *batch)
{
    NUMBER(cursor, batch->guest);
    NUMBER(cursor, batch->seq);
    NUMBER(cursor, batch->flags);
    NUMBER(cursor, batch->count);
    NUMBER(cursor, batch->bad);
    need(cursor, batch->seq >= 1 && batch->flags <= PEER_LAST && batch->count + batch->bad <= PEER_SAMPLES_MAX);
    batch->entries.len_bytes = batch->count * PEER_ENTRY_BYTES;
    batch->bads.len_bytes = batch->bad * PEER_BAD_BYTES;
    lent(cursor, &batch->entries);
    lent(cursor, &batch->bads);
    uint64_t total = cursor->at;
    for (uint32_t i = 0; !cursor->bad && i < batch->count; i++)
        total += peer_entry_get(batch, i).len_bytes;
    need(cursor, total <= PEER_ANSWER_MAX);
    for (uint32_t i = 0; !cursor->bad && i < batch->bad; i++) {
        uint8_t reason = peer_bad_get(batch, i).reason;
        need(cursor, reason > BAD_NONE && reason < BAD_REASONS);
    }
}

static void fields(struct cursor *cursor, struct peer_message *message)
{
    switch (message->type) {
    case PEER_ATTACH: attach(cursor, &message->attach); break;
    case PEER_NEXT: next(cursor, &message->next); break;
    case PEER_WITHDRAW:
    case PEER_DETACH:
        NUMBER(cursor, message->guest.guest);
        NUMBER(cursor, message->guest.term);
        if (message->type == PEER_WITHDRAW)
            blob(cursor, &message->guest.ids, PEER_REQUEST_MAX);
        break;
    case PEER_STATE_GET:
        text(cursor, &message->state_get.job, PEER_TEXT_MAX);
        NUMBER(cursor, message->state_get.launch);
        NUMBER(cursor, message->state_get.epoch);
        NUMBER(cursor, message->state_get.batch);
        break;
    case PEER_ALIVE: alive(cursor, &message->alive); break;
    case PEER_ATTACHED:
        NUMBER(cursor, message->attached.guest);
        unused(cursor);
        NUMBER(cursor, message->attached.count);
        break;
    case PEER_REFUSED:
        NUMBER(cursor, message->refused.code);
        NUMBER(cursor, message->refused.retry_ms);
        text(cursor, &message->refused.text, PEER_TEXT_MAX);
        need(cursor, message->refused.code < 0);
        break;
    case PEER_BATCH: batch(cursor, &message->batch); break;
    case PEER_WITHDRAWN:
    case PEER_STATE: blob(cursor, &message->ids, PEER_REQUEST_MAX); break;
    case PEER_PROBE:
    case PEER_STALE:
    case PEER_EMPTY:
    case PEER_GONE:
    case PEER_DONE: break;
    default: cursor->bad = true;
    }
}

/* The message after its version. */
static void body(struct cursor *cursor, struct peer_message *message, bool request)
{
    uint16_t type = (uint16_t)message->type;
    NUMBER(cursor, type);
    message->type = (enum peer_type)type;
    need(cursor, type >= PEER_PROBE && type <= PEER_STATE && PEER_IS_REQUEST(type) == request);
    if (request) {
        NUMBER(cursor, message->cluster);
        bytes(cursor, message->node, sizeof message->node);
    }
    NUMBER(cursor, message->boot);
    if (!cursor->bad)
        fields(cursor, message);
}

int peer_encode(const struct peer_message *message, uint8_t *buf, size_t cap, size_t *len_bytes)
{
    bool request = PEER_IS_REQUEST(message->type);
    size_t max = request ? PEER_REQUEST_MAX : PEER_ANSWER_MAX;
    struct cursor cursor = {.to = buf, .end = cap < max ? cap : max};
    struct peer_message copy = *message;
    uint32_t magic = PEER_MAGIC;
    uint16_t version = PEER_VERSION;
    if (request)
        NUMBER(&cursor, magic);
    NUMBER(&cursor, version);
    body(&cursor, &copy, request);
    if (cursor.bad)
        return LARDER_ELIMIT;
    *len_bytes = cursor.at;
    return 0;
}

int peer_decode(const uint8_t *data, size_t len_bytes, struct peer_message *out, struct error *err)
{
    bool request = len_bytes >= 4 && get_u32(data) == PEER_MAGIC;
    struct cursor cursor = {.from = data, .at = request ? 4 : 0, .end = len_bytes};
    struct peer_message message = {0};
    uint16_t version = 0;
    NUMBER(&cursor, version);
    if (!cursor.bad && version != PEER_VERSION)
        return error_set(err, LARDER_EVERSION,
                         "the peer speaks version %u of the messages between daemons, and this daemon %d: run the "
                         "same Larder on all nodes",
                         version, PEER_VERSION);
    need(&cursor, len_bytes <= (request ? PEER_REQUEST_MAX : PEER_ANSWER_MAX));
    body(&cursor, &message, request);
    if (cursor.bad || cursor.at != len_bytes)
        return error_set(err, LARDER_EFORMAT, "a peer's message of %zu bytes is not what it claims to be (type %d)",
                         len_bytes, (int)message.type);
    *out = message;
    return 0;
}

struct peer_entry peer_entry_get(const struct peer_batch *batch, uint32_t i)
{
    const uint8_t *at = batch->entries.data + (size_t)i * PEER_ENTRY_BYTES;
    return (struct peer_entry){get_u32(at), get_u32(at + 4), get_u64(at + 8)};
}

void peer_entry_put(uint8_t *entries, uint32_t i, const struct peer_entry *entry)
{
    put_u64(put_u32(put_u32(entries + (size_t)i * PEER_ENTRY_BYTES, entry->index), entry->len_bytes), entry->check);
}

struct peer_bad peer_bad_get(const struct peer_batch *batch, uint32_t i)
{
    const uint8_t *at = batch->bads.data + (size_t)i * PEER_BAD_BYTES;
    return (struct peer_bad){get_u32(at), at[4]};
}

void peer_bad_put(uint8_t *bads, uint32_t i, const struct peer_bad *bad)
{
    *put_u32(bads + (size_t)i * PEER_BAD_BYTES, bad->index) = bad->reason;
}
