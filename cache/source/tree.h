/* tree.h: a class-per-folder tree, a kind of source. */
#ifndef LARDER_CACHE_SOURCE_TREE_H
#define LARDER_CACHE_SOURCE_TREE_H

#include "cache/source/source.h"

/* It takes any folder for a tree, and fails as catalog_open does. */
extern const struct source_kind tree_kind;
/* Of a tree of up to FILES_ALL_MAX files, all are looked at to see whether it has changed; of more, FILES_LOOKED_AT
 * that are drawn anew each time. */
#define FILES_ALL_MAX 1024
#define FILES_LOOKED_AT 256

#endif
