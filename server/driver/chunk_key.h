/* chunk_key.h: names datasets for the engine, as they lie in chunks. */
#ifndef LARDER_SERVER_DRIVER_CHUNK_KEY_H
#define LARDER_SERVER_DRIVER_CHUNK_KEY_H

#include "cache/catalog/catalog.h"
#include "server/engine/events.h"

/* chunk_key gives the same key for the same samples in the same chunks: a copy of a dataset has other ids, and stores
 * of other seeds or chunk sizes have other chunks. */
void chunk_key(const struct dataset *dataset, uint64_t key[ENGINE_CHUNK_KEY]);

#endif
