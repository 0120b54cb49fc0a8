/* gaussian_blur: with a random sigma; borders reflected. As torchvision computes it: a kernel in single precision, and
 * one rounding at the end. */
#include <math.h>

#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

#define KERNEL_MAX 1023

struct values {
    struct arg_size kernel;
    struct arg_range sigma;
};

static const struct arg args[] = {
    {.name = "kernel_size", .type = ARG_KERNEL, .offset = offsetof(struct values, kernel), .min = 1, .max = KERNEL_MAX},
    {.name = "sigma",
     .type = ARG_SPAN,
     .offset = offsetof(struct values, sigma),
     .initial = "[0.1, 2.0]",
     .min = 1e-3,
     .max = 1e4},
    {0},
};

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    const struct values *v = values;
    if (v->kernel.width / 2 >= p->in_width || v->kernel.height / 2 >= p->in_height)
        return error_set(err, LARDER_ELIMIT, "an image of %u × %u pixels is too small for a kernel of %u × %u",
                         p->in_width, p->in_height, v->kernel.width, v->kernel.height);
    p->real[0] = op_uniform(rng, v->sigma.low, v->sigma.high);
    return 0;
}

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

/* A row, its ends reflected, as numbers. */
static void widen(const uint8_t *row, uint32_t width, uint32_t half, float *out)
{
    for (int64_t x = -(int64_t)half; x < (int64_t)width + half; x++, out += IMAGE_CHANNELS) {
        const uint8_t *from = row + (size_t)pixels_pad_index(x, width, PAD_REFLECT) * IMAGE_CHANNELS;
        for (int c = 0; c < IMAGE_CHANNELS; c++)
            out[c] = from[c];
    }
}

static void along_row(const float *restrict wide, size_t count, const float *kernel, uint32_t size, float *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = 0;
    for (uint32_t k = 0; k < size; k++) {
        const float *from = wide + (size_t)k * IMAGE_CHANNELS;
        for (size_t i = 0; i < count; i++)
            out[i] += kernel[k] * from[i];
    }
}

/* One output row from the rows around it, by way of `sums`. */
static void down_columns(const float *middle, const struct image *out, uint32_t y, const float *kernel, uint32_t size,
                         float *restrict sums)
{
    size_t count = (size_t)out->width * IMAGE_CHANNELS;
    for (size_t i = 0; i < count; i++)
        sums[i] = 0;
    for (uint32_t k = 0; k < size; k++) {
        const float *from = middle +
                            (size_t)pixels_pad_index((int64_t)y + k - size / 2, out->height, PAD_REFLECT) * count;
        for (size_t i = 0; i < count; i++)
            sums[i] += kernel[k] * from[i];
    }
    uint8_t *to = image_row(out, y);
    for (size_t i = 0; i < count; i++)
        to[i] = (uint8_t)(sums[i] >= 255.0f ? 255.0f : rintf(sums[i]));
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    const struct values *v = values;
    uint32_t kx = v->kernel.width, ky = v->kernel.height;
    size_t count = (size_t)in->width * IMAGE_CHANNELS;
    float *kernel_x = scratch_take(scratch, kx * sizeof *kernel_x),
          *kernel_y = scratch_take(scratch, ky * sizeof *kernel_y);
    float *wide = scratch_take(scratch, (count + (size_t)kx * IMAGE_CHANNELS) * sizeof *wide);
    float *middle = scratch_take(scratch, count * in->height * sizeof *middle);
    if (!kernel_x || !kernel_y || !wide || !middle)
        return LARDER_ENOMEM;
    make_kernel(kernel_x, kx, (float)p->real[0]);
    make_kernel(kernel_y, ky, (float)p->real[0]);
    for (uint32_t y = 0; y < in->height; y++) {
        widen(image_row(in, y), in->width, kx / 2, wide);
        along_row(wide, count, kernel_x, kx, middle + y * count);
    }
    for (uint32_t y = 0; y < in->height; y++)
        down_columns(middle, out, y, kernel_y, ky, wide);
    return 0;
}

const struct op_kind op_gaussian_blur = {
    .name = "gaussian_blur",
    .python = "GaussianBlur",
    .text = "Blurs with a Gaussian of random `sigma`.",
    .flags = OP_RANDOM,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};
