/* chunk_key.h: the key by which the engine knows which datasets have the same samples in the same chunks. */
#ifndef LARDER_SERVER_REGISTRATION_CHUNK_KEY_H
#define LARDER_SERVER_REGISTRATION_CHUNK_KEY_H

#include "cache/catalog/catalog.h"
#include "server/engine/events.h"

/* chunk_key fills key. Two datasets get the same key when they have the same samples in the same chunks. A copy of a
 * dataset gets another key, because its samples have other ids. A store that was packed with another seed or chunk size
 * gets another key, because it has other chunks. */
void chunk_key(const struct dataset *dataset, uint64_t key[ENGINE_CHUNK_KEY]);

#endif
