#include "cache/sealed.h"

#include <string.h>
#include <xxhash.h>

#include "common/little_endian.h"

int sealed_open(const struct seal *seal, const uint8_t *bytes, size_t len_bytes, const uint8_t **payload,
                size_t *payload_bytes, struct error *err)
{
    if (len_bytes < SEALED_HEADER_BYTES)
        return error_set(err, LARDER_EFORMAT, "%s is damaged: it is too short", seal->what);
    if (memcmp(bytes, seal->magic, 8) != 0)
        return error_set(err, LARDER_EFORMAT, "%s is damaged: it does not begin as one", seal->what);
    if (get_u32(bytes + 8) != seal->version)
        return error_set(err, LARDER_EVERSION, "%s has version %u, this program reads %u", seal->what,
                         get_u32(bytes + 8), seal->version);
    size_t len = len_bytes - SEALED_HEADER_BYTES;
    if (get_u32(bytes + 12) != 0 || get_u64(bytes + 16) != len)
        return error_set(err, LARDER_EFORMAT, "%s is damaged: its length is not what it says", seal->what);
    XXH128_hash_t hash = XXH3_128bits(bytes + SEALED_HEADER_BYTES, len);
    if (hash.low64 != get_u64(bytes + 24) || hash.high64 != get_u64(bytes + 32))
        return error_set(err, LARDER_EFORMAT, "%s is damaged: its checksum does not match", seal->what);
    *payload = bytes + SEALED_HEADER_BYTES;
    *payload_bytes = len;
    return 0;
}

void sealed_close(const struct seal *seal, uint8_t *bytes, size_t len_bytes)
{
    size_t len = len_bytes - SEALED_HEADER_BYTES;
    XXH128_hash_t hash = XXH3_128bits(bytes + SEALED_HEADER_BYTES, len);
    memcpy(bytes, seal->magic, 8);
    uint8_t *at = put_u32(bytes + 8, seal->version);
    at = put_u32(at, 0);
    at = put_u64(at, len);
    at = put_u64(at, hash.low64);
    put_u64(at, hash.high64);
}
