/* color.h: colour changes, in place, with Pillow's arithmetic (ImageEnhance, ImageOps, Convert.c), level by level. */
#ifndef LARDER_PREPROCESS_COLOR_H
#define LARDER_PREPROCESS_COLOR_H

#include "preprocess/image.h"
#include "preprocess/scratch.h"

void color_brightness(const struct image *image, double factor);
void color_contrast(const struct image *image, double factor);
void color_saturation(const struct image *image, double factor);
void color_hue(const struct image *image, double factor); /* -0.5 … 0.5 */
/* LARDER_ENOMEM only: it needs a copy. */
int color_sharpness(const struct image *image, double factor, struct scratch *scratch);
void color_grayscale(const struct image *image);
void color_solarize(const struct image *image, double threshold);
void color_posterize(const struct image *image, int bits);
void color_equalize(const struct image *image);
void color_autocontrast(const struct image *image);

#endif
