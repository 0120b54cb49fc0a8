#include "preprocess/decode/jpeg_idct.h"

#include "common/check.h"
#include "preprocess/simd.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx2")))
#define INLINE inline __attribute__((always_inline))

#define SIDE 8
#define CONST_BITS 13
#define PASS1_BITS 2
#define FIRST_SHIFT (CONST_BITS - PASS1_BITS)
#define SECOND_SHIFT (CONST_BITS + PASS1_BITS + 3)
/* Dequantised DC coefficients that the first pass keeps in 16 bits. Those of a photograph are below 1,024. */
#define DC_MAX (1 << 13)

/* Loeffler, Ligtenberg and Moschytz's factors, with 13 fractional bits. */
#define F_0_298 2446
#define F_0_390 3196
#define F_0_541 4433
#define F_0_765 6270
#define F_0_899 7373
#define F_1_175 9633
#define F_1_501 12299
#define F_1_847 15137
#define F_1_961 16069
#define F_2_053 16819
#define F_2_562 20995
#define F_3_072 25172

/* Eight rows of eight 16-bit numbers, of one block in each half of a register. Rows have names, and no function goes
 * through them in a loop, since gcc would keep an array of them in memory. */
struct rows {
    __m256i r0, r1, r2, r3, r4, r5, r6, r7;
};

/* Eight 32-bit numbers a block: of columns 0 to 3, and 4 to 7. */
struct wide {
    __m256i low, high;
};

TARGET static INLINE __m256i factors(int a, int b)
{
    return _mm256_set1_epi32((int)((uint32_t)(uint16_t)a | (uint32_t)(uint16_t)b << 16));
}

/* a · factor a + b · factor b. */
TARGET static INLINE struct wide weigh(__m256i a, __m256i b, __m256i by)
{
    return (struct wide){_mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), by),
                         _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), by)};
}

/* a · 2^CONST_BITS, and half a unit of what the pass leaves. */
TARGET static INLINE struct wide widen(__m256i a, int shift)
{
    __m256i none = _mm256_setzero_si256(), half = _mm256_set1_epi32(1 << (shift - 1));
    __m256i low = _mm256_srai_epi32(_mm256_unpacklo_epi16(none, a), 16 - CONST_BITS);
    __m256i high = _mm256_srai_epi32(_mm256_unpackhi_epi16(none, a), 16 - CONST_BITS);
    return (struct wide){_mm256_add_epi32(low, half), _mm256_add_epi32(high, half)};
}

