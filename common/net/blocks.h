/* blocks.h: large pieces of memory that are needed again soon: messages with samples in them. malloc would ask the
 * kernel for each of them, and the kernel would clear each page anew. Any thread. */
#ifndef LARDER_COMMON_NET_BLOCKS_H
#define LARDER_COMMON_NET_BLOCKS_H

#include <stddef.h>

#define NET_BLOCKS_KEPT_BYTES ((size_t)128 << 20) /* most bytes of unused blocks; further ones are freed */

/* net_block returns a block of at least `bytes`; NULL: there is no memory. net_block_room returns its size.
 * net_block_free gives it back; accepts NULL. */
void *net_block(size_t bytes);
size_t net_block_room(const void *block);
void net_block_free(void *block);
/* net_blocks_clear frees all that are kept. */
void net_blocks_clear(void);

#endif
