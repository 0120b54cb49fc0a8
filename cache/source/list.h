/* list.h: lists, a kind of source: a CSV, TSV or JSON Lines file whose rows have a path each, and a label or not; or a
 * folder that has such a file, called metadata, and no other folders. A row is a file, or with the columns offset and
 * bytes a place in one (list_places.h). */
#ifndef LARDER_CACHE_SOURCE_LIST_H
#define LARDER_CACHE_SOURCE_LIST_H

#include "cache/source/source.h"

extern const struct source_kind list_kind;

/* list_text_is says whether a text names a list: "/data/train.csv", "/data/train.csv#labels=breed". Pure. */
bool list_text_is(const char *text);
/* list_text_resolve gives the text with the links of the list's path resolved, which the caller frees. It blocks. It
 * fails as opening the list does. */
int list_text_resolve(const char *text, char **out, struct error *err);

#endif
