/* peer_wire.h: the messages between daemons, as bytes: little-endian, in fixed layouts, bounded. Foreign bytes are
 * never trusted. Nothing is allocated: decoded texts and blobs point into the message. A decoded message encodes to the
 * same bytes again.
 *
 * A request begins with "LDRP", version, type, the hash of the cluster's name, the sender's node id and its boot; an
 * answer with version, type and boot. Of BATCH only the head is a message: the payloads follow it, in order. */
#ifndef LARDER_SERVER_CLUSTER_PEER_WIRE_H
#define LARDER_SERVER_CLUSTER_PEER_WIRE_H

#include <stddef.h>
#include <stdint.h>

#include "common/dataset_version.h"
#include "common/error.h"
#include "common/types.h"

#define PEER_VERSION 1
#define PEER_NODE_BYTES 16
#define PEER_FINGERPRINT_BYTES 16
#define PEER_REQUEST_MAX (UINT32_C(16) << 20)
#define PEER_ANSWER_MAX (UINT32_C(64) << 20) /* payloads included */
#define PEER_SAMPLES_MAX 256                 /* samples in a request, and in a batch, bad ones included */
#define PEER_WAIT_MAX_MS 5000
#define PEER_PATH_MAX 4096
#define PEER_PIPELINE_MAX 24576
#define PEER_TEXT_MAX 512
#define PEER_ENTRY_BYTES 16
#define PEER_BAD_BYTES 5

enum peer_type {
    PEER_PROBE = 1,
    PEER_ATTACH,
    PEER_NEXT,
    PEER_WITHDRAW,
    PEER_DETACH,
    PEER_STATE_GET,
    PEER_ALIVE,
    PEER_ATTACHED,
    PEER_REFUSED,
    PEER_STALE,
    PEER_BATCH,
    PEER_EMPTY,
    PEER_GONE,
    PEER_WITHDRAWN,
    PEER_DONE,
    PEER_STATE,
};
#define PEER_IS_REQUEST(type) ((type) <= PEER_STATE_GET)

enum peer_form { PEER_PREPARED, PEER_ENCODED };
#define PEER_ALL_FILES 1u /* attach.flags */
#define PEER_LAST 1u      /* batch.flags */

/* Bytes inside a message, borrowed from its buffer. Texts have no NUL byte. Sets are blobs, in the serial form of
 * idset.h, which checks them. */
struct peer_blob {
    const uint8_t *data;
    uint32_t len_bytes;
};

struct peer_attach {
    uint8_t anchor[PEER_NODE_BYTES]; /* the key: anchor, its boot, job, epoch */
    uint64_t anchor_boot;
    uint32_t job, epoch;
    uint64_t term;
    uint8_t fingerprint[PEER_FINGERPRINT_BYTES];
    struct peer_blob path, pipeline; /* texts */
    uint32_t flags;
    uint64_t pipeline_hash, prep_id, slot_bytes, seed, predecessor, family;
    uint64_t together; /* 1: the copies of a sample are dealt together (multiset.h); else 0 */
    uint8_t form, shuffle;
    uint16_t members; /* members of the family */
    double weight;
    struct peer_blob view; /* a bag of indices, flat (bag.h): its stride is the number of the dataset's samples */
    struct dataset_version version; /* all 0: the anchor is older than versions, and the bytes do not have them */
};

struct peer_next {
    uint64_t guest, term, seq, acked, more; /* acked, more: as in merge.h */
    uint16_t n, extra, wait_ms;
    uint32_t dry_ms;
};

struct peer_alive {
    uint8_t node[PEER_NODE_BYTES];
    struct peer_blob version; /* text */
    uint64_t prep_id, revision;
    uint8_t leaving;
    uint32_t guests;
};

struct peer_batch {
    uint64_t guest, seq;
    uint8_t flags;
    uint16_t count, bad;
    struct peer_blob entries, bads; /* count × PEER_ENTRY_BYTES, bad × PEER_BAD_BYTES */
};

struct peer_message {
    enum peer_type type;
    uint64_t cluster;              /* requests: hash of the cluster's name */
    uint8_t node[PEER_NODE_BYTES]; /* requests: the sender */
    uint64_t boot;                 /* the sender's */
    union {
        struct peer_attach attach;
        struct peer_next next;
        struct { /* WITHDRAW, DETACH; an empty set: all */
            uint64_t guest, term;
            struct peer_blob ids; /* WITHDRAW */
        } guest;
        struct {
            struct peer_blob job; /* text */
            uint64_t launch;
            uint32_t epoch, batch;
        } state_get;
        struct peer_alive alive;
        struct {
            uint64_t guest;
            uint32_t count;
        } attached;
        struct {
            int32_t code; /* a larder_err */
            uint32_t retry_ms;
            struct peer_blob text;
        } refused;
        struct peer_batch batch;
        struct peer_blob ids; /* WITHDRAWN, STATE */
    };
};

struct peer_entry {
    uint32_t index, len_bytes;
    uint64_t check; /* XXH3-64 of the payload */
};

struct peer_bad {
    uint32_t index;
    uint8_t reason; /* enum bad_reason, not BAD_NONE */
};

/* peer_encode writes a message into buf and its length into *len_bytes. LARDER_ELIMIT: it does not fit, or a field is
 * out of its bounds. */
int peer_encode(const struct peer_message *message, uint8_t *buf, size_t cap, size_t *len_bytes);
/* peer_decode reads one whole message. LARDER_EVERSION: of another version; LARDER_EFORMAT: anything else. */
int peer_decode(const uint8_t *data, size_t len_bytes, struct peer_message *out, struct error *err);
/* These read and write the parts of a batch; i is below count, or bad. */
struct peer_entry peer_entry_get(const struct peer_batch *batch, uint32_t i);
void peer_entry_put(uint8_t *entries, uint32_t i, const struct peer_entry *entry);
struct peer_bad peer_bad_get(const struct peer_batch *batch, uint32_t i);
void peer_bad_put(uint8_t *bads, uint32_t i, const struct peer_bad *bad);

#endif
