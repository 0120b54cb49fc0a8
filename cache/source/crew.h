/* crew.h: a few threads that do the parts of one work: the classes of a tree, the shards of an archive. */
#ifndef LARDER_CACHE_SOURCE_CREW_H
#define LARDER_CACHE_SOURCE_CREW_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

struct crew_work {
    size_t count; /* of parts */
    void *context;
    /* Does one part. `own` is memory of the thread, of own_bytes, zeros at first. */
    int (*one)(void *context, void *own, size_t part, struct error *err);
    size_t own_bytes;
    void (*own_free)(void *own); /* frees what the memory holds, not itself; NULL: nothing */
    uint64_t device;             /* that it reads from: see common/aside.h */
};

/* crew_run does all parts, in their order as far as they begin, and blocks until that is done. Once a part has failed
 * no other begins, and its error is returned. Of several it is the first part's: the one that a single thread would
 * have met. LARDER_ENOMEM. */
int crew_run(const struct crew_work *work, struct error *err);

#endif
