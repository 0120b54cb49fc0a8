/* arena.h: the memory that holds prepared samples, shared read-only with the clients.
 *
 * It is one memfd, as long as the arena may ever get. Its pages are taken by arena_reserve, from the front, before
 * anybody uses them, so that a full machine is noticed there and not by a fault. It is sealed from the start: nobody
 * can shrink it, grow it, write to it, map it writable or punch holes into it, apart from the one mapping that the
 * daemon made before. So the descriptor may be handed to any client.
 *
 * For the same reason pages cannot be given back one by one. arena_renew takes another memfd in the place of this
 * one, when nobody uses it. */
#ifndef LARDER_CACHE_MEMORY_ARENA_H
#define LARDER_CACHE_MEMORY_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct arena;

/* arena_create makes an arena of `bytes`, rounded up to whole pages, of which nothing is reserved. `root` is put before
 * the paths that tell how much memory is free (memory_free.h); it is borrowed, and "" outside tests. LARDER_EINVAL (0,
 * or more than an address space), LARDER_ENOMEM (no addresses), LARDER_EIO (the kernel has no memfd or no
 * F_SEAL_FUTURE_WRITE: older than Linux 5.1). */
int arena_create(uint64_t bytes, const char *root, struct arena **out, struct error *err);
void arena_destroy(struct arena *arena); /* accepts NULL. Clients' mappings live on until they unmap. */

/* arena_reserve takes the pages from byte `from` to byte `to`, in huge pages where the kernel has them for shared
 * memory. It takes about a second for 5 GiB. *got is where it has come to: `to`, or less with LARDER_ENOMEM (the text
 * names what is needed and what there is) or LARDER_EIO. One thread at a time; others may use what is reserved. */
int arena_reserve(struct arena *arena, uint64_t from, uint64_t to, uint64_t *got, struct error *err);
/* arena_renew gives all pages back. It makes another memfd, of which nothing is reserved, and asks take(ctx, fd)
 * whether that is to be the arena from now on: from this moment clients get it, and nobody has the old one any more.
 * False: everything stays as it is. Nobody may use the arena meanwhile, nor arena_reserve. *renewed is what take
 * said. */
int arena_renew(struct arena *arena, bool (*take)(void *ctx, int fd), void *ctx, bool *renewed, struct error *err);

/* The arena's place and size never change; any thread may ask for them. The base is page-aligned and writable. The
 * engine says who writes where. */
void *arena_base(const struct arena *arena);
uint64_t arena_bytes(const struct arena *arena);
int arena_fd(const struct arena *arena); /* borrowed: the arena closes it, at the latest when it is renewed */

#endif
