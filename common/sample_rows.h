/* sample_rows.h: the encoded bytes of a part of a sample that is rows of numbers, such as the boxes of an image.
 *
 * They are two u32, how many rows there are and how many numbers each has, and then the numbers as doubles, row by row;
 * all little-endian. Pure. */
#ifndef LARDER_COMMON_SAMPLE_ROWS_H
#define LARDER_COMMON_SAMPLE_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define SAMPLE_ROWS_MAX 65536u                  /* rows of a sample */
#define SAMPLE_ROW_NUMBERS_MAX 1024             /* numbers of a row */
#define SAMPLE_ROW_WHOLE_MAX 9007199254740992.0 /* up to which doubles have every whole number */
#define SAMPLE_ROWS_HEAD_BYTES 8

/* What a dataset knows of such a part: of all samples together. */
struct part_rows {
    uint32_t most;  /* rows of the sample that has most */
    uint32_t width; /* numbers of each row; 0: no sample has a row */
    bool whole;     /* all numbers are whole, and doubles have them exactly */
};

/* Rows that lie in a sample's bytes, which are borrowed. */
struct sample_rows {
    uint32_t count, width;
    const void *numbers; /* at no certain alignment */
};

/* sample_rows_read finds the rows. LARDER_EFORMAT: the bytes are none. */
int sample_rows_read(const void *bytes, size_t len_bytes, struct sample_rows *out, struct error *err);
/* sample_rows_at returns number `i` of a row. */
double sample_rows_at(const struct sample_rows *rows, uint32_t row, uint32_t i);
/* sample_rows_bytes returns the length of so many rows. sample_rows_write writes the head, behind which the numbers
 * are put by sample_rows_put, from 0 on. */
size_t sample_rows_bytes(uint32_t count, uint32_t width);
void sample_rows_write(uint32_t count, uint32_t width, void *to);
void sample_rows_put(void *to, size_t number, double value);

#endif
