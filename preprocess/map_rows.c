/* map_rows.c: plain loops, which the compiler makes vector code of (simd.h), but for the pixels themselves. They are
 * fetched one by one, four bytes each. */
#include "preprocess/map_rows.h"

#include <string.h>

#include "preprocess/simd.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

#define PIECE 128 /* pixels that are worked on at once */
#define WHOLE 16  /* a piece is this many times something: its end needs no loop of its own */

#if defined(__AVX2__) || !defined(__x86_64__)
#define VECTORS_MULTIPLY 1
#else
#define VECTORS_MULTIPLY 0
#endif

static inline uint32_t fetch(const uint8_t *pixel)
{
    uint32_t four;
    memcpy(&four, pixel, sizeof four);
    return four;
}

/* A pixel that another one follows: the fourth byte is replaced. */
static inline void store(uint8_t *to, uint32_t pixel)
{
    memcpy(to, &pixel, sizeof pixel);
}

static inline void store_last(uint8_t *to, uint32_t pixel)
{
    memcpy(to, &pixel, IMAGE_CHANNELS);
}

/* Fetches pixels and stores them in fours, which is one store for four. Returns how many: a few at the end are left. */
static inline uint32_t move_fours(const uint8_t *data, const uint32_t *offsets, uint32_t count, uint8_t *to)
{
    uint32_t i = 0;
#ifdef __AVX2__
    const __m128i three = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    for (; i + 6 <= count; i += 4) { /* the last four bytes belong to the next two pixels, which replace them */
        __m128i four = _mm_cvtsi32_si128((int)fetch(data + offsets[i]));
        four = _mm_insert_epi32(four, (int)fetch(data + offsets[i + 1]), 1);
        four = _mm_insert_epi32(four, (int)fetch(data + offsets[i + 2]), 2);
        four = _mm_insert_epi32(four, (int)fetch(data + offsets[i + 3]), 3);
        _mm_storeu_si128((__m128i *)(to + (size_t)i * IMAGE_CHANNELS), _mm_shuffle_epi8(four, three));
    }
#else
    (void)data, (void)offsets, (void)count, (void)to;
#endif
    return i;
}

/* ── nearest ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void take(const uint8_t *data, const uint32_t *offsets, uint32_t count, uint8_t *to)
{
    uint32_t i = move_fours(data, offsets, count, to);
    for (to += (size_t)i * IMAGE_CHANNELS; i + 1 < count; i++, to += IMAGE_CHANNELS)
        store(to, fetch(data + offsets[i]));
    if (i < count)
        store_last(to, fetch(data + offsets[i]));
}

/* Places first, in vectors, for images whose bytes 32 bits count. */
static void nearest_pieces(const struct image *in, const struct map_line *line, uint32_t count, uint8_t *to)
{
    uint32_t x = (uint32_t)line->x, y = (uint32_t)line->y, dx = (uint32_t)line->dx, dy = (uint32_t)line->dy;
    uint32_t stride = (uint32_t)in->stride;
    for (uint32_t n; count; count -= n, x += n * dx, y += n * dy, to += (size_t)n * IMAGE_CHANNELS) {
        uint32_t offsets[PIECE];
        n = count < PIECE ? count : PIECE;
        for (uint32_t i = 0; i < (n + WHOLE - 1) / WHOLE * WHOLE; i++)
            offsets[i] = ((y + i * dy) >> 16) * stride + ((x + i * dx) >> 16) * IMAGE_CHANNELS;
        take(in->data, offsets, n, to);
    }
}

static void nearest(const struct image *in, const struct map_line *line, uint32_t count, uint8_t *to)
{
    /* SSE2 has no product of 32-bit numbers. */
    if (VECTORS_MULTIPLY && (uint64_t)in->stride * in->height <= UINT32_MAX) {
        nearest_pieces(in, line, count, to);
        return;
    }
    int64_t x = line->x, y = line->y;
    for (uint32_t i = 0; i < count; i++, to += IMAGE_CHANNELS, x += line->dx, y += line->dy) {
        uint32_t pixel = fetch(image_row(in, (uint32_t)(y >> 16)) + (size_t)(x >> 16) * IMAGE_CHANNELS);
        if (i + 1 < count)
            store(to, pixel);
        else
            store_last(to, pixel);
    }
}

