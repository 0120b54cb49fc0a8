/* list.h: lists, a kind of source: a CSV, TSV or JSON Lines file whose rows have a path each, and a label or not; or a
 * folder that has such a file, called metadata, and no other folders. A row is a file, or with the columns offset and
 * bytes a place in one (list_places.h). */
#ifndef LARDER_CACHE_SOURCE_LIST_H
#define LARDER_CACHE_SOURCE_LIST_H

#include "cache/source/source.h"

extern const struct source_kind list_kind;

#endif
