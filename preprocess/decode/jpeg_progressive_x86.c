/* jpeg_progressive_x86.c: pdep puts bits to their places (Haswell, Zen 3 and later). */
#if defined(__x86_64__)
#include <immintrin.h>

#include "preprocess/decode/jpeg_progressive_priv.h"

#define BMI2 __attribute__((target("bmi,bmi2,popcnt")))

BMI2 static HUFFMAN_INLINE uint64_t deposit(uint64_t bits, uint64_t mask)
{
    return _pdep_u64(bits, mask);
}

BMI2 bool progressive_read_bmi2(struct progressive_scan *scan, int16_t (*blocks)[64], uint64_t *masks, uint32_t count)
{
    return progressive_read_with(scan, blocks, masks, count, deposit);
}
#endif
