/* resample_avx2.c: the resampler's inner loops for AVX2.
 *
 * vpmaddwd multiplies pairs of 16-bit numbers and adds them up. So a weight is split into w = low + 256 high, low from
 * 0 to 255, and both are summed on their own. The result is exact, and for each half an instruction does two taps of
 * all channels. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "preprocess/resample_priv.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define TARGET __attribute__((target("avx2")))

/* A group's weights as pairs of 16-bit numbers: of taps 0 and 1, of taps 2 and 3. */
struct pairs {
    uint32_t high01, low01, high23, low23;
};

static uint32_t pair(int32_t first, int32_t second)
{
    return (uint16_t)first | (uint32_t)(uint16_t)second << 16;
}

static void pack(const int32_t *weights, size_t groups, void *packed)
{
    struct pairs *to = packed;
    for (size_t g = 0; g < groups; g++, weights += RESAMPLE_GROUP) {
        const int32_t *w = weights;
        to[g] = (struct pairs){pair(w[0] >> 8, w[1] >> 8), pair(w[0] & 255, w[1] & 255), pair(w[2] >> 8, w[3] >> 8),
                               pair(w[2] & 255, w[3] & 255)};
    }
}

struct sums {
    __m256i high, low;
};

TARGET static ALWAYS_INLINE void add(struct sums *sums, __m256i values, uint32_t high, uint32_t low)
{
    sums->high = _mm256_add_epi32(sums->high, _mm256_madd_epi16(values, _mm256_set1_epi32((int)high)));
    sums->low = _mm256_add_epi32(sums->low, _mm256_madd_epi16(values, _mm256_set1_epi32((int)low)));
}

TARGET static ALWAYS_INLINE struct sums start(void)
{
    return (struct sums){_mm256_setzero_si256(), _mm256_set1_epi32(RESAMPLE_ROUND)};
}

TARGET static ALWAYS_INLINE __m256i combine(const struct sums *sums)
{
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(sums->high, 8), sums->low), RESAMPLE_BITS);
}

/* Rows that are made at once: two in each of two sets of sums, so that a weight is brought once for all. */
#define ROWS 4
_Static_assert(RESAMPLE_ROWS % ROWS == 0, "the output has room for whole multiples");

/* A group's pixels of two rows, a row per 128-bit lane. */
TARGET static ALWAYS_INLINE __m256i group(const uint8_t *first, const uint8_t *second)
{
    __m256i pixels = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)first));
    return _mm256_inserti128_si256(pixels, _mm_loadu_si128((const __m128i *)second), 1);
}

/* One output pixel of four rows: r, g, b and a stray value as 32-bit numbers, of rows 0 and 1, and of 2 and 3. */
TARGET static ALWAYS_INLINE void output(const uint8_t *const rows[ROWS], size_t at, const struct pairs *pairs,
                                        uint32_t groups, __m256i out[2])
{
    const __m256i taps01 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m256i taps23 = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    struct sums a = start(), b = start();
    for (uint32_t g = 0; g < groups; g++, at += RESAMPLE_GROUP * IMAGE_CHANNELS) {
        __m256i upper = group(rows[0] + at, rows[1] + at), lower = group(rows[2] + at, rows[3] + at);
        add(&a, _mm256_shuffle_epi8(upper, taps01), pairs[g].high01, pairs[g].low01);
        add(&b, _mm256_shuffle_epi8(lower, taps01), pairs[g].high01, pairs[g].low01);
        add(&a, _mm256_shuffle_epi8(upper, taps23), pairs[g].high23, pairs[g].low23);
        add(&b, _mm256_shuffle_epi8(lower, taps23), pairs[g].high23, pairs[g].low23);
    }
    out[0] = combine(&a);
    out[1] = combine(&b);
}

/* Four pixels of two rows. */
TARGET static ALWAYS_INLINE void store_pixels(__m256i p0, __m256i p1, __m256i p2, __m256i p3, uint8_t *out,
                                              size_t out_stride)
{
    const __m256i drop_fourth = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    __m256i low = _mm256_packs_epi32(p0, p1), high = _mm256_packs_epi32(p2, p3);
    __m256i bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(low, high), drop_fourth);
    _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(bytes));
    _mm_storeu_si128((__m128i *)(out + out_stride), _mm256_extracti128_si256(bytes, 1));
}

/* Called with constant `groups` for the common small counts, so that the compiler unrolls. What is read of these rows
 * will be read of the `next` ones, which lie so many bytes behind: they are fetched meanwhile. 0: there are none. */
