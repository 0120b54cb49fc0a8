/* planes_priv.h: what the ways to read planes share. */
#ifndef LARDER_PREPROCESS_DECODE_PLANES_PRIV_H
#define LARDER_PREPROCESS_DECODE_PLANES_PRIV_H

#include <string.h>

#include "preprocess/decode/planes.h"

#define PLANES_INLINE inline __attribute__((always_inline))

/* Where the places of a zigzag stand in a block. */
extern const uint8_t planes_natural[PLANES_PLACES];

typedef bool planes_read_fn(struct planes_segment *segment, const struct planes_mcu *mcu, uint32_t skip,
                            uint32_t column, uint32_t count);
planes_read_fn planes_read_portable, planes_read_bmi2, planes_read_avx512;

/* A block's bits, sorted: what its magnitudes are, by their bits, and which are negative. */
struct planes_sorted {
    uint64_t low[PLANES_SHIFT_MAX], high[PLANES_LENGTH_MAX]; /* high: bits of u */
    uint32_t n_low, n_high;
    uint64_t nonzero, negative;
};

/* The next 64 bits. Those behind the end of a segment are whatever stands there. */
static PLANES_INLINE uint64_t planes_look(const uint8_t *bytes, uint64_t at)
{
    uint64_t bits;
    uint32_t shift = at & 7;
    memcpy(&bits, bytes + (at >> 3), sizeof bits);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bits = __builtin_bswap64(bits);
#endif
    return bits >> shift | (uint64_t)bytes[(at >> 3) + 8] << 1 << (63 - shift);
}

/* Reads a block's fields. `deposit` puts the lowest bits of a word to the places of a mask. False: they are not
 * valid. */
static PLANES_INLINE bool planes_sort(struct planes_segment *segment, const struct planes_table *table,
                                      uint64_t (*deposit)(uint64_t bits, uint64_t mask), struct planes_sorted *sorted,
                                      const struct planes_class **class)
{
    const uint8_t *bytes = segment->bytes;
    uint64_t at = segment->at;
    if (at >= segment->end)
        return false;
    uint64_t head = planes_look(bytes, at);
    const struct planes_class *chosen = &table->classes[head & 3];
    uint64_t within = UINT64_MAX >> (63 - (head >> 2 & 63));
    at += 8;

    uint64_t nonzero = 0;
    sorted->n_low = chosen->n_low;
    for (uint32_t i = 0; i < chosen->n_low; i++) {
        uint64_t mask = within & chosen->low[i];
        sorted->low[i] = deposit(planes_look(bytes, at), mask);
        nonzero |= sorted->low[i];
        at += (uint64_t)__builtin_popcountll(mask);
    }

    uint64_t longer[PLANES_LENGTH_MAX + 1];
    uint32_t length = 0;
    longer[0] = deposit(planes_look(bytes, at), within);
    at += (uint64_t)__builtin_popcountll(within);
    nonzero |= longer[0];
    while (longer[length]) {
        if (length == PLANES_LENGTH_MAX - 1)
            return false;
        longer[length + 1] = deposit(planes_look(bytes, at), longer[length]);
        at += (uint64_t)__builtin_popcountll(longer[length]);
        length++;
    }

    sorted->n_high = length;
    for (uint32_t i = 0; i < length; i++) {
        sorted->high[i] = deposit(planes_look(bytes, at), longer[i + 1]) | (longer[i] & ~longer[i + 1]);
        at += (uint64_t)__builtin_popcountll(longer[i + 1]);
    }

    sorted->nonzero = nonzero;
    sorted->negative = deposit(planes_look(bytes, at), nonzero);
    at += (uint64_t)__builtin_popcountll(nonzero);
    segment->at = at;
    *class = chosen;
    return at <= segment->end;
}

/* Reads an MCU. `put` makes a block of what was sorted. */
static PLANES_INLINE bool planes_read_mcu(struct planes_segment *segment, const struct planes_mcu *mcu, int64_t column,
                                          int16_t *last_dc, uint64_t (*deposit)(uint64_t bits, uint64_t mask),
                                          void (*put)(const struct planes_sorted *sorted,
                                                      const struct planes_class *class, int16_t *block))
{
    int16_t nowhere[PLANES_PLACES];
    for (uint32_t p = 0; p < mcu->n_parts; p++) {
        const struct planes_part *part = &mcu->parts[p];
        for (uint32_t y = 0; y < part->height; y++) {
            int16_t *block = column < 0 ? nowhere : part->rows[y][(uint64_t)column * part->width];
            for (uint32_t x = 0; x < part->width; x++) {
                struct planes_sorted sorted;
                const struct planes_class *class;
                if (!planes_sort(segment, part->table, deposit, &sorted, &class))
                    return false;
                put(&sorted, class, block);
                block[0] = last_dc[p] = (int16_t)(block[0] + last_dc[p]);
                block += column < 0 ? 0 : PLANES_PLACES;
            }
        }
    }
    return true;
}

/* As planes_read. A segment is read from its beginning. */
static PLANES_INLINE bool planes_read_with(struct planes_segment *segment, const struct planes_mcu *mcu, uint32_t skip,
                                           uint32_t column, uint32_t count,
                                           uint64_t (*deposit)(uint64_t bits, uint64_t mask),
                                           void (*put)(const struct planes_sorted *sorted,
                                                       const struct planes_class *class, int16_t *block))
{
    int16_t last_dc[PLANES_PARTS_MAX] = {0};
    for (int64_t i = -(int64_t)skip; i < (int64_t)count; i++) {
        if (!planes_read_mcu(segment, mcu, i < 0 ? -1 : (int64_t)column + i, last_dc, deposit, put))
            return false;
    }
    return true;
}

/* Makes a block coefficient by coefficient. */
static PLANES_INLINE void planes_put_each(const struct planes_sorted *sorted, const struct planes_class *class,
                                          int16_t *block)
{
    memset(block, 0, PLANES_PLACES * sizeof *block);
    for (uint64_t left = sorted->nonzero; left; left &= left - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(left), value = 0;
        for (uint32_t i = sorted->n_high; i-- > 0;)
            value = value << 1 | (sorted->high[i] >> place & 1);
        value <<= class->shifts[place];
        for (uint32_t i = 0; i < sorted->n_low; i++)
            value |= (uint32_t)(sorted->low[i] >> place & 1) << i;
        block[planes_natural[place]] = (int16_t)(sorted->negative >> place & 1 ? -(int32_t)value : (int32_t)value);
    }
}

#endif
