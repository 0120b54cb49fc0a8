/* planes_portable.c: bits are put to their places, and taken from there, one by one. */
#include "preprocess/decode/planes_priv.h"

static PLANES_INLINE uint64_t deposit(uint64_t bits, uint64_t mask)
{
    uint64_t put = 0;
    for (; mask; mask &= mask - 1, bits >>= 1)
        put |= mask & -mask & -(bits & 1);
    return put;
}

uint64_t planes_extract_portable(uint64_t bits, uint64_t mask)
{
    uint64_t taken = 0;
    for (uint32_t count = 0; mask; mask &= mask - 1)
        taken |= (bits >> __builtin_ctzll(mask) & 1) << count++;
    return taken;
}

bool planes_read_portable(struct planes_segment *segment, const struct planes_mcu *mcu, uint32_t skip, uint32_t column,
                          uint32_t count)
{
    return planes_read_with(segment, mcu, skip, column, count, deposit, planes_put_lanes);
}
