/* jpeg_planes.h: a baseline JPEG's coefficients in bit planes (planes.h) instead of Huffman codes.
 *
 * It is another writing of the same JPEG, which is read faster where the processor has AVX-512 or AVX2, and is not
 * larger unless the image is small. It begins with the JPEG's own header, up to where the entropy-coded data began, so
 * libjpeg reads that, and makes the pixels. The rows of MCUs are cut into segments of a few MCUs, each of which can be
 * read by itself. Their lengths stand in front of them, so a rectangle's segments are found without a search.
 *
 * No other program reads this, so it is only a store's. jpeg_rewrite_in_planes makes one, and
 * jpeg_rewrite gives the JPEG back. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_PLANES_H
#define LARDER_PREPROCESS_DECODE_JPEG_PLANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

#include "preprocess/decode/planes_file.h"

/* jpeg_planes_is says whether bytes begin as jpeg_planes_write writes them. */
bool jpeg_planes_is(const uint8_t *bytes, size_t len_bytes);

/* What is written. The caller frees the bytes, after an error too. */
struct jpeg_planes {
    uint8_t *bytes;
    size_t len_bytes, cap_bytes;
};

/* jpeg_planes_fit says whether a JPEG, whose header was read, has components that planes are for. */
bool jpeg_planes_fit(const struct jpeg_decompress_struct *from);
/* jpeg_planes_write writes coefficients, as those of jpeg_read_coefficients, in segments of PLANES_INTERVAL_MAX MCUs,
 * or of a row if it has fewer. The blocks outside of the image are changed to what libjpeg writes of them. `header` is,
 * from SOI to SOS, that of the JPEG with a restart marker after each segment that libjpeg would write. A coefficient
 * that is too large for a baseline JPEG, and other errors, leave through from's error_exit. */
void jpeg_planes_write(struct jpeg_decompress_struct *from, jvirt_barray_ptr *coefficients, const uint8_t *header,
                       size_t header_bytes, struct jpeg_planes *made);

#endif
