/* jpeg_huffman_priv.h: bits and symbols, for what reads blocks: jpeg_huffman.c and jpeg_progressive_priv.h.
 *
 * The functions are inlined, so that the bits stay in registers. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_HUFFMAN_PRIV_H
#define LARDER_PREPROCESS_DECODE_JPEG_HUFFMAN_PRIV_H

#include <string.h>

#include "preprocess/decode/jpeg_huffman.h"

/* An entry says what the next bits mean. It has four fields of 8 bits, from the lowest: the length of the symbol with
 * its value, the length of its code, 64 less the length of its value, and its step in the zigzag. The step is one more
 * than the number of zero coefficients before it. A step of 0 marks an entry that is no coefficient. In place of the
 * code's length it has HUFFMAN_END, with the run above it, or HUFFMAN_ZEROS. It has nothing if the code is not in the
 * look-up or is too long with its value. */
#define HUFFMAN_LENGTH_OF(entry) ((entry)&63)
#define HUFFMAN_CODE_LENGTH_OF(entry) ((entry) >> 8 & 63)
#define HUFFMAN_SHIFT_OF(entry) ((entry) >> 16 & 127)
#define HUFFMAN_STEP_OF(entry) ((entry) >> 24)
#define HUFFMAN_RUN_OF(entry) ((entry) >> 16 & 15)
#define HUFFMAN_END 0x100u   /* the rest of the block is zero */
#define HUFFMAN_ZEROS 0x200u /* so are the next sixteen coefficients */

/* a run of 15 with size 0 is sixteen zero coefficients. Any other run with size 0 ends the block. */
#define HUFFMAN_RUN_OF_ZEROS 15
#define HUFFMAN_DC_MAX (1 << 15) /* above what eight bits of precision give, and no more than a block keeps */
/* The 56 bits that a refill leaves are enough for this many symbols of the look-up. */
#define HUFFMAN_SYMBOLS_AT_ONCE 3
#define HUFFMAN_SYMBOL_BITS_MAX 18
_Static_assert(HUFFMAN_SYMBOLS_AT_ONCE *HUFFMAN_SYMBOL_BITS_MAX <= 56, "symbols between two refills");

#define HUFFMAN_INLINE inline __attribute__((always_inline))

/* The places of the zigzag's coefficients in a block. A run can lead up to 15 places past the end, which is refused
 * afterwards. */
#define HUFFMAN_NATURAL_PLACES (64 + 16)
extern const uint8_t huffman_natural[HUFFMAN_NATURAL_PLACES];

/* ── bits ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Whether nothing behind the end was used; and whether nothing but padding is left. */
static HUFFMAN_INLINE bool huffman_is_fine(const struct huffman_bits *bits)
{
    return bits->count >= bits->padded;
}

static HUFFMAN_INLINE bool huffman_is_done(const struct huffman_bits *bits)
{
    return bits->at == bits->end && huffman_is_fine(bits) && bits->count - bits->padded < 8;
}

/* Bits that go into a function that is called, and come out of it, go by value, so that the compiler keeps the caller's
 * in registers. clang keeps in memory what is copied there as a whole. */
static HUFFMAN_INLINE struct huffman_bits huffman_copy(const struct huffman_bits *bits)
{
#ifdef __clang__
    return (struct huffman_bits){
        .buffer = bits->buffer, .count = bits->count, .padded = bits->padded, .at = bits->at, .end = bits->end};
#else
    return *bits;
#endif
}

static struct huffman_bits huffman_refilled_bytewise(struct huffman_bits bits)
{
    for (; bits.count < 56; bits.count += 8) {
        if (bits.at == bits.end) {
            bits.padded += 8;
            continue;
        }
        uint8_t byte = *bits.at++;
        if (byte == 0xff)
            bits.at++;
        bits.buffer |= (uint64_t)byte << (56 - bits.count);
    }
    return bits;
}

static HUFFMAN_INLINE void huffman_refill_bytewise(struct huffman_bits *bits)
{
    struct huffman_bits refilled = huffman_refilled_bytewise(huffman_copy(bits));
    *bits = huffman_copy(&refilled);
}

/* The uppermost bit of each byte that is 0xff. */
static HUFFMAN_INLINE uint64_t huffman_find_stuffed(uint64_t bytes)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    return ~(((~bytes & low) + low) | ~bytes | low);
}

