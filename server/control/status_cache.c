#include "server/control/status_cache.h"

static const struct daemon_status *recent(struct status_cache *cache, uint64_t now_ns)
{
    if (cache->taken && now_ns - cache->taken_ns < STATUS_CACHE_NS)
        return &cache->status;
    status_cache_clear(cache);
    cache->read(cache->ctx, &cache->status);
    cache->taken = true;
    cache->taken_ns = now_ns;
    return &cache->status;
}

char *status_cache_json(struct status_cache *cache, uint64_t now_ns)
{
    return status_to_json(recent(cache, now_ns));
}

char *status_cache_metrics(struct status_cache *cache, uint64_t now_ns, size_t *len_bytes)
{
    return status_to_metrics(recent(cache, now_ns), len_bytes);
}

void status_cache_clear(struct status_cache *cache)
{
    if (cache->taken)
        status_clear(&cache->status);
    cache->taken = false;
}