TARGET static INLINE struct wide plus(struct wide a, struct wide b)
{
    return (struct wide){_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
}

TARGET static INLINE struct wide minus(struct wide a, struct wide b)
{
    return (struct wide){_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
}

TARGET static INLINE __m256i descale(struct wide a, int shift)
{
    return _mm256_packs_epi32(_mm256_srai_epi32(a.low, shift), _mm256_srai_epi32(a.high, shift));
}

/* The even part's and the odd part's sums, of which rows 0 and 7, 1 and 6, 2 and 5, 3 and 4 are made. */
struct parts {
    struct wide even0, even1, even2, even3, odd0, odd1, odd2, odd3;
};

TARGET static INLINE struct rows join(struct parts parts, int shift)
{
    return (struct rows){
        .r0 = descale(plus(parts.even0, parts.odd0), shift),
        .r1 = descale(plus(parts.even1, parts.odd1), shift),
        .r2 = descale(plus(parts.even2, parts.odd2), shift),
        .r3 = descale(plus(parts.even3, parts.odd3), shift),
        .r4 = descale(minus(parts.even3, parts.odd3), shift),
        .r5 = descale(minus(parts.even2, parts.odd2), shift),
        .r6 = descale(minus(parts.even1, parts.odd1), shift),
        .r7 = descale(minus(parts.even0, parts.odd0), shift),
    };
}

/* One dimension of all columns. The 16-bit sums may overflow, as libjpeg-turbo's do. */
TARGET static INLINE struct rows transform(struct rows in, int shift)
{
    struct wide sum = widen(_mm256_add_epi16(in.r0, in.r4), shift);
    struct wide difference = widen(_mm256_sub_epi16(in.r0, in.r4), shift);
    struct wide two = weigh(in.r2, in.r6, factors(F_0_541, F_0_541 - F_1_847));
    struct wide six = weigh(in.r2, in.r6, factors(F_0_541 + F_0_765, F_0_541));
    __m256i z3 = _mm256_add_epi16(in.r7, in.r3), z4 = _mm256_add_epi16(in.r5, in.r1);
    struct wide three = weigh(z3, z4, factors(F_1_175 - F_1_961, F_1_175));
    struct wide four = weigh(z3, z4, factors(F_1_175, F_1_175 - F_0_390));
    struct parts parts = {
        .even0 = plus(sum, six),
        .even1 = plus(difference, two),
        .even2 = minus(difference, two),
        .even3 = minus(sum, six),
        .odd0 = plus(four, weigh(in.r7, in.r1, factors(-F_0_899, F_1_501 - F_0_899))),
        .odd1 = plus(three, weigh(in.r5, in.r3, factors(-F_2_562, F_3_072 - F_2_562))),
        .odd2 = plus(four, weigh(in.r5, in.r3, factors(F_2_053 - F_2_562, -F_2_562))),
        .odd3 = plus(three, weigh(in.r7, in.r1, factors(F_0_298 - F_0_899, -F_0_899))),
    };
    return join(parts, shift);
}

/* The same where rows 4 to 7 are zero. */
TARGET static INLINE struct rows transform_half(struct rows in, int shift)
{
    __m256i none = _mm256_setzero_si256();
    struct wide dc = widen(in.r0, shift);
    struct wide two = weigh(in.r2, none, factors(F_0_541, 0)), six = weigh(in.r2, none, factors(F_0_541 + F_0_765, 0));
    struct parts parts = {
        .even0 = plus(dc, six),
        .even1 = plus(dc, two),
        .even2 = minus(dc, two),
        .even3 = minus(dc, six),
        .odd0 = weigh(in.r3, in.r1, factors(F_1_175, F_1_501 - F_0_899 + F_1_175 - F_0_390)),
        .odd1 = weigh(in.r3, in.r1, factors(F_3_072 - F_2_562 + F_1_175 - F_1_961, F_1_175)),
        .odd2 = weigh(in.r3, in.r1, factors(F_1_175 - F_2_562, F_1_175 - F_0_390)),
        .odd3 = weigh(in.r3, in.r1, factors(F_1_175 - F_1_961, F_1_175 - F_0_899)),
    };
    return join(parts, shift);
}

TARGET static INLINE struct rows transpose(struct rows in)
{
    __m256i a0 = _mm256_unpacklo_epi16(in.r0, in.r1), a1 = _mm256_unpackhi_epi16(in.r0, in.r1);
    __m256i a2 = _mm256_unpacklo_epi16(in.r2, in.r3), a3 = _mm256_unpackhi_epi16(in.r2, in.r3);
    __m256i a4 = _mm256_unpacklo_epi16(in.r4, in.r5), a5 = _mm256_unpackhi_epi16(in.r4, in.r5);
    __m256i a6 = _mm256_unpacklo_epi16(in.r6, in.r7), a7 = _mm256_unpackhi_epi16(in.r6, in.r7);
    __m256i b0 = _mm256_unpacklo_epi32(a0, a2), b1 = _mm256_unpackhi_epi32(a0, a2);
    __m256i b2 = _mm256_unpacklo_epi32(a1, a3), b3 = _mm256_unpackhi_epi32(a1, a3);
    __m256i b4 = _mm256_unpacklo_epi32(a4, a6), b5 = _mm256_unpackhi_epi32(a4, a6);
    __m256i b6 = _mm256_unpacklo_epi32(a5, a7), b7 = _mm256_unpackhi_epi32(a5, a7);
    return (struct rows){
        .r0 = _mm256_unpacklo_epi64(b0, b4),
        .r1 = _mm256_unpackhi_epi64(b0, b4),
        .r2 = _mm256_unpacklo_epi64(b1, b5),
        .r3 = _mm256_unpackhi_epi64(b1, b5),
        .r4 = _mm256_unpacklo_epi64(b2, b6),
        .r5 = _mm256_unpackhi_epi64(b2, b6),
        .r6 = _mm256_unpacklo_epi64(b3, b7),
        .r7 = _mm256_unpackhi_epi64(b3, b7),
    };
}

/* Four rows of samples of each block, two in each of the numbers. */
TARGET static INLINE void store_four(__m256i upper, __m256i lower, uint8_t *first, uint8_t *second, size_t stride)
{
    __m128i a = _mm256_castsi256_si128(upper), b = _mm256_castsi256_si128(lower);
    __m128i c = _mm256_extracti128_si256(upper, 1), d = _mm256_extracti128_si256(lower, 1);
    _mm_storel_epi64((__m128i *)first, a);
    _mm_storeh_pi((__m64 *)(first + stride), _mm_castsi128_ps(a));
    _mm_storel_epi64((__m128i *)(first + 2 * stride), b);
    _mm_storeh_pi((__m64 *)(first + 3 * stride), _mm_castsi128_ps(b));
    _mm_storel_epi64((__m128i *)second, c);
    _mm_storeh_pi((__m64 *)(second + stride), _mm_castsi128_ps(c));
    _mm_storel_epi64((__m128i *)(second + 2 * stride), d);
    _mm_storeh_pi((__m64 *)(second + 3 * stride), _mm_castsi128_ps(d));
}

/* Columns as bytes, which are transposed on the way, and stored. */
TARGET static INLINE void store(struct rows columns, uint8_t *first, uint8_t *second, size_t stride)
{
    __m256i center = _mm256_set1_epi8((char)128);
    __m256i c04 = _mm256_add_epi8(_mm256_packs_epi16(columns.r0, columns.r4), center);
    __m256i c15 = _mm256_add_epi8(_mm256_packs_epi16(columns.r1, columns.r5), center);
    __m256i c26 = _mm256_add_epi8(_mm256_packs_epi16(columns.r2, columns.r6), center);
    __m256i c37 = _mm256_add_epi8(_mm256_packs_epi16(columns.r3, columns.r7), center);
    __m256i c01 = _mm256_unpacklo_epi8(c04, c15), c45 = _mm256_unpackhi_epi8(c04, c15);
    __m256i c23 = _mm256_unpacklo_epi8(c26, c37), c67 = _mm256_unpackhi_epi8(c26, c37);
    /* Of rows 0 to 3, and 4 to 7. */
    __m256i left = _mm256_unpacklo_epi16(c01, c23), right = _mm256_unpacklo_epi16(c45, c67);
    __m256i left_below = _mm256_unpackhi_epi16(c01, c23), right_below = _mm256_unpackhi_epi16(c45, c67);
    store_four(_mm256_unpacklo_epi32(left, right), _mm256_unpackhi_epi32(left, right), first, second, stride);
    store_four(_mm256_unpacklo_epi32(left_below, right_below), _mm256_unpackhi_epi32(left_below, right_below),
               first + 4 * stride, second + 4 * stride, stride);
}

TARGET static INLINE __m256i load(const int16_t *first, const int16_t *second, int row)
{
    __m256i both = _mm256_castsi128_si256(_mm_load_si128((const __m128i *)(first + SIDE * row)));
    return _mm256_inserti128_si256(both, _mm_load_si128((const __m128i *)(second + SIDE * row)), 1);
}

TARGET static INLINE bool is_zero(__m256i a, __m256i b, __m256i c, __m256i d)
{
    __m256i any = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
    return _mm256_testz_si256(any, any);
}

/* The second pass, and the samples. */
TARGET static INLINE void finish(struct rows rows, uint8_t *first, uint8_t *second, size_t stride)
{
    struct rows columns = transpose(rows);
    if (is_zero(columns.r4, columns.r5, columns.r6, columns.r7))
        store(transform_half(columns, SECOND_SHIFT), first, second, stride);
    else
        store(transform(columns, SECOND_SHIFT), first, second, stride);
}

TARGET static INLINE __m256i dequantise(__m256i row, const uint16_t *quantisers)
{
    return _mm256_mullo_epi16(row, _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)quantisers)));
}

