#include "common/vast.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/check.h"

/* An array of this many bytes or more lies in pages of its own. Copying a shorter one takes less than .2 ms. */
#define LONG_BYTES ((size_t)1 << 20)
#define PAGES_BYTES ((size_t)1 << 21) /* a large page */

/* bytes_of returns the bytes that are mapped for an array, whole large pages; 0: it is short. */
static size_t bytes_of(size_t size, size_t cap)
{
    CHECK(cap <= (SIZE_MAX - PAGES_BYTES) / size);
    return size * cap < LONG_BYTES ? 0 : (size * cap + PAGES_BYTES - 1) / PAGES_BYTES * PAGES_BYTES;
}

/* map_long maps pages for a short array that becomes long, or moves those of a long one. */
static void *map_long(void *array, size_t size, size_t cap_before, size_t bytes)
{
    size_t before = bytes_of(size, cap_before);
    void *grown = before ? mremap(array, before, bytes, MREMAP_MAYMOVE)
                         : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (grown == MAP_FAILED)
        return NULL;
    if (!before && array) {
        memcpy(grown, array, size * cap_before);
        free(array);
    }
    (void)madvise(grown, bytes, MADV_HUGEPAGE); /* without large pages the array is only slower */
    return grown;
}

void *vast_grow_to(void *array, size_t size, size_t *cap, size_t need)
{
    size_t before = *cap, more = before < 8 ? 8 : before * 2;
    *cap = more < need ? need : more;
    size_t bytes = bytes_of(size, *cap);
    if (!bytes)
        return xrealloc(array, *cap, size);
    void *grown = map_long(array, size, before, bytes);
    if (!grown)
        check_no_memory(*cap, size);
    return grown;
}

void vast_free(void *array, size_t size, size_t cap)
{
    size_t bytes = array ? bytes_of(size, cap) : 0;
    if (bytes)
        CHECK(munmap(array, bytes) == 0);
    else
        free(array);
}

void *vast_malloc(size_t bytes)
{
    void *array;
    if (bytes < PAGES_BYTES)
        return malloc(bytes ? bytes : 1);
    if (posix_memalign(&array, PAGES_BYTES, bytes) != 0)
        return NULL;
    (void)madvise(array, bytes / PAGES_BYTES * PAGES_BYTES, MADV_HUGEPAGE);
    return array;
}
