/* planes.h: blocks of DCT coefficients in bit planes.
 *
 * A Huffman code's symbols must be read one after the other, because the bits of one say where the next begins. Here
 * all coefficients of a block are read together: a field holds one bit of each of them, or of those that a mask names,
 * and how many bits it has is a population count. A block of 18 coefficients takes about 12 fields.
 *
 * Coefficients are in zigzag order, places 1 to 63; in place of the DC coefficient stands its difference to that of the
 * component's block before. A class says of each place how many low bits of a magnitude are written as they are (its
 * shift), because they say little. The bits above them are a number u. The length of u in bits is written in unary, as
 * ones and a zero, and then the bits of u below its uppermost. The class has a shift for the DC difference too. It has
 * another shift for the last place that is not zero, and the bits above that are written in unary. An image has four
 * classes for the first component and four for the others, which planes_fit finds. The fields:
 *
 *   class      2 bits
 *   DC length  in unary: of u of the difference
 *   last       in unary: the last place that is not zero, or 0, above its shift; and its low bits
 *   DC         its low bits, the bits of u below the uppermost, and the sign (1 is negative) unless it is 0
 *   low bits   for i = 0 to 3: bit i of the magnitudes whose shift is above i, up to the last place
 *   lengths    of each u up to the last place: is it 1 bit or longer? (Not of the last one, if its shift is 0: it is.)
 *              Of those where it is: 2 bits or longer? And so on, until none is
 *   u          for i = 0, 1, …: bit i of each u that is longer than i + 1 bits; what is above is its length
 *   signs      of what is not zero
 *
 * So a magnitude of 13 with a shift of 2 is the low bits 01 and u = 3, whose length is 2 and whose lowest bit is 1.
 * Bits are taken from the lowest of a byte on. A field's first bit is the lowest place's. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_PLANES_H
#define LARDER_PREPROCESS_DECODE_PLANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLANES_CLASSES 4
#define PLANES_PLACES 64
#define PLANES_SHIFT_MAX 4
#define PLANES_LENGTH_MAX 11 /* most bits of a magnitude, as in baseline JPEG */
#define PLANES_DC_SHIFT_MAX 7
#define PLANES_LAST_SHIFT_MIN 2 /* else a block's first fields could be longer than what is looked at together */
#define PLANES_LAST_SHIFT_MAX 5
#define PLANES_TABLE_BYTES (PLANES_CLASSES * 33) /* a class: the last place's shift, and four bits a place */
#define PLANES_PARTS_MAX 4                       /* components of an image */
#define PLANES_BLOCKS_MAX 10                     /* blocks of an MCU */
/* A block takes fewer bytes than this, whatever its bits are. Reading looks this far behind the end of a segment. */
#define PLANES_SLACK_BYTES 320

struct planes_class {
    uint64_t low[PLANES_SHIFT_MAX]; /* low[i]: the places whose shift is above i; place 0 is in the first */
    uint32_t dc_shift, last_shift;
    uint16_t shifts[PLANES_PLACES]; /* place 0 has 0 */
    uint8_t units[PLANES_PLACES];   /* 1 << shift */
    uint8_t narrow[PLANES_PLACES];  /* the shifts once more */
    uint16_t blank[PLANES_PLACES];  /* bits of places 1 to this one, if all their coefficients are zero */
};

struct planes_table {
    struct planes_class classes[PLANES_CLASSES];
};

/* planes_table_read reads a table from PLANES_TABLE_BYTES bytes. False: a shift is too large. */
bool planes_table_read(struct planes_table *table, const uint8_t *bytes);
void planes_table_write(const struct planes_table *table, uint8_t *bytes);

/* One component's part of an MCU: width × height blocks, by rows. */
struct planes_part {
    const struct planes_table *table;
    uint32_t width, height;
    int16_t (*const *rows)[PLANES_PLACES]; /* height rows of blocks, in natural order, borrowed */
};

struct planes_mcu {
    struct planes_part parts[PLANES_PARTS_MAX];
    uint32_t n_parts;
};

/* A segment: its bits from `at` to `end`, counted from the lowest bit of bytes[0]. */
struct planes_segment {
    const uint8_t *bytes; /* PLANES_SLACK_BYTES more than it has can be read */
    uint64_t at, end;
};

/* planes_read reads `skip` MCUs that go nowhere, and then `count` that are stored from `column` on. False: the bits are
 * not valid, and part of them was read. */
bool planes_read(struct planes_segment *segment, const struct planes_mcu *mcu, uint32_t skip, uint32_t column,
                 uint32_t count);
/* planes_done says whether nothing but padding, which is zeros, is left of a segment. */
bool planes_done(const struct planes_segment *segment);

/* planes_select chooses the fastest version that this processor runs. Call it before there are threads. Until then it
 * is the portable one. planes_use is for tests and measurements: false if this processor cannot. All give the same. */
enum planes_simd { PLANES_PORTABLE, PLANES_AVX2, PLANES_AVX512, PLANES_SIMDS };
void planes_select(void);
bool planes_use(enum planes_simd simd);

/* planes_fit finds a good table for blocks, whose DC coefficients are differences, in natural order. False: there is no
 * memory. */
bool planes_fit(struct planes_table *table, const int16_t (*blocks)[PLANES_PLACES], size_t n_blocks);

/* Bits that are written to bytes, which have PLANES_SLACK_BYTES more than the caller counts on. */
struct planes_writer {
    uint8_t *bytes; /* zeros behind `at` */
    uint64_t at;    /* position in bits */
};
/* planes_write writes a block, whose DC coefficient is a difference. False: a coefficient is too large for a baseline
 * JPEG. */
bool planes_write(struct planes_writer *writer, const struct planes_table *table, const int16_t *block);

#endif
