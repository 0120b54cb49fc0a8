/* log.c: which lines are shown, and how many of a kind. */
#include "common/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include "common/clock.h"
#include "common/log_format.h"
#include "common/log_recent.h"
#include "common/log_writer.h"

static _Atomic int current_level = LOG_INFO;
static const char *const level_names[] = {"error", "warn", "info", "debug"};

void log_set_level(enum log_level level)
{
    atomic_store(&current_level, (int)level);
}

static bool is_shown(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

void log_line(enum log_level level, const char *fmt, ...)
{
    char line[LOG_LINE_MAX];
    va_list args;
    if (!is_shown(level))
        return;
    va_start(args, fmt);
    size_t len = log_format_args(line, level_names[level], 0, fmt, &args);
    va_end(args);
    log_recent_keep(level <= LOG_WARN, line, len);
    log_writer_put(line, len);
}

void log_fatal(const char *fmt, ...)
{
    char line[LOG_LINE_MAX];
    va_list args;
    va_start(args, fmt);
    size_t len = log_format_args(line, "fatal", 0, fmt, &args);
    va_end(args);
    log_writer_put_last(line, len);
}

/* ── limits ── */

static pthread_mutex_t limits_lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_limiter *limiters; /* all limiters that ever held a line back */

/* Whether a line may pass, and what was held back before it. */
static bool may_pass(struct log_limiter *limiter, const char *kind, uint32_t *held_back)
{
    pthread_mutex_lock(&limits_lock);
    uint64_t now = clock_now_ns(); /* no earlier than the window's start, which another thread may have set */
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
    char line[LOG_LINE_MAX];
    uint32_t held_back;
    va_list args;
    if (!is_shown(limiter->level) || !may_pass(limiter, fmt, &held_back))
        return;
    va_start(args, fmt);
    size_t len = log_format_args(line, level_names[limiter->level], held_back, fmt, &args);
    va_end(args);
    log_recent_keep(limiter->level <= LOG_WARN, line, len);
    log_writer_put(line, len);
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

/* Says what was held back in seconds that are over (all: in the one that runs as well). Gives when the next of them is
 * over, or UINT64_MAX. */
static uint64_t tell_held_back(bool all)
{
    uint32_t held_back;
    uint64_t next_ns;
    const struct log_limiter *limiter;
    while ((limiter = take_held_back(all, &held_back, &next_ns))) {
        const char *begin = strchr(limiter->kind, '"');
        begin = begin ? begin + 1 : limiter->kind;
        log_line(limiter->level, "msg=\"lines were held back\" like=\"%.*s\" held_back=%u", (int)strcspn(begin, "\""),
                 begin, held_back);
    }
    return next_ns;
}

static uint64_t tell_due(void)
{
    return tell_held_back(false);
}

int log_start(void)
{
    return log_writer_start(tell_due);
}

void log_flush(void)
{
    log_writer_flush();
}

void log_stop(void)
{
    tell_held_back(true);
    log_writer_stop();
}
