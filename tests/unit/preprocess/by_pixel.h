/* by_pixel.h: the operators pixel by pixel, with the very sums of Pillow and torchvision: what the vector versions are
 * compared with. */
#ifndef LARDER_TESTS_BY_PIXEL_H
#define LARDER_TESTS_BY_PIXEL_H

#include "preprocess/affine.h"
#include "preprocess/image.h"

void by_pixel_brightness(const struct image *image, double factor);
void by_pixel_contrast(const struct image *image, double factor);
void by_pixel_saturation(const struct image *image, double factor);
void by_pixel_hue(const struct image *image, double factor);
void by_pixel_sharpness(const struct image *image, double factor);
void by_pixel_grayscale(const struct image *image);
void by_pixel_solarize(const struct image *image, double threshold);
void by_pixel_posterize(const struct image *image, int bits);
void by_pixel_equalize(const struct image *image);
void by_pixel_autocontrast(const struct image *image);

/* Kernels are odd, and at most twice as long as the image. */
void by_pixel_blur(const struct image *in, uint32_t kernel_width, uint32_t kernel_height, double sigma,
                   const struct image *out);

void by_pixel_affine(const struct affine *affine, enum filter filter, const uint8_t fill[IMAGE_CHANNELS],
                     const struct image *in, const struct image *out);

#endif
