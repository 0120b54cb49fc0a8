/* check.h: CHECK states what must hold in the daemon's own code. It is never compiled out: a daemon whose state is
 * wrong stops at once rather than deliver wrong bytes. Not for the environment (use struct error), not for a peer's
 * bytes (validate), and not in the client library, which never aborts its host. */
#ifndef LARDER_COMMON_CHECK_H
#define LARDER_COMMON_CHECK_H

#include <stddef.h>

_Noreturn void check_failed(const char *file, int line, const char *expr);

#define CHECK(expr) ((expr) ? (void)0 : check_failed(__FILE__, __LINE__, #expr))

/* check_no_memory stops the process because there is no memory for `count` elements of `size` bytes. */
_Noreturn void check_no_memory(size_t count, size_t size);

/* CHECK_MAGIC: heap structs begin with a magic number, and entry points check it. */
#define CHECK_MAGIC(ptr, value) CHECK((ptr) != NULL && (ptr)->magic == (value))

/* xmalloc and the others are for the daemon's small, bounded bookkeeping. Without it the daemon cannot go on, so
 * where memory runs out they log the size and stop the process. The caller frees what they give. For memory that is
 * large, or as large as the input says, use malloc and report LARDER_ENOMEM. */
void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *ptr, size_t count, size_t size);
char *xstrdup(const char *text);

void *xgrow_to(void *array, size_t size, size_t *cap, size_t need);
/* xgrow returns the array with room for `need` elements of `size` bytes at the least: *cap, in elements, doubles. */
static inline void *xgrow(void *array, size_t size, size_t *cap, size_t need)
{
    return need <= *cap ? array : xgrow_to(array, size, cap, need);
}

#endif
