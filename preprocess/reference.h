/* reference.h: plain libjpeg-turbo, used as its examples use it. The bench compares with it. */
#ifndef LARDER_PREPROCESS_REFERENCE_H
#define LARDER_PREPROCESS_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "preprocess/image.h"

/* reference_decode decodes the rows and columns of rect, rounded up as jpeg_crop_scanline does, into *buffer. It
 * grows the buffer of *capacity bytes as needed; the caller frees it. It gives false for what is no JPEG that
 * libjpeg decodes. */
bool reference_decode(const uint8_t *bytes, size_t len_bytes, struct rect rect, uint8_t **buffer, size_t *capacity);

#endif
