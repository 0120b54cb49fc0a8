/* log_recent.h: the last lines that were logged, for who asks the daemon what happened. Any thread; a caller waits for
 * no more than a copy. */
#ifndef LARDER_COMMON_LOG_RECENT_H
#define LARDER_COMMON_LOG_RECENT_H

#include <stddef.h>

#define LOG_RECENT_MAX 64 /* lines */

/* log_recent_keep keeps a copy of a line of at most LOG_LINE_MAX bytes, and forgets the oldest where there is no room.
 */
void log_recent_keep(const char *line, size_t len_bytes);
/* log_recent_read calls take with each line that is kept, the oldest first, without its newline. Lines that are logged
 * meanwhile may be missing. */
void log_recent_read(void (*take)(void *ctx, const char *line, size_t len_bytes), void *ctx);

#endif
