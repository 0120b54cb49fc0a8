/* jpeg_huffman.h: Huffman codes of a baseline JPEG, and blocks of coefficients read with them.
 *
 * Pure, and free of libjpeg. A look-up of the next bits decodes nearly all symbols. Bits that no valid stream contains
 * are refused, not repaired.
 *
 * The bits of a symbol say where the next one begins, so a processor mostly waits. Therefore two lanes, each with a
 * segment of its own, can be read together: the processor works on one while it waits for the other. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_HUFFMAN_H
#define LARDER_PREPROCESS_DECODE_JPEG_HUFFMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HUFFMAN_LOOK_BITS 10
#define HUFFMAN_LONGEST 16
#define HUFFMAN_SKIP_BITS 12
#define HUFFMAN_PARTS_MAX 4   /* components of a scan */
#define HUFFMAN_BLOCKS_MAX 10 /* blocks of an MCU */

struct huffman {
    uint32_t look[1 << HUFFMAN_LOOK_BITS]; /* an entry (jpeg_huffman.c) for each next bits */
    uint32_t limit[HUFFMAN_LONGEST + 1];   /* the first 16 bits that no code of this length or shorter begins */
    int32_t offset[HUFFMAN_LONGEST + 1];   /* offset of a length's codes in values */
    uint8_t counts[HUFFMAN_LONGEST + 1], values[256]; /* copies of what it was made from */
    enum { HUFFMAN_NOTHING, HUFFMAN_DC, HUFFMAN_AC } made;
    const uint16_t *skips; /* what huffman_build_skips made of it, borrowed, or NULL; the caller sets it */
};

/* huffman_build makes a code from a DHT segment's counts by length (counts[1] to counts[16]) and 256 values. A code
 * that was made from the same before stays as it is, which is much faster; one that was never made is all zeros. False:
 * it is no code, it has a code of ones alone, which libjpeg refuses too, or (dc) it is not one for DC coefficients. */
bool huffman_build(struct huffman *code, const uint8_t *counts, const uint8_t *values, bool dc);

/* huffman_build_skips makes a second look-up of an AC code, for blocks that go nowhere: an entry stands for all symbols
 * that the next bits show. It takes as long as it saves in a thousand blocks or two. */
void huffman_build_skips(const struct huffman *code, uint16_t skips[1 << HUFFMAN_SKIP_BITS]);

/* Entropy-coded bytes between two markers, each 0xff in them followed by a stuffed 0. */
struct huffman_bits {
    uint64_t buffer; /* the next bits, the first uppermost; below `count` some that will be put there again, or zeros */
    uint32_t count;  /* bits in the buffer */
    uint32_t padded; /* bits of these that stand behind the end of the bytes */
    const uint8_t *at, *end;
};

/* One component's part of an MCU: width × height blocks, which two codes describe. */
struct huffman_part {
    const struct huffman *dc, *ac;
    uint32_t width, height;
    int16_t (*const *rows)[64]; /* height rows of blocks, in natural order, borrowed */
};

/* An MCU's blocks, in the order in which they are coded. */
struct huffman_mcu {
    struct huffman_part parts[HUFFMAN_PARTS_MAX];
    uint32_t n_parts, n_blocks;
    struct {
        uint32_t part, x, y; /* and where in the part it stands */
    } blocks[HUFFMAN_BLOCKS_MAX];
};

/* huffman_mcu_order fills in the blocks. False: they are too many. */
bool huffman_mcu_order(struct huffman_mcu *mcu);

/* A lane's position in a block. */
struct huffman_place {
    struct huffman_bits bits;
    const struct huffman *ac;
    int16_t *block;
    uint32_t k; /* the next coefficient, in zigzag */
};

/* A segment that is read. */
struct huffman_lane {
    struct huffman_place place;
    uint32_t at;         /* the block of the MCU */
    uint32_t skip, left; /* MCUs that go nowhere, and MCUs behind them that are stored */
    uint32_t column;     /* column of the next MCU that is stored */
    bool to_end;         /* the segment ends with them */
    int32_t last_dc[HUFFMAN_PARTS_MAX];
    int16_t nowhere[64];
};

/* huffman_lane_begin begins with a segment's bytes, which it borrows. It reads nothing yet. */
void huffman_lane_begin(struct huffman_lane *lane, const uint8_t *from, const uint8_t *to);

/* A place between two MCUs, from which they can be read without those before it. */
struct huffman_mark {
    uint32_t bits;                 /* how far it stands from the first byte: 8 for each byte, a stuffed one too */
    int16_t dc[HUFFMAN_PARTS_MAX]; /* each part's last DC coefficient */
};
#define HUFFMAN_MARK_BYTES_MAX (UINT32_MAX / 8)

/* huffman_lane_mark returns the place of a lane that has read all that it was told, `from` being the bytes' first.
 * huffman_lane_begin_at begins there; the place may be any that is not behind `to`. */
struct huffman_mark huffman_lane_mark(const struct huffman_lane *lane, const uint8_t *from);
void huffman_lane_begin_at(struct huffman_lane *lane, const struct huffman_mark *mark, const uint8_t *from,
                           const uint8_t *to);

/* huffman_lane_aim says what to read next of it: `skip` MCUs that go nowhere, and then `count` that are stored from
 * `column` on, of both together one at least. to_end: behind those that are stored nothing but padding may be left.
 * False: the bytes are not valid. */
bool huffman_lane_aim(struct huffman_lane *lane, const struct huffman_mcu *mcu, uint32_t skip, uint32_t column,
                      uint32_t count, bool to_end);

/* huffman_read reads all that the lane was told. huffman_read_both does this for two, until one of them has read all.
 * False: the bytes are not valid, and part of them was read. */
bool huffman_read(struct huffman_lane *lane, const struct huffman_mcu *mcu);
bool huffman_read_both(struct huffman_lane *a, struct huffman_lane *b, const struct huffman_mcu *mcu);

#endif
