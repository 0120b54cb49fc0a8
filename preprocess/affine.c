#include "preprocess/affine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preprocess/map_rows.h"
#include "preprocess/pixels.h"
#include "preprocess/simd.h"

static const struct map_rows *const versions[] = SIMD_TABLES(map_rows);

const char *const affine_filter_names[] = {"nearest", "bilinear", "bicubic", "nearest-exact=nearest", NULL};

static int floor_int(double value)
{
    return value < 0.0 ? (int)floor(value) : (int)value;
}

static uint32_t clamp(int at, uint32_t count)
{
    return at < 0 ? 0 : (uint32_t)at < count ? (uint32_t)at : count - 1;
}

/* The pixels of a row of the result that the map takes from inside of the image. They stand together. */
struct span {
    uint32_t begin, end;
};

static struct span both(struct span a, struct span b)
{
    struct span span = {a.begin > b.begin ? a.begin : b.begin, a.end < b.end ? a.end : b.end};
    return span.begin < span.end ? span : (struct span){0, 0};
}

/* Fills what is beside the span, and returns where it begins. */
static uint8_t *fill_beside(struct span span, const uint8_t fill[IMAGE_CHANNELS], const struct image *out, uint32_t y)
{
    uint8_t *row = image_row(out, y);
    pixels_fill(row, span.begin, fill);
    pixels_fill(row + (size_t)span.end * IMAGE_CHANNELS, out->width - span.end, fill);
    return row + (size_t)span.begin * IMAGE_CHANNELS;
}

/* ── nearest ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Steps along in double precision: sets the indices of `count` pixels in a source of `limit`. Returns the next
 * place. */
static double step_along(double at, double step, uint32_t limit, uint32_t count, int32_t *indices)
{
    for (uint32_t i = 0; i < count; i++, at += step)
        indices[i] = at >= 0.0 && at < limit ? (int32_t)at : PIXELS_OUTSIDE;
    return at;
}

