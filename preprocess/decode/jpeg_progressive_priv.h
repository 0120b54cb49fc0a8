/* jpeg_progressive_priv.h: reading of blocks, for each version. `deposit` puts the lowest bits of a word to the places
 * of a mask. `stores` is a constant wherever these functions are inlined. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_PROGRESSIVE_PRIV_H
#define LARDER_PREPROCESS_DECODE_JPEG_PROGRESSIVE_PRIV_H

#include "preprocess/decode/jpeg_huffman_priv.h"
#include "preprocess/decode/jpeg_progressive.h"

typedef bool progressive_read_fn(struct progressive_scan *scan, int16_t (*blocks)[64], uint64_t *masks, uint32_t count);
progressive_read_fn progressive_read_portable, progressive_read_bmi2;

typedef uint64_t progressive_deposit_fn(uint64_t bits, uint64_t mask);

#define PROGRESSIVE_TOP (UINT64_C(1) << 63)

/* What a scan's blocks have in common, in registers. */
struct progressive_band {
    const struct huffman *code;
    uint32_t first, end, low;
    uint64_t mask;
};

/* A block, while it is read. */
struct progressive_block {
    int16_t *values;
    uint64_t *mask;
    uint64_t old, zeros; /* coefficients that are not passed yet: those that were there before, and those that are 0 */
    uint64_t fixed;      /* of those that were there, which get their bit */
};

/* What a symbol says. */
struct progressive_symbol {
    uint32_t step; /* 0: the band ends */
    int32_t value; /* 0: none */
};

static HUFFMAN_INLINE uint64_t progressive_take(struct huffman_bits *bits, uint32_t count)
{
    uint64_t taken = bits->buffer >> 1 >> (63 - count);
    huffman_drop(bits, count);
    return taken;
}

/* Any number of bits up to 63. */
static HUFFMAN_INLINE uint64_t progressive_take_many(struct huffman_bits *bits, uint32_t count)
{
    uint64_t before = 0;
    if (__builtin_expect(count > bits->count, 0)) {
        huffman_refill(bits);
        before = progressive_take(bits, 32);
        count -= 32;
        huffman_refill(bits);
    }
    return before << count | progressive_take(bits, count);
}

/* How many blocks have nothing new, the one at hand among them. */
static HUFFMAN_INLINE uint32_t progressive_read_run(struct huffman_bits *bits, uint32_t length)
{
    if (length == 0)
        return 1;
    huffman_refill(bits);
    return (1u << length) + (uint32_t)progressive_take(bits, length);
}

/* Two more symbols can follow without a refill. */
static HUFFMAN_INLINE bool progressive_read_symbol(struct huffman_bits *bits, const struct huffman *code,
                                                   struct progressive_symbol *symbol, uint32_t *run)
{
    uint32_t entry = huffman_look_up(bits, code);
    int32_t read = 0;
    if (__builtin_expect(entry >= 1u << 24, 1)) { /* it has a step */
        symbol->value = huffman_read_value(bits, entry);
        symbol->step = HUFFMAN_STEP_OF(entry);
        return true;
    }
    symbol->value = 0;
    if (__builtin_expect(entry != 0, 1)) {
        huffman_drop(bits, HUFFMAN_LENGTH_OF(entry));
        symbol->step = entry & HUFFMAN_END ? 0 : HUFFMAN_RUN_OF_ZEROS + 1;
        if (entry & HUFFMAN_END)
            *run = progressive_read_run(bits, HUFFMAN_RUN_OF(entry));
        return true;
    }
    huffman_read_slowly(bits, code, &read, &symbol->value);
    symbol->step = ((uint32_t)read >> 4) + 1;
    if (read >= 0 && (read & 15) == 0 && read >> 4 != HUFFMAN_RUN_OF_ZEROS) {
        symbol->step = 0;
        *run = progressive_read_run(bits, (uint32_t)read >> 4);
    }
    huffman_refill(bits);
    return read >= 0;
}

/* ── first bits ─────────────────────────────────────────────────────────────────────────────────────────────────── */

static HUFFMAN_INLINE bool progressive_first_block(struct huffman_bits *bits, const struct progressive_band *band,
                                                   int16_t *values, uint64_t *mask, uint32_t *run, bool stores)
{
    uint32_t k = band->first;
    uint64_t made = 0;
    for (uint32_t i = 0;; i = i + 1 < HUFFMAN_SYMBOLS_AT_ONCE ? i + 1 : 0) {
        struct progressive_symbol symbol;
        if (i == 0)
            huffman_refill(bits);
        if (!progressive_read_symbol(bits, band->code, &symbol, run))
            return false;
        if (symbol.step == 0)
            break;
        k += symbol.step;
        if (symbol.value) {
            made |= PROGRESSIVE_TOP >> ((k - 1) & 63);
            if (stores)
                values[huffman_natural[k - 1]] = (int16_t)(symbol.value * (1 << band->low));
        }
        if (__builtin_expect(k >= band->end, 0)) {
            if (k > band->end)
                return false;
            break;
        }
    }
    *mask |= made;
    return true;
}

