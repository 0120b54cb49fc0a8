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
    for (uint32_t place = 0; place < PLANES_PLACES; place++) {
        lengths[place] = (uint8_t)planes_length(planes_magnitude(block[planes_natural[place]]));
        if (lengths[place])
            last = place;
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

static uint32_t cost_of_block(const struct planes_class *kind, const uint8_t *lengths, uint32_t last)
{
    uint32_t bits = cost(lengths[0], kind->dc_shift) + cost_of_last(kind->last_shift, last);
    for (uint32_t place = 1; place <= last; place++)
        bits += cost(lengths[place], kind->shifts[place]);
    bits -= last > 0 && kind->shifts[last] == 0;
    return bits;
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
    for (uint32_t round = 0; round < FIT_ROUNDS; round++) {
        for (uint32_t c = 0; c < PLANES_CLASSES; c++)
            fit_class(&table->classes[c], c, measured, n);
        for (size_t i = 0; i < n; i++)
            measured[i].kind = planes_best_class(table, measured[i].lengths, measured[i].last);
    }
    free(measured);
    for (uint32_t c = 0; c < PLANES_CLASSES; c++)
        planes_complete(&table->classes[c]);
    return true;
}
