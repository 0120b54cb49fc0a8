/* memory_free.h: how much memory this process may still take: what the kernel says is available, and what the memory
 * limits of the cgroups it is in leave (v1 and v2, every ancestor, page cache counted as free). Reads /proc and
 * /sys; any thread. */
#ifndef LARDER_CACHE_MEMORY_MEMORY_FREE_H
#define LARDER_CACHE_MEMORY_MEMORY_FREE_H

#include <stdint.h>

#include "common/error.h"

struct memory_free {
    uint64_t machine_bytes; /* MemAvailable */
    uint64_t cgroup_bytes;  /* what the tightest cgroup limit leaves; UINT64_MAX: no limit */
};

/* memory_free_read fills out. `root` goes before every path: "" outside tests. LARDER_EIO when /proc/meminfo does
 * not say. */
int memory_free_read(const char *root, struct memory_free *out, struct error *err);

#endif