static HUFFMAN_INLINE bool progressive_first_blocks(struct progressive_scan *scan, const struct progressive_band *band,
                                                    int16_t (*blocks)[64], uint64_t *masks, uint32_t count, bool stores)
{
    struct huffman_bits bits = scan->bits; /* a copy, which the compiler keeps in registers */
    uint32_t run = scan->run;
    for (uint32_t i = 0; i < count;) {
        if (run) {
            uint32_t passed = run < count - i ? run : count - i;
            run -= passed;
            i += passed;
            continue;
        }
        if (!progressive_first_block(&bits, band, stores ? blocks[i] : NULL, &masks[i], &run, stores))
            return false;
        run -= run > 0;
        i++;
    }
    scan->bits = bits;
    scan->run = run;
    return huffman_is_fine(&bits);
}

/* ── further bits ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* Passes coefficients that were there before; a bit says of each whether it gets the bit of this scan. */
static HUFFMAN_INLINE void progressive_fix(struct huffman_bits *bits, struct progressive_block *block, uint64_t passed,
                                           progressive_deposit_fn *deposit, bool stores)
{
    uint64_t fixes = progressive_take_many(bits, (uint32_t)__builtin_popcountll(passed));
    if (stores)
        block->fixed |= deposit(fixes, passed);
}

/* Passes the next `step` coefficients that are 0, and those between them. Returns the place of the last; 0: there are
 * too few. */
static HUFFMAN_INLINE uint64_t progressive_pass(struct huffman_bits *bits, struct progressive_block *block,
                                                uint32_t step, progressive_deposit_fn *deposit, bool stores)
{
    uint32_t left = (uint32_t)__builtin_popcountll(block->zeros);
    if (__builtin_expect(step > left, 0))
        return 0;
    uint64_t place = deposit(UINT64_C(1) << (left - step), block->zeros);
    progressive_fix(bits, block, block->old & -(place << 1), deposit, stores);
    block->old &= place - 1;
    block->zeros &= place - 1;
    return place;
}

static HUFFMAN_INLINE void progressive_apply(const struct progressive_block *block, uint32_t low)
{
    for (uint64_t left = block->fixed; left; left &= left - 1) {
        int16_t *value = &block->values[huffman_natural[63 - __builtin_ctzll(left)]];
        *value = (int16_t)(*value + ((*value >> 15) | 1) * (1 << low));
    }
}

static HUFFMAN_INLINE bool progressive_refine_block(struct huffman_bits *bits, const struct progressive_band *band,
                                                    struct progressive_block *block, uint32_t *run,
                                                    progressive_deposit_fn *deposit, bool stores)
{
    uint64_t end = band->mask & -band->mask, place = 0, made = 0;
    while (*run == 0 && place != end) {
        struct progressive_symbol symbol;
        huffman_refill(bits);
        if (!progressive_read_symbol(bits, band->code, &symbol, run))
            return false;
        if (symbol.step == 0)
            break;
        place = progressive_pass(bits, block, symbol.step, deposit, stores);
        if (__builtin_expect(place == 0, 0))
            return false;
        if (symbol.value) {
            made |= place;
            if (stores)
                block->values[huffman_natural[63 - __builtin_ctzll(place)]] = (int16_t)(symbol.value *
                                                                                        (1 << band->low));
        }
    }
    if (*run) {
        huffman_refill(bits);
        progressive_fix(bits, block, block->old, deposit, stores);
        --*run;
    }
    if (stores)
        progressive_apply(block, band->low);
    *block->mask |= made;
    return true;
}

static HUFFMAN_INLINE bool progressive_refine_blocks(struct progressive_scan *scan, const struct progressive_band *band,
                                                     int16_t (*blocks)[64], uint64_t *masks, uint32_t count,
                                                     progressive_deposit_fn *deposit, bool stores)
{
    struct huffman_bits bits = scan->bits;
    uint32_t run = scan->run;
    for (uint32_t i = 0; i < count; i++) {
        struct progressive_block block = {.values = stores ? blocks[i] : NULL,
                                          .mask = &masks[i],
                                          .old = masks[i] & band->mask,
                                          .zeros = ~masks[i] & band->mask};
        if (!progressive_refine_block(&bits, band, &block, &run, deposit, stores))
            return false;
    }
    scan->bits = bits;
    scan->run = run;
    return huffman_is_fine(&bits);
}

/* As progressive_read_ac. */
static HUFFMAN_INLINE bool progressive_read_with(struct progressive_scan *scan, int16_t (*blocks)[64], uint64_t *masks,
                                                 uint32_t count, progressive_deposit_fn *deposit)
{
    const struct progressive_band band = {.code = scan->mcu.parts[0].ac,
                                          .first = scan->first,
                                          .end = scan->last + 1,
                                          .low = scan->low,
                                          .mask = ~UINT64_C(0) >> scan->first & ~UINT64_C(0) << (63 - scan->last)};
    if (!scan->refines)
        return blocks ? progressive_first_blocks(scan, &band, blocks, masks, count, true)
                      : progressive_first_blocks(scan, &band, blocks, masks, count, false);
    return blocks ? progressive_refine_blocks(scan, &band, blocks, masks, count, deposit, true)
                  : progressive_refine_blocks(scan, &band, blocks, masks, count, deposit, false);
}

#endif
