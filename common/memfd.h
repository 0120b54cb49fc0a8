/* memfd.h: bytes in memory that are passed to another process by a descriptor. */
#ifndef LARDER_COMMON_MEMFD_H
#define LARDER_COMMON_MEMFD_H

#include <sys/uio.h>

#include "common/error.h"

/* memfd_sealed makes a memfd of the parts' bytes, one part behind the other, and seals it: nobody can write to it or
 * change its length. The caller closes *fd. name is for /proc alone, and `what` is what err says could not be made.
 * LARDER_ENOMEM; LARDER_ELIMIT: no descriptor is free; LARDER_EIO. Any thread. */
int memfd_sealed(const char *name, const char *what, const struct iovec *parts, int n_parts, int *fd,
                 struct error *err);

#endif
