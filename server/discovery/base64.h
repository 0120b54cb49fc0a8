/* base64.h: bytes as text and back (RFC 4648, with padding). Pure. */
#ifndef LARDER_SERVER_DISCOVERY_BASE64_H
#define LARDER_SERVER_DISCOVERY_BASE64_H

#include <stddef.h>

#include "common/error.h"

/* base64_encode returns the text, which the caller frees. */
char *base64_encode(const void *data, size_t len_bytes);
/* base64_decode returns the bytes with a NUL behind them, which the caller frees. LARDER_EFORMAT: it is not base64. */
int base64_decode(const char *text, size_t len, char **out, size_t *len_bytes);

#endif
