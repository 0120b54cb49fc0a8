/* vast.h: arrays that grow while others wait: growing one copies nothing, however long it is.
 *
 * A short array is like any other. A long one lies in pages of its own, which the kernel moves without touching them,
 * and which come when they are first used: large ones, where the machine has them. */
#ifndef LARDER_COMMON_VAST_H
#define LARDER_COMMON_VAST_H

#include <stddef.h>

/* vast_grow_to does it; see vast_grow. */
void *vast_grow_to(void *array, size_t size, size_t *cap, size_t need);
/* vast_grow returns the array with room for `need` elements of `size` bytes at the least: *cap, in elements, doubles.
 * What is new may hold anything. An array that has no room yet is NULL. Where memory runs out, it stops the process, as
 * xrealloc does. The caller frees the array with vast_free. */
static inline void *vast_grow(void *array, size_t size, size_t *cap, size_t need)
{
    return need <= *cap ? array : vast_grow_to(array, size, cap, need);
}
/* vast_free frees an array with room for `cap` elements of `size` bytes. */
void vast_free(void *array, size_t size, size_t cap);

/* vast_malloc is malloc, for what does not grow: a long array comes in large pages, where the machine has them. The
 * caller frees it with free. NULL where memory runs out. */
void *vast_malloc(size_t bytes);

#endif
