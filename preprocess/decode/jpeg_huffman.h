/* jpeg_huffman.h: Huffman codes of a baseline JPEG, and blocks of coefficients read with them.
 *
 * Pure, and free of libjpeg. A look-up of the next bits gives, for nearly all symbols, the coefficient itself: its
 * place, its value, and how many bits both took. What no valid stream contains is refused, not repaired. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_HUFFMAN_H
#define LARDER_PREPROCESS_DECODE_JPEG_HUFFMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HUFFMAN_LOOK_BITS 10
#define HUFFMAN_LONGEST 16

struct huffman {
    uint32_t look[1 << HUFFMAN_LOOK_BITS]; /* an entry (jpeg_huffman.c) for each next bits; 0: the code is longer */
    uint32_t limit[HUFFMAN_LONGEST + 1];   /* the first 16 bits that no code of this length or shorter begins */
    int32_t offset[HUFFMAN_LONGEST + 1];   /* of a length's codes in values */
    uint8_t values[256];
};

/* huffman_build makes a code from a DHT segment's counts by length (counts[1] to counts[16]) and 256 values. False:
 * it is no code, or (dc) not one for DC coefficients. */
bool huffman_build(struct huffman *code, const uint8_t *counts, const uint8_t *values, bool dc);

/* Entropy-coded bytes between two markers, each 0xff in them followed by a stuffed 0. */
struct huffman_bits {
    uint64_t buffer; /* the next bits, the first uppermost; zeros below them */
    int count;       /* of bits in the buffer */
    int padded;      /* bits of these that stand behind the end of the bytes */
    const uint8_t *at, *end;
};

void huffman_bits_begin(struct huffman_bits *bits, const uint8_t *at, const uint8_t *end);
/* huffman_bits_fine: nothing behind the end was used. huffman_bits_done: and nothing but padding is left. */
bool huffman_bits_fine(const struct huffman_bits *bits);
bool huffman_bits_done(const struct huffman_bits *bits);

/* One component's part of an MCU: width × height blocks, which two codes describe. */
struct huffman_part {
    const struct huffman *dc, *ac;
    uint32_t width, height;
    int32_t last_dc;            /* of the block before; 0 where a segment begins */
    int16_t (*const *rows)[64]; /* height rows of blocks, in natural order, borrowed */
};

/* huffman_read reads MCUs, each of n_parts parts. Those from `column` on are stored in the parts' rows; skip: none is
 * stored, and only the DC coefficients are followed. False: the bytes are not valid, and part of them was read. */
bool huffman_read(struct huffman_bits *bits, struct huffman_part *parts, size_t n_parts, uint32_t column,
                  uint32_t count, bool skip);

#endif
