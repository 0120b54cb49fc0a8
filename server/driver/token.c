#include "server/driver/token.h"

#include <stdlib.h>

#include "common/memfd.h"

int token_bytes_memfd(const uint8_t *bytes, size_t len, int *fd, struct error *err)
{
    const struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = len};
    return memfd_sealed("larder-state", "the state", &part, 1, fd, err);
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
