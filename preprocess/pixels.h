/* pixels.h: small things that several operators do to pixels. */
#ifndef LARDER_PREPROCESS_PIXELS_H
#define LARDER_PREPROCESS_PIXELS_H

#include "preprocess/image.h"

void pixels_copy(const struct image *in, struct image *out);
/* pixels_place puts `in` with its corner at (x, y) of out, either possibly outside, and `fill` wherever it does not reach. */
void pixels_place(const struct image *in, int32_t x, int32_t y, const uint8_t fill[IMAGE_CHANNELS], struct image *out);

#endif
