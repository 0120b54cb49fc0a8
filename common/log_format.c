/* log_format.c: makes lines. */
#include "common/log_format.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/utf8.h"

#define HELD_BACK_BYTES 33 /* bytes of a line for the count at its end and the newline */

struct line {
    char *text;      /* LOG_LINE_MAX bytes */
    size_t len, max; /* max leaves room for the line's end */
};

static void put(struct line *line, char c)
{
    if (line->len < line->max)
        line->text[line->len++] = c;
}

/* A quoted text cannot end itself: a name with a quote in it must not begin a key of its own. A line is UTF-8, whatever
 * bytes a file's name has, and contains nothing that a terminal obeys. */
static void put_text(struct line *line, const char *text, int precision, bool quoted)
{
    size_t max = precision < 0 ? SIZE_MAX : (size_t)precision;
    for (size_t i = 0, len; i < max && text[i]; i += len) {
        const unsigned char *at = (const unsigned char *)text + i;
        len = utf8_length(at);
        if (len == 0 || len > max - i || *at < ' ' || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0)) {
            put(line, '?');
            len = len ? len : 1;
            continue;
        }
        if (quoted && (*at == '"' || *at == '\\'))
            put(line, '\\');
        for (size_t j = 0; j < len; j++)
            put(line, text[i + j]);
    }
}

struct conversion {
    char spec[24];        /* "%", flags, width, precision, length, letter */
    int precision;        /* -1: none */
    bool precision_given; /* the precision is an argument */
};

/* Reads the conversion at fmt, which begins with "%", and returns what follows it. */
static const char *read_conversion(const char *fmt, struct conversion *out)
{
    size_t len = 1 + strspn(fmt + 1, "-+ #0123456789.*hljzt") + 1;
    if (len >= sizeof out->spec || !fmt[len - 1])
        abort(); /* a mistake in our own code. No CHECK: one that fails is logged */
    memcpy(out->spec, fmt, len);
    out->spec[len] = '\0';
    const char *dot = strchr(out->spec, '.');
    out->precision_given = dot && dot[1] == '*';
    out->precision = dot && !out->precision_given ? atoi(dot + 1) : -1;
    return fmt + len;
}

static void put_value(struct line *line, const struct conversion *conversion, va_list *args)
{
    char value[64];
    const char *spec = conversion->spec, letter = spec[strlen(spec) - 1];
    bool wide = strpbrk(spec, "ljzt") != NULL; /* 64 bits each, where Larder runs */
    if (strchr("fFeEgG", letter))
        snprintf(value, sizeof value, spec, va_arg(*args, double));
    else if (letter == 'p')
        snprintf(value, sizeof value, spec, va_arg(*args, void *));
    else if (wide)
        snprintf(value, sizeof value, spec, va_arg(*args, long long));
    else
        snprintf(value, sizeof value, spec, va_arg(*args, int));
    put_text(line, value, -1, false);
}

static void put_formatted(struct line *line, const char *fmt, va_list *args)
{
    bool quoted = false;
    while (*fmt) {
        struct conversion conversion;
        if (*fmt != '%' || fmt[1] == '%') {
            quoted ^= *fmt == '"';
            put(line, (unsigned char)*fmt < ' ' ? '?' : *fmt);
            fmt += *fmt == '%' ? 2 : 1;
            continue;
        }
        fmt = read_conversion(fmt, &conversion);
        if (conversion.spec[strlen(conversion.spec) - 1] != 's') {
            put_value(line, &conversion, args);
            continue;
        }
        if (conversion.precision_given)
            conversion.precision = va_arg(*args, int);
        const char *text = va_arg(*args, const char *);
        put_text(line, text ? text : "(null)", conversion.precision, quoted);
    }
}

static void put_head(struct line *line, const char *level)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    line->len = strftime(line->text, LOG_LINE_MAX, "time=%Y-%m-%dT%H:%M:%S", &parts);
    line->len += (size_t)snprintf(line->text + line->len, LOG_LINE_MAX - line->len, ".%03ldZ level=%s ",
                                  now.tv_nsec / 1000000, level);
}

size_t log_format_args(char *text, const char *level, uint32_t held_back, const char *fmt, va_list *args)
{
    struct line line = {.text = text, .max = LOG_LINE_MAX - HELD_BACK_BYTES};
    put_head(&line, level);
    put_formatted(&line, fmt, args);
    if (held_back)
        line.len += (size_t)snprintf(text + line.len, HELD_BACK_BYTES, " held_back=%u", held_back);
    text[line.len++] = '\n';
    return line.len;
}

size_t log_format(char *text, const char *level, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    size_t len = log_format_args(text, level, 0, fmt, &args);
    va_end(args);
    return len;
}
