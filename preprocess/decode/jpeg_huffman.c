#include "preprocess/decode/jpeg_huffman.h"

#include <string.h>

/* An entry says what the next bits mean. It has four fields of 8 bits, from the lowest: the length of the symbol with
 * its value, the length of its code, 64 less the length of its value, and its step in the zigzag. The step is one more
 * than the number of zero coefficients before it. A step of 0 marks an entry that is no coefficient. It has END or
 * ZEROS in place of the code's length, or nothing if the code is not in the look-up or is too long with its value. */
#define LENGTH_OF(entry) ((entry)&63)
#define CODE_LENGTH_OF(entry) ((entry) >> 8 & 63)
#define SHIFT_OF(entry) ((entry) >> 16 & 127)
#define STEP_OF(entry) ((entry) >> 24)
#define END 0x100u   /* the rest of the block is zero */
#define ZEROS 0x200u /* so are the next sixteen coefficients */

/* a run of 15 with size 0 is sixteen zero coefficients. Any other run with size 0 ends the block. */
#define RUN_OF_ZEROS 15
#define DC_MAX (1 << 20) /* far above what eight bits of precision give */
/* The 56 bits that a refill leaves are enough for this many symbols of the look-up. */
#define SYMBOLS_AT_ONCE 3
#define SYMBOL_BITS_MAX 18
_Static_assert(SYMBOLS_AT_ONCE *SYMBOL_BITS_MAX <= 56, "symbols between two refills");

#define INLINE inline __attribute__((always_inline))

/* The places of the zigzag's coefficients in a block. A run can lead up to 15 places past the end, which is refused
 * afterwards. */
static const uint8_t natural[64 + 16] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
    6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

/* ── codes ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint32_t entry_of(uint8_t symbol, uint32_t length, bool dc)
{
    uint32_t run = symbol >> 4, size = symbol & 15;
    if (size == 0 && !dc)
        return length | (run == RUN_OF_ZEROS ? ZEROS : END);
    if (length + size > SYMBOL_BITS_MAX)
        return 0;
    return (length + size) | length << 8 | (64 - size) << 16 | (run + 1) << 24;
}

static bool is_made_from(const struct huffman *code, const uint8_t *counts, const uint8_t *values, bool dc)
{
    return code->made == (dc ? HUFFMAN_DC : HUFFMAN_AC) && memcmp(code->counts + 1, counts + 1, HUFFMAN_LONGEST) == 0 &&
           memcmp(code->values, values, sizeof code->values) == 0;
}

bool huffman_build(struct huffman *code, const uint8_t *counts, const uint8_t *values, bool dc)
{
    uint32_t bits = 0, used = 0;
    if (is_made_from(code, counts, values, dc))
        return true;
    code->made = HUFFMAN_NOTHING;
    memset(code->look, 0, sizeof code->look);
    memcpy(code->counts, counts, sizeof code->counts);
    memcpy(code->values, values, sizeof code->values);
    for (uint32_t length = 1; length <= HUFFMAN_LONGEST; length++, bits <<= 1) {
        uint32_t end = bits + counts[length];
        if (end > 1u << length || used + counts[length] > sizeof code->values)
            return false;
        code->offset[length] = (int32_t)used - (int32_t)bits;
        code->limit[length] = end << (HUFFMAN_LONGEST - length);
        for (; bits < end; bits++, used++) {
            if (dc && values[used] > 15)
                return false;
            if (length > HUFFMAN_LOOK_BITS)
                continue;
            uint32_t spare = HUFFMAN_LOOK_BITS - length, entry = entry_of(values[used], length, dc);
            for (uint32_t i = 0; i < 1u << spare; i++)
                code->look[(bits << spare) + i] = entry;
        }
    }
    code->made = dc ? HUFFMAN_DC : HUFFMAN_AC;
    return true;
}

/* ── bits ───────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Whether nothing behind the end was used; and whether nothing but padding is left. */
static INLINE bool is_fine(const struct huffman_bits *bits)
{
    return bits->count >= bits->padded;
}

static INLINE bool is_done(const struct huffman_bits *bits)
{
    return bits->at == bits->end && is_fine(bits) && bits->count - bits->padded < 8;
}

/* Takes and returns the bits by value, as read_slowly does, so that the compiler keeps the caller's bits in
 * registers. */
