/* sealed.h: sealed bytes on disk say what they are and whether they are whole. They are a header (magic, u32 version,
 * u32 0, u64 payload bytes, XXH3-128 of the payload as two u64, low first) and the payload, little-endian. Pure; any
 * thread. */
#ifndef LARDER_CACHE_SEALED_H
#define LARDER_CACHE_SEALED_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define SEALED_HEADER_BYTES 40

struct seal {
    char magic[9]; /* eight characters and a NUL */
    uint32_t version;
    const char *what; /* its name in messages, such as "the checkpoint" */
};

/* sealed_open checks the header and the checksum, and sets *payload, which is borrowed from bytes. LARDER_EFORMAT,
 * LARDER_EVERSION. */
int sealed_open(const struct seal *seal, const uint8_t *bytes, size_t len_bytes, const uint8_t **payload,
                size_t *payload_bytes, struct error *err);
/* sealed_close writes the header in front of a payload of len_bytes - SEALED_HEADER_BYTES that is already in place. */
void sealed_close(const struct seal *seal, uint8_t *bytes, size_t len_bytes);

#endif
