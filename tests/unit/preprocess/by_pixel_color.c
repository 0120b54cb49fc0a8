#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "by_pixel.h"
#include "common/check.h"

typedef uint8_t lookup[256];

static uint8_t clip(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

/* ImagingBlend: from `from` towards `to`, and beyond, in single precision, cut off and not rounded. */
static inline uint8_t blend(int from, int to, float factor)
{
    float value = (float)from + factor * (float)(to - from);
    return value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)value;
}

static void look_up(const struct image *image, const lookup tables[IMAGE_CHANNELS])
{
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *pixel = image_row(image, y);
        for (uint32_t x = 0; x < image->width; x++, pixel += IMAGE_CHANNELS) {
            pixel[0] = tables[0][pixel[0]];
            pixel[1] = tables[1][pixel[1]];
            pixel[2] = tables[2][pixel[2]];
        }
    }
}

static void look_up_all(const struct image *image, const lookup table)
{
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *row = image_row(image, y);
        for (size_t i = 0; i < (size_t)image->width * IMAGE_CHANNELS; i++)
            row[i] = table[row[i]];
    }
}

static inline unsigned luminance(const uint8_t *pixel)
{
    return (pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16;
}

void by_pixel_brightness(const struct image *image, double factor)
{
    lookup table;
    for (int i = 0; i < 256; i++)
        table[i] = blend(0, i, (float)factor);
    look_up_all(image, table);
}

void by_pixel_contrast(const struct image *image, double factor)
{
    uint64_t sum = 0;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *pixel = image_row(image, y);
        for (uint32_t x = 0; x < image->width; x++, pixel += IMAGE_CHANNELS)
            sum += luminance(pixel);
    }
    int mean = (int)((double)sum / ((double)image->width * image->height) + 0.5);
    lookup table;
    for (int i = 0; i < 256; i++)
        table[i] = blend(mean, i, (float)factor);
    look_up_all(image, table);
}

void by_pixel_saturation(const struct image *image, double factor)
{
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *pixel = image_row(image, y);
        for (uint32_t x = 0; x < image->width; x++, pixel += IMAGE_CHANNELS) {
            int grey = (int)luminance(pixel);
            for (int c = 0; c < IMAGE_CHANNELS; c++)
                pixel[c] = blend(grey, pixel[c], (float)factor);
        }
    }
}

void by_pixel_grayscale(const struct image *image)
{
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *pixel = image_row(image, y);
        for (uint32_t x = 0; x < image->width; x++, pixel += IMAGE_CHANNELS)
            memset(pixel, (int)luminance(pixel), IMAGE_CHANNELS);
    }
}

/* ── hue: to HSV and back, with 8 bits for each ──────────────────────────────────────────────────────────────────── */

static void to_hsv(const uint8_t *rgb, uint8_t hsv[3])
{
    int r = rgb[0], g = rgb[1], b = rgb[2];
    int max = r > g ? r : g, min = r < g ? r : g;
    max = b > max ? b : max;
    min = b < min ? b : min;
    hsv[2] = (uint8_t)max;
    if (min == max) {
        hsv[0] = hsv[1] = 0;
        return;
    }
    float range = (float)(max - min), saturation = range / (float)max;
    float rc = (float)(max - r) / range, gc = (float)(max - g) / range, bc = (float)(max - b) / range;
    float hue = r == max ? bc - gc : g == max ? (float)(2.0 + rc - bc) : (float)(4.0 + gc - rc);
    hue = (float)fmod(hue / 6.0 + 1.0, 1.0);
    hsv[0] = clip((int)(hue * 255.0));
    hsv[1] = clip((int)(saturation * 255.0));
}

static void from_hsv(const uint8_t hsv[3], uint8_t *rgb)
{
    if (hsv[1] == 0) {
        memset(rgb, hsv[2], 3);
        return;
    }
    int sextant = (int)floor((float)hsv[0] * 6.0 / 255.0);
    float rest = (float)((float)hsv[0] * 6.0 / 255.0 - (float)sextant), saturation = (float)((float)hsv[1] / 255.0),
          v = (float)hsv[2];
    uint8_t p = clip((int)round(v * (1.0 - saturation)));
    uint8_t q = clip((int)round(v * (1.0 - saturation * rest)));
    uint8_t t = clip((int)round(v * (1.0 - saturation * (1.0 - rest))));
    const uint8_t colors[6][3] = {{hsv[2], t, p}, {q, hsv[2], p}, {p, hsv[2], t},
                                  {p, q, hsv[2]}, {t, p, hsv[2]}, {hsv[2], p, q}};
    memcpy(rgb, colors[sextant % 6], 3);
}

