/* blocks.h: memory for images as read and as decoded: blocks of all sizes that are given back and taken again by the
 * thousand a second.
 *
 * The C library asks the kernel for a large block's pages and gives them back with it. The kernel then clears each page
 * again, which takes longer than reading an image into it. Here a large block that is given back is kept for the next
 * one of about its size, as long as all blocks together stay within a bound. Small ones are the C library's.
 *
 * With the address sanitizer nothing is kept, so that it sees who uses a block that was given back. Any thread may call
 * the functions. */
#ifndef LARDER_COMMON_BLOCKS_H
#define LARDER_COMMON_BLOCKS_H

#include <stddef.h>

/* blocks_keep sets the bound in bytes: blocks are kept only while they and those in use take no more. 0, as at first:
 * none are kept. Those that are kept above the bound go at once. */
void blocks_keep(size_t bytes);
/* blocks_take returns a block of at least `bytes`, with any contents; NULL where memory runs out. The caller gives it
 * back with blocks_give. */
void *blocks_take(size_t bytes);
void blocks_give(void *block); /* accepts NULL */
/* blocks_kept returns the bytes of the blocks that are kept. */
size_t blocks_kept(void);

#endif
