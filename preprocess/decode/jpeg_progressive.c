#include "preprocess/decode/jpeg_progressive.h"

#include "common/cpu.h"
#include "preprocess/decode/jpeg_progressive_priv.h"

#define VALUE_BITS 15 /* of a coefficient, its sign left out */

static progressive_read_fn *read_blocks = progressive_read_portable;

static progressive_read_fn *available(enum progressive_version version)
{
#if defined(__x86_64__)
    if (version == PROGRESSIVE_BMI2 && cpu_has(CPU_BITS))
        return progressive_read_bmi2;
#endif
    return version == PROGRESSIVE_PORTABLE ? progressive_read_portable : NULL;
}

bool progressive_use(enum progressive_version version)
{
    progressive_read_fn *wanted = available(version);
    if (!wanted)
        return false;
    read_blocks = wanted;
    return true;
}

void progressive_select(void)
{
    for (int version = PROGRESSIVE_VERSIONS - 1; version >= 0; version--) {
        if (progressive_use((enum progressive_version)version))
            return;
    }
}

/* Values that a coefficient cannot hold, and more than one bit where a scan refines, no valid stream has. */
bool progressive_fits(const struct progressive_scan *scan, const struct huffman *code)
{
    uint32_t used = 0, most = scan->refines ? 1 : VALUE_BITS - scan->low;
    for (uint32_t length = 1; length <= HUFFMAN_LONGEST; length++)
        used += code->counts[length];
    for (uint32_t i = 0; scan->first > 0 && i < used; i++) {
        if ((code->values[i] & 15u) > most)
            return false;
    }
    return true;
}

void progressive_begin(struct progressive_scan *scan, const uint8_t *from, const uint8_t *to)
{
    scan->bits = (struct huffman_bits){.at = from, .end = to};
    scan->run = 0;
    memset(scan->last_dc, 0, sizeof scan->last_dc);
}

bool progressive_done(const struct progressive_scan *scan)
{
    return huffman_is_done(&scan->bits) && scan->run == 0;
}

/* Where the DC coefficient of an MCU's block goes. */
static HUFFMAN_INLINE int16_t *dc_of(const struct huffman_mcu *mcu, uint32_t block, uint32_t column)
{
    const struct huffman_part *part = &mcu->parts[mcu->blocks[block].part];
    return part->rows[mcu->blocks[block].y][(size_t)column * part->width + mcu->blocks[block].x];
}

static bool first_dc(struct progressive_scan *scan, uint32_t column, uint32_t count, bool stores)
{
    const struct huffman_mcu *mcu = &scan->mcu;
    struct huffman_bits bits = scan->bits;
    for (uint32_t end = column + count; column < end; column++) {
        for (uint32_t i = 0; i < mcu->n_blocks; i++) {
            uint32_t part = mcu->blocks[i].part;
            int32_t value;
            if (!huffman_read_dc(&bits, mcu->parts[part].dc, &value))
                return false;
            value += scan->last_dc[part];
            if (value >= HUFFMAN_DC_MAX || value <= -HUFFMAN_DC_MAX)
                return false;
            scan->last_dc[part] = value;
            if (stores)
                *dc_of(mcu, i, column) = (int16_t)((uint32_t)value << scan->low);
        }
    }
    scan->bits = bits;
    return huffman_is_fine(&bits);
}

static bool refine_dc(struct progressive_scan *scan, uint32_t column, uint32_t count, bool stores)
{
    const struct huffman_mcu *mcu = &scan->mcu;
    struct huffman_bits bits = scan->bits;
    for (uint32_t end = column + count; column < end; column++) {
        huffman_refill(&bits);
        uint64_t taken = progressive_take(&bits, mcu->n_blocks);
        for (uint32_t i = 0; stores && i < mcu->n_blocks; i++) {
            int16_t *dc = dc_of(mcu, i, column);
            *dc = (int16_t)(*dc | (taken >> (mcu->n_blocks - 1 - i) & 1) << scan->low);
        }
    }
    scan->bits = bits;
    return huffman_is_fine(&bits);
}

bool progressive_read_dc(struct progressive_scan *scan, uint32_t column, uint32_t count, bool stores)
{
    return scan->refines ? refine_dc(scan, column, count, stores) : first_dc(scan, column, count, stores);
}

bool progressive_read_ac(struct progressive_scan *scan, int16_t (*blocks)[64], uint64_t *masks, uint32_t count)
{
    return read_blocks(scan, blocks, masks, count);
}
