/* jpeg_planes.h: a baseline JPEG's coefficients in bit planes (planes.h) instead of Huffman codes.
 *
 * It is another writing of the same JPEG, which is read faster where the processor has AVX-512 or AVX2, and is not
 * larger unless the image is small. It begins with the JPEG's own header, up to where the entropy-coded data began, so
 * libjpeg reads that, and makes the pixels. The rows of MCUs are cut into segments of a few MCUs, each of which can be
 * read by itself. Their lengths stand in front of them, so a rectangle's segments are found without a search.
 *
 * No other program reads this, so it is only a store's, and jpeg_rewrite gives the JPEG back. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_PLANES_H
#define LARDER_PREPROCESS_DECODE_JPEG_PLANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#include "preprocess/decode/planes_file.h"

/* jpeg_planes_is says whether bytes begin as jpeg_planes_make writes them. */
bool jpeg_planes_is(const uint8_t *bytes, size_t len_bytes);

/* jpeg_planes_make returns new bytes, which the caller frees, and their length, for a JPEG that jpeg_rewrite or
 * jpeg_write made with restart markers. The same JPEG gives the same bytes. NULL: it cannot be written so, or there is
 * no memory. */
uint8_t *jpeg_planes_make(const uint8_t *jpeg, size_t len_bytes, size_t *new_bytes);

#endif
