/* record.c: records and indices as bytes. All numbers are little-endian. Pure; any thread.
 *
 * A record is a header and the sample's bytes. The header: magic, version, key (2 × 8), owner, hash of the bytes,
 * length, form, hash of all before. An index: magic and version, segment, count, sealed length, number of owners,
 * owners; then for each record key, hash, offset, length, form; then the hash of all before.
 *
 * A sample in planes has another key in the file than in memory. So a release that knows no forms, and takes what it
 * finds for the sample's own bytes, never finds it. */
#include <stdlib.h>
#include <xxhash.h>

#include "cache/tier/tier_priv.h"
#include "common/little_endian.h"

#define RECORD_MAGIC UINT32_C(0x6352724c) /* "LrRc" */
#define INDEX_MAGIC UINT32_C(0x7849724c)  /* "LrIx" */
#define HASH_BYTES 8
#define OFFSET_MASK ((UINT64_C(1) << 62) - 1)
#define PLANES_KEY UINT64_C(0x73656e616c50) /* changes a key while its sample is in planes */

uint64_t tier_hash(const void *bytes, uint64_t len_bytes)
{
    return XXH3_64bits(bytes, len_bytes);
}

/* file_key changes a key in memory to that in the file, and back. */
static struct tier_key file_key(struct tier_key key, uint32_t form)
{
    return (struct tier_key){key.low ^ (form == TIER_PLANES ? PLANES_KEY : 0), key.high};
}

void tier_header_encode(const struct record *record, uint8_t out[RECORD_HEADER_BYTES])
{
    uint8_t *at = put_u32(put_u32(out, RECORD_MAGIC), TIER_VERSION);
    struct tier_key key = file_key(record->key, record->form);
    at = put_u64(put_u64(at, key.low), key.high);
    at = put_u64(put_u64(at, record->owner), record->hash);
    at = put_u32(put_u32(at, record->len_bytes), record->form);
    put_u64(at, XXH3_64bits(out, RECORD_HEADER_BYTES - HASH_BYTES));
}

bool tier_header_parse(const uint8_t bytes[RECORD_HEADER_BYTES], struct record *out)
{
    if (get_u32(bytes) != RECORD_MAGIC || get_u32(bytes + 4) != TIER_VERSION ||
        get_u64(bytes + RECORD_HEADER_BYTES - HASH_BYTES) != XXH3_64bits(bytes, RECORD_HEADER_BYTES - HASH_BYTES))
        return false;
    uint32_t form = get_u32(bytes + 44);
    *out = (struct record){.key = file_key((struct tier_key){get_u64(bytes + 8), get_u64(bytes + 16)}, form),
                           .owner = get_u64(bytes + 24),
                           .hash = get_u64(bytes + 32),
                           .len_bytes = get_u32(bytes + 40),
                           .form = form};
    return out->len_bytes > 0 && form < TIER_FORMS;
}

static uint8_t *put_place(uint8_t *at, const struct place *place)
{
    struct tier_key key = file_key(place->key, place->form);
    at = put_u64(put_u64(at, key.low), key.high);
    at = put_u64(put_u64(at, place->hash), place->offset);
    return put_u32(put_u32(at, place->len_bytes), place->form);
}

uint8_t *index_encode(const struct segment_index *index, size_t *len_bytes)
{
    size_t len = INDEX_HEADER_BYTES + index->count * INDEX_ENTRY_BYTES + HASH_BYTES;
    uint8_t *bytes = malloc(len);
    if (!bytes)
        return NULL;
    uint8_t *at = put_u32(put_u32(bytes, INDEX_MAGIC), TIER_VERSION);
    at = put_u32(put_u32(at, index->segment), index->n_owners);
    at = put_u64(put_u64(at, index->count), index->sealed_bytes);
    for (uint32_t i = 0; i < SEGMENT_OWNERS_MAX; i++)
        at = put_u64(at, i < index->n_owners ? index->owners[i] : 0);
    for (size_t i = 0; i < index->count; i++)
        at = put_place(at, &index->places[i]);
    put_u64(at, XXH3_64bits(bytes, len - HASH_BYTES));
    *len_bytes = len;
    return bytes;
}

/* The record's header lies before its bytes, and both within what is sealed. */
static bool parse_place(const uint8_t *at, const struct segment_index *index, struct place *out)
{
    uint64_t offset = get_u64(at + 24);
    uint32_t form = get_u32(at + 36);
    *out = (struct place){.key = file_key((struct tier_key){get_u64(at), get_u64(at + 8)}, form),
                          .hash = get_u64(at + 16),
                          .offset = offset & OFFSET_MASK,
                          .form = form % TIER_FORMS,
                          .len_bytes = get_u32(at + 32),
                          .segment = index->segment};
    return form < TIER_FORMS && out->len_bytes > 0 && offset >= RECORD_HEADER_BYTES && offset <= index->sealed_bytes &&
           offset <= OFFSET_MASK && out->len_bytes <= index->sealed_bytes - offset;
}

bool index_parse(const uint8_t *bytes, size_t len_bytes, uint32_t segment, struct segment_index *out)
{
    struct segment_index index = {.segment = segment};
    if (len_bytes < INDEX_HEADER_BYTES + HASH_BYTES || get_u32(bytes) != INDEX_MAGIC ||
        get_u32(bytes + 4) != TIER_VERSION || get_u32(bytes + 8) != segment ||
        get_u64(bytes + len_bytes - HASH_BYTES) != XXH3_64bits(bytes, len_bytes - HASH_BYTES))
        return false;
    uint64_t count = get_u64(bytes + 16), entries = len_bytes - INDEX_HEADER_BYTES - HASH_BYTES;
    index.n_owners = get_u32(bytes + 12);
    index.sealed_bytes = get_u64(bytes + 24);
    if (index.n_owners > SEGMENT_OWNERS_MAX || count != entries / INDEX_ENTRY_BYTES || entries % INDEX_ENTRY_BYTES)
        return false;
    for (uint32_t i = 0; i < index.n_owners; i++)
        index.owners[i] = get_u64(bytes + 32 + (size_t)8 * i);
    index.places = malloc((count ? count : 1) * sizeof *index.places);
    if (!index.places)
        return false;
    for (index.count = 0; index.count < count; index.count++) {
        const uint8_t *at = bytes + INDEX_HEADER_BYTES + index.count * INDEX_ENTRY_BYTES;
        if (!parse_place(at, &index, &index.places[index.count])) {
            free(index.places);
            return false;
        }
    }
    *out = index;
    return true;
}
