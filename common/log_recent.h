/* log_recent.h: keeps the last logged lines, for questions about what happened. Any thread; a caller waits no longer
 * than a copy takes. */
#ifndef LARDER_COMMON_LOG_RECENT_H
#define LARDER_COMMON_LOG_RECENT_H

#include <stdbool.h>
#include <stddef.h>

#define LOG_RECENT_MAX 64 /* lines of a kind */

/* Warnings and what is worse are kept a second time, so that lines about daily business do not push them out. */
enum log_recent { LOG_RECENT_ALL, LOG_RECENT_WARNINGS, LOG_RECENT_KINDS };

/* log_recent_keep keeps a copy of a line of at most LOG_LINE_MAX bytes. If there is no room it forgets the oldest
 * lines. */
void log_recent_keep(bool warning, const char *line, size_t len_bytes);
/* log_recent_read calls take with each line of the kind that is kept, the oldest first, without its newline. Lines that
 * are logged meanwhile may be missing. */
void log_recent_read(enum log_recent kind, void (*take)(void *ctx, const char *line, size_t len_bytes), void *ctx);

#endif
