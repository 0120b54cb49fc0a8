/* planes_fit.c: makes a table for an image. Blocks begin in classes by the sum of their lengths. Then two steps
 * alternate: each class gets the shifts that are best for its blocks, and each block goes to the class that is best for
 * it. */
#include <stdlib.h>

#include "preprocess/decode/planes_priv.h"

#define FIT_ROUNDS 6
#define SIZES (PLANES_LENGTH_MAX + 2) /* lengths of a magnitude: 0 to 11 bits, or more */

uint32_t planes_measure(const int16_t *block, uint8_t *lengths)
{
    uint32_t last = 0;
    memset(lengths, 0, PLANES_PLACES);
    for (uint64_t left = planes_nonzero(block); left; left &= left - 1) {
        uint32_t at = (uint32_t)__builtin_ctzll(left), place = planes_zigzag[at];
        lengths[place] = (uint8_t)planes_length(planes_magnitude(block[at]));
        last = place > last ? place : last;
    }
    return last;
}

/* The bits of a coefficient that is so long. */
static uint32_t cost(uint32_t length, uint32_t shift)
{
    uint32_t above = length > shift ? length - shift : 0;
    return shift + above + 1 + (above > 1 ? above - 1 : 0) + (length > 0);
}

static uint32_t cost_of_last(uint32_t shift, uint32_t last)
{
    return (last >> shift) + 1 + shift;
}

/* What the first `count` coefficients, or some zeros more, take beyond the bits of zeros. */
static uint32_t count_extra(const uint8_t *lengths, const uint8_t *shifts, uint32_t count)
{
    uint32_t bits = 0;
#ifdef __SSE2__
    const __m128i ones = _mm_set1_epi8(1), zeros = _mm_setzero_si128();
    for (uint32_t i = 0; i < count; i += 16) {
        __m128i length = _mm_loadu_si128((const __m128i *)(lengths + i));
        __m128i above = _mm_subs_epu8(length, _mm_loadu_si128((const __m128i *)(shifts + i)));
        __m128i all = _mm_add_epi8(_mm_add_epi8(above, _mm_subs_epu8(above, ones)), _mm_min_epu8(length, ones));
        __m128i sums = _mm_sad_epu8(all, zeros);
        bits += (uint32_t)_mm_cvtsi128_si32(sums) + (uint32_t)_mm_extract_epi16(sums, 4);
    }
#else
    for (uint32_t i = 0; i < count; i++)
        bits += cost(lengths[i], shifts[i]) - shifts[i] - 1;
#endif
    return bits;
}

/* Of a class that is complete. Behind the last place all lengths are 0. */
static uint32_t cost_of_block(const struct planes_class *kind, const uint8_t *lengths, uint32_t last)
{
    uint32_t bits = count_extra(lengths, kind->narrow, last + 1) - (cost(lengths[0], 0) - 1);
    bits += cost(lengths[0], kind->dc_shift) + cost_of_last(kind->last_shift, last) + kind->blank[last];
    return bits - (last > 0 && kind->shifts[last] == 0);
}

uint32_t planes_best_class(const struct planes_table *table, const uint8_t *lengths, uint32_t last)
{
    uint32_t best = 0, least = UINT32_MAX;
    for (uint32_t c = 0; c < PLANES_CLASSES; c++) {
        uint32_t bits = cost_of_block(&table->classes[c], lengths, last);
        if (bits < least)
            best = c, least = bits;
    }
    return best;
}

/* A block's measurements while a table is made. */
struct measured {
    uint8_t lengths[PLANES_PLACES];
    uint32_t last, sum, number, kind;
};

static int by_sum(const void *a, const void *b)
{
    uint32_t x = ((const struct measured *)a)->sum, y = ((const struct measured *)b)->sum;
    if (x == y) {
        x = ((const struct measured *)a)->number;
        y = ((const struct measured *)b)->number;
    }
    return x < y ? -1 : x > y;
}

/* Returns the best shift for magnitudes, from the number of magnitudes of each length. */
static uint32_t best_shift(const uint32_t counts[SIZES], uint32_t shift_max)
{
    uint32_t best = 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t shift = 0; shift <= shift_max; shift++) {
        uint64_t bits = 0;
        for (uint32_t length = 0; length < SIZES; length++)
            bits += (uint64_t)counts[length] * cost(length, shift);
        if (bits < least)
            best = shift, least = bits;
    }
    return best;
}

static uint32_t best_last_shift(uint32_t c, const struct measured *blocks, size_t n_blocks)
{
    uint32_t best = PLANES_LAST_SHIFT_MIN;
    uint64_t least = UINT64_MAX;
    for (uint32_t shift = PLANES_LAST_SHIFT_MIN; shift <= PLANES_LAST_SHIFT_MAX; shift++) {
        uint64_t bits = 0;
        for (size_t i = 0; i < n_blocks; i++)
            bits += blocks[i].kind == c ? cost_of_last(shift, blocks[i].last) : 0;
        if (bits < least)
            best = shift, least = bits;
    }
    return best;
}

/* The shifts that are best for the blocks of a class. */
static void fit_class(struct planes_class *kind, uint32_t c, const struct measured *blocks, size_t n_blocks)
{
    uint32_t counts[PLANES_PLACES][SIZES];
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < n_blocks; i++) {
        for (uint32_t place = 0; blocks[i].kind == c && place <= blocks[i].last; place++)
            counts[place][blocks[i].lengths[place] < SIZES ? blocks[i].lengths[place] : SIZES - 1]++;
    }
    kind->dc_shift = best_shift(counts[0], PLANES_DC_SHIFT_MAX);
    kind->last_shift = best_last_shift(c, blocks, n_blocks);
    for (uint32_t place = 1; place < PLANES_PLACES; place++)
        kind->shifts[place] = (uint16_t)best_shift(counts[place], PLANES_SHIFT_MAX);
    planes_complete(kind);
}

/* Puts each block into the class that is best for it. False: all of them were there. */
static bool classify(const struct planes_table *table, struct measured *blocks, size_t n_blocks)
{
    bool changed = false;
    for (size_t i = 0; i < n_blocks; i++) {
        uint32_t kind = planes_best_class(table, blocks[i].lengths, blocks[i].last);
        changed = changed || kind != blocks[i].kind;
        blocks[i].kind = kind;
    }
    return changed;
}

bool planes_fit(struct planes_table *table, const int16_t (*blocks)[PLANES_PLACES], size_t n)
{
    struct measured *measured = calloc(n ? n : 1, sizeof *measured);
    if (!measured)
        return false;
    memset(table, 0, sizeof *table);
    for (size_t i = 0; i < n; i++) {
        struct measured *one = &measured[i];
        one->number = (uint32_t)i;
        one->last = planes_measure(blocks[i], one->lengths);
        for (uint32_t place = 1; place < PLANES_PLACES; place++)
            one->sum += one->lengths[place];
    }
    qsort(measured, n, sizeof *measured, by_sum);
    for (size_t i = 0; i < n; i++)
        measured[i].kind = (uint32_t)(i * PLANES_CLASSES / n);
    bool changed = true;
    for (uint32_t round = 0; changed && round < FIT_ROUNDS; round++) {
        changed = round == 0 || classify(table, measured, n);
        for (uint32_t c = 0; changed && c < PLANES_CLASSES; c++)
            fit_class(&table->classes[c], c, measured, n);
    }
    free(measured);
    return true;
}
