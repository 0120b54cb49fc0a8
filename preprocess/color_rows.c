/* color_rows.c: plain loops without branches, which the compiler makes vector code of (simd.h). Pixels have their
 * channels apart while they are worked on.
 *
 * The results are Pillow's, but not always its sums. Where a shorter one gives the same bytes for each of the 2^24
 * colours, it stands here; tests/unit/preprocess/test_color.c compares them all. */
#include "preprocess/color_rows.h"

#include "preprocess/image.h"
#include "preprocess/simd.h"

#define PIECE 512 /* pixels that stay in the processor's cache from step to step */

static inline int largest(int a, int b)
{
    return a > b ? a : b;
}

static inline int least(int a, int b)
{
    return a < b ? a : b;
}

/* ImagingBlend: in single precision, cut off and not rounded. */
static inline uint8_t blend(float from, float to, float factor)
{
    float value = from + factor * (to - from);
    value = value > 0.0f ? value : 0.0f;
    return (uint8_t)(int)(value < 255.0f ? value : 255.0f);
}

/* Every sum is a whole number below 2^24, and so exact. */
static inline int luminance(int r, int g, int b)
{
    float sum = (float)r * 19595.0f + (float)g * 38470.0f + (float)b * 7471.0f + 32768.0f;
    return (int)(sum * (1.0f / 65536.0f));
}

/* ── steps ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void blend_levels(uint8_t *bytes, size_t count, int level, float factor)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = blend((float)level, (float)bytes[i], factor);
}

static void solarize(uint8_t *bytes, size_t count, int level)
{
    if (level > 255)
        return;
    uint8_t from = (uint8_t)level;
    for (size_t i = 0; i < count; i++)
        bytes[i] = bytes[i] < from ? bytes[i] : (uint8_t)(255 - bytes[i]);
}

static void mask(uint8_t *bytes, size_t count, int level)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(bytes[i] & level);
}

static void saturate(uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, size_t count, float factor)
{
    for (size_t i = 0; i < count; i++) {
        float grey = (float)luminance(red[i], green[i], blue[i]);
        red[i] = blend(grey, (float)red[i], factor);
        green[i] = blend(grey, (float)green[i], factor);
        blue[i] = blend(grey, (float)blue[i], factor);
    }
}

static void make_grey(uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, size_t count)
{
    for (size_t i = 0; i < count; i++)
        red[i] = green[i] = blue[i] = (uint8_t)luminance(red[i], green[i], blue[i]);
}

/* One of two numbers, without a branch: gcc makes no vector code of a chain of conditions. */
static inline int pick(bool first, int a, int b)
{
    return (a & -first) | (b & ~-first);
}

/* The hue of HSV in 255ths. It lies between a primary and a secondary colour, `mid` away from one of them. Grey has no
 * hue, and any will do. */
static inline int hue_of(int r, int g, int b, int max, int min)
{
    float mid = (float)(max - (r + g + b - max - min)) / (float)largest(max - min, 1);
    int from = pick(g == max, pick(r == min, 3, 1), pick(r == min, 3, 5));
    int away = pick((g == max) ^ (r == min), 1, -1);
    from = pick(r == max, pick(g == min, -1, 1), from);
    away = pick(r == max, pick(g == min, 1, -1), away);
    float hue = ((float)from + (float)away * mid) / 6.0f;
    hue += hue < 0.0f ? 1.0f : 0.0f;
    return (int)(hue * 255.0f);
}

/* A channel is at its highest in two sextants, the `first` and the next, and between in those beside them. */
static inline uint8_t channel(int sextant, int first, int high, int between, int low)
{
    int at = sextant - first;
    at += pick(at < 0, 6, 0);
    return (uint8_t)pick(at < 2, high, pick(at == 2, between, pick(at == 5, between, low)));
}

/* To HSV and back, with 8 bits for each. Products are whole numbers below 2^24, in single precision. */
static void turn(uint8_t *restrict red, uint8_t *restrict green, uint8_t *restrict blue, size_t count, int level)
{
    const float sextant_per_hue = 1543.0f / 65536.0f, sextant_width = 85.0f; /* in half hues, of which there are 510 */
    for (size_t i = 0; i < count; i++) {
        int r = red[i], g = green[i], b = blue[i];
        int max = largest(largest(r, g), b), min = least(least(r, g), b);
        int h = (hue_of(r, g, b, max, min) + level) & 255;
        h = pick(h == 255, 0, h);
        float v = (float)max, s = (float)(int)((float)(max - min) * 255.0f / (float)largest(max, 1));
        int sextant = (int)((float)h * sextant_per_hue);
        float way = (float)(2 * h) - sextant_width * (float)sextant; /* to the secondary colour */
        way = sextant & 1 ? way : sextant_width - way;
        float between = v * (255.0f * sextant_width - s * way) + 255.0f * sextant_width / 2;
        int mid = (int)(between * (1.0f / (255.0f * sextant_width)));
        int low = (int)(v * (255.0f - s) * (1.0f / 255.0f) + 0.5f);
        red[i] = channel(sextant, 5, max, mid, low);
        green[i] = channel(sextant, 1, max, mid, low);
        blue[i] = channel(sextant, 3, max, mid, low);
    }
}

