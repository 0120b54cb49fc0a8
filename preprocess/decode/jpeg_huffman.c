#include "preprocess/decode/jpeg_huffman.h"

#include <string.h>

/* An entry: what a symbol means, from the lowest bit: the bits that it takes (6), whether its value is in the entry, a
 * bit without use, how many zero coefficients come before it (4), the size of its value in bits (4), the value (16). */
#define LENGTH_OF(entry) ((int)((entry)&63))
#define WHOLE 0x40u
#define RUN_OF(entry) ((int)((entry) >> 8 & 15))
#define SIZE_OF(entry) ((int)((entry) >> 12 & 15))
#define VALUE_OF(entry) ((int16_t)((entry) >> 16))

#define RUN_OF_ZEROS 15  /* with size 0: sixteen zero coefficients. Any other run with size 0 ends the block. */
#define DC_MAX (1 << 20) /* far above what eight bits of precision give */
/* The 56 bits that refill leaves are enough for so many whole symbols, and one more of any kind (31 bits at most). */
#define WHOLE_AT_ONCE 2
_Static_assert(WHOLE_AT_ONCE *HUFFMAN_LOOK_BITS + 31 <= 56, "symbols between two refills");

/* Where the coefficients of a zigzag stand. A run can lead up to 15 places past the end, which is refused after. */
static const uint8_t natural[64 + 16] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
    6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

/* ── codes ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint32_t entry_of(uint8_t symbol, int length)
{
    return (uint32_t)symbol >> 4 << 8 | (uint32_t)(symbol & 15) << 12 | (uint32_t)length;
}

/* The value that `size` bits stand for: the lower half of them stands for the negative ones. */
static int32_t extend(uint32_t bits, int size)
{
    int32_t value = (int32_t)bits;
    return value < (1 << (size - 1)) ? value - (1 << size) + 1 : value;
}

/* Fills the entries of all bits that begin with the code. */
static void fill_entries(struct huffman *code, uint32_t bits, int length, uint8_t symbol, bool dc)
{
    int spare = HUFFMAN_LOOK_BITS - length, size = symbol & 15;
    uint32_t *entries = &code->look[bits << spare], entry = entry_of(symbol, length);
    if (size > spare || (size == 0 && !dc)) {
        for (uint32_t i = 0; i < 1u << spare; i++)
            entries[i] = entry;
        return;
    }
    uint32_t each = 1u << (spare - size);
    for (uint32_t value = 0; value < 1u << size; value++) {
        uint32_t signed_value = size ? (uint32_t)extend(value, size) : 0;
        uint32_t whole = (entry + (uint32_t)size) | WHOLE | signed_value << 16;
        for (uint32_t i = 0; i < each; i++)
            *entries++ = whole;
    }
}

bool huffman_build(struct huffman *code, const uint8_t *counts, const uint8_t *values, bool dc)
{
    uint32_t bits = 0, used = 0;
    memset(code->look, 0, sizeof code->look);
    memcpy(code->values, values, sizeof code->values);
    for (int length = 1; length <= HUFFMAN_LONGEST; length++, bits <<= 1) {
        uint32_t end = bits + counts[length];
        if (end > 1u << length || used + counts[length] > sizeof code->values)
            return false;
        code->offset[length] = (int32_t)used - (int32_t)bits;
        code->limit[length] = end << (HUFFMAN_LONGEST - length);
        for (; bits < end; bits++, used++) {
            if (dc && values[used] > 15)
                return false;
            if (length <= HUFFMAN_LOOK_BITS)
                fill_entries(code, bits, length, values[used], dc);
        }
    }
    return true;
}

/* ── bits ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

void huffman_bits_begin(struct huffman_bits *bits, const uint8_t *at, const uint8_t *end)
{
    *bits = (struct huffman_bits){.at = at, .end = end};
}

bool huffman_bits_fine(const struct huffman_bits *bits)
{
    return bits->count >= bits->padded;
}

bool huffman_bits_done(const struct huffman_bits *bits)
{
    return bits->at == bits->end && huffman_bits_fine(bits) && bits->count - bits->padded < 8;
}

static void refill_bytewise(struct huffman_bits *bits)
{
    for (; bits->count <= 56; bits->count += 8) {
        if (bits->at == bits->end) {
            bits->padded += 8;
            continue;
        }
        uint8_t byte = *bits->at++;
        if (byte == 0xff)
            bits->at++;
        bits->buffer |= (uint64_t)byte << (56 - bits->count);
    }
}

/* Leaves 56 bits in the buffer, or more. Of the bits below `count` some are there already; they are put there again. */
static inline void refill(struct huffman_bits *bits)
{
    uint64_t next;
    if (bits->end - bits->at < (ptrdiff_t)sizeof next) {
        refill_bytewise(bits);
        return;
    }
    memcpy(&next, bits->at, sizeof next);
    if (next & ~(next + UINT64_C(0x0101010101010101)) & UINT64_C(0x8080808080808080)) { /* a byte may be 0xff */
        refill_bytewise(bits);
        return;
    }
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    next = __builtin_bswap64(next);
#endif
    bits->buffer |= next >> bits->count;
    bits->at += (63 - bits->count) >> 3;
    bits->count |= 56;
}

