/* planes_priv.h: what the ways to read planes share. */
#ifndef LARDER_PREPROCESS_DECODE_PLANES_PRIV_H
#define LARDER_PREPROCESS_DECODE_PLANES_PRIV_H

#include <endian.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "common/little_endian.h"
#include "preprocess/decode/planes.h"

#define PLANES_INLINE inline __attribute__((always_inline))

/* The places of a zigzag in a block. */
extern const uint8_t planes_natural[PLANES_PLACES];
/* And the place that each of a block has in the zigzag. */
extern const uint16_t planes_zigzag[PLANES_PLACES];

typedef bool planes_read_fn(struct planes_segment *segment, const struct planes_mcu *mcu, uint32_t skip,
                            uint32_t column, uint32_t count);
planes_read_fn planes_read_portable, planes_read_avx2, planes_read_avx512;

/* Takes the bits that a mask names, and puts them side by side: a plane's field. The version that planes_use chose. */
typedef uint64_t planes_extract_fn(uint64_t bits, uint64_t mask);
planes_extract_fn planes_extract_portable, planes_extract_bmi2;
extern planes_extract_fn *planes_extract;

/* planes_complete fills in what follows from a class's shifts. */
void planes_complete(struct planes_class *kind);
/* planes_measure returns a block's lengths, in zigzag order, and the last place that is not zero, or 0. */
uint32_t planes_measure(const int16_t *block, uint8_t *lengths);
/* planes_best_class returns the class with which such a block takes the fewest bits. */
uint32_t planes_best_class(const struct planes_table *table, const uint8_t *lengths, uint32_t last);

/* planes_gather makes a mask of one bit of each of 64 bytes. */
static PLANES_INLINE uint64_t planes_gather(const uint8_t bytes[PLANES_PLACES], uint32_t bit)
{
    uint64_t mask = 0;
#ifdef __SSE2__
    for (uint32_t i = 0; i < PLANES_PLACES; i += 16) {
        __m128i here = _mm_loadu_si128((const __m128i *)(bytes + i));
        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_slli_epi16(here, (int)(7 - bit))) << i;
    }
#else
    for (uint32_t i = 0; i < PLANES_PLACES; i += 8) {
        uint64_t bits = get_u64(bytes + i) >> bit & UINT64_C(0x0101010101010101);
        mask |= bits * UINT64_C(0x0102040810204080) >> 56 << i; /* the product has them side by side */
    }
#endif
    return mask;
}

/* planes_nonzero says which coefficients of a block, in natural order, are not zero. */
static inline uint64_t planes_nonzero(const int16_t *block)
{
    uint8_t nonzero[PLANES_PLACES];
    for (uint32_t i = 0; i < PLANES_PLACES; i++)
        nonzero[i] = block[i] != 0;
    return planes_gather(nonzero, 0);
}

static inline uint32_t planes_length(uint32_t value)
{
    return value ? 32 - (uint32_t)__builtin_clz(value) : 0;
}

static inline uint32_t planes_magnitude(int16_t value)
{
    return (uint32_t)(value < 0 ? -(int32_t)value : value);
}

#define PLANES_CLASS_BITS 2
/* A look returns this many bits at least, … */
#define PLANES_LOOK_BITS 57
/* … so it has any field whole up to this last place. */
#define PLANES_NARROW_LAST 57
/* Nearly all u are not longer. */
#define PLANES_USUAL_LENGTH 3

/* All fields of a block, whatever they are, and a look at what follows. */
_Static_assert((PLANES_LOOK_BITS + (PLANES_PLACES - 1) * (PLANES_SHIFT_MAX + 2 * PLANES_LENGTH_MAX + 2)) / 8 + 9 <
                   PLANES_SLACK_BYTES,
               "a block's fields");

