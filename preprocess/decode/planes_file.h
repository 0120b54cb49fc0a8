/* planes_file.h: the layout of a JPEG in planes (jpeg_planes.h).
 *
 *   8 bytes   magic
 *   u32       bytes of the JPEG's header
 *   u16       MCUs of a segment; the last one of a row may have fewer
 *   u8, u8    tables: 1 for one component, else 2; 0
 *   …         the tables: of the first component, of the others (planes.h)
 *   …         the JPEG's header, from SOI to SOS, without Huffman codes
 *   …         a u16 a segment: its bytes; segments are in the order of rows, and of columns in a row
 *   …         the segments
 *
 * Numbers are little-endian. Pure: libjpeg, which the header is for, is not known here. */
#ifndef LARDER_PREPROCESS_DECODE_PLANES_FILE_H
#define LARDER_PREPROCESS_DECODE_PLANES_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preprocess/decode/planes.h"

#define PLANES_MAGIC "\x89LDRPLN\n"
#define PLANES_HEAD_BYTES 16
#define PLANES_TABLES_MAX 2
#define PLANES_INTERVAL_MAX 8 /* MCUs of a segment */
/* A segment of PLANES_INTERVAL_MAX MCUs of ten blocks never takes more bytes. */
#define PLANES_SEGMENT_MAX (PLANES_INTERVAL_MAX * PLANES_BLOCKS_MAX * PLANES_SLACK_BYTES)
_Static_assert(PLANES_SEGMENT_MAX <= UINT16_MAX, "a length has 16 bits");

struct planes_file {
    const uint8_t *tables, *header, *lengths, *segments, *end; /* borrowed */
    size_t header_bytes;
    uint32_t n_tables, interval;
};

/* planes_file_open finds the parts, of which the lengths and what follows are not known yet. False: it is no such
 * file, or it ends before its header does. */
bool planes_file_open(struct planes_file *file, const uint8_t *bytes, size_t len_bytes);
/* planes_file_segments finds the others, once the header has said how many segments there are. False: they are not as
 * long as the file. */
bool planes_file_segments(struct planes_file *file, uint64_t n_segments);

#endif
