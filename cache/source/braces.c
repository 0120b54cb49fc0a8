/* braces.c: expands braces as a shell does. See braces.h.
 *
 * The first pair of braces is replaced by each of its alternatives in turn, and what comes of that is expanded from
 * there on. */
#include "cache/source/braces.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/larder_err.h"

#define DIGITS_MAX 18
#define DEPTH_MAX 16

struct expansion {
    braces_fn *fn;
    void *context;
    uint32_t steps;
};

/* A range from first to last: of numbers, padded with zeros to the width, or of letters. */
struct range {
    long long first, last, step;
    int width;
    bool letters;
};

static int expand(struct expansion *expansion, const char *text, size_t from, unsigned depth);

static int put_together(struct expansion *expansion, const char *const parts[3], const size_t lengths[3],
                        unsigned depth)
{
    char text[BRACES_TEXT_MAX + 1];
    if (lengths[0] + lengths[1] + lengths[2] > BRACES_TEXT_MAX)
        return LARDER_ELIMIT;
    memcpy(text, parts[0], lengths[0]);
    memcpy(text + lengths[0], parts[1], lengths[1]);
    memcpy(text + lengths[0] + lengths[1], parts[2], lengths[2]);
    text[lengths[0] + lengths[1] + lengths[2]] = '\0';
    return expand(expansion, text, lengths[0], depth + 1);
}

/* The brace that closes the one at `open`, and whether there are commas of its own in between. */
static const char *find_end(const char *open, bool *list)
{
    unsigned depth = 0;
    *list = false;
    for (const char *at = open; *at; at++) {
        depth += *at == '{';
        if (*at == '}' && --depth == 0)
            return at;
        *list |= *at == ',' && depth == 1;
    }
    return NULL;
}

static const char *read_number(const char *at, long long *out, int *width)
{
    const char *digits = at + (*at == '-');
    size_t len = strspn(digits, "0123456789");
    if (len == 0 || len > DIGITS_MAX)
        return NULL;
    *out = strtoll(at, NULL, 10);
    *width = len > 1 && *digits == '0' ? (int)(digits + len - at) : 0;
    return digits + len;
}

static bool read_range(const char *at, const char *end, struct range *range)
{
    int first_width = 0, last_width = 0, step_width;
    range->letters = isalpha((unsigned char)at[0]) && at[1] == '.' && at[2] == '.' && isalpha((unsigned char)at[3]);
    if (range->letters) {
        range->first = at[0];
        range->last = at[3];
        at += 4;
    } else {
        at = read_number(at, &range->first, &first_width);
        if (!at || at[0] != '.' || at[1] != '.' || !(at = read_number(at + 2, &range->last, &last_width)))
            return false;
    }
    range->width = 0;
    if (first_width || last_width) { /* one is padded: all are as wide as the wider */
        char text[2][32];
        int wide = snprintf(text[0], sizeof text[0], "%lld", range->first);
        int other = snprintf(text[1], sizeof text[1], "%lld", range->last);
        int most = wide > other ? wide : other, padded = first_width > last_width ? first_width : last_width;
        range->width = most > padded ? most : padded;
    }
    range->step = 1;
    if (at[0] == '.' && at[1] == '.' && !(at = read_number(at + 2, &range->step, &step_width)))
        return false;
    range->step = range->step < 0 ? -range->step : range->step ? range->step : 1;
    return at == end;
}

static int expand_range(struct expansion *expansion, const char *text, const char *open, const char *end,
                        const struct range *range, unsigned depth)
{
    bool up = range->first <= range->last;
    int code = 0;
    for (long long at = range->first; !code && (up ? at <= range->last : at >= range->last);
         at += up ? range->step : -range->step) {
        char piece[32];
        int len = range->letters ? snprintf(piece, sizeof piece, "%c", (char)at)
                                 : snprintf(piece, sizeof piece, "%0*lld", range->width, at);
        const char *const parts[3] = {text, piece, end + 1};
        const size_t lengths[3] = {(size_t)(open - text), (size_t)len, strlen(end + 1)};
        code = put_together(expansion, parts, lengths, depth);
    }
    return code;
}

static int expand_list(struct expansion *expansion, const char *text, const char *open, const char *end, unsigned depth)
{
    const char *from = open + 1;
    unsigned inner = 0;
    int code = 0;
    for (const char *at = from; !code && at <= end; at++) {
        inner += *at == '{';
        if (at == end || (*at == ',' && inner == 0)) {
            const char *const parts[3] = {text, from, end + 1};
            const size_t lengths[3] = {(size_t)(open - text), (size_t)(at - from), strlen(end + 1)};
            code = put_together(expansion, parts, lengths, depth);
            from = at + 1;
        }
        inner -= at < end && *at == '}';
    }
    return code;
}

/* Expands a text, in which nothing before `from` is to be expanded. */
static int expand(struct expansion *expansion, const char *text, size_t from, unsigned depth)
{
    struct range range;
    bool list;
    if (++expansion->steps > BRACES_STEPS_MAX || depth > DEPTH_MAX)
        return LARDER_ELIMIT;
    for (const char *open = text + from; (open = strchr(open, '{')); open++) {
        const char *end = find_end(open, &list);
        if (end && list)
            return expand_list(expansion, text, open, end, depth);
        if (end && read_range(open + 1, end, &range))
            return expand_range(expansion, text, open, end, &range, depth);
    }
    return expansion->fn(expansion->context, text);
}

int braces_expand(const char *text, braces_fn *fn, void *context)
{
    struct expansion expansion = {.fn = fn, .context = context};
    if (strlen(text) > BRACES_TEXT_MAX)
        return LARDER_ELIMIT;
    return expand(&expansion, text, 0, 0);
}
