/* jpeg_rows.h: the coefficients of a JPEG, a row of MCUs at a time and only those that are wanted.
 *
 * A restart marker begins a segment, which can be read without those before it. So the rows above a rectangle need no
 * more than a search for markers, and segments left and right of it are skipped too. libjpeg asks for a row through its
 * memory manager (jpeg_memory.h), and does everything after the entropy decoding.
 *
 * A JPEG without restart markers is one segment, unless the caller remembers where a few of its MCUs begin from one
 * time that it is read to the next (jpeg_rows_mark). Then segments begin there.
 *
 * This is about JPEGs with one scan; jpeg_scans.h reads progressive ones. Any interval will do: segments may be parts
 * of a row, a row, several, or cross from one to the next. A row fails if a marker is out of order, missing or one too
 * many, a segment is too short or too long, or a code does not exist. The caller then decodes the ordinary way, which
 * finds out what is wrong. A row in planes that cannot be read is damaged. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_ROWS_H
#define LARDER_PREPROCESS_DECODE_JPEG_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#include "preprocess/decode/jpeg_huffman.h"
#include "preprocess/decode/jpeg_scans.h"
#include "preprocess/decode/planes_rows.h"

_Static_assert(MAX_COMPS_IN_SCAN <= HUFFMAN_PARTS_MAX && D_MAX_BLOCKS_IN_MCU <= HUFFMAN_BLOCKS_MAX, "libjpeg's limits");
_Static_assert(MAX_COMPS_IN_SCAN <= PLANES_PARTS_MAX && D_MAX_BLOCKS_IN_MCU <= PLANES_BLOCKS_MAX, "libjpeg's limits");

struct jpeg_rows {
    enum { JPEG_ROWS_ONE_SCAN, JPEG_ROWS_SCANS, JPEG_ROWS_PLANES } kind;
    uint32_t per_row, n_rows; /* MCUs, and rows of them */
    uint32_t first, count;    /* columns of MCUs that are wanted */
    struct jpeg_scans scans;
    struct planes_rows planes;

    /* One scan. */
    uint32_t interval; /* MCUs of a segment */

    /* Neighbouring segments of a row are read together, in two lanes. The front lane has the last that was begun. */
    struct huffman_lane lanes[2], *front;
    uint64_t segment;        /* the front lane's segment; segments follow each other, and none is read twice */
    uint32_t done;           /* MCUs of it that were read, or that the lane was told to read */
    const uint8_t *at, *end; /* behind the segment, where its marker is; and behind the file */

    /* Where segments begin, of which the first n_marks are known; NULL: behind restart markers. */
    struct huffman_mark *marks;
    uint32_t n_marks, n_segments;
    const uint8_t *start; /* the first segment's */

    struct huffman_mcu mcu;
    int components[MAX_COMPS_IN_SCAN]; /* the components of the MCU's parts */
    struct huffman dc[NUM_HUFF_TBLS], ac[NUM_HUFF_TBLS];
    uint16_t (*skips)[1 << HUFFMAN_SKIP_BITS]; /* memory for each AC code's; NULL: they are made, or not worth it */
};

/* jpeg_rows_fit says whether a JPEG, whose header was read, can be read this way. */
bool jpeg_rows_fit(const struct jpeg_decompress_struct *cinfo);
/* jpeg_rows_begin begins with the first segment, which stands where cinfo's source is. It borrows the source's bytes.
 * False: the header is not as it should be. What memory it takes is cinfo's, and errors of that are libjpeg's. */
bool jpeg_rows_begin(struct jpeg_rows *rows, struct jpeg_decompress_struct *cinfo);
/* jpeg_rows_mark, behind jpeg_rows_begin, makes room for the beginnings of segments where there are no restart markers,
 * and returns how many there can be; 0: they would be of no use. rows->marks then has the first rows->n_marks of them,
 * and more with each row that is loaded. The caller may put in those that were found when the same bytes were read
 * before. Errors of memory are libjpeg's. */
uint32_t jpeg_rows_mark(struct jpeg_rows *rows, struct jpeg_decompress_struct *cinfo);
/* jpeg_rows_begin_planes begins with a JPEG in planes (jpeg_planes.h), whose header cinfo has read. It borrows the
 * file's bytes. False: the file is not as it should be. */
bool jpeg_rows_begin_planes(struct jpeg_rows *rows, const struct jpeg_decompress_struct *cinfo,
                            const struct planes_file *file);
/* jpeg_rows_scans: how many scans there are. */
uint32_t jpeg_rows_scans(const struct jpeg_rows *rows);
/* jpeg_rows_place says where a component's blocks go: as many rows of blocks as an MCU is high. Borrowed. */
void jpeg_rows_place(struct jpeg_rows *rows, int component, JBLOCKARRAY blocks);
/* jpeg_rows_want says which columns of MCUs will be looked at. All, until it is called. */
void jpeg_rows_want(struct jpeg_rows *rows, uint32_t first, uint32_t count);
/* jpeg_rows_load reads the wanted columns of a row. Rows are asked for from above to below. False: it cannot be. */
bool jpeg_rows_load(struct jpeg_rows *rows, uint32_t row);
/* jpeg_rows_finish is called behind the last row. False: something is wrong in what was not wanted, where libjpeg would
 * have found it too. */
bool jpeg_rows_finish(struct jpeg_rows *rows);
/* jpeg_rows_bytes: memory for a row of MCUs, and for what jpeg_rows_begin and jpeg_rows_mark take. */
size_t jpeg_rows_bytes(const struct jpeg_decompress_struct *cinfo);

#endif
