/* token.h: a token in a memfd that nobody can change. */
#ifndef LARDER_SERVER_DRIVER_TOKEN_H
#define LARDER_SERVER_DRIVER_TOKEN_H

#include "common/record.h"

/* token_bytes_memfd returns a sealed memfd with the bytes, which the caller closes. LARDER_ENOMEM, LARDER_ELIMIT (no
 * more descriptors), LARDER_EIO. */
int token_bytes_memfd(const uint8_t *bytes, size_t len_bytes, int *fd, struct error *err);

/* token_memfd returns a sealed memfd with the record, which the caller closes, and the record's length. LARDER_ENOMEM,
 * LARDER_ELIMIT (no more descriptors), LARDER_EIO. */
int token_memfd(const struct record *token, int *fd, uint32_t *n_bytes, struct error *err);

#endif
