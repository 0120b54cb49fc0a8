/* jpeg_small.h: small JPEGs, from libjpeg's planes.
 *
 * libjpeg's upsampling takes a third of the time of a JPEG of 32 × 32 pixels: it ends a row of chroma with a store that
 * the next load waits for. So of small JPEGs with the usual sampling libjpeg makes the planes, which are whole, and
 * jpeg_color.h makes the pixels, with the same bytes. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_SMALL_H
#define LARDER_PREPROCESS_DECODE_JPEG_SMALL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#include "preprocess/image.h"

/* jpeg_small_fits says whether a JPEG, whose header was read and whose scale is known, can be decoded this way. */
bool jpeg_small_fits(const struct jpeg_decompress_struct *cinfo);
/* jpeg_small_columns: how many pixels a row needs room for. */
uint32_t jpeg_small_columns(const struct jpeg_decompress_struct *cinfo);
/* jpeg_small_read makes image->height rows of all columns, from row `first` on. Decompression was started with raw
 * data, and its output too. Errors are libjpeg's. */
void jpeg_small_read(struct jpeg_decompress_struct *cinfo, uint32_t first, const struct image *image);

#endif
