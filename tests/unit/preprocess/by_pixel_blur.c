#include <math.h>
#include <stdlib.h>

#include "by_pixel.h"
#include "common/check.h"
#include "preprocess/pixels.h"

static void make_kernel(float *kernel, uint32_t size, float sigma)
{
    float half = (float)(size - 1) * 0.5f, sum = 0;
    for (uint32_t i = 0; i < size; i++) {
        float x = ((float)i - half) / sigma;
        kernel[i] = expf(-0.5f * (x * x));
        sum += kernel[i];
    }
    for (uint32_t i = 0; i < size; i++)
        kernel[i] /= sum;
}

static float *along_rows(const struct image *in, uint32_t size, double sigma)
{
    float *kernel = xcalloc(size, sizeof *kernel), *sums = xcalloc((size_t)in->width * in->height * 3, sizeof *sums);
    make_kernel(kernel, size, (float)sigma);
    for (uint32_t y = 0; y < in->height; y++) {
        for (uint32_t x = 0; x < in->width; x++) {
            float *to = sums + ((size_t)y * in->width + x) * 3;
            for (uint32_t k = 0; k < size; k++) {
                int64_t from = pixels_pad_index((int64_t)x + k - size / 2, in->width, PAD_REFLECT);
                for (int c = 0; c < IMAGE_CHANNELS; c++)
                    to[c] += kernel[k] * (float)image_row(in, y)[from * IMAGE_CHANNELS + c];
            }
        }
    }
    free(kernel);
    return sums;
}

void by_pixel_blur(const struct image *in, uint32_t kernel_width, uint32_t kernel_height, double sigma,
                   const struct image *out)
{
    float *middle = along_rows(in, kernel_width, sigma), *kernel = xcalloc(kernel_height, sizeof *kernel);
    size_t count = (size_t)in->width * IMAGE_CHANNELS;
    make_kernel(kernel, kernel_height, (float)sigma);
    for (uint32_t y = 0; y < in->height; y++) {
        for (size_t i = 0; i < count; i++) {
            float sum = 0;
            for (uint32_t k = 0; k < kernel_height; k++) {
                int64_t from = pixels_pad_index((int64_t)y + k - kernel_height / 2, in->height, PAD_REFLECT);
                sum += kernel[k] * middle[(size_t)from * count + i];
            }
            image_row(out, y)[i] = (uint8_t)(sum >= 255.0f ? 255.0f : rintf(sum));
        }
    }
    free(kernel);
    free(middle);
}