void by_pixel_hue(const struct image *image, double factor)
{
    uint8_t turn = (uint8_t)(int)(factor * 255);
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *pixel = image_row(image, y);
        for (uint32_t x = 0; x < image->width; x++, pixel += IMAGE_CHANNELS) {
            uint8_t hsv[3];
            to_hsv(pixel, hsv);
            hsv[0] = (uint8_t)(hsv[0] + turn);
            from_hsv(hsv, pixel);
        }
    }
}

/* ── sharpness: away from, or towards, a smoothed image ──────────────────────────────────────────────────────────── */

/* Pillow's SMOOTH: ones around a five, over 13, in single precision and its order of sums. */
static inline uint8_t smooth(const uint8_t *above, const uint8_t *at, const uint8_t *below)
{
    const float one = 1.0f / 13.0f, five = 5.0f / 13.0f;
    enum { L = -IMAGE_CHANNELS, R = IMAGE_CHANNELS };
    float sum = 0.5f;
    sum += (float)below[L] * one + (float)below[0] * one + (float)below[R] * one;
    sum += (float)at[L] * one + (float)at[0] * five + (float)at[R] * one;
    sum += (float)above[L] * one + (float)above[0] * one + (float)above[R] * one;
    return sum <= 0.0f ? 0 : sum >= 255.0f ? 255 : (uint8_t)sum;
}

void by_pixel_sharpness(const struct image *image, double factor)
{
    struct image before = *image;
    size_t bytes = image->stride * (image->height - 1) + (size_t)image->width * IMAGE_CHANNELS;
    before.data = xmalloc(bytes);
    memcpy(before.data, image->data, bytes);
    for (uint32_t y = 1; y + 1 < image->height; y++) {
        const uint8_t *above = image_row(&before, y - 1), *at = image_row(&before, y),
                      *below = image_row(&before, y + 1);
        uint8_t *to = image_row(image, y);
        for (size_t i = IMAGE_CHANNELS; i + IMAGE_CHANNELS < (size_t)image->width * IMAGE_CHANNELS; i++)
            to[i] = blend(smooth(above + i, at + i, below + i), at[i], (float)factor);
    }
    free(before.data);
}

/* ── lookups ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

void by_pixel_solarize(const struct image *image, double threshold)
{
    lookup table;
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i < threshold ? i : 255 - i);
    look_up_all(image, table);
}

void by_pixel_posterize(const struct image *image, int bits)
{
    lookup table;
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(i & ~((1 << (8 - bits)) - 1));
    look_up_all(image, table);
}

static void count_levels(const struct image *image, uint32_t counts[IMAGE_CHANNELS][256])
{
    memset(counts, 0, IMAGE_CHANNELS * sizeof *counts);
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *pixel = image_row(image, y);
        for (uint32_t x = 0; x < image->width; x++, pixel += IMAGE_CHANNELS) {
            counts[0][pixel[0]]++;
            counts[1][pixel[1]]++;
            counts[2][pixel[2]]++;
        }
    }
}

static void identity(lookup table)
{
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)i;
}

static void equalizing(const uint32_t counts[256], lookup table)
{
    uint64_t total = 0, last = 0, levels = 0;
    for (int i = 0; i < 256; i++) {
        total += counts[i];
        levels += counts[i] != 0;
        last = counts[i] ? counts[i] : last;
    }
    uint64_t step = (total - last) / 255;
    if (levels <= 1 || step == 0) {
        identity(table);
        return;
    }
    uint64_t n = step / 2;
    for (int i = 0; i < 256; i++) {
        table[i] = n / step > 255 ? 255 : (uint8_t)(n / step);
        n += counts[i];
    }
}

static void stretching(const uint32_t counts[256], lookup table)
{
    int low = 0, high = 255;
    while (low < 255 && !counts[low])
        low++;
    while (high > 0 && !counts[high])
        high--;
    if (high <= low) {
        identity(table);
        return;
    }
    double scale = 255.0 / (high - low), offset = -low * scale;
    for (int i = 0; i < 256; i++)
        table[i] = clip((int)(i * scale + offset));
}

static void by_levels(const struct image *image, void (*make)(const uint32_t counts[256], lookup table))
{
    uint32_t counts[IMAGE_CHANNELS][256];
    lookup tables[IMAGE_CHANNELS];
    count_levels(image, counts);
    for (int c = 0; c < IMAGE_CHANNELS; c++)
        make(counts[c], tables[c]);
    look_up(image, tables);
}

void by_pixel_equalize(const struct image *image)
{
    by_levels(image, equalizing);
}

void by_pixel_autocontrast(const struct image *image)
{
    by_levels(image, stretching);
}