/* Without rotation or shear Pillow steps along both sides by themselves. */
static void scale_only(const struct affine *affine, const uint8_t fill[IMAGE_CHANNELS], const struct image *in,
                       const struct image *out)
{
    enum { SIDE = 512 };
    const double *m = affine->m;
    int32_t columns[SIDE], rows[SIDE];
    double yo = m[5] + m[4] * 0.5;
    for (uint32_t y = 0, n_rows; y < out->height; y += n_rows) {
        n_rows = out->height - y < SIDE ? out->height - y : SIDE;
        yo = step_along(yo, m[4], in->height, n_rows, rows);
        double xo = m[2] + m[0] * 0.5;
        for (uint32_t x = 0, n_columns; x < out->width; x += n_columns) {
            n_columns = out->width - x < SIDE ? out->width - x : SIDE;
            xo = step_along(xo, m[0], in->width, n_columns, columns);
            struct image part = {image_row(out, y) + (size_t)x * IMAGE_CHANNELS, out->stride, n_columns, n_rows};
            pixels_gather(in, columns, rows, fill, &part);
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

/* Which of `count` places, that begin at `start` and are `step` apart, are in 0 … pixels, in fixed point. */
static struct span fixed_span(int64_t start, int64_t step, uint32_t pixels, uint32_t count)
{
    int64_t limit = (int64_t)pixels << 16;
    if (step < 0) {
        start = limit - 1 - start;
        step = -step;
    }
    if (step == 0)
        return start >= 0 && start < limit ? (struct span){0, count} : (struct span){0, 0};
    int64_t begin = start < 0 ? (-start + step - 1) / step : 0;
    int64_t end = start < limit ? (limit - start + step - 1) / step : 0;
    return (struct span){begin < count ? (uint32_t)begin : count, end < count ? (uint32_t)end : count};
}

/* In 16.16 fixed point, as Pillow does for images below 32,768 pixels a side. */
static void nearest_fixed(const struct affine *affine, const uint8_t fill[IMAGE_CHANNELS], const struct image *in,
                          const struct image *out)
{
    const struct map_rows *rows = versions[simd_selected()];
    const double *m = affine->m;
    int64_t down_x = fixed(m[1]), down_y = fixed(m[4]);
    struct map_line line = {.x = fixed(m[2] + m[0] * 0.5 + m[1] * 0.5),
                            .y = fixed(m[5] + m[3] * 0.5 + m[4] * 0.5),
                            .dx = fixed(m[0]),
                            .dy = fixed(m[3])};
    for (uint32_t y = 0; y < out->height; y++, line.x += down_x, line.y += down_y) {
        struct span span = both(fixed_span(line.x, line.dx, in->width, out->width),
                                fixed_span(line.y, line.dy, in->height, out->width));
        struct map_line inside = {line.x + span.begin * line.dx, line.y + span.begin * line.dy, line.dx, line.dy};
        rows->nearest(in, &inside, span.end - span.begin, fill_beside(span, fill, out, y));
    }
}

/* ── places in double precision ──────────────────────────────────────────────────────────────────────────────────── */

/* The first of `count` pixels whose place is at `bound` or beyond; `count` if none is. Places rise or fall all along a
 * row, though they are rounded. */
static uint32_t first_beyond(const double m[3], double y, double bound, bool rising, uint32_t count)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        double place = m[0] * (middle + 0.5) + m[1] * y + m[2];
        if ((place >= bound) == rising)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static struct span place_span(const double m[3], uint32_t y, uint32_t pixels, uint32_t count)
{
    bool rising = m[0] >= 0;
    return (struct span){first_beyond(m, y + 0.5, rising ? 0 : pixels, rising, count),
                         first_beyond(m, y + 0.5, rising ? pixels : 0, rising, count)};
}

typedef void make_row(const struct map_rows *rows, const struct image *in, const double *xs, const double *ys,
                      uint32_t count, uint8_t *to);

static void by_places(const struct affine *affine, const uint8_t fill[IMAGE_CHANNELS], make_row *make,
                      const struct image *in, const struct image *out)
{
    enum { PIECE = 256 };
    const struct map_rows *rows = versions[simd_selected()];
    const double *m = affine->m;
    double xs[PIECE], ys[PIECE];
    for (uint32_t y = 0; y < out->height; y++) {
        struct span span = both(place_span(m, y, in->width, out->width), place_span(m + 3, y, in->height, out->width));
        uint8_t *to = fill_beside(span, fill, out, y);
        for (uint32_t x = span.begin, n; x < span.end; x += n, to += (size_t)n * IMAGE_CHANNELS) {
            n = span.end - x < PIECE ? span.end - x : PIECE;
            rows->places(m, x, y, n, xs, ys);
            make(rows, in, xs, ys, n, to);
        }
    }
}

static void nearest_row(const struct map_rows *rows, const struct image *in, const double *xs, const double *ys,
                        uint32_t count, uint8_t *to)
{
    (void)rows;
    for (uint32_t i = 0; i < count; i++, to += IMAGE_CHANNELS)
        memcpy(to, image_row(in, (uint32_t)ys[i]) + (size_t)(uint32_t)xs[i] * IMAGE_CHANNELS, IMAGE_CHANNELS);
}

static void bilinear_row(const struct map_rows *rows, const struct image *in, const double *xs, const double *ys,
                         uint32_t count, uint8_t *to)
{
    rows->bilinear(in, xs, ys, count, to);
}

static double cubic(double v1, double v2, double v3, double v4, double d)
{
    double p1 = v2, p2 = -v1 + v3, p3 = 2 * (v1 - v2) + v3 - v4, p4 = -v1 + v2 - v3 + v4;
    return p1 + d * (p2 + d * (p3 + d * p4));
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

static void bicubic_row(const struct map_rows *rows, const struct image *in, const double *xs, const double *ys,
                        uint32_t count, uint8_t *to)
{
    (void)rows;
    for (uint32_t i = 0; i < count; i++, to += IMAGE_CHANNELS)
        bicubic_pixel(in, xs[i], ys[i], to);
}

void affine_apply(const struct affine *affine, enum filter filter, const uint8_t fill[IMAGE_CHANNELS],
                  const struct image *in, const struct image *out)
{
    uint32_t width = out->width, height = out->height;
    if (filter == FILTER_BILINEAR)
        by_places(affine, fill, bilinear_row, in, out);
    else if (filter != FILTER_NEAREST)
        by_places(affine, fill, bicubic_row, in, out);
    else if (affine->m[1] == 0 && affine->m[3] == 0)
        scale_only(affine, fill, in, out);
    else if (fits_fixed(affine, 0, 0) && fits_fixed(affine, width, height) && fits_fixed(affine, 0, height) &&
             fits_fixed(affine, width, 0))
        nearest_fixed(affine, fill, in, out);
    else
        by_places(affine, fill, nearest_row, in, out);
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

/* As Python rounds to 15 decimals: of the exact value. A product with 1e15 is rounded once more, and a pixel in the
 * middle of an image may lie on the other side of a whole number for it. */
static double round15(double value)
{
    char text[32];
    snprintf(text, sizeof text, "%.15f", value);
    return strtod(text, NULL);
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
