/* resample_avx512.c: the resampler's inner loops for AVX-512 with VNNI (Cascade Lake, Ice Lake, Zen 4 and later).
 *
 * vpdpbusd multiplies four bytes by four signed bytes and adds up. So a 24-bit weight is split into three signed digits
 * of 8 bits, w = d0 + 256 d1 + 65536 d2, and each is summed on its own. The result is exact, and an instruction does
 * four taps of all channels. */
#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "preprocess/resample_priv.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))

struct digits {
    uint32_t d0, d1, d2; /* a byte for each of the group's four weights */
};

static void pack(const int32_t *weights, size_t groups, void *packed)
{
    struct digits *to = packed;
    for (size_t g = 0; g < groups; g++, weights += RESAMPLE_GROUP) {
        to[g] = (struct digits){0};
        for (int i = 0; i < RESAMPLE_GROUP; i++) {
            int32_t w = weights[i];
            int8_t d0 = (int8_t)w;
            w = (w - d0) >> 8;
            int8_t d1 = (int8_t)w;
            int8_t d2 = (int8_t)((w - d1) >> 8);
            to[g].d0 |= (uint32_t)(uint8_t)d0 << (8 * i);
            to[g].d1 |= (uint32_t)(uint8_t)d1 << (8 * i);
            to[g].d2 |= (uint32_t)(uint8_t)d2 << (8 * i);
        }
    }
}

TARGET static ALWAYS_INLINE __m512i combine(__m512i s0, __m512i s1, __m512i s2)
{
    __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(s2, 16), _mm512_slli_epi32(s1, 8));
    sum = _mm512_add_epi32(sum, s0);
    return _mm512_srai_epi32(sum, RESAMPLE_BITS);
}

/* One output pixel of four rows, a row per 128-bit lane: r, g, b and a stray value as 32-bit numbers. */
TARGET static ALWAYS_INLINE __m512i output(const uint8_t *const rows[RESAMPLE_ROWS], size_t at,
                                           const struct digits *digits, uint32_t groups)
{
    const __m512i by_channel = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
    __m512i s0 = _mm512_set1_epi32(RESAMPLE_ROUND), s1 = _mm512_setzero_si512(), s2 = _mm512_setzero_si512();
    for (uint32_t g = 0; g < groups; g++, at += RESAMPLE_GROUP * IMAGE_CHANNELS) {
        __m512i pixels = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(rows[0] + at)));
        pixels = _mm512_inserti32x4(pixels, _mm_loadu_si128((const __m128i *)(rows[1] + at)), 1);
        pixels = _mm512_inserti32x4(pixels, _mm_loadu_si128((const __m128i *)(rows[2] + at)), 2);
        pixels = _mm512_inserti32x4(pixels, _mm_loadu_si128((const __m128i *)(rows[3] + at)), 3);
        pixels = _mm512_shuffle_epi8(pixels, by_channel);
        s0 = _mm512_dpbusd_epi32(s0, pixels, _mm512_set1_epi32((int)digits[g].d0));
        s1 = _mm512_dpbusd_epi32(s1, pixels, _mm512_set1_epi32((int)digits[g].d1));
        s2 = _mm512_dpbusd_epi32(s2, pixels, _mm512_set1_epi32((int)digits[g].d2));
    }
    return combine(s0, s1, s2);
}

/* Called with constant `groups` for the common small counts, so that the compiler unrolls. */
TARGET static ALWAYS_INLINE void four_rows(const struct resample_axis *axis, const uint8_t *const rows[RESAMPLE_ROWS],
                                           uint8_t *out, size_t out_stride, uint32_t groups)
{
    const __m512i drop_fourth = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const struct digits *digits = axis->packed;
    const int32_t *first = axis->first;
    const uint8_t *const mine[RESAMPLE_ROWS] = {rows[0], rows[1], rows[2], rows[3]};
    for (uint32_t x = 0; x < axis->count; x += 4, out += 4 * IMAGE_CHANNELS, digits += 4 * groups) {
        __m512i p0 = output(mine, (size_t)first[x] * IMAGE_CHANNELS, digits, groups);
        __m512i p1 = output(mine, (size_t)first[x + 1] * IMAGE_CHANNELS, digits + groups, groups);
        __m512i p2 = output(mine, (size_t)first[x + 2] * IMAGE_CHANNELS, digits + 2 * groups, groups);
        __m512i p3 = output(mine, (size_t)first[x + 3] * IMAGE_CHANNELS, digits + 3 * groups, groups);
        __m512i low = _mm512_packs_epi32(p0, p1), high = _mm512_packs_epi32(p2, p3);
        __m512i bytes = _mm512_shuffle_epi8(_mm512_packus_epi16(low, high), drop_fourth);
        _mm_storeu_si128((__m128i *)out, _mm512_castsi512_si128(bytes));
        _mm_storeu_si128((__m128i *)(out + out_stride), _mm512_extracti32x4_epi32(bytes, 1));
        _mm_storeu_si128((__m128i *)(out + 2 * out_stride), _mm512_extracti32x4_epi32(bytes, 2));
        _mm_storeu_si128((__m128i *)(out + 3 * out_stride), _mm512_extracti32x4_epi32(bytes, 3));
    }
}

