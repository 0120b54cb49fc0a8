/* utf8.h: tells text from other bytes. Pure; any thread. */
#ifndef LARDER_COMMON_UTF8_H
#define LARDER_COMMON_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* utf8_length returns the length in bytes of the UTF-8 character at text, which is NUL-terminated; 0 when it is not
 * well-formed. */
size_t utf8_length(const unsigned char *text);
/* utf8_printable says whether text is well-formed throughout and has no control characters. */
bool utf8_printable(const char *text);

#endif