TARGET static ALWAYS_INLINE void four_rows(const struct resample_axis *axis, const uint8_t *const rows[ROWS],
                                           size_t next, uint8_t *out, size_t out_stride, uint32_t groups)
{
    const struct pairs *pairs = axis->packed;
    const int32_t *first = axis->first;
    for (uint32_t x = 0; x < axis->count; x += 4, out += 4 * IMAGE_CHANNELS) {
        __m256i p[4][2];
        for (uint32_t i = 0; i < 4; i++, pairs += groups) {
            size_t at = (size_t)first[x + i] * IMAGE_CHANNELS;
            output(rows, at, pairs, groups, p[i]);
            for (uint32_t row = 0; row < ROWS; row++)
                __builtin_prefetch(rows[row] + at + next);
        }
        store_pixels(p[0][0], p[1][0], p[2][0], p[3][0], out, out_stride);
        store_pixels(p[0][1], p[1][1], p[2][1], p[3][1], out + 2 * out_stride, out_stride);
    }
}

TARGET static void horizontal(const struct resample_axis *axis, const uint8_t *source, size_t stride, uint32_t rows,
                              uint8_t *out, size_t out_stride)
{
    for (uint32_t y = 0; y < rows; y += ROWS, out += ROWS * out_stride) {
        const uint8_t *four[ROWS];
        for (uint32_t i = 0; i < ROWS; i++)
            four[i] = source + stride * (y + i < rows ? y + i : rows - 1);
        size_t next = y + ROWS < rows ? ROWS * stride : 0;
        if (axis->groups == 1)
            four_rows(axis, four, next, out, out_stride, 1);
        else if (axis->groups == 2)
            four_rows(axis, four, next, out, out_stride, 2);
        else
            four_rows(axis, four, next, out, out_stride, axis->groups);
    }
}

/* Two rows' share of 32 bytes: the same byte of both goes into one 32-bit lane. */
TARGET static ALWAYS_INLINE void add_rows(struct sums sums[4], const uint8_t *from, size_t stride, uint32_t high,
                                          uint32_t low)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i a = _mm256_loadu_si256((const __m256i *)from), b = _mm256_loadu_si256((const __m256i *)(from + stride));
    __m256i ab_low = _mm256_unpacklo_epi8(a, b), ab_high = _mm256_unpackhi_epi8(a, b);
    add(&sums[0], _mm256_unpacklo_epi8(ab_low, zero), high, low);
    add(&sums[1], _mm256_unpackhi_epi8(ab_low, zero), high, low);
    add(&sums[2], _mm256_unpacklo_epi8(ab_high, zero), high, low);
    add(&sums[3], _mm256_unpackhi_epi8(ab_high, zero), high, low);
}

/* 32 bytes of one output row. */
TARGET static ALWAYS_INLINE __m256i column_bytes(const uint8_t *from, size_t stride, const struct pairs *pairs,
                                                 uint32_t groups)
{
    struct sums sums[4] = {start(), start(), start(), start()};
    for (uint32_t g = 0; g < groups; g++, from += stride * RESAMPLE_GROUP) {
        add_rows(sums, from, stride, pairs[g].high01, pairs[g].low01);
        add_rows(sums, from + 2 * stride, stride, pairs[g].high23, pairs[g].low23);
    }
    __m256i first = _mm256_packs_epi32(combine(&sums[0]), combine(&sums[1]));
    __m256i second = _mm256_packs_epi32(combine(&sums[2]), combine(&sums[3]));
    return _mm256_packus_epi16(first, second);
}

TARGET static ALWAYS_INLINE void column(const uint8_t *top, size_t stride, const struct pairs *pairs, uint32_t groups,
                                        uint32_t bytes, uint8_t *out)
{
    uint32_t x = 0;
    for (; x + 32 <= bytes; x += 32)
        _mm256_storeu_si256((__m256i *)(out + x), column_bytes(top + x, stride, pairs, groups));
    if (x < bytes) {
        uint8_t rest[32];
        _mm256_storeu_si256((__m256i *)rest, column_bytes(top + x, stride, pairs, groups));
        memcpy(out + x, rest, bytes - x);
    }
}

TARGET static void vertical(const struct resample_axis *axis, uint32_t index, const uint8_t *source, size_t stride,
                            uint32_t bytes, uint8_t *out)
{
    const struct pairs *pairs = (const struct pairs *)axis->packed + (size_t)index * axis->groups;
    const uint8_t *top = source + stride * (size_t)axis->first[index];
    if (axis->groups == 1)
        column(top, stride, pairs, 1, bytes, out);
    else if (axis->groups == 2)
        column(top, stride, pairs, 2, bytes, out);
    else
        column(top, stride, pairs, axis->groups, bytes, out);
}

const struct resample_kernel resample_avx2 = {
    .packed_bytes = sizeof(struct pairs),
    .pack = pack,
    .horizontal = horizontal,
    .vertical = vertical,
};
#endif
