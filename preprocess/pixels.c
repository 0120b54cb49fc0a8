#include "preprocess/pixels.h"

#include <string.h>

_Static_assert(sizeof((struct arg_color *)0)->value / sizeof(double) == IMAGE_CHANNELS,
               "a color has a value a channel");

const char *const pad_mode_names[] = {"constant", "edge", "reflect", "symmetric", NULL};

void pixels_copy(const struct image *in, struct image *out)
{
    for (uint32_t y = 0; y < out->height; y++)
        memcpy(image_row(out, y), image_row(in, y), (size_t)out->width * IMAGE_CHANNELS);
}

void pixels_color(const struct arg_color *color, uint8_t out[IMAGE_CHANNELS])
{
    for (int c = 0; c < IMAGE_CHANNELS; c++)
        out[c] = (uint8_t)color->value[c];
}

void pixels_fill(uint8_t *to, uint32_t count, const uint8_t fill[IMAGE_CHANNELS])
{
    if (fill[0] == fill[1] && fill[1] == fill[2]) {
        memset(to, fill[0], (size_t)count * IMAGE_CHANNELS);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        memcpy(to + (size_t)i * IMAGE_CHANNELS, fill, IMAGE_CHANNELS);
}

static int64_t remainder_of(int64_t value, int64_t period)
{
    int64_t rest = value % period;
    return rest < 0 ? rest + period : rest;
}

int64_t pixels_pad_index(int64_t at, uint32_t count, enum pad_mode mode)
{
    int64_t last = (int64_t)count - 1;
    if (at >= 0 && at <= last)
        return at;
    switch (mode) {
    case PAD_CONSTANT: return PIXELS_OUTSIDE;
    case PAD_EDGE: return at < 0 ? 0 : last;
    case PAD_REFLECT: at = last ? remainder_of(at, 2 * last) : 0; return at <= last ? at : 2 * last - at;
    case PAD_SYMMETRIC: at = remainder_of(at, 2 * (int64_t)count); return at <= last ? at : 2 * last + 1 - at;
    }
    return PIXELS_OUTSIDE;
}

/* How many pixels from x on come from neighbours in one row, or are all outside. */
static uint32_t run_length(const int32_t *columns, uint32_t x, uint32_t width)
{
    int32_t step = columns[x] != PIXELS_OUTSIDE;
    uint32_t end = x + 1;
    while (end < width && columns[end] == columns[end - 1] + step)
        end++;
    return end - x;
}

void pixels_gather(const struct image *in, const int32_t *columns, const int32_t *rows,
                   const uint8_t fill[IMAGE_CHANNELS], struct image *out)
{
    for (uint32_t x = 0, count; x < out->width; x += count) {
        count = run_length(columns, x, out->width);
        for (uint32_t y = 0; y < out->height; y++) {
            uint8_t *to = image_row(out, y) + (size_t)x * IMAGE_CHANNELS;
            if (rows[y] == PIXELS_OUTSIDE || columns[x] == PIXELS_OUTSIDE)
                pixels_fill(to, count, fill);
            else
                memcpy(to, image_row(in, (uint32_t)rows[y]) + (size_t)columns[x] * IMAGE_CHANNELS,
                       (size_t)count * IMAGE_CHANNELS);
        }
    }
}
