#include "preprocess/decode/jpeg_huffman_priv.h"

const uint8_t huffman_natural[HUFFMAN_NATURAL_PLACES] = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13,
    6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31,
    39, 46, 53, 60, 61, 54, 47, 55, 62, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63, 63};

/* ── codes ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static uint32_t entry_of(uint8_t symbol, uint32_t length, bool dc)
{
    uint32_t run = symbol >> 4, size = symbol & 15;
    if (size == 0 && !dc)
        return length | (run == HUFFMAN_RUN_OF_ZEROS ? HUFFMAN_ZEROS : HUFFMAN_END | run << 16);
    if (length + size > HUFFMAN_SYMBOL_BITS_MAX)
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
        if (end >= 1u << length || used + counts[length] > sizeof code->values)
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

/* An entry of the second look-up has the length of its symbols with their values in the lower 5 bits. Above them are
 * their steps in the zigzag, with SKIP_ENDS if the last symbol ends the block. The last symbol's value need not be in
 * the bits. If the steps would reach the block's end, the symbols are to be read one by one. */
#define SKIP_LENGTH_OF(entry) ((entry)&31)
#define SKIP_STEPS_OF(entry) ((entry) >> 5)
#define SKIP_ENDS 128
#define SKIP_NOTHING (64 << 5)
_Static_assert(HUFFMAN_SYMBOL_BITS_MAX < 32 && HUFFMAN_SKIP_BITS <= HUFFMAN_SYMBOL_BITS_MAX, "lengths of entries");

static uint16_t skip_of(const struct huffman *code, uint32_t bits)
{
    uint32_t length = 0, steps = 0;
    while (length < HUFFMAN_SKIP_BITS && steps < 64) {
        uint32_t next = bits << length & ((1 << HUFFMAN_SKIP_BITS) - 1);
        uint32_t entry = code->look[next >> (HUFFMAN_SKIP_BITS - HUFFMAN_LOOK_BITS)], step = HUFFMAN_STEP_OF(entry);
        uint32_t whole = length + HUFFMAN_LENGTH_OF(entry);
        uint32_t shown = step ? length + HUFFMAN_CODE_LENGTH_OF(entry) : whole;
        if (entry == 0 || shown > HUFFMAN_SKIP_BITS || whole > HUFFMAN_SYMBOL_BITS_MAX)
            break;
        length = whole;
        if (!step && entry & HUFFMAN_END)
            return (uint16_t)(length | (steps + SKIP_ENDS) << 5);
        steps += step ? step : HUFFMAN_RUN_OF_ZEROS + 1;
    }
    return length && steps < 64 ? (uint16_t)(length | steps << 5) : SKIP_NOTHING;
}

void huffman_build_skips(const struct huffman *code, uint16_t skips[1 << HUFFMAN_SKIP_BITS])
{
    for (uint32_t bits = 0; bits < 1 << HUFFMAN_SKIP_BITS; bits++)
        skips[bits] = skip_of(code, bits);
}

/* ── blocks ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum state { GOES_ON, ENDS, FAILS }; /* states of a block */

static HUFFMAN_INLINE enum state pass(struct huffman_place *place, uint32_t step)
{
    place->k += step;
    return __builtin_expect(place->k < 64, 1) ? GOES_ON : place->k == 64 ? ENDS : FAILS;
}

static HUFFMAN_INLINE enum state put(struct huffman_place *place, uint32_t step, int32_t value)
{
    enum state state = pass(place, step);
    place->block[huffman_natural[place->k - 1]] = (int16_t)value;
    return state;
}

static HUFFMAN_INLINE enum state read_one_slowly(struct huffman_place *place)
{
    int32_t symbol, value;
    huffman_read_slowly(&place->bits, place->ac, &symbol, &value);
    if (symbol < 0)
        return FAILS;
    if (symbol & 15)
        return put(place, ((uint32_t)symbol >> 4) + 1, value);
    return symbol >> 4 == HUFFMAN_RUN_OF_ZEROS ? pass(place, HUFFMAN_RUN_OF_ZEROS + 1) : ENDS;
}

/* Reads some coefficients. */
static HUFFMAN_INLINE enum state read_some(struct huffman_place *place)
{
    enum state state = GOES_ON;
    huffman_refill(&place->bits);
    for (int i = 0; i < HUFFMAN_SYMBOLS_AT_ONCE && state == GOES_ON; i++) {
        uint32_t entry = huffman_look_up(&place->bits, place->ac);
        if (__builtin_expect(entry >= 1u << 24, 1)) { /* it has a step */
            int32_t value = huffman_read_value(&place->bits, entry);
            state = put(place, HUFFMAN_STEP_OF(entry), value);
        } else if (entry == 0) {
            return read_one_slowly(place);
        } else {
            huffman_drop(&place->bits, HUFFMAN_LENGTH_OF(entry));
            state = entry & HUFFMAN_END ? ENDS : pass(place, HUFFMAN_RUN_OF_ZEROS + 1);
        }
    }
    return state;
}

