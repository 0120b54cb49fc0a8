/* view_glob.c: shell patterns. Patterns come from clients, and the C library's fnmatch can take time exponential in the
 * number of stars. Here a later star replaces an earlier one, which loses no match. So there is only one place to go
 * back to. */
#include <string.h>

#include "sampler/view_priv.h"

/* Reads a set behind '[' and tells whether c is in it; *end is what follows the ']', NULL when there is none. */
static bool in_set(const char *at, unsigned char c, const char **end)
{
    bool negated = *at == '!' || *at == '^', found = false;
    at += negated;
    *end = NULL;
    for (const char *first = at; *at && (*at != ']' || at == first);) {
        if (*at == '\\' && at[1])
            at++;
        unsigned char low = (unsigned char)*at++, high = low;
        if (*at == '-' && at[1] && at[1] != ']') {
            at += at[1] == '\\' && at[2] ? 2 : 1;
            high = (unsigned char)*at++;
        }
        found |= low <= c && c <= high;
    }
    if (*at == ']')
        *end = at + 1;
    return found != negated;
}

/* Does one character of the pattern take c? *next is what follows it. */
static bool takes(const char *pattern, unsigned char c, const char **next)
{
    const char *end;
    *next = pattern + 1;
    switch (*pattern) {
    case '?': return true;
    case '[': {
        bool found = in_set(pattern + 1, c, &end);
        if (end == NULL)
            return c == '[';
        *next = end;
        return found;
    }
    case '\\':
        if (pattern[1]) {
            *next = pattern + 2;
            return (unsigned char)pattern[1] == c;
        }
        return c == '\\';
    default: return (unsigned char)*pattern == c;
    }
}

bool glob_match(const char *pattern, const char *name)
{
    /* the pattern after the last star, and the place in the name where it began to match */
    const char *star = NULL, *star_name = NULL;
    while (*name) {
        const char *next = pattern;
        if (*pattern == '*') {
            star = ++pattern;
            star_name = name;
        } else if (*pattern && takes(pattern, (unsigned char)*name, &next)) {
            pattern = next;
            name++;
        } else if (star) {
            pattern = star;
            name = ++star_name;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}
