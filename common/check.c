#include "common/check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/log.h"

_Noreturn void check_failed(const char *file, int line, const char *expr)
{
    log_fatal("msg=\"check failed\" at=%s:%d expr=\"%s\"", file, line, expr);
    abort();
}

_Noreturn void check_no_memory(size_t count, size_t size)
{
    log_fatal("msg=\"out of memory\" count=%zu size_bytes=%zu", count, size);
    abort();
}

void *xcalloc(size_t count, size_t size)
{
    void *ptr = calloc(count ? count : 1, size ? size : 1);
    if (!ptr)
        check_no_memory(count, size);
    return ptr;
}

void *xmalloc(size_t size)
{
    void *ptr = malloc(size ? size : 1);
    if (!ptr)
        check_no_memory(1, size);
    return ptr;
}

void *xrealloc(void *ptr, size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size)
        check_no_memory(count, size);
    size_t bytes = count * size;
    void *grown = realloc(ptr, bytes ? bytes : 1);
    if (!grown)
        check_no_memory(count, size);
    return grown;
}

void *xgrow_to(void *array, size_t size, size_t *cap, size_t need)
{
    size_t more = *cap < 8 ? 8 : *cap * 2;
    *cap = more < need ? need : more;
    return xrealloc(array, *cap, size);
}

char *xstrdup(const char *text)
{
    size_t len = strlen(text) + 1;
    return memcpy(xmalloc(len), text, len);
}