/* A block's bits, sorted: what its magnitudes are, by their bits, and which are negative. */
struct planes_sorted {
    uint64_t low[PLANES_SHIFT_MAX], high[PLANES_LENGTH_MAX]; /* high: bits of u */
    uint32_t n_high;                                         /* PLANES_USUAL_LENGTH, or more */
    uint64_t nonzero, negative;
};

/* The next bits. Those behind the end of a segment are whatever stands there. wide: all of 64. */
static PLANES_INLINE uint64_t planes_look(const uint8_t *bytes, uint64_t at, bool wide)
{
    uint64_t bits;
    uint32_t shift = at & 7;
    memcpy(&bits, bytes + (at >> 3), sizeof bits);
    bits = le64toh(bits) >> shift;
    return wide ? bits | (uint64_t)bytes[(at >> 3) + 8] << 1 << (63 - shift) : bits;
}

static PLANES_INLINE uint64_t planes_count(uint64_t mask)
{
    return (uint64_t)__builtin_popcountll(mask);
}

typedef uint64_t planes_deposit_fn(uint64_t bits, uint64_t mask);
typedef void planes_put_fn(const struct planes_sorted *sorted, const struct planes_class *kind, int16_t *block);

/* Returns the last of the places `within`, if it is known that its u is not 0. */
static PLANES_INLINE uint64_t planes_known(const struct planes_class *kind, uint64_t within)
{
    return (within ^ within >> 1) & ~kind->low[0];
}

/* Reads on where some u are longer than usual: the rest of the lengths, and all bits of u. False: they are not valid.
 */
static PLANES_INLINE bool planes_sort_long(const uint8_t *bytes, bool wide, planes_deposit_fn *deposit,
                                           uint64_t *longer, struct planes_sorted *sorted, uint64_t *end)
{
    uint64_t at = *end;
    uint32_t length = PLANES_USUAL_LENGTH;
    for (; longer[length - 1]; length++) {
        if (length > PLANES_LENGTH_MAX)
            return false;
        longer[length] = deposit(planes_look(bytes, at, wide), longer[length - 1]);
        at += planes_count(longer[length - 1]);
    }
    sorted->n_high = length - 1;
    for (uint32_t i = 0; i < sorted->n_high; i++) {
        sorted->high[i] = deposit(planes_look(bytes, at, wide), longer[i + 1]) | (longer[i] & ~longer[i + 1]);
        at += planes_count(longer[i + 1]);
    }
    *end = at;
    return true;
}

/* Reads the fields of the places that `within` names, from *end on, which gets where they end. Usual lengths are read
 * without a branch, because a processor cannot foretell it. False: they are not valid. */
static PLANES_INLINE bool planes_sort(const uint8_t *bytes, const struct planes_class *kind, uint64_t within, bool wide,
                                      planes_deposit_fn *deposit, struct planes_sorted *sorted, uint64_t *end)
{
    uint64_t longer[PLANES_LENGTH_MAX + 2], nonzero = 0, at = *end, known = planes_known(kind, within);
    for (uint32_t i = 0; i < PLANES_SHIFT_MAX; i++) {
        uint64_t places = within & kind->low[i];
        sorted->low[i] = deposit(planes_look(bytes, at, wide), places);
        nonzero |= sorted->low[i];
        at += planes_count(places);
    }
    uint64_t mask = within ^ known, count = planes_count(mask);
    for (uint32_t i = 0; i < PLANES_USUAL_LENGTH; i++) {
        uint64_t bits = planes_look(bytes, at, wide) & ((UINT64_C(1) << count) - 1);
        longer[i] = deposit(bits, mask);
        at += count;
        count = planes_count(bits);
        if (i == 0) {
            longer[0] |= known;
            count += known != 0;
        }
        mask = longer[i];
    }
    nonzero |= longer[0];
    bool more = planes_look(bytes, at, wide) & ((UINT64_C(1) << count) - 1); /* none is longer: zeros */
    if (__builtin_expect(more, 0)) {
        if (!planes_sort_long(bytes, wide, deposit, longer, sorted, &at))
            return false;
    } else {
        at += count;
        sorted->n_high = PLANES_USUAL_LENGTH;
        for (uint32_t i = 0; i + 1 < PLANES_USUAL_LENGTH; i++) {
            sorted->high[i] = deposit(planes_look(bytes, at, wide), longer[i + 1]) | (longer[i] & ~longer[i + 1]);
            at += planes_count(longer[i + 1]);
        }
        sorted->high[PLANES_USUAL_LENGTH - 1] = longer[PLANES_USUAL_LENGTH - 1];
    }
    sorted->nonzero = nonzero;
    sorted->negative = deposit(planes_look(bytes, at, wide), nonzero);
    *end = at + planes_count(nonzero);
    return true;
}

