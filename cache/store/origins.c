/* origins.c: the file that says what a store's samples were packed from, as bytes. */
#include "cache/store/origins.h"

#include <stdlib.h>

#include "cache/sealed.h"
#include "common/little_endian.h"

#define COUNTS_BYTES 32
#define ORIGIN_BYTES 16

static const struct seal seal = {.magic = "LDRORIGN", .version = 1, .what = "the store's " STORE_ORIGINS_NAME};

int store_origins_encode(const struct store_origins *of, const struct identity *origins, uint8_t **bytes,
                         size_t *len_bytes)
{
    size_t len = SEALED_HEADER_BYTES + COUNTS_BYTES + of->count * (size_t)ORIGIN_BYTES;
    uint8_t *buf = malloc(len);
    if (!buf)
        return LARDER_ENOMEM;
    uint8_t *at = put_u64(put_u64(buf + SEALED_HEADER_BYTES, of->plan[0]), of->plan[1]);
    at = put_u64(put_u64(at, of->folder), of->count);
    for (uint32_t i = 0; i < of->count; i++)
        at = put_u64(put_u64(at, origins[i].low), origins[i].high);
    sealed_close(&seal, buf, len);
    *bytes = buf;
    *len_bytes = len;
    return 0;
}

int store_origins_parse(const uint8_t *bytes, size_t len_bytes, const struct store_origins *of, struct identity **out,
                        struct error *err)
{
    const uint8_t *at;
    size_t payload_bytes;
    int code = sealed_open(&seal, bytes, len_bytes, &at, &payload_bytes, err);
    if (code)
        return code;
    if (payload_bytes < COUNTS_BYTES || payload_bytes != COUNTS_BYTES + get_u64(at + 24) * ORIGIN_BYTES)
        return error_set(err, LARDER_EFORMAT, "%s is damaged: its count does not fit its length", seal.what);
    if (get_u64(at) != of->plan[0] || get_u64(at + 8) != of->plan[1] || get_u64(at + 16) != of->folder ||
        get_u64(at + 24) != of->count)
        return error_set(err, LARDER_ECHANGED, "%s was written in another folder", seal.what);
    struct identity *origins = malloc((of->count ? of->count : 1) * sizeof *origins);
    if (!origins)
        return error_set(err, LARDER_ENOMEM, "out of memory for a store of %u samples", of->count);
    at += COUNTS_BYTES;
    for (uint32_t i = 0; i < of->count; i++, at += ORIGIN_BYTES)
        origins[i] = (struct identity){.low = get_u64(at), .high = get_u64(at + 8)};
    *out = origins;
    return 0;
}
