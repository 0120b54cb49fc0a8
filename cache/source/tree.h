/* tree.h: a class-per-folder tree, a kind of source. */
#ifndef LARDER_CACHE_SOURCE_TREE_H
#define LARDER_CACHE_SOURCE_TREE_H

#include "cache/source/source.h"

/* It takes any folder for a tree, and fails as catalog_open does. */
extern const struct source_kind tree_kind;

#endif
