/* arena.h: the memory that holds prepared samples, shared read-only with the clients.
 *
 * It is one memfd. Its pages are taken when it is made, so that a full machine is noticed at the start and not in the
 * middle of an epoch. Then it is sealed: nobody can shrink it, grow it, write to it or map it writable any more, apart
 * from the one mapping that the daemon made before. So the descriptor may be handed to any client. */
#ifndef LARDER_CACHE_MEMORY_ARENA_H
#define LARDER_CACHE_MEMORY_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct arena;

/* arena_create reserves `bytes`, rounded up to whole pages, piece by piece. That takes about a second for 5 GiB. After
 * each piece it calls go_on(ctx), unless that is NULL, and gives up with LARDER_EGONE when it gets false. LARDER_EINVAL
 * (0, or more than an address space), LARDER_ENOMEM (the text names what is needed, what there is, and the setting),
 * LARDER_EIO (the kernel has no memfd or no F_SEAL_FUTURE_WRITE: older than Linux 5.1). */
int arena_create(uint64_t bytes, bool (*go_on)(void *ctx), void *ctx, struct arena **out, struct error *err);
void arena_destroy(struct arena *arena); /* accepts NULL. Clients' mappings live on until they unmap. */

/* The arena's place and size never change; any thread may ask for them. The base is page-aligned and writable. The
 * engine says who writes where. */
void *arena_base(const struct arena *arena);
uint64_t arena_bytes(const struct arena *arena);
int arena_fd(const struct arena *arena); /* borrowed: the arena closes it */

#endif
