/* resample_avx2.c: the resampler's inner loops for AVX2.
 *
 * vpmaddwd multiplies pairs of 16-bit numbers and adds them up, so a weight is split into w = low + 256 high, low from 0 to
 * 255, and both are summed on their own: exact, two taps of all channels an instruction and half. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "preprocess/resample_priv.h"

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

TARGET static inline __m256i add_pairs(__m256i sum, __m256i values, uint32_t weights)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(values, _mm256_set1_epi32((int)weights)));
}

TARGET static inline __m256i combine(__m256i high, __m256i low)
{
    return _mm256_srai_epi32(_mm256_add_epi32(_mm256_slli_epi32(high, 8), low), RESAMPLE_BITS);
}

/* One output pixel of two rows, a row per 128-bit lane: r, g, b and a stray value as 32-bit numbers. */
TARGET static inline __m256i output(const uint8_t *first, const uint8_t *second, const struct pairs *pairs, uint32_t groups)
{
    const __m256i taps01 = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, -1, 3, -1, 1, -1, 4, -1, 2, -1, 5, -1, -1, -1, -1, -1));
    const __m256i taps23 = _mm256_broadcastsi128_si256(_mm_setr_epi8(6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1));
    __m256i high = _mm256_setzero_si256(), low = _mm256_set1_epi32(RESAMPLE_ROUND);
    for (uint32_t g = 0; g < groups; g++) {
        __m256i pixels = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)first));
        pixels = _mm256_inserti128_si256(pixels, _mm_loadu_si128((const __m128i *)second), 1);
        __m256i values01 = _mm256_shuffle_epi8(pixels, taps01), values23 = _mm256_shuffle_epi8(pixels, taps23);
        high = add_pairs(add_pairs(high, values01, pairs[g].high01), values23, pairs[g].high23);
        low = add_pairs(add_pairs(low, values01, pairs[g].low01), values23, pairs[g].low23);
        first += RESAMPLE_GROUP * IMAGE_CHANNELS;
        second += RESAMPLE_GROUP * IMAGE_CHANNELS;
    }
    return combine(high, low);
}

TARGET static void two_rows(const struct resample_axis *axis, const uint8_t *first, const uint8_t *second, uint8_t *out, size_t out_stride)
{
    const __m256i drop_fourth = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const struct pairs *pairs = axis->packed;
    for (uint32_t x = 0; x < axis->count; x += 4, out += 4 * IMAGE_CHANNELS) {
        __m256i four[4];
        for (uint32_t i = 0; i < 4; i++, pairs += axis->groups) {
            size_t at = (size_t)axis->first[x + i] * IMAGE_CHANNELS;
            four[i] = output(first + at, second + at, pairs, axis->groups);
        }
        __m256i low = _mm256_packs_epi32(four[0], four[1]), high = _mm256_packs_epi32(four[2], four[3]);
        __m256i bytes = _mm256_shuffle_epi8(_mm256_packus_epi16(low, high), drop_fourth);
        _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(bytes));
        _mm_storeu_si128((__m128i *)(out + out_stride), _mm256_extracti128_si256(bytes, 1));
    }
}

static void horizontal(const struct resample_axis *axis, const uint8_t *source, size_t stride, uint32_t rows, uint8_t *out,
                       size_t out_stride)
{
    for (uint32_t y = 0; y < rows; y += 2)
        two_rows(axis, source + stride * y, source + stride * (y + 1 < rows ? y + 1 : y), out + out_stride * y, out_stride);
}

/* 32 bytes of one output row. */
TARGET static inline __m256i column_bytes(const uint8_t *from, size_t stride, const struct pairs *pairs, uint32_t groups)
{
    const __m256i zero = _mm256_setzero_si256(), round = _mm256_set1_epi32(RESAMPLE_ROUND);
    __m256i high[4] = {zero, zero, zero, zero}, low[4] = {round, round, round, round};
    for (uint32_t g = 0; g < groups; g++) {
        for (int half = 0; half < 2; half++, from += 2 * stride) {
            uint32_t weights_high = half ? pairs[g].high23 : pairs[g].high01, weights_low = half ? pairs[g].low23 : pairs[g].low01;
            __m256i a = _mm256_loadu_si256((const __m256i *)from), b = _mm256_loadu_si256((const __m256i *)(from + stride));
            __m256i ab_low = _mm256_unpacklo_epi8(a, b), ab_high = _mm256_unpackhi_epi8(a, b);
            __m256i ab[4] = {_mm256_unpacklo_epi8(ab_low, zero), _mm256_unpackhi_epi8(ab_low, zero),
                             _mm256_unpacklo_epi8(ab_high, zero), _mm256_unpackhi_epi8(ab_high, zero)};
            for (int i = 0; i < 4; i++) {
                high[i] = add_pairs(high[i], ab[i], weights_high);
                low[i] = add_pairs(low[i], ab[i], weights_low);
            }
        }
    }
    __m256i first = _mm256_packs_epi32(combine(high[0], low[0]), combine(high[1], low[1]));
    __m256i second = _mm256_packs_epi32(combine(high[2], low[2]), combine(high[3], low[3]));
    return _mm256_packus_epi16(first, second);
}

TARGET static void vertical(const struct resample_axis *axis, uint32_t index, const uint8_t *source, size_t stride, uint32_t bytes, uint8_t *out)
{
    const struct pairs *pairs = (const struct pairs *)axis->packed + (size_t)index * axis->groups;
    const uint8_t *top = source + stride * (size_t)axis->first[index];
    uint32_t x = 0;
    for (; x + 32 <= bytes; x += 32)
        _mm256_storeu_si256((__m256i *)(out + x), column_bytes(top + x, stride, pairs, axis->groups));
    if (x < bytes) {
        uint8_t rest[32];
        _mm256_storeu_si256((__m256i *)rest, column_bytes(top + x, stride, pairs, axis->groups));
        memcpy(out + x, rest, bytes - x);
    }
}

const struct resample_kernel resample_avx2 = {
    .packed_bytes = sizeof(struct pairs),
    .pack = pack,
    .horizontal = horizontal,
    .vertical = vertical,
};
#endif
