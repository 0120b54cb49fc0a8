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

/* ── blocks ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

enum state { GOES_ON, ENDS, FAILS }; /* states of a block */

static HUFFMAN_INLINE enum state pass(struct huffman_place *place, uint32_t step)
{
    place->k += step;
    return __builtin_expect(place->k < 64, 1) ? GOES_ON : place->k == 64 ? ENDS : FAILS;
}

/* `stores` is a constant wherever this is inlined, here and below. */
static HUFFMAN_INLINE enum state put(struct huffman_place *place, uint32_t step, int32_t value, bool stores)
{
    enum state state = pass(place, step);
    if (stores)
        place->block[huffman_natural[place->k - 1]] = (int16_t)value;
    return state;
}

static HUFFMAN_INLINE enum state read_one_slowly(struct huffman_place *place, bool stores)
{
    int32_t symbol, value;
    place->bits = huffman_read_slowly(place->bits, place->ac, &symbol, &value);
    if (symbol < 0)
        return FAILS;
    if (symbol & 15)
        return put(place, ((uint32_t)symbol >> 4) + 1, value, stores);
    return symbol >> 4 == HUFFMAN_RUN_OF_ZEROS ? pass(place, HUFFMAN_RUN_OF_ZEROS + 1) : ENDS;
}

/* Reads some coefficients. */
static HUFFMAN_INLINE enum state read_some(struct huffman_place *place, bool stores)
{
    enum state state = GOES_ON;
    huffman_refill(&place->bits);
    for (int i = 0; i < HUFFMAN_SYMBOLS_AT_ONCE && state == GOES_ON; i++) {
        uint32_t entry = huffman_look_up(&place->bits, place->ac);
        if (__builtin_expect(entry >= 1u << 24, 1)) { /* it has a step */
            int32_t value = huffman_read_value(&place->bits, entry);
            state = put(place, HUFFMAN_STEP_OF(entry), value, stores);
        } else if (entry == 0) {
            return read_one_slowly(place, stores);
        } else {
            huffman_drop(&place->bits, HUFFMAN_LENGTH_OF(entry));
            state = entry & HUFFMAN_END ? ENDS : pass(place, HUFFMAN_RUN_OF_ZEROS + 1);
        }
    }
    return state;
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
            lane->skip--;
        } else {
            lane->column++;
            if (--lane->left == 0)
                return !lane->to_end || huffman_is_done(&place->bits);
        }
    }
    return begin_block(lane, mcu, place);
}

static HUFFMAN_INLINE bool go_on(struct huffman_lane *lane, const struct huffman_mcu *mcu, struct huffman_place *place,
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
