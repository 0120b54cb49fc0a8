/* fuzz_tier.c: proves that no bytes make index_parse or tier_header_parse of a storage class read outside them, or give
 * a place outside of the segment, and that what they give encodes to the same bytes. */
#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "cache/tier/tier_priv.h"
#include "common/check.h"
#include "tests/fuzz/fuzz.h"

#define SEGMENT 5
#define HASH_BYTES 8

/* Mutations would all die at the hash, which lies behind all else: make it fit, as whoever forges a file would. */
static void seal(uint8_t *bytes, size_t size)
{
    if (size < HASH_BYTES)
        return;
    uint64_t hash = htole64(XXH3_64bits(bytes, size - HASH_BYTES));
    memcpy(bytes + size - HASH_BYTES, &hash, sizeof hash);
}

size_t fuzz_seed(size_t number, uint8_t *buf, size_t cap)
{
    struct place places[3] = {{.key = {1, 2}, .hash = 3, .offset = 56, .len_bytes = 100, .segment = SEGMENT},
                              {.key = {4, 5}, .hash = 6, .offset = 212, .len_bytes = 1, .segment = SEGMENT},
                              {.key = {7, 8}, .hash = 9, .offset = 269, .len_bytes = 50, .segment = SEGMENT}};
    struct segment_index index = {.segment = SEGMENT,
                                  .n_owners = (uint32_t)number,
                                  .owners = {10, 11, 12},
                                  .sealed_bytes = 319,
                                  .places = places,
                                  .count = number};
    if (number > 4)
        return 0;
    if (number == 4) {
        tier_header_encode(&(struct record){{1, 2}, 3, 4, 5, TIER_PLANES}, buf);
        return RECORD_HEADER_BYTES;
    }
    size_t len;
    uint8_t *bytes = index_encode(&index, &len);
    CHECK(bytes && len <= cap && index_parse(bytes, len, SEGMENT, &index)); /* a seed must be valid */
    memcpy(buf, bytes, len);
    free(index.places);
    free(bytes);
    return len;
}

static void parse_index(const uint8_t *data, size_t size)
{
    struct segment_index index;
    if (!index_parse(data, size, SEGMENT, &index))
        return;
    CHECK(index.n_owners <= SEGMENT_OWNERS_MAX && index.count <= size / INDEX_ENTRY_BYTES);
    for (size_t i = 0; i < index.count; i++) {
        const struct place *place = &index.places[i];
        CHECK(place->segment == SEGMENT && place->len_bytes > 0 && place->offset >= RECORD_HEADER_BYTES);
        CHECK(place->len_bytes <= index.sealed_bytes && place->offset <= index.sealed_bytes - place->len_bytes);
    }
    struct segment_index again;
    size_t len;
    uint8_t *bytes = index_encode(&index, &len);
    CHECK(bytes && len == size && index_parse(bytes, len, SEGMENT, &again) && again.count == index.count);
    CHECK(memcmp(again.places, index.places, index.count * sizeof *index.places) == 0);
    free(again.places);
    free(index.places);
    free(bytes);
}

static void parse_header(const uint8_t *data, size_t size)
{
    uint8_t again[RECORD_HEADER_BYTES];
    struct record record, same;
    if (size < RECORD_HEADER_BYTES || !tier_header_parse(data, &record))
        return;
    tier_header_encode(&record, again);
    CHECK(tier_header_parse(again, &same) && same.len_bytes == record.len_bytes && same.hash == record.hash);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *sealed = xmalloc(size + 1);
    if (size)
        memcpy(sealed, data, size);
    seal(sealed, size);
    parse_index(data, size);
    parse_index(sealed, size);
    parse_header(data, size);
    seal(sealed, size < RECORD_HEADER_BYTES ? size : RECORD_HEADER_BYTES);
    parse_header(sealed, size);
    free(sealed);
    return 0;
}
