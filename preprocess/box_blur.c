#include "preprocess/box_blur.h"

#include <math.h>
#include <string.h>

#include "common/larder_err.h"

#define PASSES 3
#define ONE (1u << 24) /* weights are in parts of it */

/* A box: whole pixels to either side with one weight, and those at its ends with another. */
struct box {
    int radius;
    uint32_t whole, far;
};

/* The box of which PASSES in a row have the Gaussian's deviation. */
static float box_radius(float sigma)
{
    float variance = sigma * sigma / PASSES;
    float length = (float)sqrt(12.0 * variance + 1.0), l = (float)floor((length - 1.0) / 2.0);
    float a = (2 * l + 1) * (l * (l + 1) - 3 * variance);
    a /= 6 * (variance - (l + 1) * (l + 1));
    return l + a;
}

static struct box make_box(float radius)
{
    struct box box = {.radius = (int)radius};
    box.whole = (uint32_t)((float)ONE / (radius * 2 + 1));
    box.far = (ONE - (uint32_t)(box.radius * 2 + 1) * box.whole) / 2;
    return box;
}

/* A line's pixels, its ends repeated. */
static const uint8_t *pixel_at(const uint8_t *line, int at, int last)
{
    return line + (size_t)(at < 0 ? 0 : at > last ? last : at) * IMAGE_CHANNELS;
}

static void blur_line(const struct box *box, const uint8_t *in, uint8_t *out, int count)
{
    int last = count - 1, r = box->radius;
    uint32_t sum[IMAGE_CHANNELS] = {0};
    for (int i = -r - 1; i < r; i++) {
        for (int c = 0; c < IMAGE_CHANNELS; c++)
            sum[c] += pixel_at(in, i, last)[c];
    }
    for (int i = 0; i < count; i++, out += IMAGE_CHANNELS) {
        const uint8_t *gone = pixel_at(in, i - r - 1, last), *come = pixel_at(in, i + r, last),
                      *next = pixel_at(in, i + r + 1, last);
        for (int c = 0; c < IMAGE_CHANNELS; c++) {
            sum[c] += (uint32_t)come[c] - gone[c];
            uint32_t bulk = sum[c] * box->whole + ((uint32_t)gone[c] + next[c]) * box->far;
            out[c] = (uint8_t)((bulk + (ONE >> 1)) >> 24);
        }
    }
}

/* All passes over one line. It begins and ends in `line`; other is as long. */
static void blur_passes(const struct box *box, uint8_t *line, uint8_t *other, int count)
{
    size_t bytes = (size_t)count * IMAGE_CHANNELS;
    for (int i = 0; i < PASSES; i++) {
        blur_line(box, line, other, count);
        memcpy(line, other, bytes);
    }
}

int box_blur_gaussian(const struct image *image, double radius, struct scratch *scratch)
{
    uint32_t longer = image->width > image->height ? image->width : image->height;
    uint8_t *line = scratch_take(scratch, (size_t)longer * IMAGE_CHANNELS),
            *other = scratch_take(scratch, (size_t)longer * IMAGE_CHANNELS);
    if (!line || !other)
        return LARDER_ENOMEM;
    const struct box box = make_box(box_radius((float)radius));
    for (uint32_t y = 0; y < image->height; y++)
        blur_passes(&box, image_row(image, y), other, (int)image->width);
    for (uint32_t x = 0; x < image->width; x++) {
        for (uint32_t y = 0; y < image->height; y++)
            memcpy(line + (size_t)y * IMAGE_CHANNELS, image_row(image, y) + (size_t)x * IMAGE_CHANNELS, IMAGE_CHANNELS);
        blur_passes(&box, line, other, (int)image->height);
        for (uint32_t y = 0; y < image->height; y++)
            memcpy(image_row(image, y) + (size_t)x * IMAGE_CHANNELS, line + (size_t)y * IMAGE_CHANNELS, IMAGE_CHANNELS);
    }
    return 0;
}
