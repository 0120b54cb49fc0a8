/* log.h: one line an event to stderr: time=… level=… msg="…" key=value…
 *
 * Any thread may log; a line is one write, and between log_start and log_stop none of them waits for it. The message is
 * printf-formatted; key=value pairs follow in the same format string by convention:
 * log_info("msg=\"job registered\" job=\"%s\" code=%s", …). Whatever is not our own word stands as "%s" between quotes:
 * there quotes and backslashes in it get a backslash, so that no value can pass for another key. */
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

/* log_fatal writes a line of level "fatal" and returns when it and all before it are written, or after LOG_FLUSH_MS
 * (log_writer.h); the caller then ends the process. Allocates nothing. */
void log_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* log_warn_limited and its like: at most so many lines of this kind a second in the whole process, a kind being one place
 * in the code. What was held back is counted: " held_back=N" at the end of the next line that passes,
 * or, when none comes for a while (LOG_HELD_TOLD_MS after the second began), and at log_stop, in a line of its own.
 * For whatever a client, a peer or a file can cause as often as it likes. */
#define log_error_limited(...) log_limited(LOG_ERROR, LOG_FAULTS_PER_S, __VA_ARGS__)
#define log_warn_limited(...) log_limited(LOG_WARN, LOG_FAULTS_PER_S, __VA_ARGS__)
#define log_info_limited(...) log_limited(LOG_INFO, LOG_EVENTS_PER_S, __VA_ARGS__)
#define log_debug_limited(...) log_limited(LOG_DEBUG, LOG_EVENTS_PER_S, __VA_ARGS__)

enum { LOG_FAULTS_PER_S = 10, LOG_EVENTS_PER_S = 50 };

#define LOG_HELD_TOLD_MS 1250

struct log_limiter {
    const char *kind; /* the line's format */
    uint32_t per_second;
    enum log_level level;
    uint64_t window_start_ns; /* this and what follows: under the limiters' lock */
    uint32_t passed, held_back;
    bool listed;
    struct log_limiter *next;
};

void log_line_limited(struct log_limiter *limiter, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_limited(line_level, limit_per_second, ...)                                                                 \
    do {                                                                                                               \
        static struct log_limiter log_limiter_here = {.per_second = (limit_per_second), .level = (line_level)};        \
        log_line_limited(&log_limiter_here, __VA_ARGS__);                                                              \
    } while (0)

/* log_start has a thread of its own write the lines from here on: nobody who logs waits for standard error then. What it
 * cannot take at once is kept (64 KiB); lines beyond that are dropped, and a line says how many as soon as there is
 * room. LARDER_ELIMIT when there can be no thread: lines go on being written directly. Not with other threads logging.
 * log_stop writes what is left, for LOG_FLUSH_MS at most, and ends the thread. A process does not fork in between. */
int log_start(void);
void log_stop(void);

#endif
