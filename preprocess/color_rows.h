/* color_rows.h: changes the colours of rows of pixels; its versions are chosen by simd.h. Pure. */
#ifndef LARDER_PREPROCESS_COLOR_ROWS_H
#define LARDER_PREPROCESS_COLOR_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What can be done to pixels one after the other. The first three treat each level by itself. */
enum color_step_kind {
    COLOR_BLEND,    /* every level away from `level` by the factor, or towards it */
    COLOR_SOLARIZE, /* inverts levels from `level` (to 256) on */
    COLOR_MASK,     /* keeps the bits of `level` */
    COLOR_SATURATE, /* every level away from its pixel's luminance by the factor, or towards it */
    COLOR_TURN,     /* turns the hue by `level` 255ths of the circle */
    COLOR_GREY,     /* luminance, in all channels */
};

struct color_step {
    enum color_step_kind kind;
    int level;
    float factor;
};

struct color_rows {
    /* Does all steps to `count` RGB pixels in place. Returns the sum of the luminances afterwards; without `sum`, 0. */
    uint64_t (*run)(const struct color_step *steps, uint32_t n_steps, uint8_t *pixels, size_t count, bool sum);
    /* Makes `bytes` bytes of a row that is sharper by the factor, from the three rows around it. IMAGE_CHANNELS bytes
     * are read to either side. */
    void (*sharpen)(const uint8_t *above, const uint8_t *at, const uint8_t *below, size_t bytes, float factor,
                    uint8_t *to);
    /* Lowers low, and raises high, to the least and the highest level of each channel. */
    void (*extremes)(const uint8_t *pixels, size_t count, uint8_t low[], uint8_t high[]);
    /* Puts the channels of `count` RGB pixels into rows of their own. */
    void (*split)(const uint8_t *pixels, size_t count, uint8_t *red, uint8_t *green, uint8_t *blue);
};

extern const struct color_rows color_rows_portable, color_rows_avx2, color_rows_avx512;

#endif
