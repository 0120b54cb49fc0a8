/* jpeg_strips.h: pixels of a rectangle of a JPEG whose colours have half of its resolution, a row of MCUs at a time.
 *
 * libjpeg makes a rectangle's samples block by block, with a call for each, and goes through them once more for the
 * pixels. This takes two blocks at once (jpeg_idct.h), makes no column that the rectangle does not need, and makes the
 * pixels of a row of MCUs while its samples are in the cache. The pixels are libjpeg's, bit by bit. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_STRIPS_H
#define LARDER_PREPROCESS_DECODE_JPEG_STRIPS_H

#include <stdbool.h>
#include <stdint.h>

#include "preprocess/decode/decoded.h"
#include "preprocess/decode/jpeg_memory.h"
#include "preprocess/image.h"

/* jpeg_strips_fit says whether a JPEG, whose header was read, can be made this way at the scale that was chosen. */
bool jpeg_strips_fit(const struct jpeg_decompress_struct *cinfo);

/* jpeg_strips_columns returns how many pixels a row of the rectangle needs room for, from jpeg_color_left(rect.x)
 * on. */
uint32_t jpeg_strips_columns(struct rect rect);

#define JPEG_STRIPS_ROWS 4 /* that a sink gets at once: they stay in the first cache */

/* jpeg_strips_read makes the rectangle's rows, from jpeg_color_left(rect.x) on, at `image`, which has that many
 * columns. Without a sink it has room for all rows. With one it has room for JPEG_STRIPS_ROWS, and the sink gets them
 * from there. cinfo has begun to give out raw data, and its coefficients come from memory->rows. Errors are
 * libjpeg's. */
void jpeg_strips_read(struct jpeg_memory *memory, struct jpeg_decompress_struct *cinfo, struct rect rect,
                      const struct image *image, const struct decode_sink *sink);

#endif