/* The ones that the bits begin with. */
static PLANES_INLINE uint32_t planes_ones(uint64_t bits)
{
    return (uint32_t)__builtin_ctzll(~bits | UINT64_C(1) << 63);
}

/* The first fields of a block. */
struct planes_head {
    const struct planes_class *kind;
    uint32_t last;
    int32_t dc; /* the difference */
};

/* The longest unary numbers of a block's first fields: with all that is between them they are within a look. */
#define PLANES_DC_ONES_MAX PLANES_LENGTH_MAX
#define PLANES_LAST_ONES_MAX ((PLANES_PLACES - 1) >> PLANES_LAST_SHIFT_MIN)
_Static_assert(PLANES_CLASS_BITS + PLANES_DC_ONES_MAX + 1 + PLANES_LAST_ONES_MAX + 1 + PLANES_LAST_SHIFT_MIN +
                       PLANES_DC_SHIFT_MAX + PLANES_LENGTH_MAX - 1 + 1 <=
                   PLANES_LOOK_BITS,
               "a block's first fields");

/* Reads a block's first fields, up to those of its places. False: they are not valid. */
static PLANES_INLINE bool planes_begin(const uint8_t *bytes, const struct planes_table *table, struct planes_head *head,
                                       uint64_t *end)
{
    uint64_t bits = planes_look(bytes, *end, false);
    const struct planes_class *kind = &table->classes[bits & (PLANES_CLASSES - 1)];
    bits >>= PLANES_CLASS_BITS;
    uint32_t length = planes_ones(bits);
    bits >>= length + 1;
    uint32_t above = planes_ones(bits);
    if (length > PLANES_DC_ONES_MAX || above > PLANES_LAST_ONES_MAX)
        return false;
    bits >>= above + 1;
    head->kind = kind;
    head->last = above << kind->last_shift | ((uint32_t)bits & ((1u << kind->last_shift) - 1));
    bits >>= kind->last_shift;
    uint32_t low = kind->dc_shift, top = (1u << length) >> 1, high = length - (length > 0);
    uint32_t dc = (uint32_t)bits & ((1u << low) - 1);
    bits >>= low;
    dc |= (((uint32_t)bits & (top - (top > 0))) | top) << low;
    bits >>= high;
    head->dc = bits & 1 ? -(int32_t)dc : (int32_t)dc;
    *end += PLANES_CLASS_BITS + length + 1 + above + 1 + kind->last_shift + low + high + (dc > 0);
    return head->last < PLANES_PLACES;
}

/* Reads a block. False: its bits are not valid. */
static PLANES_INLINE bool planes_read_block(struct planes_segment *segment, const struct planes_table *table,
                                            int16_t *last_dc, planes_deposit_fn *deposit, planes_put_fn *put,
                                            int16_t *block)
{
    struct planes_head head;
    struct planes_sorted sorted;
    uint64_t at = segment->at;
    if (at >= segment->end || !planes_begin(segment->bytes, table, &head, &at))
        return false;
    uint64_t within = (UINT64_C(2) << head.last) - 2;
    bool fine = __builtin_expect(head.last <= PLANES_NARROW_LAST, 1)
                    ? planes_sort(segment->bytes, head.kind, within, false, deposit, &sorted, &at)
                    : planes_sort(segment->bytes, head.kind, within, true, deposit, &sorted, &at);
    if (!fine || at > segment->end)
        return false;
    segment->at = at;
    put(&sorted, head.kind, block);
    block[0] = *last_dc = (int16_t)(*last_dc + head.dc);
    return true;
}