/* ── bilinear ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void places(const double map[6], uint32_t x, uint32_t y, uint32_t count, double *restrict xs,
                   double *restrict ys)
{
    for (uint32_t i = 0; i < count; i++) {
        double at = (double)(int32_t)(x + i) + 0.5;
        xs[i] = map[0] * at + map[1] * (y + 0.5) + map[2];
        ys[i] = map[3] * at + map[4] * (y + 0.5) + map[5];
    }
}

/* Along one side: the two pixels around each place, and how far it is from the first one. */
struct between {
    int32_t first[PIECE], second[PIECE];
    double part[PIECE];
};

static inline void find_between(const double *restrict places, uint32_t count, uint32_t pixels,
                                struct between *restrict between)
{
    int32_t last = (int32_t)pixels - 1;
    for (uint32_t i = 0; i < count; i++) {
        double at = places[i] - 0.5; /* -0.5 or more: rounding down is cutting off, and one less below 0 */
        int32_t first = (int32_t)at - (at < 0.0);
        between->part[i] = at - first;
        between->first[i] = first < 0 ? 0 : first;
        between->second[i] = first < last ? first + 1 : last;
    }
}

/* The four pixels around each place. */
struct corners {
    uint32_t above_left[PIECE], above_right[PIECE], below_left[PIECE], below_right[PIECE];
};

static inline void fetch_corners(const struct image *in, const struct between *x, const struct between *y,
                                 uint32_t count, struct corners *corners)
{
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *above = image_row(in, (uint32_t)y->first[i]), *below = image_row(in, (uint32_t)y->second[i]);
        size_t left = (size_t)x->first[i] * IMAGE_CHANNELS, right = (size_t)x->second[i] * IMAGE_CHANNELS;
        corners->above_left[i] = fetch(above + left);
        corners->above_right[i] = fetch(above + right);
        corners->below_left[i] = fetch(below + left);
        corners->below_right[i] = fetch(below + right);
    }
}

static inline double linear(double a, double b, double part)
{
    return a + (b - a) * part;
}

static inline double channel(uint32_t pixel, int shift)
{
    return (double)(int32_t)(pixel >> shift & 255);
}

static inline uint32_t mix(const struct corners *corners, uint32_t i, int shift, double dx, double dy)
{
    double above = linear(channel(corners->above_left[i], shift), channel(corners->above_right[i], shift), dx);
    double below = linear(channel(corners->below_left[i], shift), channel(corners->below_right[i], shift), dx);
    return (uint32_t)(int32_t)linear(above, below, dy) << shift;
}

static void bilinear(const struct image *in, const double *xs, const double *ys, uint32_t count, uint8_t *to)
{
    for (uint32_t n; count; count -= n, xs += n, ys += n, to += (size_t)n * IMAGE_CHANNELS) {
        struct between x, y;
        struct corners corners;
        uint32_t pixels[PIECE];
        n = count < PIECE ? count : PIECE;
        find_between(xs, n, in->width, &x);
        find_between(ys, n, in->height, &y);
        fetch_corners(in, &x, &y, n, &corners);
        for (uint32_t i = 0; i < n; i++)
            pixels[i] = mix(&corners, i, 0, x.part[i], y.part[i]) | mix(&corners, i, 8, x.part[i], y.part[i]) |
                        mix(&corners, i, 16, x.part[i], y.part[i]);
        for (uint32_t i = 0; i + 1 < n; i++)
            store(to + (size_t)i * IMAGE_CHANNELS, pixels[i]);
        store_last(to + (size_t)(n - 1) * IMAGE_CHANNELS, pixels[n - 1]);
    }
}

const struct map_rows SIMD_NAME(map_rows) = {.take = take, .nearest = nearest, .places = places, .bilinear = bilinear};
