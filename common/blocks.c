#include "common/blocks.h"

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* A class of sizes is a 32nd of its power of two wide. A block serves its own class and the one below, so that at most
 * 6 % of it is in vain. */
enum { LARGE_SHIFT = 16, CLASS_SHIFT = 5, POWERS = 24, CLASSES = POWERS << CLASS_SHIFT };
#define LARGE_BYTES ((size_t)1 << LARGE_SHIFT)
#define HUGE_BYTES (LARGE_BYTES << (POWERS - 1)) /* are never kept */

/* What a block says of itself while it is kept. */
struct kept {
    struct kept *older, *newer; /* of all */
    struct kept *below, *above; /* of its class: the one that came before it, and the one after */
};

static struct {
    pthread_mutex_t lock;
    size_t most, used, kept; /* bytes: the bound, of large blocks in use, of those that are kept */
    struct kept *oldest, *newest;
    struct kept *top[CLASSES]; /* the newest of each class: its pages may still be in the processor's cache */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

#if defined(__SANITIZE_ADDRESS__)
#define KEEPS 0
#elif defined(__has_feature)
#define KEEPS !__has_feature(address_sanitizer)
#else
#define KEEPS 1
#endif

static bool is_large(size_t bytes)
{
    return bytes >= LARGE_BYTES && bytes < HUGE_BYTES;
}

/* class_of returns the class of a large block. */
static unsigned class_of(size_t bytes)
{
    unsigned power = 63 - (unsigned)__builtin_clzll(bytes);
    return (power - LARGE_SHIFT) << CLASS_SHIFT | (bytes >> (power - CLASS_SHIFT) & ((1u << CLASS_SHIFT) - 1));
}

static void leave(struct kept *block)
{
    size_t bytes = malloc_usable_size(block);
    *(block->older ? &block->older->newer : &all.oldest) = block->newer;
    *(block->newer ? &block->newer->older : &all.newest) = block->older;
    if (block->below)
        block->below->above = block->above;
    *(block->above ? &block->above->below : &all.top[class_of(bytes)]) = block->below;
    all.kept -= bytes;
}

static void enter(struct kept *block, size_t bytes)
{
    unsigned class = class_of(bytes);
    *block = (struct kept){.older = all.newest, .below = all.top[class]};
    *(all.newest ? &all.newest->newer : &all.oldest) = block;
    all.newest = block;
    if (block->below)
        block->below->above = block;
    all.top[class] = block;
    all.kept += bytes;
}

/* above_bound takes the oldest block out while there are too many, one a call. The caller frees it without the lock,
 * because the kernel takes its time; NULL: there are not too many. */
static struct kept *above_bound(void)
{
    struct kept *block = all.used + all.kept > all.most ? all.oldest : NULL;
    if (block)
        leave(block);
    return block;
}

static void trim(void)
{
    struct kept *block;
    do {
        pthread_mutex_lock(&all.lock);
        block = above_bound();
        pthread_mutex_unlock(&all.lock);
        free(block);
    } while (block);
}

/* find takes a kept block of at least that many bytes out; NULL: there is none of about that size. */
static void *find(size_t bytes)
{
    unsigned class = class_of(bytes);
    for (unsigned i = class; i <= class + 1 && i < CLASSES; i++) {
        struct kept *block = all.top[i];
        if (block && malloc_usable_size(block) >= bytes) {
            leave(block);
            all.used += malloc_usable_size(block);
            return block;
        }
    }
    return NULL;
}

void blocks_keep(size_t bytes)
{
    pthread_mutex_lock(&all.lock);
    all.most = KEEPS ? bytes : 0;
    pthread_mutex_unlock(&all.lock);
    trim();
}

void *blocks_take(size_t bytes)
{
    void *block = NULL;
    if (is_large(bytes)) {
        pthread_mutex_lock(&all.lock);
        block = find(bytes);
        pthread_mutex_unlock(&all.lock);
    }
    if (block || !(block = malloc(bytes ? bytes : 1)))
        return block;
    size_t got = malloc_usable_size(block);
    if (!is_large(got))
        return block;
    pthread_mutex_lock(&all.lock);
    all.used += got;
    pthread_mutex_unlock(&all.lock);
    trim();
    return block;
}

void blocks_give(void *block)
{
    size_t bytes = block ? malloc_usable_size(block) : 0;
    if (!is_large(bytes)) {
        free(block);
        return;
    }
    pthread_mutex_lock(&all.lock);
    all.used -= bytes;
    bool keeps = bytes <= all.most;
    if (keeps)
        enter(block, bytes);
    pthread_mutex_unlock(&all.lock);
    if (keeps)
        trim();
    else
        free(block);
}

size_t blocks_kept(void)
{
    pthread_mutex_lock(&all.lock);
    size_t kept = all.kept;
    pthread_mutex_unlock(&all.lock);
    return kept;
}
