/* resample_portable.c: the resampler's inner loops in plain C: the definition the vector versions are tested
 * against. */
#include "preprocess/resample_priv.h"

static void horizontal(const struct resample_axis *axis, const uint8_t *source, size_t stride, uint32_t rows,
                       uint8_t *out, size_t out_stride)
{
    uint32_t taps = axis->groups * RESAMPLE_GROUP;
    for (uint32_t y = 0; y < rows; y++, source += stride, out += out_stride) {
        const int32_t *weights = axis->weights;
        uint8_t *to = out;
        for (uint32_t x = 0; x < axis->count; x++, weights += taps, to += IMAGE_CHANNELS) {
            const uint8_t *from = source + (size_t)axis->first[x] * IMAGE_CHANNELS;
            int32_t r = RESAMPLE_ROUND, g = RESAMPLE_ROUND, b = RESAMPLE_ROUND;
            for (uint32_t t = 0; t < taps; t++, from += IMAGE_CHANNELS) {
                r += from[0] * weights[t];
                g += from[1] * weights[t];
                b += from[2] * weights[t];
            }
            to[0] = resample_clip(r);
            to[1] = resample_clip(g);
            to[2] = resample_clip(b);
        }
    }
}

static void vertical(const struct resample_axis *axis, uint32_t index, const uint8_t *source, size_t stride,
                     uint32_t bytes, uint8_t *out)
{
    enum { PIECE = 256 };
    uint32_t taps = axis->groups * RESAMPLE_GROUP;
    const int32_t *weights = axis->weights + (size_t)index * taps;
    const uint8_t *top = source + stride * (size_t)axis->first[index];
    for (uint32_t done = 0; done < bytes; done += PIECE) {
        int32_t sums[PIECE];
        uint32_t count = bytes - done < PIECE ? bytes - done : PIECE;
        for (uint32_t i = 0; i < count; i++)
            sums[i] = RESAMPLE_ROUND;
        for (uint32_t t = 0; t < taps; t++) {
            const uint8_t *from = top + stride * t + done;
            for (uint32_t i = 0; i < count; i++)
                sums[i] += from[i] * weights[t];
        }
        for (uint32_t i = 0; i < count; i++)
            out[done + i] = resample_clip(sums[i]);
    }
}

const struct resample_kernel resample_portable = {.horizontal = horizontal, .vertical = vertical};
