/* arena.h: the memory that holds prepared samples, shared read-only with the clients.
 *
 * It is one memfd, as long as the arena may ever get. arena_reserve takes its pages before anybody uses them, so that a
 * full machine is noticed there and not by a fault. arena_return gives pages back even if clients have them mapped:
 * they read zeros there afterwards. The memfd is sealed against growing, and against shrinking, so that no read ends
 * with a signal.
 *
 * Clients get a descriptor that is open for reading only. Only the file's owner may open the file, and only for
 * reading. So no client can write to it, map it writable or punch holes into it. A process of the daemon's own user
 * could, after changing the file's mode, but it could end the daemon as well. F_SEAL_FUTURE_WRITE would forbid that
 * too, but it would also forbid the daemon to punch holes. */
#ifndef LARDER_CACHE_MEMORY_ARENA_H
#define LARDER_CACHE_MEMORY_ARENA_H

#include <stdint.h>

#include "common/error.h"

struct arena;

/* arena_create makes an arena of `bytes`, rounded up to whole pages. None of it is reserved. `root` is put before the
 * paths that tell how much memory is free (memory_free.h); it is borrowed, and "" outside tests. LARDER_EINVAL (0, or
 * more than an address space), LARDER_ENOMEM (no addresses), LARDER_EIO (no memfd, or no /proc). */
int arena_create(uint64_t bytes, const char *root, struct arena **out, struct error *err);
void arena_destroy(struct arena *arena); /* accepts NULL. Clients' mappings live on until they unmap. */

/* arena_forsake is for a process that is about to end while some of its threads cannot: it gives up the mapping, and
 * what is written there from now on reaches nobody. The memory is free once the descriptors are closed and clients have
 * unmapped it. */
void arena_forsake(struct arena *arena);

/* arena_reserve takes the pages from byte `from` to byte `to`, in huge pages if the kernel has them for shared memory.
 * It takes about a second for 5 GiB. Pages that are there already stay as they are. *got is the byte that it has come
 * to: `to`, or less with LARDER_ENOMEM (the text names what is needed and what there is) or LARDER_EIO. One thread at a
 * time; others may use what is reserved. */
int arena_reserve(struct arena *arena, uint64_t from, uint64_t to, uint64_t *got, struct error *err);
/* arena_return gives the whole pages from byte `from` to byte `to` back, whether they are there or not. Nobody may use
 * these bytes until they are reserved again. The thread that reserves calls it. LARDER_EIO. */
int arena_return(struct arena *arena, uint64_t from, uint64_t to, struct error *err);

/* The arena's place and size never change; any thread may ask for them. The base is page-aligned and writable. The
 * engine says who writes where. */
void *arena_base(const struct arena *arena);
uint64_t arena_bytes(const struct arena *arena);
int arena_fd(const struct arena *arena); /* the clients' descriptor; borrowed: the arena closes it */

#endif
