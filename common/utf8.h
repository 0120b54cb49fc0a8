/* utf8.h: what is text in bytes that others made. Pure; any thread. */
#ifndef LARDER_COMMON_UTF8_H
#define LARDER_COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* utf8_length gives the bytes of the well-formed UTF-8 character at text (NUL-terminated), 0 when it is none. */
size_t utf8_length(const unsigned char *text);
/* utf8_printable: well-formed all through, and no control characters. */
bool utf8_printable(const char *text);

#endif
