/* log_format.h: makes the log's lines. Pure but for the time of day; any thread. Allocates nothing,
 * and uses nothing that logs. */
#ifndef LARDER_COMMON_LOG_FORMAT_H
#define LARDER_COMMON_LOG_FORMAT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_MAX 2048 /* bytes, with the newline */

/* log_format writes one whole line into text (LOG_LINE_MAX bytes, no NUL): the time, the level, the message by fmt, the
 * newline. Text that does not fit is left out. It returns the line's length. */
size_t log_format(char *text, const char *level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* log_format_args: the same. When held_back is not 0, " held_back=N" stands at the line's end. */
size_t log_format_args(char *text, const char *level, uint32_t held_back, const char *fmt, va_list *args);

#endif
