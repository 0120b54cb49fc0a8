#include "preprocess/decode/png_filter.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* ── pixels of any size ──────────────────────────────────────────────────────────────────────────────────────────── */

static unsigned distance(int a, int b)
{
    return (unsigned)(a > b ? a - b : b - a);
}

static uint8_t nearest(uint8_t left, uint8_t above, uint8_t corner)
{
    unsigned to_left = distance(above, corner), to_above = distance(left, corner);
    unsigned to_corner = distance(left + above, 2 * corner);
    if (to_left <= to_above && to_left <= to_corner)
        return left;
    return to_above <= to_corner ? above : corner;
}

static void sub(uint8_t *row, size_t bytes, size_t pixel)
{
    for (size_t i = pixel; i < bytes; i++)
        row[i] = (uint8_t)(row[i] + row[i - pixel]);
}

static void up(const uint8_t *above, uint8_t *row, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        row[i] = (uint8_t)(row[i] + above[i]);
}

static void average(const uint8_t *above, uint8_t *row, size_t bytes, size_t pixel)
{
    for (size_t i = 0; i < bytes; i++)
        row[i] = (uint8_t)(row[i] + (above[i] + (i < pixel ? 0 : row[i - pixel])) / 2);
}

static void paeth(const uint8_t *above, uint8_t *row, size_t bytes, size_t pixel)
{
    for (size_t i = 0; i < bytes; i++)
        row[i] = (uint8_t)(row[i] + (i < pixel ? above[i] : nearest(row[i - pixel], above[i], above[i - pixel])));
}

static void any_pixels(uint8_t filter, const uint8_t *above, uint8_t *row, size_t bytes, size_t pixel)
{
    switch (filter) {
    case PNG_SUB: sub(row, bytes, pixel); return;
    case PNG_UP: up(above, row, bytes); return;
    case PNG_AVG: average(above, row, bytes, pixel); return;
    case PNG_PAETH: paeth(above, row, bytes, pixel); return;
    default: return;
    }
}

/* ── pixels of 3 to 8 bytes, one at a time in a register ─────────────────────────────────────────────────────────── */

#ifdef __SSE2__
#define INLINE static inline __attribute__((always_inline))

/* A pixel of 3, 4, 6 or 8 bytes; of 3 and 6, the register has some of the next one too. */
INLINE __m128i load(const uint8_t *at, size_t pixel)
{
    if (pixel > 4)
        return _mm_loadl_epi64((const __m128i *)at);
    int four;
    memcpy(&four, at, sizeof four);
    return _mm_cvtsi32_si128(four);
}

INLINE void store(uint8_t *at, size_t pixel, __m128i value)
{
    if (pixel > 4) {
        uint8_t eight[8];
        _mm_storel_epi64((__m128i *)eight, value);
        memcpy(at, eight, pixel);
        return;
    }
    int four = _mm_cvtsi128_si32(value);
    memcpy(at, &four, pixel);
}

INLINE void sub_wide(uint8_t *row, size_t bytes, size_t pixel)
{
    __m128i left = _mm_setzero_si128();
    for (size_t i = 0; i < bytes; i += pixel) {
        left = _mm_add_epi8(load(row + i, pixel), left);
        store(row + i, pixel, left);
    }
}

INLINE void average_wide(const uint8_t *above, uint8_t *row, size_t bytes, size_t pixel)
{
    const __m128i ones = _mm_set1_epi8(1);
    __m128i left = _mm_setzero_si128();
    for (size_t i = 0; i < bytes; i += pixel) {
        __m128i over = load(above + i, pixel), up_rounded = _mm_avg_epu8(left, over);
        __m128i odd = _mm_and_si128(_mm_xor_si128(left, over), ones);
        left = _mm_add_epi8(load(row + i, pixel), _mm_sub_epi8(up_rounded, odd));
        store(row + i, pixel, left);
    }
}

INLINE __m128i absolute(__m128i value)
{
    return _mm_max_epi16(value, _mm_sub_epi16(_mm_setzero_si128(), value));
}

INLINE __m128i choose(__m128i mask, __m128i yes, __m128i no)
{
    return _mm_or_si128(_mm_and_si128(mask, yes), _mm_andnot_si128(mask, no));
}

INLINE void paeth_wide(const uint8_t *above, uint8_t *row, size_t bytes, size_t pixel)
{
    const __m128i zero = _mm_setzero_si128();
    __m128i left = zero, corner = zero; /* 16 bits a byte */
    for (size_t i = 0; i < bytes; i += pixel) {
        __m128i over = _mm_unpacklo_epi8(load(above + i, pixel), zero);
        __m128i here = _mm_unpacklo_epi8(load(row + i, pixel), zero);
        __m128i to_left = _mm_sub_epi16(over, corner), to_above = _mm_sub_epi16(left, corner);
        __m128i to_corner = absolute(_mm_add_epi16(to_left, to_above));
        to_left = absolute(to_left);
        to_above = absolute(to_above);
        __m128i least = _mm_min_epi16(to_corner, _mm_min_epi16(to_left, to_above));
        __m128i best = choose(_mm_cmpeq_epi16(least, to_left), left,
                              choose(_mm_cmpeq_epi16(least, to_above), over, corner));
        left = _mm_add_epi8(here, best); /* the upper byte of each stays 0 */
        corner = over;
        store(row + i, pixel, _mm_packus_epi16(left, left));
    }
}

INLINE void wide_pixels(uint8_t filter, const uint8_t *above, uint8_t *row, size_t bytes, size_t pixel)
{
    switch (filter) {
    case PNG_SUB: sub_wide(row, bytes, pixel); return;
    case PNG_UP: up(above, row, bytes); return;
    case PNG_AVG: average_wide(above, row, bytes, pixel); return;
    case PNG_PAETH: paeth_wide(above, row, bytes, pixel); return;
    default: return;
    }
}
#endif

void png_unfilter(uint8_t filter, const uint8_t *above, uint8_t *row, size_t bytes, size_t pixel_bytes)
{
#ifdef __SSE2__
    switch (pixel_bytes) { /* known to the compiler, each has loops of its own */
    case 3: wide_pixels(filter, above, row, bytes, 3); return;
    case 4: wide_pixels(filter, above, row, bytes, 4); return;
    case 6: wide_pixels(filter, above, row, bytes, 6); return;
    case 8: wide_pixels(filter, above, row, bytes, 8); return;
    default: break;
    }
#endif
    any_pixels(filter, above, row, bytes, pixel_bytes);
}
