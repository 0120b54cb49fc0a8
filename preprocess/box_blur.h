/* box_blur.h: Pillow's ImageFilter.GaussianBlur (BoxBlur.c): three box blurs each way, with its arithmetic in whole
 * numbers, bit for bit. Pure. */
#ifndef LARDER_PREPROCESS_BOX_BLUR_H
#define LARDER_PREPROCESS_BOX_BLUR_H

#include "preprocess/image.h"
#include "preprocess/scratch.h"

#define BOX_BLUR_RADIUS_MAX 1000

/* box_blur_gaussian blurs the image in place; radius, 0 … BOX_BLUR_RADIUS_MAX, is the standard deviation. It fails with
 * LARDER_ENOMEM alone. */
int box_blur_gaussian(const struct image *image, double radius, struct scratch *scratch);

#endif
