#include "common/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"

#define LINE_MAX_BYTES 2048

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

void log_line(enum log_level level, const char *fmt, ...)
{
    if ((int)level > atomic_load_explicit(&current_level, memory_order_relaxed))
        return;
    char line[LINE_MAX_BYTES];
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t len = strftime(line, sizeof line, "time=%Y-%m-%dT%H:%M:%S", &parts);
    len += (size_t)snprintf(line + len, sizeof line - len, ".%03ldZ level=%s ", now.tv_nsec / 1000000,
                            level_names[level]);
    va_list args;
    va_start(args, fmt);
    int wanted = vsnprintf(line + len, sizeof line - len - 1, fmt, args);
    va_end(args);
    size_t room = sizeof line - len - 2;
    len += wanted < 0 ? 0 : (size_t)wanted < room ? (size_t)wanted : room;
    for (size_t i = 0; i < len; i++) { /* a file name with a line break must not forge a second line */
        if ((unsigned char)line[i] < ' ')
            line[i] = '?';
    }
    line[len++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, len);
    (void)written; /* nowhere left to report it */
}

bool log_limit(struct log_limiter *limiter, uint32_t per_second, uint32_t *held_back)
{
    uint64_t now = clock_now_ns();
    if (now - limiter->window_start_ns >= CLOCK_NS_PER_S) {
        limiter->window_start_ns = now;
        limiter->passed = 0;
    }
    if (limiter->passed >= per_second) {
        limiter->held_back++;
        return false;
    }
    limiter->passed++;
    *held_back = limiter->held_back;
    limiter->held_back = 0;
    return true;
}
