/* log.h: writes one line an event to stderr: time=… level=… msg="…" key=value…
 *
 * Any thread may log. A line is one write, and between log_start and log_stop no thread waits for it. The message is
 * printf-formatted. By convention key=value pairs follow in the same format string: log_info("msg=\"job registered\"
 * job=\"%s\" code=%s", …). A text that is not a word of our own is written as "%s" between quotes. Its quotes and
 * backslashes get a backslash, so that no value can pass for another key. */
#ifndef LARDER_COMMON_LOG_H
#define LARDER_COMMON_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);

void log_line(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)

/* log_fatal writes a line of level "fatal" and returns when it and all before it are written, or after LOG_FLUSH_MS
 * (log_writer.h); the caller then ends the process. Allocates nothing. */
void log_fatal(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* log_warn_limited and the other three limit the lines of one kind per second in the whole process. A kind is one place
 * in the code. Use them for events that a client, a peer or a file can cause without limit. Lines that were held back
 * are counted. The next line that passes ends with " held_back=N". If none comes within LOG_HELD_TOLD_MS of the
 * second's beginning, or before log_stop, a separate line says the number. */
#define log_error_limited(...) log_limited(LOG_ERROR, LOG_FAULTS_PER_S, __VA_ARGS__)
#define log_warn_limited(...) log_limited(LOG_WARN, LOG_FAULTS_PER_S, __VA_ARGS__)
#define log_info_limited(...) log_limited(LOG_INFO, LOG_EVENTS_PER_S, __VA_ARGS__)
#define log_debug_limited(...) log_limited(LOG_DEBUG, LOG_EVENTS_PER_S, __VA_ARGS__)

enum { LOG_FAULTS_PER_S = 10, LOG_EVENTS_PER_S = 50 };

#define LOG_HELD_TOLD_MS 1250

struct log_limiter {
    const char *kind; /* the format of its lines */
    uint32_t per_second;
    enum log_level level;
    uint64_t window_start_ns; /* this field and those below are under the limiters' lock */
    uint32_t passed, held_back;
    bool listed;
    struct log_limiter *next;
};

void log_line_limited(struct log_limiter *limiter, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_limited(line_level, limit_per_second, ...)                                                          \
    do {                                                                                                        \
        static struct log_limiter log_limiter_here = {.per_second = (limit_per_second), .level = (line_level)}; \
        log_line_limited(&log_limiter_here, __VA_ARGS__);                                                       \
    } while (0)

/* log_start makes a thread that writes all later lines, so that nobody who logs waits for standard error. 64 KiB of
 * lines can wait to be written. Lines beyond that are dropped, and as soon as there is room a line says how many.
 * LARDER_ELIMIT when there can be no thread; then lines are still written directly. log_stop writes the lines that
 * are left, for LOG_FLUSH_MS at most, and ends the thread. No other thread may log during log_start. A process does
 * not fork between the two calls. */
int log_start(void);
void log_stop(void);
/* log_flush waits until all lines so far are written, or for LOG_FLUSH_MS. */
void log_flush(void);

#endif
