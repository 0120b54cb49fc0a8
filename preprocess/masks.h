/* masks.h: numbers in the place of pixels. While a mask is made, its numbers, of up to 16 bits, stand as colors: red is
 * the lower 8 bits, green the upper ones, and blue is 0. A pixel of MASK_FILLED thrice is where the image has none. */
#ifndef LARDER_PREPROCESS_MASKS_H
#define LARDER_PREPROCESS_MASKS_H

#include "preprocess/image.h"
#include "preprocess/pipeline_priv.h"

/* mask_store writes the numbers of a mask's pixels to dst, which has room for pipeline_layout()->bytes. */
void mask_store(const struct pipeline *pipeline, const struct image *image, void *dst);

#endif
