/* fuzz_idset.c: proves that no bytes make idset_read leave them or accept a set that they do not hold: what is accepted
 * is written again to the same bytes. The checksum is mended before reading, since it would keep nearly all mutations
 * out. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "common/check.h"
#include "sampler/idset.h"
#include "tests/fuzz/fuzz.h"

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    static const struct {
        sample_id first;
        uint32_t count, step;
    } sets[] = {{0, 0, 1},     {5, 1, 1},    {0, 300, 1}, {65500, 100, 7}, {4294967000u, 290, 1},
                {0, 9000, 13}, {1, 30000, 2}};
    if (index >= sizeof sets / sizeof *sets)
        return 0;
    struct idset *set;
    uint8_t *bytes;
    size_t len;
    CHECK(idset_create(&set) == 0);
    for (uint32_t i = 0; i < sets[index].count; i++)
        idset_add(set, sets[index].first + i * sets[index].step);
    CHECK(idset_write(set, &bytes, &len) == 0 && len <= cap);
    memcpy(buf, bytes, len);
    free(bytes);
    idset_destroy(set);
    return len;
}

static void try_bytes(const uint8_t *data, size_t size)
{
    struct idset *set;
    struct error err = {0};
    int rc = idset_read(data, size, &set, &err);
    if (rc) {
        CHECK((rc == LARDER_EFORMAT || rc == LARDER_EVERSION) && err.code == rc && err.text[0]);
        return;
    }
    uint8_t *again;
    size_t len;
    CHECK(idset_write(set, &again, &len) == 0 && len == size && memcmp(again, data, size) == 0);
    free(again);
    idset_destroy(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_bytes(data, size);
    if (size < 8)
        return 0;
    uint8_t *mended = xmalloc(size);
    memcpy(mended, data, size);
    uint64_t hash = XXH3_64bits(mended, size - 8);
    for (unsigned i = 0; i < 8; i++)
        mended[size - 8 + i] = (uint8_t)(hash >> (8 * i));
    try_bytes(mended, size);
    free(mended);
    return 0;
}
