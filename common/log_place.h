/* log_place.h: where this process's log can be read. */
#ifndef LARDER_COMMON_LOG_PLACE_H
#define LARDER_COMMON_LOG_PLACE_H

#include <stddef.h>

/* log_place writes where standard error goes, in words: the file's path, the journalctl command that shows it, or "its
 * standard error". The text is cut to `size` bytes, its end included. Any thread. */
void log_place(char *text, size_t size);

#endif
