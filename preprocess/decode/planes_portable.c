/* planes_portable.c: bits are put to their places one by one. */
#include "preprocess/decode/planes_priv.h"

static PLANES_INLINE uint64_t deposit(uint64_t bits, uint64_t mask)
{
    uint64_t put = 0;
    for (; mask; mask &= mask - 1, bits >>= 1)
        put |= mask & -mask & -(bits & 1);
    return put;
}

bool planes_read_portable(struct planes_segment *segment, const struct planes_mcu *mcu, uint32_t skip, uint32_t column,
                          uint32_t count)
{
    return planes_read_with(segment, mcu, skip, column, count, deposit, planes_put_lanes);
}
