/* by_vips.h: the pixels that libvips makes, as another opinion. */
#ifndef TESTS_FUZZ_PREPROCESS_BY_VIPS_H
#define TESTS_FUZZ_PREPROCESS_BY_VIPS_H

#include "preprocess/image.h"
#include "preprocess/scratch.h"

/* by_vips decodes a rectangle of a PNG, TIFF or GIF, or all of it where it is empty; then *rect gets the whole. The
 * pixels are scratch memory. False: libvips refuses the bytes. */
bool by_vips(const uint8_t *bytes, size_t len_bytes, struct scratch *scratch, struct rect *rect, struct image *out);

#endif
