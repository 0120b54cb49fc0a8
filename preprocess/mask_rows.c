/* mask_rows.c: plain loops, which the compiler makes vector code of (simd.h). Of each pixel all three bytes are read
 * first, so that none of the reads hangs on another one's value. */
#include "preprocess/mask_rows.h"

#include "preprocess/image.h"
#include "preprocess/simd.h"

static inline int32_t number_at(const uint8_t *pixel, int32_t fill)
{
    uint8_t low = pixel[0], high = pixel[1], filled = pixel[2];
    return filled == MASK_FILLED ? fill : low | high << 8;
}

static void bytes(const uint8_t *row, uint32_t count, int32_t fill, uint8_t *restrict to)
{
    for (uint32_t i = 0; i < count; i++)
        to[i] = (uint8_t)number_at(row + (size_t)i * IMAGE_CHANNELS, fill);
}

static void words(const uint8_t *row, uint32_t count, int32_t fill, int32_t *restrict to)
{
    for (uint32_t i = 0; i < count; i++)
        to[i] = number_at(row + (size_t)i * IMAGE_CHANNELS, fill);
}

static void longs(const uint8_t *row, uint32_t count, int32_t fill, int64_t *restrict to)
{
    for (uint32_t i = 0; i < count; i++)
        to[i] = number_at(row + (size_t)i * IMAGE_CHANNELS, fill);
}

const struct mask_rows SIMD_NAME(mask_rows) = {.bytes = bytes, .words = words, .longs = longs};
