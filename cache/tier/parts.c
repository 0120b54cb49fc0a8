/* parts.c: all parts of a request, however many at once the system reads or writes. */
#include <errno.h>
#include <sys/uio.h>

#include "cache/tier/tier_priv.h"

int tier_move_parts(tier_move_fn *move, int fd, struct iovec *part, int count, uint64_t offset)
{
    while (count > 0) {
        ssize_t moved = move(fd, part, count, (off_t)offset);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved <= 0) {
            errno = moved < 0 ? errno : 0;
            return -1;
        }
        offset += (uint64_t)moved;
        for (size_t left = (size_t)moved; left > 0;) {
            size_t step = left < part->iov_len ? left : part->iov_len;
            part->iov_base = (char *)part->iov_base + step;
            part->iov_len -= step;
            left -= step;
            if (part->iov_len == 0) {
                part++;
                count--;
            }
        }
    }
    return 0;
}
