/* status_cache.h: keeps one snapshot for all who ask within a second. However often clients ask, and however many, the
 * engine is asked at most once a second.
 *
 * The cache is for HTTP, where anybody on the machine may ask. One thread at a time uses it. */
#ifndef LARDER_SERVER_CONTROL_STATUS_CACHE_H
#define LARDER_SERVER_CONTROL_STATUS_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "server/control/status.h"

#define STATUS_CACHE_NS UINT64_C(1000000000) /* longest age of a snapshot */

struct status_cache {
    void (*read)(void *ctx, struct daemon_status *status); /* fills a snapshot, which may take a while */
    void *ctx;
    /* Only the cache uses the following, zeroed to begin with. */
    struct daemon_status status;
    bool taken;
    uint64_t taken_ns;
};

/* Both give a malloc'ed text, the caller's. NULL: out of memory. now_ns never goes back. */
char *status_cache_json(struct status_cache *cache, uint64_t now_ns);
char *status_cache_metrics(struct status_cache *cache, uint64_t now_ns, size_t *len_bytes);
void status_cache_clear(struct status_cache *cache);

#endif
