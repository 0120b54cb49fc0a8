#include "preprocess/warp.h"

#include <math.h>
#include <string.h>

typedef void pixel_at(const struct image *in, double x, double y, uint8_t *to);

static uint32_t within(int at, uint32_t count)
{
    return at < 0 ? 0 : at >= (int)count ? count - 1 : (uint32_t)at;
}

static void nearest(const struct image *in, double x, double y, uint8_t *to)
{
    memcpy(to, image_row(in, (uint32_t)y) + (size_t)(uint32_t)x * IMAGE_CHANNELS, IMAGE_CHANNELS);
}

static double linear(double a, double b, double d)
{
    return a + (b - a) * d;
}

static void bilinear(const struct image *in, double x, double y, uint8_t *to)
{
    double left = floor(x - 0.5), top = floor(y - 0.5), dx = x - 0.5 - left, dy = y - 0.5 - top;
    size_t x0 = (size_t)within((int)left, in->width) * IMAGE_CHANNELS,
           x1 = (size_t)within((int)left + 1, in->width) * IMAGE_CHANNELS;
    const uint8_t *above = image_row(in, within((int)top, in->height)),
                  *below = image_row(in, within((int)top + 1, in->height));
    for (int c = 0; c < IMAGE_CHANNELS; c++)
        to[c] = (uint8_t)linear(linear(above[x0 + c], above[x1 + c], dx), linear(below[x0 + c], below[x1 + c], dx), dy);
}

static double cubic(const double v[4], double d)
{
    double p1 = v[1], p2 = -v[0] + v[2], p3 = 2 * (v[0] - v[1]) + v[2] - v[3], p4 = -v[0] + v[1] - v[2] + v[3];
    return p1 + d * (p2 + d * (p3 + d * p4));
}

static void bicubic(const struct image *in, double x, double y, uint8_t *to)
{
    double left = floor(x - 0.5), top = floor(y - 0.5), dx = x - 0.5 - left, dy = y - 0.5 - top;
    for (int c = 0; c < IMAGE_CHANNELS; c++) {
        double down[4], across[4];
        for (int j = 0; j < 4; j++) {
            const uint8_t *row = image_row(in, within((int)top - 1 + j, in->height));
            for (int i = 0; i < 4; i++)
                across[i] = row[(size_t)within((int)left - 1 + i, in->width) * IMAGE_CHANNELS + c];
            down[j] = cubic(across, dx);
        }
        double value = cubic(down, dy);
        to[c] = value <= 0.0 ? 0 : value >= 255.0 ? 255 : (uint8_t)value;
    }
}

void warp_perspective(const struct perspective *map, enum filter filter, const uint8_t fill[IMAGE_CHANNELS],
                      const struct image *in, const struct image *out)
{
    const double *m = map->m;
    pixel_at *pixel = filter == FILTER_NEAREST ? nearest : filter == FILTER_BILINEAR ? bilinear : bicubic;
    for (uint32_t row = 0; row < out->height; row++) {
        uint8_t *to = image_row(out, row);
        double y = row + 0.5;
        for (uint32_t column = 0; column < out->width; column++, to += IMAGE_CHANNELS) {
            double x = column + 0.5, under = m[6] * x + m[7] * y + 1;
            double from_x = (m[0] * x + m[1] * y + m[2]) / under, from_y = (m[3] * x + m[4] * y + m[5]) / under;
            if (from_x >= 0.0 && from_x < in->width && from_y >= 0.0 && from_y < in->height)
                pixel(in, from_x, from_y, to);
            else
                memcpy(to, fill, IMAGE_CHANNELS);
        }
    }
}

/* ── the map of four corners ─────────────────────────────────────────────────────────────────────────────────────── */

enum { UNKNOWN = 8 };

/* Gauss's elimination, with the largest pivot of a column. */
static bool solve(double a[UNKNOWN][UNKNOWN + 1])
{
    for (int i = 0; i < UNKNOWN; i++) {
        int best = i;
        for (int r = i + 1; r < UNKNOWN; r++)
            best = fabs(a[r][i]) > fabs(a[best][i]) ? r : best;
        if (fabs(a[best][i]) < 1e-9)
            return false;
        for (int c = 0; c <= UNKNOWN; c++) {
            double swapped = a[i][c];
            a[i][c] = a[best][c];
            a[best][c] = swapped;
        }
        for (int r = 0; r < UNKNOWN; r++) {
            double times = r == i ? 0 : a[r][i] / a[i][i];
            for (int c = i; c <= UNKNOWN && r != i; c++)
                a[r][c] -= times * a[i][c];
        }
    }
    return true;
}

bool warp_perspective_of(const struct point from[4], const struct point to[4], struct perspective *out)
{
    double a[UNKNOWN][UNKNOWN + 1];
    for (int i = 0; i < 4; i++) {
        const struct point p = to[i], q = from[i];
        const double rows[2][UNKNOWN + 1] = {{p.x, p.y, 1, 0, 0, 0, -q.x * p.x, -q.x * p.y, q.x},
                                             {0, 0, 0, p.x, p.y, 1, -q.y * p.x, -q.y * p.y, q.y}};
        memcpy(a[2 * (size_t)i], rows, sizeof rows);
    }
    if (!solve(a))
        return false;
    for (int i = 0; i < UNKNOWN; i++)
        out->m[i] = (float)(a[i][UNKNOWN] / a[i][i]);
    return true;
}
