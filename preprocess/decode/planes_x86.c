/* planes_x86.c: pdep puts bits to their places, and pext takes them from there. A block's 64 magnitudes are made
 * together: with AVX2 and BMI2 (Haswell, Zen 3 and later) in two registers, with AVX-512 in one, which also puts them
 * in order. */
#if defined(__x86_64__)
#include <immintrin.h>

#include "preprocess/decode/planes_priv.h"

#define AVX2 __attribute__((target("bmi,bmi2,popcnt,avx2")))
#define AVX512 __attribute__((target("bmi,bmi2,popcnt,avx2,avx512f,avx512bw,avx512vl")))

AVX2 static PLANES_INLINE uint64_t deposit(uint64_t bits, uint64_t mask)
{
    return _pdep_u64(bits, mask);
}

AVX2 uint64_t planes_extract_bmi2(uint64_t bits, uint64_t mask)
{
    return _pext_u64(bits, mask);
}

/* If no u is longer than usual, a magnitude has seven bits at most. So it is a signed byte. */
_Static_assert(PLANES_USUAL_LENGTH + PLANES_SHIFT_MAX == 7, "signed bytes");

/* Returns 32 bytes: 0xff for each bit that is set in the mask, else 0. */
AVX2 static PLANES_INLINE __m256i spread(uint32_t mask)
{
    const __m256i which = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bits = _mm256_set1_epi64x((long long)0x8040201008040201);
    __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)mask), which);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bits), bits);
}

/* 32 places, from `first` on. */
AVX2 static PLANES_INLINE __m256i add_up(const struct planes_sorted *sorted, const struct planes_class *kind,
                                         uint32_t first)
{
    __m256i values = _mm256_setzero_si256(), unit = _mm256_loadu_si256((const __m256i *)(kind->units + first));
    for (uint32_t i = 0; i < PLANES_USUAL_LENGTH; i++) {
        values = _mm256_or_si256(values, _mm256_and_si256(spread((uint32_t)(sorted->high[i] >> first)), unit));
        unit = _mm256_add_epi8(unit, unit);
    }
    for (uint32_t i = 0; i < PLANES_SHIFT_MAX; i++)
        values = _mm256_or_si256(values, _mm256_and_si256(spread((uint32_t)(sorted->low[i] >> first)),
                                                          _mm256_set1_epi8((char)(1 << i))));
    __m256i negative = spread((uint32_t)(sorted->negative >> first));
    return _mm256_sub_epi8(_mm256_xor_si256(values, negative), negative);
}

AVX2 static PLANES_INLINE void put_avx2(const struct planes_sorted *sorted, const struct planes_class *kind,
                                        int16_t *block)
{
    int8_t made[PLANES_PLACES];
    if (sorted->n_high != PLANES_USUAL_LENGTH) {
        planes_put_lanes(sorted, kind, block);
        return;
    }
    _mm256_storeu_si256((__m256i *)made, add_up(sorted, kind, 0));
    _mm256_storeu_si256((__m256i *)(made + 32), add_up(sorted, kind, 32));
    memset(block, 0, PLANES_PLACES * sizeof *block);
    for (uint64_t left = sorted->nonzero; left; left &= left - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(left);
        block[planes_natural[place]] = made[place];
    }
}

AVX2 bool planes_read_avx2(struct planes_segment *segment, const struct planes_mcu *mcu, uint32_t skip, uint32_t column,
                           uint32_t count)
{
    return planes_read_with(segment, mcu, skip, column, count, deposit, put_avx2);
}

/* Adds 1 << bit to the values of the places that the mask names. */
AVX512 static PLANES_INLINE void add_bit(__m512i values[2], uint64_t mask, uint32_t bit)
{
    __m512i one = _mm512_set1_epi16((short)(1 << bit));
    values[0] = _mm512_mask_add_epi16(values[0], (__mmask32)mask, values[0], one);
    values[1] = _mm512_mask_add_epi16(values[1], (__mmask32)(mask >> 32), values[1], one);
}

/* Any values. */
AVX512 static PLANES_INLINE void put_words(const struct planes_sorted *sorted, const struct planes_class *kind,
                                           int16_t *block)
{
    __m512i values[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (uint32_t i = 0; i < sorted->n_high; i++)
        add_bit(values, sorted->high[i], i);
    values[0] = _mm512_sllv_epi16(values[0], _mm512_loadu_si512(kind->shifts));
    values[1] = _mm512_sllv_epi16(values[1], _mm512_loadu_si512(kind->shifts + 32));
    for (uint32_t i = 0; i < PLANES_SHIFT_MAX; i++)
        add_bit(values, sorted->low[i], i);
    __m512i zero = _mm512_setzero_si512();
    values[0] = _mm512_mask_sub_epi16(values[0], (__mmask32)sorted->negative, zero, values[0]);
    values[1] = _mm512_mask_sub_epi16(values[1], (__mmask32)(sorted->negative >> 32), zero, values[1]);
    _mm512_storeu_si512(block, _mm512_permutex2var_epi16(values[0], _mm512_load_si512(planes_zigzag), values[1]));
    _mm512_storeu_si512(block + 32,
                        _mm512_permutex2var_epi16(values[0], _mm512_load_si512(planes_zigzag + 32), values[1]));
}

AVX512 static PLANES_INLINE void put_bytes(const struct planes_sorted *sorted, const struct planes_class *kind,
                                           int16_t *block)
{
    __m512i values = _mm512_setzero_si512(), unit = _mm512_loadu_si512(kind->units);
    for (uint32_t i = 0; i < PLANES_USUAL_LENGTH; i++) {
        values = _mm512_mask_add_epi8(values, sorted->high[i], values, unit);
        unit = _mm512_add_epi8(unit, unit);
    }
    for (uint32_t i = 0; i < PLANES_SHIFT_MAX; i++)
        values = _mm512_mask_add_epi8(values, sorted->low[i], values, _mm512_set1_epi8((char)(1 << i)));
    values = _mm512_mask_sub_epi8(values, sorted->negative, _mm512_setzero_si512(), values);
    __m512i low = _mm512_cvtepi8_epi16(_mm512_castsi512_si256(values));
    __m512i high = _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(values, 1));
    _mm512_storeu_si512(block, _mm512_permutex2var_epi16(low, _mm512_load_si512(planes_zigzag), high));
    _mm512_storeu_si512(block + 32, _mm512_permutex2var_epi16(low, _mm512_load_si512(planes_zigzag + 32), high));
}

AVX512 static PLANES_INLINE void put_avx512(const struct planes_sorted *sorted, const struct planes_class *kind,
                                            int16_t *block)
{
    if (sorted->n_high == PLANES_USUAL_LENGTH)
        put_bytes(sorted, kind, block);
    else
        put_words(sorted, kind, block);
}

AVX512 bool planes_read_avx512(struct planes_segment *segment, const struct planes_mcu *mcu, uint32_t skip,
                               uint32_t column, uint32_t count)
{
    return planes_read_with(segment, mcu, skip, column, count, deposit, put_avx512);
}
#endif
