/* jpeg_progressive.h: blocks of coefficients, read from one scan of a progressive JPEG after the other.
 *
 * Pure, and free of libjpeg. A scan has some of the coefficients (those from `first` to `last` in the zigzag), and of
 * these all bits from `low` on, or, where it refines, one more. So a scan that refines depends on which coefficients
 * are not zero yet. A block's mask says so: its uppermost bit stands for the first coefficient of the zigzag. With
 * masks, blocks that nobody wants need no coefficients.
 *
 * Bits that no valid stream contains are refused, not repaired. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_PROGRESSIVE_H
#define LARDER_PREPROCESS_DECODE_JPEG_PROGRESSIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "preprocess/decode/jpeg_huffman.h"

/* A scan that is read. */
struct progressive_scan {
    uint32_t first, last, low;
    bool refines;
    struct huffman_mcu mcu; /* if first > 0, one part with a block */
    struct huffman_bits bits;
    uint32_t run; /* blocks to come that have no new coefficients */
    int32_t last_dc[HUFFMAN_PARTS_MAX];
};

/* progressive_fits says whether a scan can be read with a code. */
bool progressive_fits(const struct progressive_scan *scan, const struct huffman *code);

/* progressive_begin begins with the bytes between two markers, which it borrows. It reads nothing yet. */
void progressive_begin(struct progressive_scan *scan, const uint8_t *from, const uint8_t *to);
/* progressive_read_dc reads `count` MCUs of a scan whose first coefficient is 0. If it stores them, then from `column`
 * on, in blocks that are zero or that an earlier scan was stored to. False: the bytes are not valid. */
bool progressive_read_dc(struct progressive_scan *scan, uint32_t column, uint32_t count, bool stores);
/* progressive_read_ac reads so many blocks of any other scan. blocks NULL: it stores no more than their masks. */
bool progressive_read_ac(struct progressive_scan *scan, int16_t (*blocks)[64], uint64_t *masks, uint32_t count);
/* progressive_done says whether all was read, and nothing but padding is left. */
bool progressive_done(const struct progressive_scan *scan);

/* progressive_select chooses the fastest version that this processor runs. Call it before there are threads. Until then
 * it is the portable one. progressive_use is for tests: false if this processor cannot. Both give the same. */
enum progressive_version { PROGRESSIVE_PORTABLE, PROGRESSIVE_BMI2, PROGRESSIVE_VERSIONS };
void progressive_select(void);
bool progressive_use(enum progressive_version version);

#endif
