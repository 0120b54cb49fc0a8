/* parts_text.h: the texts that name samples of several parts: "TEXT#parts=image=IMAGES&mask=MASKS", where TEXT names a
 * folder, a list or tar shards, as it does alone. What a part is then depends on that: of a folder a pattern of files
 * below it (pairs.h); of a list a column; of shards the endings of members, the first before the others,
 * "jpg;png". Of a list or shards it may also be a column of rows of numbers, "[boxes]" (rows.h). Pure. */
#ifndef LARDER_CACHE_SOURCE_PARTS_TEXT_H
#define LARDER_CACHE_SOURCE_PARTS_TEXT_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/sample_parts.h"

/* parts_text_of returns what stands behind "#parts=", and *len of what stands before it; NULL: it is not there. */
const char *parts_text_of(const char *text, size_t *len);

/* The parts that a text names. The texts are the struct's own. */
struct parts_asked {
    uint32_t n;
    char *names[SAMPLE_PARTS_MAX], *values[SAMPLE_PARTS_MAX];
};
/* parts_text_parse reads what stands behind "#parts=". The caller frees what *out holds by parts_asked_free.
 * LARDER_EINVAL, LARDER_ENOMEM. */
int parts_text_parse(const char *text, struct parts_asked *out, struct error *err);
void parts_asked_free(struct parts_asked *asked);

#endif
