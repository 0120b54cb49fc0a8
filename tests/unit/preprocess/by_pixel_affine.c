#include <math.h>
#include <string.h>

#include "by_pixel.h"

static int floor_int(double value)
{
    return value < 0.0 ? (int)floor(value) : (int)value;
}

static uint32_t clamp(int at, uint32_t count)
{
    return at < 0 ? 0 : (uint32_t)at < count ? (uint32_t)at : count - 1;
}

/* ── nearest ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Without rotation or shear Pillow steps along in double precision. */
static void scale_only(const struct affine *affine, const struct image *in, const struct image *out)
{
    double yo = affine->m[5] + affine->m[4] * 0.5;
    for (uint32_t y = 0; y < out->height; y++, yo += affine->m[4]) {
        if (yo < 0.0 || yo >= in->height)
            continue;
        const uint8_t *from = image_row(in, (uint32_t)yo);
        uint8_t *to = image_row(out, y);
        double xo = affine->m[2] + affine->m[0] * 0.5;
        for (uint32_t x = 0; x < out->width; x++, to += IMAGE_CHANNELS, xo += affine->m[0]) {
            if (xo >= 0.0 && xo < in->width)
                memcpy(to, from + (size_t)(uint32_t)xo * IMAGE_CHANNELS, IMAGE_CHANNELS);
        }
    }
}

static int64_t fixed(double value)
{
    return floor_int(value * 65536.0 + 0.5);
}

static bool fits_fixed(const struct affine *affine, double x, double y)
{
    const double *m = affine->m;
    return fabs(x * m[0] + y * m[1] + m[2]) < 32768.0 && fabs(x * m[3] + y * m[4] + m[5]) < 32768.0;
}

/* In 16.16 fixed point, as Pillow does for images below 32,768 pixels a side. */
static void nearest_fixed(const struct affine *affine, const struct image *in, const struct image *out)
{
    const double *m = affine->m;
    int64_t dx = fixed(m[0]), dy = fixed(m[3]), down_x = fixed(m[1]), down_y = fixed(m[4]);
    int64_t start_x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5), start_y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5);
    for (uint32_t y = 0; y < out->height; y++, start_x += down_x, start_y += down_y) {
        int64_t xx = start_x, yy = start_y;
        uint8_t *to = image_row(out, y);
        for (uint32_t x = 0; x < out->width; x++, to += IMAGE_CHANNELS, xx += dx, yy += dy) {
            int64_t xin = xx >> 16, yin = yy >> 16;
            if (xin >= 0 && xin < in->width && yin >= 0 && yin < in->height)
                memcpy(to, image_row(in, (uint32_t)yin) + (size_t)xin * IMAGE_CHANNELS, IMAGE_CHANNELS);
        }
    }
}

static void nearest_double(const struct affine *affine, const struct image *in, const struct image *out)
{
    const double *m = affine->m;
    for (uint32_t y = 0; y < out->height; y++) {
        uint8_t *to = image_row(out, y);
        for (uint32_t x = 0; x < out->width; x++, to += IMAGE_CHANNELS) {
            double xin = m[0] * (x + 0.5) + m[1] * (y + 0.5) + m[2], yin = m[3] * (x + 0.5) + m[4] * (y + 0.5) + m[5];
            if (xin >= 0.0 && xin < in->width && yin >= 0.0 && yin < in->height)
                memcpy(to, image_row(in, (uint32_t)yin) + (size_t)(uint32_t)xin * IMAGE_CHANNELS, IMAGE_CHANNELS);
        }
    }
}

static void nearest(const struct affine *affine, const struct image *in, const struct image *out)
{
    if (affine->m[1] == 0 && affine->m[3] == 0)
        scale_only(affine, in, out);
    else if (fits_fixed(affine, 0, 0) && fits_fixed(affine, out->width, out->height) &&
             fits_fixed(affine, 0, out->height) && fits_fixed(affine, out->width, 0))
        nearest_fixed(affine, in, out);
    else
        nearest_double(affine, in, out);
}

/* ── interpolated ────────────────────────────────────────────────────────────────────────────────────────────────── */

static double linear(double a, double b, double d)
{
    return a + (b - a) * d;
}

static double cubic(double v1, double v2, double v3, double v4, double d)
{
    double p1 = v2, p2 = -v1 + v3, p3 = 2 * (v1 - v2) + v3 - v4, p4 = -v1 + v2 - v3 + v4;
    return p1 + d * (p2 + d * (p3 + d * p4));
}

static void bilinear_pixel(const struct image *in, double xin, double yin, uint8_t *to)
{
    int x = floor_int(xin - 0.5), y = floor_int(yin - 0.5);
    double dx = xin - 0.5 - x, dy = yin - 0.5 - y;
    size_t x0 = (size_t)clamp(x, in->width) * IMAGE_CHANNELS, x1 = (size_t)clamp(x + 1, in->width) * IMAGE_CHANNELS;
    const uint8_t *above = image_row(in, clamp(y, in->height)), *below = image_row(in, clamp(y + 1, in->height));
    for (int c = 0; c < IMAGE_CHANNELS; c++)
        to[c] = (uint8_t)linear(linear(above[x0 + c], above[x1 + c], dx), linear(below[x0 + c], below[x1 + c], dx), dy);
}

static void bicubic_pixel(const struct image *in, double xin, double yin, uint8_t *to)
{
    int x = floor_int(xin - 0.5), y = floor_int(yin - 0.5);
    double dx = xin - 0.5 - x, dy = yin - 0.5 - y;
    size_t columns[4];
    const uint8_t *rows[4];
    for (int i = 0; i < 4; i++) {
        columns[i] = (size_t)clamp(x - 1 + i, in->width) * IMAGE_CHANNELS;
        rows[i] = image_row(in, clamp(y - 1 + i, in->height));
    }
    for (int c = 0; c < IMAGE_CHANNELS; c++) {
        double v[4];
        for (int i = 0; i < 4; i++)
            v[i] = cubic(rows[i][columns[0] + c], rows[i][columns[1] + c], rows[i][columns[2] + c],
                         rows[i][columns[3] + c], dx);
        double value = cubic(v[0], v[1], v[2], v[3], dy);
        to[c] = value <= 0.0 ? 0 : value >= 255.0 ? 255 : (uint8_t)value;
    }
}

static void interpolate(const struct affine *affine, void (*pixel)(const struct image *, double, double, uint8_t *),
                        const struct image *in, const struct image *out)
{
    const double *m = affine->m;
    for (uint32_t y = 0; y < out->height; y++) {
        uint8_t *to = image_row(out, y);
        for (uint32_t x = 0; x < out->width; x++, to += IMAGE_CHANNELS) {
            double xin = m[0] * (x + 0.5) + m[1] * (y + 0.5) + m[2], yin = m[3] * (x + 0.5) + m[4] * (y + 0.5) + m[5];
            if (xin >= 0.0 && xin < in->width && yin >= 0.0 && yin < in->height)
                pixel(in, xin, yin, to);
        }
    }
}

void by_pixel_affine(const struct affine *affine, enum filter filter, const uint8_t fill[IMAGE_CHANNELS],
                     const struct image *in, const struct image *out)
{
    for (uint32_t y = 0; y < out->height; y++) {
        uint8_t *to = image_row(out, y);
        for (uint32_t x = 0; x < out->width; x++, to += IMAGE_CHANNELS)
            memcpy(to, fill, IMAGE_CHANNELS);
    }
    if (filter == FILTER_NEAREST)
        nearest(affine, in, out);
    else
        interpolate(affine, filter == FILTER_BILINEAR ? bilinear_pixel : bicubic_pixel, in, out);
}
