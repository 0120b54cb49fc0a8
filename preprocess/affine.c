#include "preprocess/affine.h"

#include <math.h>
#include <string.h>

const char *const affine_filter_names[] = {"nearest", "bilinear", "bicubic", "nearest-exact=nearest", NULL};

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

void affine_apply(const struct affine *affine, enum filter filter, const uint8_t fill[IMAGE_CHANNELS],
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

/* ── maps ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

struct affine affine_shear(double x, double y)
{
    /* torchvision converts the tangents to degrees and back. The map is the inverse of shear x after shear y. */
    double to_degrees = 180.0 / M_PI, to_radians = M_PI / 180.0;
    double sx = atan(x) * to_degrees * to_radians, sy = atan(y) * to_degrees * to_radians;
    double a = cos(-sy) / cos(sy), b = -cos(-sy) * tan(sx) / cos(sy);
    double c = sin(-sy) / cos(sy), d = -sin(-sy) * tan(sx) / cos(sy) + 1.0;
    return (struct affine){{d, -b, 0.0, -c, a, 0.0}};
}

struct affine affine_move(int32_t x, int32_t y)
{
    return (struct affine){{1.0, 0.0, -(double)x, 0.0, 1.0, -(double)y}};
}

static double round15(double value)
{
    return rint(value * 1e15) / 1e15;
}

static double map_x(const double *m, double x, double y)
{
    return m[0] * x + m[1] * y + m[2];
}

static double map_y(const double *m, double x, double y)
{
    return m[3] * x + m[4] * y + m[5];
}

static void expand_to_hold(double *m, uint32_t *width, uint32_t *height)
{
    double w = *width, h = *height;
    const double corners[4][2] = {{0, 0}, {w, 0}, {w, h}, {0, h}};
    double left = INFINITY, right = -INFINITY, top = INFINITY, bottom = -INFINITY;
    for (int i = 0; i < 4; i++) {
        double x = map_x(m, corners[i][0], corners[i][1]), y = map_y(m, corners[i][0], corners[i][1]);
        left = fmin(left, x), right = fmax(right, x);
        top = fmin(top, y), bottom = fmax(bottom, y);
    }
    double new_w = ceil(right) - floor(left), new_h = ceil(bottom) - floor(top);
    double x = map_x(m, -(new_w - w) / 2.0, -(new_h - h) / 2.0), y = map_y(m, -(new_w - w) / 2.0, -(new_h - h) / 2.0);
    m[2] = x;
    m[5] = y;
    *width = (uint32_t)new_w;
    *height = (uint32_t)new_h;
}

struct affine affine_rotation(double degrees, double x, double y, bool expand, uint32_t *width, uint32_t *height)
{
    double angle = -(degrees * (M_PI / 180.0));
    double cosine = round15(cos(angle)), sine = round15(sin(angle));
    struct affine affine = {{cosine, sine, 0.0, round15(-sin(angle)), cosine, 0.0}};
    double *m = affine.m, moved_x = map_x(m, -x, -y), moved_y = map_y(m, -x, -y);
    m[2] = moved_x + x;
    m[5] = moved_y + y;
    if (expand)
        expand_to_hold(m, width, height);
    return affine;
}
