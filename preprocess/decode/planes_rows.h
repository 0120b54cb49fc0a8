/* planes_rows.h: rows of MCUs, and only the wanted columns of them, from a JPEG in planes.
 *
 * It does for planes what jpeg_rows.h does for Huffman codes. Segments are found by adding up their lengths. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_PLANES_ROWS_H
#define LARDER_PREPROCESS_DECODE_PLANES_ROWS_H

#include "preprocess/decode/planes_file.h"

struct planes_rows {
    struct planes_file file;
    struct planes_mcu mcu; /* its parts' rows are where blocks go */
    uint32_t per_row, n_rows;
    uint32_t segments_per_row;
    uint64_t segment;  /* the next one, … */
    const uint8_t *at; /* … and where it stands */
    struct planes_table tables[PLANES_TABLES_MAX];
    uint8_t tail[PLANES_SEGMENT_MAX + PLANES_SLACK_BYTES]; /* the last segments, which little stands behind */
};

/* planes_rows_begin begins with a file that planes_file_open has opened. mcu says how its parts are made up, in the
 * order of the components; their tables are filled in. The image has n_rows rows of per_row MCUs. False: the file is
 * not as it should be. */
bool planes_rows_begin(struct planes_rows *rows, const struct planes_file *file, const struct planes_mcu *mcu,
                       uint32_t per_row, uint32_t n_rows);
/* planes_rows_load reads columns first to first + count of a row. Rows are asked for from above to below. False: it
 * cannot be. */
bool planes_rows_load(struct planes_rows *rows, uint32_t row, uint32_t first, uint32_t count);

#endif
