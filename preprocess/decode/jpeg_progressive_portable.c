/* jpeg_progressive_portable.c: bits are put to their places one by one. */
#include "preprocess/decode/jpeg_progressive_priv.h"

static HUFFMAN_INLINE uint64_t deposit(uint64_t bits, uint64_t mask)
{
    uint64_t put = 0;
    for (; bits; mask &= mask - 1, bits >>= 1)
        put |= mask & -mask & -(bits & 1);
    return put;
}

bool progressive_read_portable(struct progressive_scan *scan, int16_t (*blocks)[64], uint64_t *masks, uint32_t count)
{
    return progressive_read_with(scan, blocks, masks, count, deposit);
}
