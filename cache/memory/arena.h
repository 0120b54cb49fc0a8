/* arena.h: the memory that holds prepared samples, shared read-only with the clients.
 *
 * One memfd. Its pages are taken when it is made, so that a full machine is noticed at the start and not in the
 * middle of an epoch; then it is sealed: nobody can shrink it, grow it, write to it or map it writable any more,
 * apart from the one mapping that the daemon made before. The descriptor may therefore be handed to any client. */
#ifndef LARDER_CACHE_MEMORY_ARENA_H
#define LARDER_CACHE_MEMORY_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct arena;

/* arena_create reserves `bytes`, rounded up to whole pages, piece by piece; takes about a second for 5 GiB. After each
 * piece it calls go_on(ctx), unless that is NULL, and gives up with LARDER_EGONE when it is told false. LARDER_EINVAL
 * (0, or more than an address space), LARDER_ENOMEM (the text names what is needed, what there is, and the setting),
 * LARDER_EIO (the kernel has no memfd or no F_SEAL_FUTURE_WRITE: older than Linux 5.1). */
int arena_create(uint64_t bytes, bool (*go_on)(void *ctx), void *ctx, struct arena **out, struct error *err);
void arena_destroy(struct arena *arena); /* accepts NULL. Clients' mappings live on until they unmap. */

/* Immutable afterwards; any thread. The base is page-aligned and writable; who writes where is the engine's
 * business. */
void *arena_base(const struct arena *arena);
uint64_t arena_bytes(const struct arena *arena);
int arena_fd(const struct arena *arena); /* the arena's own: borrow, do not close */

#endif
