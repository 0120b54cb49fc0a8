/* braces.h: expands braces as a shell does: {000000..000146}, {0..9..3}, {a..e}, {train,val}, one in another too. Pure.
 */
#ifndef LARDER_CACHE_SOURCE_BRACES_H
#define LARDER_CACHE_SOURCE_BRACES_H

#include <stddef.h>
#include <stdint.h>

#define BRACES_TEXT_MAX 4096        /* bytes of one result */
#define BRACES_STEPS_MAX (1u << 21) /* texts that are looked at */

/* It is called for each result. It returns 0, or a negative code that ends the expansion. */
typedef int braces_fn(void *context, const char *text);
/* braces_expand returns the results of a text in their order. Braces that are no list and no range stay as they are. It
 * returns 0, fn's code, or LARDER_ELIMIT for a result or a number of them above the limits. */
int braces_expand(const char *text, braces_fn *fn, void *context);

#endif
