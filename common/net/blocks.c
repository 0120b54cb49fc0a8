#include "common/net/blocks.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { KEPT_MAX = 64, STEP = 1 << 16 };

/* It lies before the bytes, which so begin at a multiple of 64. */
union block {
    struct {
        size_t room;
    };
    char pad[64];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static union block *kept[KEPT_MAX];
static size_t n_kept, kept_bytes;

/* take returns the smallest of those kept that has the room, and is not much too large; NULL: there is none. */
static union block *take(size_t bytes)
{
    size_t best = KEPT_MAX;
    for (size_t i = 0; i < n_kept; i++) {
        if (kept[i]->room >= bytes && kept[i]->room / 4 <= bytes &&
            (best == KEPT_MAX || kept[i]->room < kept[best]->room))
            best = i;
    }
    if (best == KEPT_MAX)
        return NULL;
    union block *block = kept[best];
    kept[best] = kept[--n_kept];
    kept_bytes -= block->room;
    return block;
}

void *net_block(size_t bytes)
{
    if (bytes > SIZE_MAX / 2)
        return NULL;
    pthread_mutex_lock(&lock);
    union block *block = take(bytes);
    pthread_mutex_unlock(&lock);
    if (!block) {
        size_t room = (bytes + STEP) / STEP * STEP;
        block = aligned_alloc(sizeof *block, sizeof *block + room);
        if (!block)
            return NULL;
        block->room = room;
    }
    return block + 1;
}

size_t net_block_room(const void *block)
{
    return ((const union block *)block - 1)->room;
}

void net_block_free(void *data)
{
    if (!data)
        return;
    union block *block = (union block *)data - 1;
    pthread_mutex_lock(&lock);
    if (n_kept < KEPT_MAX && kept_bytes + block->room <= NET_BLOCKS_KEPT_BYTES) {
        kept[n_kept++] = block;
        kept_bytes += block->room;
        block = NULL;
    }
    pthread_mutex_unlock(&lock);
    free(block);
}

void net_blocks_clear(void)
{
    pthread_mutex_lock(&lock);
    while (n_kept)
        free(kept[--n_kept]);
    kept_bytes = 0;
    pthread_mutex_unlock(&lock);
}
