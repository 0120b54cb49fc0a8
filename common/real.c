#include "common/real.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_ALWAYS = 15, DIGITS_ENOUGH = 17 }; /* 15 survive as a double; 17 tell doubles apart */

const char *real_text(double value, char buf[REAL_BYTES])
{
    for (int digits = DIGITS_ALWAYS; digits <= DIGITS_ENOUGH; digits++) {
        snprintf(buf, REAL_BYTES, "%.*g", digits, value);
        if (strtod(buf, NULL) == value)
            break;
    }
    return buf;
}

/* string_length returns the length of the string that begins here, with its quotes. */
static size_t string_length(const char *text)
{
    size_t len = 1;
    while (text[len] && text[len] != '"')
        len += text[len] == '\\' && text[len + 1] ? 2 : 1;
    return len + (text[len] == '"');
}

void real_shorten(char *json)
{
    char *to = json;
    for (const char *from = json; *from;) {
        char shorter[REAL_BYTES] = "";
        size_t len = *from == '"' ? string_length(from) : strspn(from, "+-.0123456789eE"), written;
        len = len ? len : 1;
        if (*from != '"' && memchr(from, '.', len)) /* without a point it is whole, or a word such as true */
            real_text(strtod(from, NULL), shorter);
        written = strpbrk(shorter, ".e") ? strlen(shorter) : 0; /* a real one stays real: 1.0 is not written as 1 */
        if (written == 0 || written >= len) {
            memmove(to, from, len);
            to += len;
        } else {
            memcpy(to, shorter, written);
            to += written;
        }
        from += len;
    }
    *to = '\0';
}
