#include "preprocess/color.h"

#include <math.h>
#include <string.h>

#include "common/check.h"
#include "common/larder_err.h"
#include "preprocess/color_rows.h"
#include "preprocess/pixels.h"
#include "preprocess/simd.h"

static const struct color_rows *const versions[] = SIMD_TABLES(color_rows);

/* ── step by step, for all rows ──────────────────────────────────────────────────────────────────────────────────── */

static uint64_t run(const struct image *image, const struct color_step *steps, uint32_t n_steps, bool sum)
{
    const struct color_rows *rows = versions[simd_selected()];
    uint64_t total = 0;
    for (uint32_t y = 0; y < image->height; y++)
        total += rows->run(steps, n_steps, image_row(image, y), image->width, sum);
    return total;
}

static void run_one(const struct image *image, struct color_step step)
{
    run(image, &step, 1, false);
}

/* Contrast needs the whole image as the changes before it leave it. So it ends a pass over the image and begins
 * another. */
static struct color_step contrast(const struct image *image, const struct color_step *before, uint32_t n_before,
                                  double factor)
{
    uint64_t sum = run(image, before, n_before, true);
    int mean = (int)((double)sum / ((double)image->width * image->height) + 0.5);
    return (struct color_step){.kind = COLOR_BLEND, .level = mean, .factor = (float)factor};
}

void color_adjust(const struct image *image, const struct color_adjustment *adjustments, uint32_t count)
{
    struct color_step steps[COLOR_ADJUSTMENTS_MAX];
    uint32_t n = 0;
    CHECK(count <= COLOR_ADJUSTMENTS_MAX);
    for (uint32_t i = 0; i < count; i++) {
        double factor = adjustments[i].factor;
        switch (adjustments[i].what) {
        case COLOR_BRIGHTNESS: steps[n++] = (struct color_step){COLOR_BLEND, 0, (float)factor}; break;
        case COLOR_CONTRAST:
            steps[0] = contrast(image, steps, n, factor);
            n = 1;
            break;
        case COLOR_SATURATION: steps[n++] = (struct color_step){COLOR_SATURATE, 0, (float)factor}; break;
        case COLOR_HUE: steps[n++] = (struct color_step){COLOR_TURN, (int)(factor * 255), 0}; break;
        }
    }
    if (n)
        run(image, steps, n, false);
}

static void adjust_one(const struct image *image, enum color_what what, double factor)
{
    color_adjust(image, &(struct color_adjustment){what, factor}, 1);
}

void color_brightness(const struct image *image, double factor)
{
    adjust_one(image, COLOR_BRIGHTNESS, factor);
}

void color_contrast(const struct image *image, double factor)
{
    adjust_one(image, COLOR_CONTRAST, factor);
}

void color_saturation(const struct image *image, double factor)
{
    adjust_one(image, COLOR_SATURATION, factor);
}

void color_hue(const struct image *image, double factor)
{
    adjust_one(image, COLOR_HUE, factor);
}

void color_grayscale(const struct image *image)
{
    run_one(image, (struct color_step){.kind = COLOR_GREY});
}

void color_solarize(const struct image *image, double threshold)
{
    run_one(image, (struct color_step){.kind = COLOR_SOLARIZE, .level = (int)ceil(threshold)});
}

void color_posterize(const struct image *image, int bits)
{
    run_one(image, (struct color_step){.kind = COLOR_MASK, .level = ~((1 << (8 - bits)) - 1)});
}

int color_sharpness(const struct image *image, double factor, struct scratch *scratch)
{
    const struct color_rows *rows = versions[simd_selected()];
    struct image before;
    if (scratch_image(scratch, image->width, image->height, &before))
        return LARDER_ENOMEM;
    pixels_copy(image, &before);
    for (uint32_t y = 1; y + 1 < image->height && image->width > 2; y++)
        rows->sharpen(image_row(&before, y - 1) + IMAGE_CHANNELS, image_row(&before, y) + IMAGE_CHANNELS,
                      image_row(&before, y + 1) + IMAGE_CHANNELS, (size_t)(image->width - 2) * IMAGE_CHANNELS,
                      (float)factor, image_row(image, y) + IMAGE_CHANNELS);
    return 0;
}

/* ── by tables ───────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef uint8_t lookup[256];

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

void color_equalize(const struct image *image)
{
    uint32_t counts[IMAGE_CHANNELS][256];
    lookup tables[IMAGE_CHANNELS];
    count_levels(image, counts);
    for (int c = 0; c < IMAGE_CHANNELS; c++)
        equalizing(counts[c], tables[c]);
    look_up(image, tables);
}

/* Stretches what is between the levels to 0 … 255. */
static void stretching(int low, int high, lookup table)
{
    double scale = 255.0 / (high - low), offset = -low * scale;
    for (int i = low; i <= high; i++) {
        int level = (int)(i * scale + offset);
        table[i] = level < 0 ? 0 : level > 255 ? 255 : (uint8_t)level;
    }
}

void color_autocontrast(const struct image *image)
{
    const struct color_rows *rows = versions[simd_selected()];
    uint8_t low[IMAGE_CHANNELS] = {255, 255, 255}, high[IMAGE_CHANNELS] = {0};
    lookup tables[IMAGE_CHANNELS];
    for (uint32_t y = 0; y < image->height; y++)
        rows->extremes(image_row(image, y), image->width, low, high);
    for (int c = 0; c < IMAGE_CHANNELS; c++) {
        identity(tables[c]);
        if (high[c] > low[c])
            stretching(low[c], high[c], tables[c]);
    }
    look_up(image, tables);
}
