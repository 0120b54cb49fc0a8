/* log.h: the log of Writers beside a store: the folder DEST.log, whose shards are packed into DEST. What is in it
 * is said in client/python/larder/_log.py. */
#ifndef LARDER_CACHE_PACK_LOG_H
#define LARDER_CACHE_PACK_LOG_H

#include "common/error.h"

/* pack_log_find returns the path of a destination's log, which the caller frees; NULL: it has none, and a store is
 * there already. It removes what is left of a log that was packed. LARDER_ENOENT: neither a log is there nor a store.
 * LARDER_EBUSY: a Writer has not ended. LARDER_EIO, LARDER_EPERM, LARDER_ENOMEM. */
int pack_log_find(const char *dest, char **out, struct error *err);
/* pack_log_remove removes the log of a destination that is packed. It fails as system calls do; nothing needs the log
 * then. */
int pack_log_remove(const char *dest, struct error *err);

#endif
