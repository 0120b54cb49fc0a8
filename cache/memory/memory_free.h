/* memory_free.h: how much memory this process may still take. The kernel says what is available. The memory limits of
 * the process's cgroups say what they leave (v1 and v2, every ancestor, page cache counted as free). The functions read
 * /proc and /sys; any thread may call them. */
#ifndef LARDER_CACHE_MEMORY_MEMORY_FREE_H
#define LARDER_CACHE_MEMORY_MEMORY_FREE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct memory_free {
    uint64_t machine_bytes; /* MemAvailable */
    uint64_t cgroup_bytes;  /* left under the tightest cgroup limit; UINT64_MAX: no limit */
};

/* memory_free_read fills out. `root` is put before every path; it is "" outside tests. LARDER_EIO when /proc/meminfo
 * does not say what is available. */
int memory_free_read(const char *root, struct memory_free *out, struct error *err);

/* memory_stalled_us returns for how many microseconds some task has waited for memory since the machine started: the
 * kernel's pressure stall information, of the machine or of the process's cgroup (v2), whichever is more. 0 where there
 * is none. */
uint64_t memory_stalled_us(const char *root);

/* memory_shared_huge_pages tells whether the kernel has huge pages for shared memory whose mapping asks for them. */
bool memory_shared_huge_pages(const char *root);

#endif
