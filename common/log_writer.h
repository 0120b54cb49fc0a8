/* log_writer.h: takes the log's lines to standard error. Any thread, but for start and stop. */
#ifndef LARDER_COMMON_LOG_WRITER_H
#define LARDER_COMMON_LOG_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_FLUSH_MS 3000 /* longest wait for standard error at the end */

/* log_writer_tell puts the lines that are due. Gives when the next of them are (clock_now_ns), or UINT64_MAX. */
typedef uint64_t log_writer_tell(void);

/* log_writer_start has a thread write from here on; it calls tell before each wait. LARDER_ELIMIT when there can be no
 * thread. log_writer_stop writes what is left, for LOG_FLUSH_MS at most, and ends the thread. */
int log_writer_start(log_writer_tell *tell);
void log_writer_stop(void);

/* log_writer_put takes one whole line (copied). Blocks only where no thread writes: before start and after stop. */
void log_writer_put(const char *line, size_t len);
/* log_writer_put_last takes a line for which room is kept, and waits until it is written, or for LOG_FLUSH_MS. */
void log_writer_put_last(const char *line, size_t len);
/* log_writer_flush waits until what was put so far is written, or for LOG_FLUSH_MS. */
void log_writer_flush(void);
/* log_writer_wake has the thread call tell again. */
void log_writer_wake(void);

#endif