/* The same in a block that goes nowhere. */
static HUFFMAN_INLINE enum state skip_some(struct huffman_place *place)
{
    huffman_refill(&place->bits);
    for (int i = 0; i < HUFFMAN_SYMBOLS_AT_ONCE; i++) {
        uint32_t entry = place->ac->skips[place->bits.buffer >> (64 - HUFFMAN_SKIP_BITS)];
        uint32_t k = place->k + SKIP_STEPS_OF(entry);
        bool ends = k >= SKIP_ENDS;
        if (__builtin_expect(k >= 64, 0) && (!ends || k >= SKIP_ENDS + 64))
            return read_some(place);
        huffman_drop(&place->bits, SKIP_LENGTH_OF(entry));
        if (ends)
            return ENDS;
        place->k = k;
    }
    return GOES_ON;
}

static HUFFMAN_INLINE bool begin_block(struct huffman_lane *lane, const struct huffman_mcu *mcu,
                                       struct huffman_place *place)
{
    uint32_t index = mcu->blocks[lane->at].part;
    const struct huffman_part *part = &mcu->parts[index];
    int32_t value;
    if (!huffman_read_dc(&place->bits, part->dc, &value))
        return false;
    value += lane->last_dc[index];
    lane->last_dc[index] = value;
    place->ac = part->ac;
    place->k = 1;
    place->block =
        lane->skip ? lane->nowhere
                   : part->rows[mcu->blocks[lane->at].y][(size_t)lane->column * part->width + mcu->blocks[lane->at].x];
    place->block[0] = (int16_t)value;
    return value < HUFFMAN_DC_MAX && value > -HUFFMAN_DC_MAX;
}

/* Goes on behind a block. */
static HUFFMAN_INLINE bool next_block(struct huffman_lane *lane, const struct huffman_mcu *mcu,
                                      struct huffman_place *place)
{
    if (++lane->at == mcu->n_blocks) {
        lane->at = 0;
        if (!huffman_is_fine(&place->bits))
            return false;
        if (lane->skip) {
            if (--lane->skip == 0 && lane->left == 0)
                return true;
        } else {
            lane->column++;
            if (--lane->left == 0)
                return !lane->to_end || huffman_is_done(&place->bits);
        }
    }
    return begin_block(lane, mcu, place);
}

static HUFFMAN_INLINE bool go_on(struct huffman_lane *lane, const struct huffman_mcu *mcu, struct huffman_place *place)
{
    enum state state = read_some(place);
    return __builtin_expect(state == GOES_ON, 1) || (state == ENDS && next_block(lane, mcu, place));
}

static HUFFMAN_INLINE bool go_past(struct huffman_lane *lane, const struct huffman_mcu *mcu,
                                   struct huffman_place *place)
{
    if (!place->ac->skips)
        return go_on(lane, mcu, place);
    enum state state;
    do
        state = skip_some(place);
    while (__builtin_expect(state == GOES_ON, 1));
    return state == ENDS && next_block(lane, mcu, place);
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

struct huffman_mark huffman_lane_mark(const struct huffman_lane *lane, const uint8_t *from)
{
    const struct huffman_bits *bits = &lane->place.bits;
    const uint8_t *at = bits->at;
    uint32_t left = bits->count - bits->padded;
    for (uint32_t i = 0; i < left; i += 8)
        at -= at[-1] == 0 && at - from >= 2 && at[-2] == 0xff ? 2 : 1;
    struct huffman_mark mark = {.bits = (uint32_t)(at - from) * 8 + (8 - left % 8) % 8};
    for (uint32_t i = 0; i < HUFFMAN_PARTS_MAX; i++)
        mark.dc[i] = (int16_t)lane->last_dc[i];
    return mark;
}

void huffman_lane_begin_at(struct huffman_lane *lane, const struct huffman_mark *mark, const uint8_t *from,
                           const uint8_t *to)
{
    huffman_lane_begin(lane, from + mark->bits / 8, to);
    for (uint32_t i = 0; i < HUFFMAN_PARTS_MAX; i++)
        lane->last_dc[i] = mark->dc[i];
    if (mark->bits % 8 == 0)
        return;
    huffman_refill(&lane->place.bits);
    huffman_drop(&lane->place.bits, mark->bits % 8);
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
        fine = go_past(lane, mcu, &place);
    while (fine && lane->left)
        fine = go_on(lane, mcu, &place);
    lane->place = place;
    return fine;
}

bool huffman_read_both(struct huffman_lane *a, struct huffman_lane *b, const struct huffman_mcu *mcu)
{
    struct huffman_place first = a->place, second = b->place;
    bool fine = true;
    while (fine && a->left && b->left)
        fine = go_on(a, mcu, &first) && go_on(b, mcu, &second);
    a->place = first, b->place = second;
    return fine;
}
