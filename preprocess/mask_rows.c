/* mask_rows.c: plain loops. Of the one over bytes the compiler makes vector code (simd.h): it reads what it chooses
 * between before it chooses. */
#include "preprocess/mask_rows.h"

#include "preprocess/image.h"
#include "preprocess/simd.h"

static void bytes(const uint8_t *row, uint32_t count, int32_t fill, uint8_t *restrict to)
{
    uint8_t byte = (uint8_t)fill;
    for (uint32_t i = 0; i < count; i++) {
        uint8_t low = row[(size_t)i * IMAGE_CHANNELS], filled = row[(size_t)i * IMAGE_CHANNELS + 2];
        to[i] = filled == MASK_FILLED ? byte : low;
    }
}

static inline int32_t number_at(const uint8_t *row, uint32_t place, int32_t fill)
{
    const uint8_t *pixel = row + (size_t)place * IMAGE_CHANNELS;
    return pixel[2] == MASK_FILLED ? fill : pixel[0] | pixel[1] << 8;
}

static void words(const uint8_t *row, uint32_t count, int32_t fill, int32_t *restrict to)
{
    for (uint32_t i = 0; i < count; i++)
        to[i] = number_at(row, i, fill);
}

static void longs(const uint8_t *row, uint32_t count, int32_t fill, int64_t *restrict to)
{
    for (uint32_t i = 0; i < count; i++)
        to[i] = number_at(row, i, fill);
}

const struct mask_rows SIMD_NAME(mask_rows) = {.bytes = bytes, .words = words, .longs = longs};
