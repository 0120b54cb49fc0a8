/* etcd_answer.h: parses answers of etcd's JSON gateway, whole ones or lines of a stream. Pure. The bytes are never
 * trusted: their length, depth and numbers are bounded.
 *
 * All answers have one form here, since etcd's fields of one name have one meaning. The gateway leaves out default
 * values: an absent field is 0, false or NULL. */
#ifndef LARDER_SERVER_DISCOVERY_ETCD_ANSWER_H
#define LARDER_SERVER_DISCOVERY_ETCD_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define ETCD_ANSWER_MAX ((size_t)2 << 20) /* bytes of an answer, or of a line of a stream */
#define ETCD_DEPTH_MAX 16
#define ETCD_KVS_MAX 4096 /* keys, or events, of an answer */
#define ETCD_ERROR_MAX 256

/* gRPC's numbers, as far as they matter here. */
enum etcd_code {
    ETCD_OK = 0,
    ETCD_UNKNOWN = 2,
    ETCD_TOO_LATE = 4,
    ETCD_NOT_FOUND = 5,       /* a lease */
    ETCD_PRECONDITION = 9,    /* a login, where no one has to log in */
    ETCD_OUT_OF_RANGE = 11,   /* a revision: compacted, or still to come */
    ETCD_UNAVAILABLE = 14,    /* this member has no leader, or stops */
    ETCD_UNAUTHENTICATED = 16 /* the token is no longer good */
};

struct etcd_kv {
    char *key, *value; /* NUL-terminated */
    size_t key_bytes, value_bytes;
    int64_t mod_revision;
    bool deleted; /* the event is a deletion, which has no value */
};

struct etcd_answer {
    int64_t revision; /* the store's */
    int64_t id, ttl;  /* id and ttl of a lease */
    bool succeeded;   /* the transaction's condition held */
    bool more;        /* there are more keys than these */
    bool created, cancelled;
    int64_t compact_revision; /* not 0: what was asked for is not kept any more */
    char *token;
    struct etcd_kv *kvs; /* keys, or the changes of keys */
    size_t n_kvs;
    int code; /* an etcd_code; not 0: etcd refuses, and says why in text */
    char text[ETCD_ERROR_MAX];
};

/* etcd_answer_read reads one JSON object. The caller frees *out with etcd_answer_free. LARDER_EFORMAT: it is no answer
 * of etcd's; LARDER_ELIMIT: it is too long, too deep, or has too many keys. */
int etcd_answer_read(const char *data, size_t len_bytes, struct etcd_answer *out, struct error *err);
void etcd_answer_free(struct etcd_answer *answer);

#endif
