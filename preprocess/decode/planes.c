#include "preprocess/decode/planes.h"

#include <stdlib.h>
#include <string.h>

#include "common/little_endian.h"
#include "preprocess/decode/planes_priv.h"

#define FIT_ROUNDS 6
#define SIZES (PLANES_LENGTH_MAX + 2) /* lengths of a magnitude: 0 to 11 bits, or more */

const uint8_t planes_natural[PLANES_PLACES] = {0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
                                               12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
                                               35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
                                               58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

/* ── reading ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static planes_read_fn *read_mcus = planes_read_portable;

/* Before Zen 3, pdep takes hundreds of cycles. */
static planes_read_fn *available(enum planes_simd simd)
{
#if defined(__x86_64__)
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && !__builtin_cpu_is("znver1") &&
                !__builtin_cpu_is("znver2");
    if (simd == PLANES_AVX512 && avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        return planes_read_avx512;
    if (simd == PLANES_AVX2 && avx2)
        return planes_read_avx2;
#endif
    return simd == PLANES_PORTABLE ? planes_read_portable : NULL;
}

bool planes_use(enum planes_simd simd)
{
    planes_read_fn *wanted = available(simd);
    if (!wanted)
        return false;
    read_mcus = wanted;
    return true;
}

void planes_select(void)
{
    for (int simd = PLANES_SIMDS - 1; simd >= 0; simd--) {
        if (planes_use((enum planes_simd)simd))
            return;
    }
}

bool planes_read(struct planes_segment *segment, const struct planes_mcu *mcu, uint32_t skip, uint32_t column,
                 uint32_t count)
{
    return read_mcus(segment, mcu, skip, column, count);
}

bool planes_done(const struct planes_segment *segment)
{
    uint64_t left = segment->end - segment->at;
    return segment->at <= segment->end && left < 8 &&
           (left == 0 || segment->bytes[segment->at >> 3] >> (segment->at & 7) == 0);
}

/* ── tables ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void complete(struct planes_class *class)
{
    memset(class->low, 0, sizeof class->low);
    class->low[0] = 1;
    for (uint32_t place = 0; place < PLANES_PLACES; place++) {
        class->units[place] = (uint8_t)(1u << class->shifts[place]);
        for (uint32_t i = 0; i < class->shifts[place]; i++)
            class->low[i] |= UINT64_C(1) << place;
    }
}

bool planes_table_read(struct planes_table *table, const uint8_t *bytes)
{
    for (uint32_t c = 0; c < PLANES_CLASSES; c++) {
        struct planes_class *class = &table->classes[c];
        class->last_shift = *bytes++;
        class->dc_shift = bytes[0] & 15;
        if (class->last_shift < PLANES_LAST_SHIFT_MIN || class->last_shift > PLANES_LAST_SHIFT_MAX ||
            class->dc_shift > PLANES_DC_SHIFT_MAX)
            return false;
        for (uint32_t place = 0; place < PLANES_PLACES; place++) {
            class->shifts[place] = place ? bytes[place / 2] >> place % 2 * 4 & 15 : 0;
            if (class->shifts[place] > PLANES_SHIFT_MAX)
                return false;
        }
        bytes += PLANES_PLACES / 2;
        complete(class);
    }
    return true;
}

void planes_table_write(const struct planes_table *table, uint8_t *bytes)
{
    memset(bytes, 0, PLANES_TABLE_BYTES);
    for (uint32_t c = 0; c < PLANES_CLASSES; c++) {
        const struct planes_class *class = &table->classes[c];
        *bytes++ = (uint8_t) class->last_shift;
        bytes[0] = (uint8_t) class->dc_shift;
        for (uint32_t place = 1; place < PLANES_PLACES; place++)
            bytes[place / 2] |= (uint8_t)(class->shifts[place] << place % 2 * 4);
        bytes += PLANES_PLACES / 2;
    }
}

/* ── writing ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint32_t length_of(uint32_t value)
{
    return value ? 32 - (uint32_t)__builtin_clz(value) : 0;
}

static uint32_t magnitude_of(int16_t value)
{
    return (uint32_t)(value < 0 ? -(int32_t)value : value);
}

/* A block's lengths, in zigzag order; gives the last place that is not zero, or 0. */
static uint32_t measure(const int16_t *block, uint8_t *lengths)
{
    uint32_t last = 0;
    for (uint32_t place = 0; place < PLANES_PLACES; place++) {
        lengths[place] = (uint8_t)length_of(magnitude_of(block[planes_natural[place]]));
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

static uint32_t cost_of_block(const struct planes_class *class, const uint8_t *lengths, uint32_t last)
{
    uint32_t bits = cost(lengths[0], class->dc_shift) + cost_of_last(class->last_shift, last);
    for (uint32_t place = 1; place <= last; place++)
        bits += cost(lengths[place], class->shifts[place]);
    bits -= last > 0 && class->shifts[last] == 0;
    return bits;
}

static uint32_t best_class(const struct planes_table *table, const uint8_t *lengths, uint32_t last)
{
    uint32_t best = 0, least = UINT32_MAX;
    for (uint32_t c = 0; c < PLANES_CLASSES; c++) {
        uint32_t bits = cost_of_block(&table->classes[c], lengths, last);
        if (bits < least)
            best = c, least = bits;
    }
    return best;
}

/* What is known of a block while a table is made. */
struct measured {
    uint8_t lengths[PLANES_PLACES];
    uint32_t last, sum, class;
};

static int by_sum(const void *a, const void *b)
{
    uint32_t x = ((const struct measured *)a)->sum, y = ((const struct measured *)b)->sum;
    return x < y ? -1 : x > y;
}

/* The shift that is best for magnitudes, of which so many have each length. */
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
            bits += blocks[i].class == c ? cost_of_last(shift, blocks[i].last) : 0;
        if (bits < least)
            best = shift, least = bits;
    }
    return best;
}

/* The shifts that are best for the blocks of a class. */
static void fit_class(struct planes_class *class, uint32_t c, const struct measured *blocks, size_t n_blocks)
{
    uint32_t counts[PLANES_PLACES][SIZES];
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < n_blocks; i++) {
        for (uint32_t place = 0; blocks[i].class == c && place <= blocks[i].last; place++)
            counts[place][blocks[i].lengths[place] < SIZES ? blocks[i].lengths[place] : SIZES - 1]++;
    }
    class->dc_shift = best_shift(counts[0], PLANES_DC_SHIFT_MAX);
    class->last_shift = best_last_shift(c, blocks, n_blocks);
    for (uint32_t place = 1; place < PLANES_PLACES; place++)
        class->shifts[place] = (uint16_t)best_shift(counts[place], PLANES_SHIFT_MAX);
}

void planes_fit(struct planes_table *table, const int16_t (*blocks)[PLANES_PLACES], size_t n)
{
    struct measured *measured = calloc(n ? n : 1, sizeof *measured);
    memset(table, 0, sizeof *table);
    for (size_t i = 0; measured && i < n; i++) {
        struct measured *one = &measured[i];
        one->last = measure(blocks[i], one->lengths);
        for (uint32_t place = 1; place < PLANES_PLACES; place++)
            one->sum += one->lengths[place];
    }
    if (measured)
        qsort(measured, n, sizeof *measured, by_sum);
    for (size_t i = 0; measured && i < n; i++)
        measured[i].class = (uint32_t)(i * PLANES_CLASSES / n);
    for (uint32_t round = 0; measured && round < FIT_ROUNDS; round++) {
        for (uint32_t c = 0; c < PLANES_CLASSES; c++)
            fit_class(&table->classes[c], c, measured, n);
        for (size_t i = 0; i < n; i++)
            measured[i].class = best_class(table, measured[i].lengths, measured[i].last);
    }
    free(measured);
    for (uint32_t c = 0; c < PLANES_CLASSES; c++)
        complete(&table->classes[c]);
}

static void put_bits(struct planes_writer *writer, uint64_t bits, uint32_t count)
{
    uint8_t *to = writer->bytes + (writer->at >> 3);
    uint32_t shift = writer->at & 7;
    bits &= count < 64 ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
    put_u64(to, get_u64(to) | bits << shift);
    to[8] |= (uint8_t)(bits >> 1 >> (63 - shift));
    writer->at += count;
}

/* Writes the bits of a plane that a mask names. */
static void put_plane(struct planes_writer *writer, uint64_t plane, uint64_t mask)
{
    uint64_t bits = 0;
    uint32_t count = 0;
    for (; mask; mask &= mask - 1)
        bits |= (plane >> __builtin_ctzll(mask) & 1) << count++;
    put_bits(writer, bits, count);
}

static void put_ones(struct planes_writer *writer, uint32_t count)
{
    put_bits(writer, (UINT64_C(1) << count) - 1, count + 1);
}

static void put_head(struct planes_writer *writer, const struct planes_class *class, uint32_t c, uint32_t last,
                     int16_t dc)
{
    uint32_t magnitude = magnitude_of(dc), above = magnitude >> class->dc_shift, length = length_of(above);
    put_bits(writer, c, PLANES_CLASS_BITS);
    put_ones(writer, length);
    put_ones(writer, last >> class->last_shift);
    put_bits(writer, last, class->last_shift);
    put_bits(writer, magnitude, class->dc_shift);
    put_bits(writer, above, length > 0 ? length - 1 : 0);
    put_bits(writer, dc<0, magnitude> 0);
}

bool planes_write(struct planes_writer *writer, const struct planes_table *table, const int16_t *block)
{
    uint8_t lengths[PLANES_PLACES];
    uint32_t last = measure(block, lengths), c = best_class(table, lengths, last), longest = 0;
    const struct planes_class *class = &table->classes[c];
    uint64_t within = (UINT64_C(2) << last) - 2, nonzero = 0, negative = 0;
    uint64_t low[PLANES_SHIFT_MAX] = {0}, high[PLANES_LENGTH_MAX] = {0}, longer[PLANES_LENGTH_MAX + 1] = {0};
    if (lengths[0] > PLANES_LENGTH_MAX)
        return false;
    for (uint32_t place = 1; place <= last; place++) {
        int16_t value = block[planes_natural[place]];
        uint32_t magnitude = magnitude_of(value), above = magnitude >> class->shifts[place];
        uint64_t bit = UINT64_C(1) << place;
        if (lengths[place] > PLANES_LENGTH_MAX)
            return false;
        nonzero |= value ? bit : 0;
        negative |= value < 0 ? bit : 0;
        for (uint32_t i = 0; i < class->shifts[place]; i++)
            low[i] |= magnitude >> i & 1 ? bit : 0;
        for (uint32_t i = 0; i < length_of(above); i++) {
            high[i] |= above >> i & 1 ? bit : 0;
            longer[i] |= bit;
        }
        if (length_of(above) > longest)
            longest = length_of(above);
    }
    put_head(writer, class, c, last, block[0]);
    for (uint32_t i = 0; i < PLANES_SHIFT_MAX; i++)
        put_plane(writer, low[i], within & class->low[i]);
    put_plane(writer, longer[0], within & ~planes_known(class, within));
    for (uint32_t i = 0; longer[i]; i++)
        put_plane(writer, longer[i + 1], longer[i]);
    for (uint32_t i = 0; i < longest; i++)
        put_plane(writer, high[i], longer[i + 1]);
    put_plane(writer, negative, nonzero);
    return true;
}