static void take_step(const struct color_step *step, uint8_t *bytes, size_t count)
{
    uint8_t *red = bytes, *green = bytes + count, *blue = bytes + 2 * count;
    switch (step->kind) {
    case COLOR_BLEND: blend_levels(bytes, count * IMAGE_CHANNELS, step->level, step->factor); break;
    case COLOR_SOLARIZE: solarize(bytes, count * IMAGE_CHANNELS, step->level); break;
    case COLOR_MASK: mask(bytes, count * IMAGE_CHANNELS, step->level); break;
    case COLOR_SATURATE: saturate(red, green, blue, count, step->factor); break;
    case COLOR_TURN: turn(red, green, blue, count, step->level); break;
    case COLOR_GREY: make_grey(red, green, blue, count); break;
    }
}

/* ── pixels ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void split(const uint8_t *restrict pixels, size_t count, uint8_t *restrict red, uint8_t *restrict green,
                  uint8_t *restrict blue)
{
    for (size_t i = 0; i < count; i++) {
        red[i] = pixels[IMAGE_CHANNELS * i];
        green[i] = pixels[IMAGE_CHANNELS * i + 1];
        blue[i] = pixels[IMAGE_CHANNELS * i + 2];
    }
}

static void join(const uint8_t *restrict bytes, size_t count, uint8_t *restrict pixels)
{
    const uint8_t *red = bytes, *green = bytes + count, *blue = bytes + 2 * count;
    for (size_t i = 0; i < count; i++) {
        pixels[IMAGE_CHANNELS * i] = red[i];
        pixels[IMAGE_CHANNELS * i + 1] = green[i];
        pixels[IMAGE_CHANNELS * i + 2] = blue[i];
    }
}

static uint32_t luminances(const uint8_t *bytes, size_t count)
{
    const uint8_t *red = bytes, *green = bytes + count, *blue = bytes + 2 * count;
    int sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += luminance(red[i], green[i], blue[i]);
    return (uint32_t)sum;
}

static uint64_t run(const struct color_step *steps, uint32_t n_steps, uint8_t *pixels, size_t count, bool sum)
{
    uint64_t total = 0;
    bool apart = sum;
    for (uint32_t i = 0; i < n_steps; i++)
        apart = apart || steps[i].kind >= COLOR_SATURATE;
    for (size_t n; count; count -= n, pixels += n * IMAGE_CHANNELS) {
        uint8_t channels[IMAGE_CHANNELS * PIECE], *bytes = apart ? channels : pixels;
        n = count < PIECE ? count : PIECE;
        if (apart)
            split(pixels, n, bytes, bytes + n, bytes + 2 * n);
        for (uint32_t i = 0; i < n_steps; i++)
            take_step(&steps[i], bytes, n);
        if (sum)
            total += luminances(bytes, n);
        if (apart && n_steps)
            join(bytes, n, pixels);
    }
    return total;
}

/* ── autocontrast ────────────────────────────────────────────────────────────────────────────────────────────────── */

static void extremes(const uint8_t *pixels, size_t count, uint8_t low[], uint8_t high[])
{
    for (size_t n; count; count -= n, pixels += n * IMAGE_CHANNELS) {
        uint8_t bytes[IMAGE_CHANNELS * PIECE];
        n = count < PIECE ? count : PIECE;
        split(pixels, n, bytes, bytes + n, bytes + 2 * n);
        for (int c = 0; c < IMAGE_CHANNELS; c++) {
            uint8_t least = low[c], most = high[c];
            for (size_t i = 0; i < n; i++) {
                uint8_t level = bytes[c * n + i];
                least = level < least ? level : least;
                most = level > most ? level : most;
            }
            low[c] = least;
            high[c] = most;
        }
    }
}

/* ── sharpness ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Pillow's SMOOTH: ones around a five, over 13, in single precision and its order of sums. */
static inline uint8_t smooth(const uint8_t *above, const uint8_t *at, const uint8_t *below)
{
    const float one = 1.0f / 13.0f, five = 5.0f / 13.0f;
    enum { L = -IMAGE_CHANNELS, R = IMAGE_CHANNELS };
    float sum = 0.5f;
    sum += (float)below[L] * one + (float)below[0] * one + (float)below[R] * one;
    sum += (float)at[L] * one + (float)at[0] * five + (float)at[R] * one;
    sum += (float)above[L] * one + (float)above[0] * one + (float)above[R] * one;
    return (uint8_t)(int)(sum < 255.0f ? sum : 255.0f);
}

static void sharpen(const uint8_t *above, const uint8_t *at, const uint8_t *below, size_t bytes, float factor,
                    uint8_t *restrict to)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = blend((float)smooth(above + i, at + i, below + i), (float)at[i], factor);
}

const struct color_rows SIMD_NAME(color_rows) = {.run = run, .sharpen = sharpen, .extremes = extremes, .split = split};
