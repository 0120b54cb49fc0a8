/* reference.h: plain libjpeg-turbo, used as its examples use it. The bench compares with it. */
#ifndef LARDER_PREPROCESS_REFERENCE_H
#define LARDER_PREPROCESS_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "preprocess/image.h"

/* reference_decode decodes the rows and columns of rect, rounded up as jpeg_crop_scanline does, into *buffer. It
 * grows the buffer of *capacity bytes as needed; the caller frees it. It returns false for what is no JPEG that
 * libjpeg decodes. */
bool reference_decode(const uint8_t *bytes, size_t len_bytes, struct rect rect, uint8_t **buffer, size_t *capacity);

/* Times of the parts of a decode after the entropy decoding. They are differences between decodes that each leave one
 * part out. */
struct reference_parts {
    double idct_ns, color_ns; /* color: upsampling of chroma and conversion to RGB */
};

/* reference_time adds the parts of one decode of rect to *parts. Buffer and result are reference_decode's. */
bool reference_time(const uint8_t *bytes, size_t len_bytes, struct rect rect, uint8_t **buffer, size_t *capacity,
                    struct reference_parts *parts);

#endif
