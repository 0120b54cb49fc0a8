/* status_cache.h: one snapshot for all who ask within a second: whoever asks often, and however many do, the engine is
 * asked once a second at the most.
 *
 * For HTTP, whose askers may be anybody on the machine. One thread at a time; texts are malloc'ed, NULL when out of
 * memory. */
#ifndef LARDER_SERVER_CONTROL_STATUS_CACHE_H
#define LARDER_SERVER_CONTROL_STATUS_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "server/control/status.h"

#define STATUS_CACHE_NS UINT64_C(1000000000) /* as long is a snapshot shown */

struct status_cache {
    void (*read)(void *ctx, struct daemon_status *status); /* fills a snapshot, which may take a while */
    void *ctx;
    /* The cache's own: */
    struct daemon_status status;
    bool taken;
    uint64_t taken_ns;
};

/* now_ns never goes back. */
char *status_cache_json(struct status_cache *cache, uint64_t now_ns);
char *status_cache_metrics(struct status_cache *cache, uint64_t now_ns, size_t *len_bytes);
void status_cache_clear(struct status_cache *cache);

#endif