static inline void drop(struct huffman_bits *bits, int count)
{
    bits->buffer <<= count;
    bits->count -= count;
}

/* ── blocks ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The entry of a code that is longer than the look-up; 0: there is no such code. */
static uint32_t find_long(const struct huffman *code, uint64_t buffer)
{
    uint32_t next = (uint32_t)(buffer >> (64 - HUFFMAN_LONGEST));
    for (int length = HUFFMAN_LOOK_BITS + 1; length <= HUFFMAN_LONGEST; length++) {
        if (next < code->limit[length]) {
            int32_t index = code->offset[length] + (int32_t)(next >> (HUFFMAN_LONGEST - length));
            return entry_of(code->values[index & 255], length);
        }
    }
    return 0;
}

/* Reads a symbol, without the bits of its value where these are not in the entry. 0: there is no such code. */
static inline uint32_t read_symbol(struct huffman_bits *bits, const struct huffman *code)
{
    uint32_t entry = code->look[bits->buffer >> (64 - HUFFMAN_LOOK_BITS)];
    if (__builtin_expect(entry == 0, 0))
        entry = find_long(code, bits->buffer);
    drop(bits, LENGTH_OF(entry));
    return entry;
}

static inline int32_t read_value(struct huffman_bits *bits, int size)
{
    uint32_t value = (uint32_t)(bits->buffer >> (64 - size));
    drop(bits, size);
    return extend(value, size);
}

static inline bool read_dc(struct huffman_bits *bits, struct huffman_part *part)
{
    refill(bits);
    uint32_t entry = read_symbol(bits, part->dc);
    if (entry & WHOLE)
        part->last_dc += VALUE_OF(entry);
    else if (entry == 0)
        return false;
    else if (SIZE_OF(entry))
        part->last_dc += read_value(bits, SIZE_OF(entry));
    return part->last_dc < DC_MAX && part->last_dc > -DC_MAX;
}

static inline bool read_ac(struct huffman_bits *bits, const struct huffman *code, int16_t *block, bool skip)
{
    int k = 1;
    do {
        refill(bits);
        uint32_t entry = read_symbol(bits, code);
        for (int i = 0; i < WHOLE_AT_ONCE && entry & WHOLE; i++) {
            k += RUN_OF(entry);
            if (!skip)
                block[natural[k]] = VALUE_OF(entry);
            if (++k >= 64)
                return k == 64;
            entry = read_symbol(bits, code);
        }
        k += RUN_OF(entry) + 1;
        if (entry & WHOLE) {
            if (!skip)
                block[natural[k - 1]] = VALUE_OF(entry);
        } else if (SIZE_OF(entry)) {
            int32_t value = read_value(bits, SIZE_OF(entry));
            if (!skip)
                block[natural[k - 1]] = (int16_t)value;
        } else if (entry == 0) {
            return false;
        } else if (RUN_OF(entry) != RUN_OF_ZEROS) {
            return true;
        }
    } while (k < 64);
    return k == 64;
}

static inline __attribute__((always_inline)) bool read_block(struct huffman_bits *bits, struct huffman_part *part,
                                                             int16_t *block, bool skip)
{
    if (skip)
        return read_dc(bits, part) && read_ac(bits, part->ac, NULL, true);
    memset(block, 0, 64 * sizeof *block);
    if (!read_dc(bits, part) || !read_ac(bits, part->ac, block, false))
        return false;
    block[0] = (int16_t)part->last_dc;
    return true;
}

static inline __attribute__((always_inline)) bool read_mcus(struct huffman_bits *bits, struct huffman_part *parts,
                                                            size_t n_parts, uint32_t column, uint32_t count, bool skip)
{
    for (; count > 0; count--, column++) {
        for (struct huffman_part *part = parts; part < parts + n_parts; part++) {
            for (uint32_t y = 0; y < part->height; y++) {
                int16_t(*blocks)[64] = skip ? NULL : part->rows[y] + (size_t)column * part->width;
                for (uint32_t x = 0; x < part->width; x++) {
                    if (!read_block(bits, part, skip ? NULL : blocks[x], skip))
                        return false;
                }
            }
        }
        if (!huffman_bits_fine(bits))
            return false;
    }
    return true;
}

bool huffman_read(struct huffman_bits *bits, struct huffman_part *parts, size_t n_parts, uint32_t column,
                  uint32_t count, bool skip)
{
    struct huffman_bits local = *bits; /* which the compiler may keep in registers */
    bool fine = skip ? read_mcus(&local, parts, n_parts, column, count, true)
                     : read_mcus(&local, parts, n_parts, column, count, false);
    *bits = local;
    return fine;
}