/* Reads an MCU; to nowhere if the column is negative. */
static PLANES_INLINE bool planes_read_mcu(struct planes_segment *segment, const struct planes_mcu *mcu, int64_t column,
                                          int16_t *last_dc, planes_deposit_fn *deposit, planes_put_fn *put)
{
    int16_t nowhere[PLANES_PLACES];
    for (uint32_t p = 0; p < mcu->n_parts; p++) {
        const struct planes_part *part = &mcu->parts[p];
        for (uint32_t y = 0; y < part->height; y++) {
            int16_t *block = column < 0 ? nowhere : part->rows[y][(uint64_t)column * part->width];
            for (uint32_t x = 0; x < part->width; x++, block += column < 0 ? 0 : PLANES_PLACES) {
                if (!planes_read_block(segment, part->table, &last_dc[p], deposit, put, block))
                    return false;
            }
        }
    }
    return true;
}

/* As planes_read. `deposit` puts the lowest bits of a word to the places of a mask; `put` makes a block, but for its DC
 * coefficient, of what was sorted. */
static PLANES_INLINE bool planes_read_with(struct planes_segment *segment, const struct planes_mcu *mcu, uint32_t skip,
                                           uint32_t column, uint32_t count, planes_deposit_fn *deposit,
                                           planes_put_fn *put)
{
    int16_t last_dc[PLANES_PARTS_MAX] = {0};
    for (int64_t i = -(int64_t)skip; i < (int64_t)count; i++) {
        if (!planes_read_mcu(segment, mcu, i < 0 ? -1 : (int64_t)column + i, last_dc, deposit, put))
            return false;
    }
    return true;
}

/* Eight coefficients, in the vectors that every processor has; the compiler makes of them what there is. */
typedef uint16_t planes_lanes __attribute__((vector_size(16)));
#define PLANES_LANES 8

/* Adds 1 << bit to the lanes that the lowest bits of the mask name. */
static PLANES_INLINE planes_lanes planes_add_bit(planes_lanes values, uint64_t mask, uint32_t bit)
{
    static const planes_lanes each = {1, 2, 4, 8, 16, 32, 64, 128};
    planes_lanes all = {0};
    all += (uint16_t)(mask & 255);
    return values + ((planes_lanes)((all & each) == each) & (uint16_t)(1u << bit));
}

static PLANES_INLINE void planes_put_lanes(const struct planes_sorted *sorted, const struct planes_class *kind,
                                           int16_t *block)
{
    uint16_t made[PLANES_PLACES];
    for (uint32_t first = 0; first < PLANES_PLACES && sorted->nonzero >> first; first += PLANES_LANES) {
        planes_lanes values = {0}, shifts, signs = {0};
        memcpy(&shifts, kind->shifts + first, sizeof shifts);
        for (uint32_t i = 0; i < sorted->n_high; i++)
            values = planes_add_bit(values, sorted->high[i] >> first, i);
        values <<= shifts;
        for (uint32_t i = 0; i < PLANES_SHIFT_MAX; i++)
            values = planes_add_bit(values, sorted->low[i] >> first, i);
        signs -= planes_add_bit(signs, sorted->negative >> first, 0);
        values = (values ^ signs) - signs;
        memcpy(made + first, &values, sizeof values);
    }
    memset(block, 0, PLANES_PLACES * sizeof *block);
    for (uint64_t left = sorted->nonzero; left; left &= left - 1) {
        uint32_t place = (uint32_t)__builtin_ctzll(left);
        block[planes_natural[place]] = (int16_t)made[place];
    }
}

#endif
