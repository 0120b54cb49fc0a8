/* log_key.h: the names of samples in the shards that Writers write, a log (client/python/larder/_log.py). */
#ifndef LARDER_CACHE_SOURCE_LOG_KEY_H
#define LARDER_CACHE_SOURCE_LOG_KEY_H

#include <stdint.h>

#define LOG_KEY_BYTES 32

/* log_key returns the key that a sample has in a store, from its key in shards; `number` is the sample's in its
 * dataset. In a log's shard it is the key that the Writer was given, so that no key depends on how many Writers there
 * were. Where the Writer was given none, it is the number. Elsewhere it is what it was. It may lie in buf. Pure. */
const char *log_key(const char *key, uint32_t number, char buf[LOG_KEY_BYTES]);

#endif
