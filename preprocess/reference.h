/* reference.h: plain libjpeg-turbo, used as its examples use it: what the bench compares with. */
#ifndef LARDER_PREPROCESS_REFERENCE_H
#define LARDER_PREPROCESS_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "preprocess/image.h"

/* reference_decode decodes the rows and columns of rect, and what jpeg_crop_scanline rounds them up to, into *buffer
 * (malloc'ed, grown, the caller's). false: not a JPEG that libjpeg decodes. */
bool reference_decode(const uint8_t *bytes, size_t len_bytes, struct rect rect, uint8_t **buffer, size_t *capacity);

#endif
