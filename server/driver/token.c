#include "server/driver/token.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL };

static int fill(int fd, const uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t put = pwrite(fd, bytes + at, len - at, (off_t)at);
        if (put < 0 && errno != EINTR)
            return -1;
        at += put > 0 ? (size_t)put : 0;
    }
    return fcntl(fd, F_ADD_SEALS, SEALS);
}

static int failed(struct error *err)
{
    int why = errno;
    int code = why == ENOMEM || why == ENOSPC   ? LARDER_ENOMEM
               : why == EMFILE || why == ENFILE ? LARDER_ELIMIT
                                                : LARDER_EIO;
    return error_set(err, code,
                     "the state could not be put into a memfd: %s; free memory, or raise the limit on open "
                     "files (ulimit -n) of the daemon",
                     strerror(why));
}

int token_bytes_memfd(const uint8_t *bytes, size_t len, int *fd, struct error *err)
{
    int made = memfd_create("larder-state", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int rc = made < 0 || fill(made, bytes, len) ? failed(err) : 0;
    if (rc && made >= 0)
        close(made);
    if (rc == 0)
        *fd = made;
    return rc;
}

int token_memfd(const struct record *token, int *fd, uint32_t *n_bytes, struct error *err)
{
    size_t len = record_bytes(token);
    uint8_t *bytes = malloc(len);
    if (!bytes)
        return error_set(err, LARDER_ENOMEM, "no memory for a state of %zu bytes: free memory", len);
    if (record_encode(token, bytes, len, &len)) { /* clients told of what the epoch was restored from */
        free(bytes);
        return error_set(err, LARDER_EFORMAT, "what the ranks said they had does not make a state: start all again");
    }
    int rc = token_bytes_memfd(bytes, len, fd, err);
    free(bytes);
    if (rc == 0)
        *n_bytes = (uint32_t)len;
    return rc;
}
