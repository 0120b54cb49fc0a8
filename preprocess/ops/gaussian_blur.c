/* gaussian_blur: with a random sigma; borders reflected. As torchvision computes it: a kernel in single precision, and
 * one rounding at the end. */
#include <math.h>
#include <string.h>

#include "preprocess/blur_rows.h"
#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"
#include "preprocess/simd.h"

static const struct blur_rows *const versions[] = SIMD_TABLES(blur_rows);

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

/* A kernel along one side, without the weights at its ends that are zero in single precision. */
struct kernel {
    float *weights;
    uint32_t size, half;
};

static void make_kernel(struct kernel *kernel, uint32_t size, float sigma)
{
    float half = (float)(size - 1) * 0.5f, sum = 0;
    for (uint32_t i = 0; i < size; i++) {
        float x = ((float)i - half) / sigma;
        kernel->weights[i] = expf(-0.5f * (x * x));
        sum += kernel->weights[i];
    }
    for (uint32_t i = 0; i < size; i++)
        kernel->weights[i] /= sum;
    for (; kernel->weights[0] == 0; kernel->weights++)
        size -= 2;
    kernel->size = size;
    kernel->half = size / 2;
}

/* What a blur works with. `ring` has the rows last blurred along x, as many as the kernel along y looks at. */
struct blur {
    const struct blur_rows *rows;
    struct kernel x, y;
    uint32_t n_ring;
    size_t count, padded; /* numbers in a row; and filled up to whole blocks */
    float *wide;          /* a row, its ends reflected, and afterwards a row's sums */
    float *ring;
    const float **taps; /* the rows that are weighed */
};

static int prepare(const struct values *v, double sigma, const struct image *in, struct scratch *scratch,
                   struct blur *blur)
{
    uint32_t kx = v->kernel.width, ky = v->kernel.height, most = kx > ky ? kx : ky;
    size_t count = (size_t)in->width * IMAGE_CHANNELS;
    *blur = (struct blur){.rows = versions[simd_selected()],
                          .n_ring = ky < in->height ? ky : in->height,
                          .count = count,
                          .padded = (count + BLUR_BLOCK - 1) / BLUR_BLOCK * BLUR_BLOCK};
    size_t wide = blur->padded + (size_t)kx * IMAGE_CHANNELS;
    blur->x.weights = scratch_take(scratch, kx * sizeof *blur->x.weights);
    blur->y.weights = scratch_take(scratch, ky * sizeof *blur->y.weights);
    blur->wide = scratch_take(scratch, wide * sizeof *blur->wide);
    blur->ring = scratch_take(scratch, blur->n_ring * blur->padded * sizeof *blur->ring);
    blur->taps = scratch_take(scratch, most * sizeof *blur->taps);
    if (!blur->x.weights || !blur->y.weights || !blur->wide || !blur->ring || !blur->taps)
        return LARDER_ENOMEM;
    make_kernel(&blur->x, kx, (float)sigma);
    make_kernel(&blur->y, ky, (float)sigma);
    memset(blur->wide, 0, wide * sizeof *blur->wide);
    return 0;
}

static float *ring_row(const struct blur *blur, uint32_t y)
{
    return blur->ring + y % blur->n_ring * blur->padded;
}

static void reflect_ends(const uint8_t *row, uint32_t width, uint32_t half, float *wide)
{
    for (uint32_t i = 0; i < half; i++) {
        float *left = wide + (size_t)i * IMAGE_CHANNELS, *right = wide + ((size_t)half + width + i) * IMAGE_CHANNELS;
        const uint8_t *from_left = row + (size_t)(half - i) * IMAGE_CHANNELS,
                      *from_right = row + (size_t)(width - 2 - i) * IMAGE_CHANNELS;
        for (int c = 0; c < IMAGE_CHANNELS; c++) {
            left[c] = from_left[c];
            right[c] = from_right[c];
        }
    }
}

static void along_row(const struct blur *blur, const struct image *in, uint32_t y)
{
    const uint8_t *row = image_row(in, y);
    uint32_t half = blur->x.half;
    reflect_ends(row, in->width, half, blur->wide);
    blur->rows->widen(row, blur->count, blur->wide + (size_t)half * IMAGE_CHANNELS);
    for (uint32_t k = 0; k < blur->x.size; k++)
        blur->taps[k] = blur->wide + (size_t)k * IMAGE_CHANNELS;
    blur->rows->weigh(blur->taps, blur->x.weights, blur->x.size, blur->count, ring_row(blur, y));
}

/* One output row from the rows around it, by way of `wide`. */
static void down_columns(const struct blur *blur, const struct image *out, uint32_t y)
{
    for (uint32_t k = 0; k < blur->y.size; k++) {
        int64_t from = pixels_pad_index((int64_t)y + k - blur->y.half, out->height, PAD_REFLECT);
        blur->taps[k] = ring_row(blur, (uint32_t)from);
    }
    blur->rows->weigh(blur->taps, blur->y.weights, blur->y.size, blur->count, blur->wide);
    blur->rows->narrow(blur->wide, blur->count, image_row(out, y));
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    struct blur blur;
    if (prepare(values, p->real[0], in, scratch, &blur))
        return LARDER_ENOMEM;
    for (uint32_t y = 0, made = 0; y < in->height; y++) {
        for (; made < in->height && made <= y + blur.y.half; made++)
            along_row(&blur, in, made);
        down_columns(&blur, out, y);
    }
    return 0;
}

const struct op_kind op_gaussian_blur = {
    .name = "gaussian_blur",
    .python = "GaussianBlur",
    .text = "Blurs with a Gaussian of random `sigma`.",
    .flags = OP_RANDOM | OP_COLORS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};
