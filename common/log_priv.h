/* log_priv.h: what the log's files share: log.c makes lines, log_writer.c takes them away. */
#ifndef LARDER_COMMON_LOG_PRIV_H
#define LARDER_COMMON_LOG_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_LINE_MAX 2048 /* bytes, with the newline */

/* log_writer_put takes one whole line (copied). Blocks only where no thread writes: before log_start and after log_stop. */
void log_writer_put(const char *line, size_t len);
/* log_writer_put_last takes a line for which room is kept, and waits until it is written, or for LOG_FLUSH_MS. */
void log_writer_put_last(const char *line, size_t len);
/* log_writer_wake has the thread look again when it is next to tell what was held back. */
void log_writer_wake(void);

/* log_line_dropped writes the line that stands for `dropped` others into line (LOG_LINE_MAX bytes); gives its length. */
size_t log_line_dropped(char *line, uint64_t dropped);
/* log_tell_held_back says what was held back in seconds that are over (all: in the one that runs as well). Gives when
 * the next of them is over, or UINT64_MAX. */
uint64_t log_tell_held_back(bool all);

#endif
