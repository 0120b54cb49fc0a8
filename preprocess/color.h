/* color.h: changes the colours of an image in place, with Pillow's arithmetic (ImageEnhance, ImageOps, Convert.c),
 * equal to it level by level. */
#ifndef LARDER_PREPROCESS_COLOR_H
#define LARDER_PREPROCESS_COLOR_H

#include "preprocess/image.h"
#include "preprocess/scratch.h"

/* What can be adjusted by a factor. */
enum color_what { COLOR_BRIGHTNESS, COLOR_CONTRAST, COLOR_SATURATION, COLOR_HUE };
struct color_adjustment {
    enum color_what what;
    double factor; /* COLOR_HUE: -0.5 … 0.5 */
};
#define COLOR_ADJUSTMENTS_MAX 8
/* color_adjust does adjustments one after the other, in as few passes over the image as it can. */
void color_adjust(const struct image *image, const struct color_adjustment *adjustments, uint32_t count);

void color_brightness(const struct image *image, double factor);
void color_contrast(const struct image *image, double factor);
void color_saturation(const struct image *image, double factor);
void color_hue(const struct image *image, double factor); /* -0.5 … 0.5 */
/* color_sharpness needs a copy in scratch memory. It fails with LARDER_ENOMEM alone. */
int color_sharpness(const struct image *image, double factor, struct scratch *scratch);
void color_grayscale(const struct image *image);
void color_solarize(const struct image *image, double threshold);
void color_posterize(const struct image *image, int bits);
void color_equalize(const struct image *image);
void color_autocontrast(const struct image *image);

#endif