TARGET static void horizontal(const struct resample_axis *axis, const uint8_t *source, size_t stride, uint32_t rows,
                              uint8_t *out, size_t out_stride)
{
    for (uint32_t y = 0; y < rows; y += RESAMPLE_ROWS, out += out_stride * RESAMPLE_ROWS) {
        const uint8_t *four[RESAMPLE_ROWS];
        for (uint32_t i = 0; i < RESAMPLE_ROWS; i++)
            four[i] = source + stride * (y + i < rows ? y + i : rows - 1);
        if (axis->groups == 1)
            four_rows(axis, four, out, out_stride, 1);
        else if (axis->groups == 2)
            four_rows(axis, four, out, out_stride, 2);
        else
            four_rows(axis, four, out, out_stride, axis->groups);
    }
}

struct sums {
    __m512i s0, s1, s2;
};

TARGET static ALWAYS_INLINE void add(struct sums *sums, __m512i values, const struct digits *digits)
{
    sums->s0 = _mm512_dpbusd_epi32(sums->s0, values, _mm512_set1_epi32((int)digits->d0));
    sums->s1 = _mm512_dpbusd_epi32(sums->s1, values, _mm512_set1_epi32((int)digits->d1));
    sums->s2 = _mm512_dpbusd_epi32(sums->s2, values, _mm512_set1_epi32((int)digits->d2));
}

/* 64 bytes of one output row: the same byte of four rows goes into one 32-bit lane. */
TARGET static ALWAYS_INLINE __m512i column_bytes(const uint8_t *from, size_t stride, const struct digits *digits,
                                                 uint32_t groups)
{
    const struct sums start = {_mm512_set1_epi32(RESAMPLE_ROUND), _mm512_setzero_si512(), _mm512_setzero_si512()};
    struct sums q0 = start, q1 = start, q2 = start, q3 = start;
    for (uint32_t g = 0; g < groups; g++, from += stride * RESAMPLE_GROUP) {
        __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + stride);
        __m512i c = _mm512_loadu_si512(from + 2 * stride), d = _mm512_loadu_si512(from + 3 * stride);
        __m512i ab_low = _mm512_unpacklo_epi8(a, b), ab_high = _mm512_unpackhi_epi8(a, b);
        __m512i cd_low = _mm512_unpacklo_epi8(c, d), cd_high = _mm512_unpackhi_epi8(c, d);
        add(&q0, _mm512_unpacklo_epi16(ab_low, cd_low), &digits[g]);
        add(&q1, _mm512_unpackhi_epi16(ab_low, cd_low), &digits[g]);
        add(&q2, _mm512_unpacklo_epi16(ab_high, cd_high), &digits[g]);
        add(&q3, _mm512_unpackhi_epi16(ab_high, cd_high), &digits[g]);
    }
    __m512i low = _mm512_packs_epi32(combine(q0.s0, q0.s1, q0.s2), combine(q1.s0, q1.s1, q1.s2));
    __m512i high = _mm512_packs_epi32(combine(q2.s0, q2.s1, q2.s2), combine(q3.s0, q3.s1, q3.s2));
    return _mm512_packus_epi16(low, high);
}

TARGET static ALWAYS_INLINE void column(const uint8_t *top, size_t stride, const struct digits *digits, uint32_t groups,
                                        uint32_t bytes, uint8_t *out)
{
    uint32_t x = 0;
    for (; x + 64 <= bytes; x += 64)
        _mm512_storeu_si512(out + x, column_bytes(top + x, stride, digits, groups));
    if (x < bytes)
        _mm512_mask_storeu_epi8(out + x, ((__mmask64)1 << (bytes - x)) - 1,
                                column_bytes(top + x, stride, digits, groups));
}

TARGET static void vertical(const struct resample_axis *axis, uint32_t index, const uint8_t *source, size_t stride,
                            uint32_t bytes, uint8_t *out)
{
    const struct digits *digits = (const struct digits *)axis->packed + (size_t)index * axis->groups;
    const uint8_t *top = source + stride * (size_t)axis->first[index];
    if (axis->groups == 1)
        column(top, stride, digits, 1, bytes, out);
    else if (axis->groups == 2)
        column(top, stride, digits, 2, bytes, out);
    else
        column(top, stride, digits, axis->groups, bytes, out);
}

const struct resample_kernel resample_avx512 = {
    .packed_bytes = sizeof(struct digits),
    .pack = pack,
    .horizontal = horizontal,
    .vertical = vertical,
};
#endif
