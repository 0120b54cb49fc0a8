/* pairs.h: one part of samples that are files of a folder: those that fit a pattern, in the order of their stems. A
 * pattern is a path below the folder with stars in it, or several of those with ';' between. A file's stem is what
 * stands for the stars, with '/' between. Parts go together by their stems. */
#ifndef LARDER_CACHE_SOURCE_PAIRS_H
#define LARDER_CACHE_SOURCE_PAIRS_H

#include "cache/source/source.h"

/* Its wish has the pattern as `part`. */
extern const struct source_kind pairs_kind;

/* pairs_stem returns the stem of a file, malloc'ed, the caller's. NULL: out of memory. Pure. */
char *pairs_stem(const struct source *source, uint32_t index);

#endif