/* Leaves 56 to 63 bits in the buffer, which had 63 at most. */
static HUFFMAN_INLINE void huffman_refill(struct huffman_bits *bits)
{
    uint64_t next;
    if (__builtin_expect(bits->end - bits->at < (ptrdiff_t)sizeof next, 0)) {
        huffman_refill_bytewise(bits);
        return;
    }
    memcpy(&next, bits->at, sizeof next);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    next = __builtin_bswap64(next);
#endif
    uint64_t stuffed = huffman_find_stuffed(next);
    uint32_t wanted = (63 - bits->count) >> 3;
    if (__builtin_expect(stuffed != 0, 0)) {
        uint32_t before = (uint32_t)__builtin_clzll(stuffed) >> 3;
        if (before < wanted) { /* all up to it, and then byte by byte */
            bits->buffer |= (next & ~(~UINT64_C(0) >> 8 >> 8 * before)) >> bits->count;
            bits->at += before + 2;
            bits->count += 8 * (before + 1);
            if (bits->count < 56)
                huffman_refill_bytewise(bits);
            return;
        }
    }
    bits->buffer |= next >> bits->count;
    bits->at += wanted;
    bits->count |= 56;
}

static HUFFMAN_INLINE void huffman_drop(struct huffman_bits *bits, uint32_t count)
{
    bits->buffer <<= count;
    bits->count -= count;
}

/* ── symbols ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static HUFFMAN_INLINE uint32_t huffman_look_up(const struct huffman_bits *bits, const struct huffman *code)
{
    return code->look[bits->buffer >> (64 - HUFFMAN_LOOK_BITS)];
}

/* The value that the uppermost bits stand for, 64 - shift of them and one at least: the lower half of what they can
 * say stands for the negative ones. Without a branch, which would often be foretold wrongly. */
static HUFFMAN_INLINE int32_t huffman_value_of(uint64_t bits, uint32_t shift)
{
    uint64_t negative = (uint64_t)((int64_t)~bits >> 63);
    return (int32_t)((((bits ^ negative) >> (shift & 63)) ^ negative) - negative);
}

/* Reads what an entry with a step stands for. */
static HUFFMAN_INLINE int32_t huffman_read_value(struct huffman_bits *bits, uint32_t entry)
{
    int32_t value = huffman_value_of(bits->buffer << HUFFMAN_CODE_LENGTH_OF(entry), HUFFMAN_SHIFT_OF(entry));
    huffman_drop(bits, HUFFMAN_LENGTH_OF(entry));
    return value;
}

static struct huffman_bits huffman_bits_behind(struct huffman_bits bits, const struct huffman *code, int32_t *symbol,
                                               int32_t *value)
{
    if (bits.count < HUFFMAN_LONGEST + 15)
        huffman_refill(&bits);
    uint32_t next = (uint32_t)(bits.buffer >> (64 - HUFFMAN_LONGEST)), length = 1;
    while (length <= HUFFMAN_LONGEST && next >= code->limit[length])
        length++;
    *symbol = -1;
    *value = 0;
    if (length > HUFFMAN_LONGEST)
        return bits;
    int32_t index = code->offset[length] + (int32_t)(next >> (HUFFMAN_LONGEST - length));
    *symbol = code->values[index & 255];
    uint32_t size = *symbol & 15;
    huffman_drop(&bits, length);
    if (size)
        *value = huffman_value_of(bits.buffer, 64 - size);
    huffman_drop(&bits, size);
    return bits;
}

/* Reads a symbol that has no entry. *symbol gets -1 where there is no such code. */
static HUFFMAN_INLINE void huffman_read_slowly(struct huffman_bits *bits, const struct huffman *code, int32_t *symbol,
                                               int32_t *value)
{
    struct huffman_bits behind = huffman_bits_behind(huffman_copy(bits), code, symbol, value);
    *bits = huffman_copy(&behind);
}

static HUFFMAN_INLINE bool huffman_read_dc(struct huffman_bits *bits, const struct huffman *code, int32_t *value)
{
    huffman_refill(bits);
    uint32_t entry = huffman_look_up(bits, code);
    if (__builtin_expect(entry == 0, 0)) {
        int32_t symbol;
        huffman_read_slowly(bits, code, &symbol, value);
        return symbol >= 0;
    }
    *value = huffman_read_value(bits, entry);
    if (HUFFMAN_SHIFT_OF(entry) == 64)
        *value = 0;
    return true;
}

#endif
