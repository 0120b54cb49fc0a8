/* error.h: a code and a text, carried from where something failed to whoever can tell a person.
 *
 * Functions that can fail take a trailing `struct error *err` (may be NULL), fill it and return its code. Results go
 * through out-pointers that stay untouched on failure. A text names the file, job or line and says what to do. */
#ifndef LARDER_COMMON_ERROR_H
#define LARDER_COMMON_ERROR_H

#include <stdarg.h>

#include "common/larder_err.h"

#define ERROR_TEXT_MAX 512

struct error {
    int code;
    char text[ERROR_TEXT_MAX];
};

/* error_set fills err (when not NULL) and returns code, so that `return error_set(err, LARDER_EIO, "…")` reads well. */
int error_set(struct error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* error_prefix puts "prefix: " before the text that err already holds. Returns err's code, or code when err is NULL. */
int error_prefix(struct error *err, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