static struct huffman_bits refill_bytewise(struct huffman_bits bits)
{
    for (; bits.count <= 56; bits.count += 8) {
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

/* The uppermost bit of each byte that is 0xff. */
static INLINE uint64_t find_stuffed(uint64_t bytes)
{
    const uint64_t low = UINT64_C(0x7f7f7f7f7f7f7f7f);
    return ~(((~bytes & low) + low) | ~bytes | low);
}

/* Leaves 56 bits in the buffer, or more. It had 63 at most. */
static INLINE void refill(struct huffman_bits *bits)
{
    uint64_t next;
    if (__builtin_expect(bits->end - bits->at < (ptrdiff_t)sizeof next, 0)) {
        *bits = refill_bytewise(*bits);
        return;
    }
    memcpy(&next, bits->at, sizeof next);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    next = __builtin_bswap64(next);
#endif
    uint64_t stuffed = find_stuffed(next);
    uint32_t wanted = (63 - bits->count) >> 3;
    if (__builtin_expect(stuffed != 0, 0)) {
        uint32_t before = (uint32_t)__builtin_clzll(stuffed) >> 3;
        if (before < wanted) { /* all up to it, and then byte by byte */
            bits->buffer |= (next & ~(~UINT64_C(0) >> 8 >> 8 * before)) >> bits->count;
            bits->at += before + 2;
            bits->count += 8 * (before + 1);
            if (bits->count <= 56)
                *bits = refill_bytewise(*bits);
            return;
        }
    }
    bits->buffer |= next >> bits->count;
    bits->at += wanted;
    bits->count |= 56;
}

static INLINE void drop(struct huffman_bits *bits, uint32_t count)
{
    bits->buffer <<= count;
    bits->count -= count;
}

/* ── symbols ────────────────────────────────────────────────────────────────────────────────────────────────────── */

static INLINE uint32_t look_up(const struct huffman_bits *bits, const struct huffman *code)
{
    return code->look[bits->buffer >> (64 - HUFFMAN_LOOK_BITS)];
}

/* The value that the uppermost bits stand for, 64 - shift of them and one at least: the lower half of what they can
 * say stands for the negative ones. Without a branch, which would often be foretold wrongly. */
static INLINE int32_t value_of(uint64_t bits, uint32_t shift)
{
    uint64_t negative = (uint64_t)((int64_t)~bits >> 63);
    return (int32_t)((((bits ^ negative) >> (shift & 63)) ^ negative) - negative);
}

/* Reads what an entry with a step stands for. */
static INLINE int32_t read_value(struct huffman_bits *bits, uint32_t entry)
{
    int32_t value = value_of(bits->buffer << CODE_LENGTH_OF(entry), SHIFT_OF(entry));
    drop(bits, LENGTH_OF(entry));
    return value;
}

/* Reads a symbol that has no entry. The bits come and go by value, so that the compiler keeps them in registers
 * elsewhere. *symbol gets -1 where there is no such code. */
static struct huffman_bits read_slowly(struct huffman_bits bits, const struct huffman *code, int32_t *symbol,
                                       int32_t *value)
{
    if (bits.count < HUFFMAN_LONGEST + 15)
        refill(&bits);
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
    drop(&bits, length);
    if (size)
        *value = value_of(bits.buffer, 64 - size);
    drop(&bits, size);
    return bits;
}

/* ── blocks ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum state { GOES_ON, ENDS, FAILS }; /* states of a block */

static INLINE enum state pass(struct huffman_place *place, uint32_t step)
{
    place->k += step;
    return __builtin_expect(place->k < 64, 1) ? GOES_ON : place->k == 64 ? ENDS : FAILS;
}

/* `stores` is a constant wherever this is inlined, here and below. */
static INLINE enum state put(struct huffman_place *place, uint32_t step, int32_t value, bool stores)
{
    enum state state = pass(place, step);
    if (stores)
        place->block[natural[place->k - 1]] = (int16_t)value;
    return state;
}

static INLINE enum state read_one_slowly(struct huffman_place *place, bool stores)
{
    int32_t symbol, value;
    place->bits = read_slowly(place->bits, place->ac, &symbol, &value);
    if (symbol < 0)
        return FAILS;
    if (symbol & 15)
        return put(place, ((uint32_t)symbol >> 4) + 1, value, stores);
    return symbol >> 4 == RUN_OF_ZEROS ? pass(place, RUN_OF_ZEROS + 1) : ENDS;
}

/* Reads some coefficients. */
static INLINE enum state read_some(struct huffman_place *place, bool stores)
{
    enum state state = GOES_ON;
    refill(&place->bits);
    for (int i = 0; i < SYMBOLS_AT_ONCE && state == GOES_ON; i++) {
        uint32_t entry = look_up(&place->bits, place->ac);
        if (__builtin_expect(entry >= 1u << 24, 1)) { /* it has a step */
            int32_t value = read_value(&place->bits, entry);
            state = put(place, STEP_OF(entry), value, stores);
        } else if (entry == 0) {
            return read_one_slowly(place, stores);
        } else {
            drop(&place->bits, LENGTH_OF(entry));
            state = entry & END ? ENDS : pass(place, RUN_OF_ZEROS + 1);
        }
    }
    return state;
}

static INLINE bool read_dc(struct huffman_bits *bits, const struct huffman *code, int32_t *value)
{
    refill(bits);
    uint32_t entry = look_up(bits, code);
    if (__builtin_expect(entry == 0, 0)) {
        int32_t symbol;
        *bits = read_slowly(*bits, code, &symbol, value);
        return symbol >= 0;
    }
    *value = read_value(bits, entry);
    if (SHIFT_OF(entry) == 64)
        *value = 0;
    return true;
}

static INLINE bool begin_block(struct huffman_lane *lane, const struct huffman_mcu *mcu, struct huffman_place *place)
{
    uint32_t index = mcu->blocks[lane->at].part;
    const struct huffman_part *part = &mcu->parts[index];
    int32_t value;
    if (!read_dc(&place->bits, part->dc, &value))
        return false;
    value += lane->last_dc[index];
    lane->last_dc[index] = value;
    place->ac = part->ac;
    place->k = 1;
    place->block =
        lane->skip ? lane->nowhere
                   : part->rows[mcu->blocks[lane->at].y][(size_t)lane->column * part->width + mcu->blocks[lane->at].x];
    place->block[0] = (int16_t)value;
    return value < DC_MAX && value > -DC_MAX;
}

/* Goes on behind a block. */
static INLINE bool next_block(struct huffman_lane *lane, const struct huffman_mcu *mcu, struct huffman_place *place)
{
    if (++lane->at == mcu->n_blocks) {
        lane->at = 0;
        if (!is_fine(&place->bits))
            return false;
        if (lane->skip) {
            lane->skip--;
        } else {
            lane->column++;
            if (--lane->left == 0)
                return !lane->to_end || is_done(&place->bits);
        }
    }
    return begin_block(lane, mcu, place);
}

static INLINE bool go_on(struct huffman_lane *lane, const struct huffman_mcu *mcu, struct huffman_place *place,
                         bool stores)
{
    enum state state = read_some(place, stores);
    return __builtin_expect(state == GOES_ON, 1) || (state == ENDS && next_block(lane, mcu, place));
}

/* ── lanes ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

bool huffman_mcu_order(struct huffman_mcu *mcu)
{
    mcu->n_blocks = 0;
    for (uint32_t i = 0; i < mcu->n_parts; i++) {
        const struct huffman_part *part = &mcu->parts[i];
        uint32_t count = part->width * part->height;
        if (count > HUFFMAN_BLOCKS_MAX - mcu->n_blocks)
            return false;
        for (uint32_t at = 0; at < count; at++, mcu->n_blocks++) {
            mcu->blocks[mcu->n_blocks].part = i;
            mcu->blocks[mcu->n_blocks].x = at % part->width;
            mcu->blocks[mcu->n_blocks].y = at / part->width;
        }
    }
    return true;
}

void huffman_lane_begin(struct huffman_lane *lane, const uint8_t *from, const uint8_t *to)
{
    lane->at = lane->skip = lane->left = 0;
    memset(lane->last_dc, 0, sizeof lane->last_dc);
    lane->place.bits = (struct huffman_bits){.at = from, .end = to};
}

/* The blocks that will be stored, all at once: one by one takes longer. */
static void clear_blocks(const struct huffman_mcu *mcu, uint32_t column, uint32_t count)
{
    for (uint32_t i = 0; i < mcu->n_parts; i++) {
        const struct huffman_part *part = &mcu->parts[i];
        for (uint32_t y = 0; y < part->height; y++)
            memset(part->rows[y][(size_t)column * part->width], 0, (size_t)count * part->width * sizeof **part->rows);
    }
}

bool huffman_lane_aim(struct huffman_lane *lane, const struct huffman_mcu *mcu, uint32_t skip, uint32_t column,
                      uint32_t count, bool to_end)
{
    lane->skip = skip;
    lane->column = column;
    lane->left = count;
    lane->to_end = to_end;
    clear_blocks(mcu, column, count);
    return begin_block(lane, mcu, &lane->place);
}

bool huffman_read(struct huffman_lane *lane, const struct huffman_mcu *mcu)
{
    struct huffman_place place = lane->place; /* a copy, which the compiler keeps in registers */
    bool fine = true;
    while (fine && lane->skip)
        fine = go_on(lane, mcu, &place, false);
    while (fine && lane->left)
        fine = go_on(lane, mcu, &place, true);
    lane->place = place;
    return fine;
}

bool huffman_read_both(struct huffman_lane *a, struct huffman_lane *b, const struct huffman_mcu *mcu)
{
    struct huffman_place first = a->place, second = b->place;
    bool fine = true;
    while (fine && a->left && b->left)
        fine = go_on(a, mcu, &first, true) && go_on(b, mcu, &second, true);
    a->place = first, b->place = second;
    return fine;
}
