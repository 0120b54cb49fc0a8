/* log.c: makes lines, and limits how many of a kind there are. */
#include "common/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/check.h"
#include "common/clock.h"
#include "common/log_priv.h"
#include "common/utf8.h"

#define HELD_BACK_BYTES 32 /* of a line, for the count at its end */

static _Atomic int current_level = LOG_INFO;
static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_set_level(enum log_level level)
{
    atomic_store(&current_level, (int)level);
}

bool log_level_parse(const char *text, enum log_level *out)
{
    for (int level = LOG_ERROR; level <= LOG_DEBUG; level++) {
        if (strcmp(text, level_names[level]) == 0) {
            *out = (enum log_level)level;
            return true;
        }
    }
    return false;
}

/* ── a line ── */

struct line {
    char text[LOG_LINE_MAX];
    size_t len, max; /* max leaves room for the line's end */
};

static void put(struct line *line, char c)
{
    if (line->len < line->max)
        line->text[line->len++] = c;
}

/* What stands between quotes ends where we say it ends: a name that holds a quote must not begin a key of its own. A
 * line is UTF-8, whatever a file's name is, and holds nothing that a terminal obeys. */
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
    char spec[24]; /* "%", flags, width, precision, length, letter */
    int precision; /* -1: none */
    bool precision_given; /* as an argument */
};

/* Reads the conversion at fmt, which begins with "%"; gives what follows it. */
static const char *read_conversion(const char *fmt, struct conversion *out)
{
    size_t len = 1 + strspn(fmt + 1, "-+ #0123456789.*hljzt") + 1;
    CHECK(len < sizeof out->spec && fmt[len - 1]);
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

static void line_begin(struct line *line, const char *level)
{
    struct timespec now;
    struct tm parts;
    *line = (struct line){.max = LOG_LINE_MAX - 1 - HELD_BACK_BYTES};
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    line->len = strftime(line->text, sizeof line->text, "time=%Y-%m-%dT%H:%M:%S", &parts);
    line->len += (size_t)snprintf(line->text + line->len, sizeof line->text - line->len, ".%03ldZ level=%s ",
                                  now.tv_nsec / 1000000, level);
}

static void line_put(struct line *line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void line_put(struct line *line, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    put_formatted(line, fmt, &args);
    va_end(args);
}

/* The line's end, for which room was left. */
static void line_end(struct line *line, uint32_t held_back)
{
    line->max = LOG_LINE_MAX - 1;
    if (held_back)
        line_put(line, " held_back=%u", held_back);
    line->text[line->len++] = '\n';
}

static bool is_shown(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

void log_line(enum log_level level, const char *fmt, ...)
{
    struct line line;
    va_list args;
    if (!is_shown(level))
        return;
    line_begin(&line, level_names[level]);
    va_start(args, fmt);
    put_formatted(&line, fmt, &args);
    va_end(args);
    line_end(&line, 0);
    log_writer_put(line.text, line.len);
}

void log_fatal(const char *fmt, ...)
{
    struct line line;
    va_list args;
    line_begin(&line, "fatal");
    va_start(args, fmt);
    put_formatted(&line, fmt, &args);
    va_end(args);
    line_end(&line, 0);
    log_writer_put_last(line.text, line.len);
}

size_t log_line_dropped(char *text, uint64_t dropped)
{
    struct line line;
    line_begin(&line, level_names[LOG_WARN]);
    line_put(&line, "msg=\"log lines were dropped: standard error did not take them\" dropped=%llu",
             (unsigned long long)dropped);
    line_end(&line, 0);
    memcpy(text, line.text, line.len);
    return line.len;
}

/* ── limits ── */

static pthread_mutex_t limits_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_limiter *limiters; /* that ever held a line back */

/* Whether a line may pass, and what was held back before it. */
static bool may_pass(struct log_limiter *limiter, const char *kind, uint32_t *held_back)
{
    uint64_t now = clock_now_ns();
    pthread_mutex_lock(&limits_lock);
    if (now - limiter->window_start_ns >= CLOCK_NS_PER_S) {
        limiter->window_start_ns = now;
        limiter->passed = 0;
    }
    bool passes = limiter->passed < limiter->per_second, first = false;
    if (passes) {
        limiter->passed++;
        *held_back = limiter->held_back;
        limiter->held_back = 0;
    } else {
        first = limiter->held_back++ == 0;
        if (!limiter->listed) {
            limiter->kind = kind;
            limiter->next = limiters;
            limiters = limiter;
            limiter->listed = true;
        }
    }
    pthread_mutex_unlock(&limits_lock);
    if (first)
        log_writer_wake();
    return passes;
}

void log_line_limited(struct log_limiter *limiter, const char *fmt, ...)
{
    struct line line;
    uint32_t held_back;
    va_list args;
    if (!is_shown(limiter->level) || !may_pass(limiter, fmt, &held_back))
        return;
    line_begin(&line, level_names[limiter->level]);
    va_start(args, fmt);
    put_formatted(&line, fmt, &args);
    va_end(args);
    line_end(&line, held_back);
    log_writer_put(line.text, line.len);
}

/* Takes one limiter's count whose time to be told has come. */
static struct log_limiter *take_held_back(bool all, uint32_t *held_back, uint64_t *next_ns)
{
    struct log_limiter *found = NULL;
    uint64_t now = clock_now_ns();
    *next_ns = UINT64_MAX;
    pthread_mutex_lock(&limits_lock);
    for (struct log_limiter *at = limiters; at && !found; at = at->next) {
        uint64_t due_ns = at->window_start_ns + LOG_HELD_TOLD_MS * CLOCK_NS_PER_MS;
        if (!at->held_back)
            continue;
        if (all || due_ns <= now) {
            found = at;
            *held_back = at->held_back;
            at->held_back = 0;
        } else if (due_ns < *next_ns) {
            *next_ns = due_ns;
        }
    }
    pthread_mutex_unlock(&limits_lock);
    return found;
}

uint64_t log_tell_held_back(bool all)
{
    uint32_t held_back;
    uint64_t next_ns;
    const struct log_limiter *limiter;
    while ((limiter = take_held_back(all, &held_back, &next_ns))) {
        const char *begin = strchr(limiter->kind, '"');
        begin = begin ? begin + 1 : limiter->kind;
        log_line(limiter->level, "msg=\"lines were held back\" like=\"%.*s\" held_back=%u",
                 (int)strcspn(begin, "\""), begin, held_back);
    }
    return next_ns;
}