/* Where the AC coefficients of all columns are zero, libjpeg-turbo lets a DC coefficient overflow in the first pass,
 * and else not. So blocks with one that large, which no photograph has, are made each for itself. */
TARGET static INLINE bool overflows(__m256i dc)
{
    __m256i over = _mm256_cmpgt_epi16(dc, _mm256_set1_epi16(DC_MAX - 1));
    __m256i under = _mm256_cmpgt_epi16(_mm256_set1_epi16(-DC_MAX), dc);
    __m256i any = _mm256_or_si256(over, under);
    return !_mm256_testz_si256(any, any);
}

TARGET static void make_pair(const int16_t *a, const int16_t *b, const uint16_t *quantisers, uint8_t *first,
                             uint8_t *second, size_t stride)
{
    struct rows in = {load(a, b, 0), load(a, b, 1), load(a, b, 2), load(a, b, 3),
                      load(a, b, 4), load(a, b, 5), load(a, b, 6), load(a, b, 7)};
    in.r0 = dequantise(in.r0, quantisers);
    if (__builtin_expect(overflows(in.r0) && a != b, 0)) {
        make_pair(a, a, quantisers, first, first, stride);
        make_pair(b, b, quantisers, second, second, stride);
        return;
    }
    bool half = is_zero(in.r4, in.r5, in.r6, in.r7);
    if (half && is_zero(in.r1, in.r2, in.r3, in.r3)) {
        __m256i dc = _mm256_slli_epi16(in.r0, PASS1_BITS);
        finish((struct rows){dc, dc, dc, dc, dc, dc, dc, dc}, first, second, stride);
        return;
    }
    in.r1 = dequantise(in.r1, quantisers + SIDE);
    in.r2 = dequantise(in.r2, quantisers + 2 * SIDE);
    in.r3 = dequantise(in.r3, quantisers + 3 * SIDE);
    if (half) {
        finish(transform_half(in, FIRST_SHIFT), first, second, stride);
        return;
    }
    in.r4 = dequantise(in.r4, quantisers + 4 * SIDE);
    in.r5 = dequantise(in.r5, quantisers + 5 * SIDE);
    in.r6 = dequantise(in.r6, quantisers + 6 * SIDE);
    in.r7 = dequantise(in.r7, quantisers + 7 * SIDE);
    finish(transform(in, FIRST_SHIFT), first, second, stride);
}

#else
static void make_pair(const int16_t *a, const int16_t *b, const uint16_t *quantisers, uint8_t *first, uint8_t *second,
                      size_t stride)
{
    (void)a, (void)b, (void)quantisers, (void)first, (void)second, (void)stride;
    CHECK(!"jpeg_idct_is_there was asked");
}
#endif

bool jpeg_idct_is_there(void)
{
    return simd_selected() != SIMD_PORTABLE;
}

void jpeg_idct_pair(const int16_t *first_block, const int16_t *second_block, const uint16_t *quantisers, uint8_t *first,
                    uint8_t *second, size_t stride)
{
    make_pair(first_block, second_block, quantisers, first, second, stride);
}
