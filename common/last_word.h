/* last_word.h: what a daemon that ends by itself or is told to end leaves beside its socket: when it was, and why. Who
 * finds no daemon there reads it. A daemon that was killed leaves none, and one that starts removes it. */
#ifndef LARDER_COMMON_LAST_WORD_H
#define LARDER_COMMON_LAST_WORD_H

#include <stdbool.h>
#include <time.h>

#include "common/error.h"

#define LAST_WORD_BYTES 200

/* last_word_leave writes the word of the daemon whose session socket is at socket_path, in a new file. text: why it
 * ends, without a line's end. LARDER_EPERM, LARDER_ENOENT, LARDER_EIO. */
int last_word_leave(const char *socket_path, time_t now, const char *text, struct error *err);
/* last_word_clear removes it. LARDER_EPERM, LARDER_EIO; that there is none is no error. */
int last_word_clear(const char *socket_path, struct error *err);
/* last_word_read reads it. The text has no control characters. False: there is none that can be read. It waits for
 * nobody and follows no link. */
bool last_word_read(const char *socket_path, time_t *when, char text[LAST_WORD_BYTES]);

#endif
