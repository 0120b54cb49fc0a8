/* list_text.h: the texts that name lists. Such a text is the path of a list, or of a folder with a list called
 * metadata. "#labels=" and the column of the labels may follow. */
#ifndef LARDER_CACHE_SOURCE_LIST_TEXT_H
#define LARDER_CACHE_SOURCE_LIST_TEXT_H

#include <stdbool.h>

#include "common/error.h"

/* list_text_is says whether a text names a list: "/data/train.csv", "/data/train.csv#labels=breed". Pure. */
bool list_text_is(const char *text);
/* list_text_resolve returns the text with the links of the list's path resolved, but for a last one that leads to what
 * is called no list. The caller frees it. It blocks. It fails as opening the list does. */
int list_text_resolve(const char *text, char **out, struct error *err);
/* list_text_path returns the path of a text's list, which the caller frees; NULL: it names none. It blocks. */
char *list_text_path(const char *text);

#endif
