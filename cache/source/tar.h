/* tar.h: tar shards, a kind of source: samples as webdataset groups them. */
#ifndef LARDER_CACHE_SOURCE_TAR_H
#define LARDER_CACHE_SOURCE_TAR_H

#include "cache/source/source.h"

/* It takes the texts of tar_text.h. */
extern const struct source_kind tar_kind;

#endif
