/* parts.h: samples of several parts, a kind of source. Each part is a source of its own, of the kind that its container
 * has, with as many samples in the same order. A sample is what its parts have behind the head of sample_parts.h. So
 * whoever keeps, sends or packs samples knows nothing of parts. */
#ifndef LARDER_CACHE_SOURCE_PARTS_H
#define LARDER_CACHE_SOURCE_PARTS_H

#include "cache/source/source.h"

extern const struct source_kind parts_kind;

#endif
