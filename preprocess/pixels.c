#include "preprocess/pixels.h"

#include <string.h>

void pixels_copy(const struct image *in, struct image *out)
{
    for (uint32_t y = 0; y < out->height; y++)
        memcpy(image_row(out, y), image_row(in, y), (size_t)out->width * IMAGE_CHANNELS);
}

static void fill_row(uint8_t *row, uint32_t from, uint32_t to, const uint8_t fill[IMAGE_CHANNELS])
{
    for (uint32_t x = from; x < to; x++)
        memcpy(row + (size_t)x * IMAGE_CHANNELS, fill, IMAGE_CHANNELS);
}

static uint32_t clamp(int64_t value, uint32_t max)
{
    return value < 0 ? 0 : value > max ? max : (uint32_t)value;
}

void pixels_place(const struct image *in, int32_t x, int32_t y, const uint8_t fill[IMAGE_CHANNELS], struct image *out)
{
    uint32_t left = clamp(x, out->width), right = clamp((int64_t)x + in->width, out->width);
    uint32_t top = clamp(y, out->height), bottom = clamp((int64_t)y + in->height, out->height);
    for (uint32_t row = 0; row < out->height; row++) {
        uint8_t *to = image_row(out, row);
        if (row < top || row >= bottom || left >= right) {
            fill_row(to, 0, out->width, fill);
            continue;
        }
        const uint8_t *from = image_row(in, (uint32_t)((int64_t)row - y)) + (size_t)((int64_t)left - x) * IMAGE_CHANNELS;
        fill_row(to, 0, left, fill);
        memcpy(to + (size_t)left * IMAGE_CHANNELS, from, (size_t)(right - left) * IMAGE_CHANNELS);
        fill_row(to, right, out->width, fill);
    }
}
