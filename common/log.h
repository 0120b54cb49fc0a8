/* log.h: one line an event to stderr: time=… level=… msg="…" key=value…
 *
 * Any thread may log; a line is one write. The message is printf-formatted; key=value pairs follow in the same format
 * string by convention: log_info("msg=\"job registered\" job=\"%s\" code=%s", …). Whatever is not our own word
 * stands as "%s" between quotes: there quotes and backslashes in it get a backslash, so that no value can pass for
 * another key. */
#ifndef LARDER_COMMON_LOG_H
#define LARDER_COMMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
/* log_level_parse knows "error", "warn", "info", "debug"; false for anything else. */
bool log_level_parse(const char *text, enum log_level *out);

void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)

/* log_limit: true at most `per_second` times a second for one limiter; counts what it held back, and hands that count
 * out with the next line that passes. One thread per limiter. */
struct log_limiter {
    uint64_t window_start_ns;
    uint32_t passed;
    uint32_t held_back;
};
bool log_limit(struct log_limiter *limiter, uint32_t per_second, uint32_t *held_back);

#endif
