/* elastic_transform: each pixel comes from a place nearby. The places are random, and blurred so that neighbours move
 * alike. As torchvision computes it also for Pillow's images: in single precision, and rounded once. */
#include <math.h>

#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

#define SIGMA_MAX 100

struct values {
    struct arg_range alpha, sigma; /* low: along x, high: along y */
    int32_t interpolation;
    struct arg_color fill;
};

static const char *const filters[] = {"nearest", "bilinear", NULL};
_Static_assert(FILTER_NEAREST == 0 && FILTER_BILINEAR == 1, "the choices are in enum filter's order");

static const struct arg args[] = {
    {.name = "alpha",
     .type = ARG_PAIR,
     .offset = offsetof(struct values, alpha),
     .initial = "50",
     .min = 0,
     .max = 1e4},
    {.name = "sigma",
     .type = ARG_PAIR,
     .offset = offsetof(struct values, sigma),
     .initial = "5",
     .min = 0,
     .max = SIGMA_MAX},
    {.name = "interpolation",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, interpolation),
     .initial = "\"bilinear\"",
     .choices = filters},
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, fill), .initial = "0", .min = 0, .max = 255},
    {0},
};

/* How many numbers a blur looks at: odd; one where there is none. */
static uint32_t kernel_size(double sigma)
{
    return sigma > 0 ? (uint32_t)(8 * sigma + 1) | 1 : 1;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    const struct values *v = values;
    uint32_t most = kernel_size(fmax(v->sigma.low, v->sigma.high));
    if (most / 2 >= p->in_width || most / 2 >= p->in_height)
        return error_set(err, LARDER_ELIMIT, "an image of %u × %u pixels is too small for a blur of %u: lower sigma",
                         p->in_width, p->in_height, most);
    p->seed = random_u64(rng);
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

/* The numbers of a field: `step` apart along the blur, `line` apart from one line to the next. */
struct lines {
    float *field;
    size_t count, length, step, line;
};

static int blur(const struct lines *lines, uint32_t size, double sigma, struct scratch *scratch)
{
    float *kernel = scratch_take(scratch, size * sizeof *kernel),
          *row = scratch_take(scratch, (lines->length + size) * sizeof *row);
    if (!kernel || !row)
        return LARDER_ENOMEM;
    make_kernel(kernel, size, (float)sigma);
    for (size_t n = 0; n < lines->count; n++) {
        float *at = lines->field + n * lines->line;
        for (size_t i = 0; i < lines->length + size - 1; i++)
            row[i] =
                at[(size_t)pixels_pad_index((int64_t)i - size / 2, (uint32_t)lines->length, PAD_REFLECT) * lines->step];
        for (size_t i = 0; i < lines->length; i++) {
            float sum = 0;
            for (uint32_t k = 0; k < size; k++)
                sum += kernel[k] * row[i + k];
            at[i * lines->step] = sum;
        }
    }
    return 0;
}

/* How far each pixel goes along one side, in halves of that side. */
static int make_field(const struct values *v, const struct image *in, bool down, struct rng *rng, float *field,
                      struct scratch *scratch)
{
    size_t width = in->width, height = in->height;
    double own = down ? v->sigma.high : v->sigma.low;
    uint32_t size = kernel_size(own);
    for (size_t i = 0; i < width * height; i++)
        field[i] = (float)random_unit(rng) * 2.0f - 1.0f;
    const struct lines rows = {field, height, width, 1, width}, columns = {field, width, height, width, 1};
    int rc = 0;
    if (own > 0 && v->sigma.low > 0)
        rc = blur(&rows, size, v->sigma.low, scratch);
    if (own > 0 && v->sigma.high > 0 && rc == 0)
        rc = blur(&columns, size, v->sigma.high, scratch);
    float alpha = (float)(down ? v->alpha.high : v->alpha.low), side = (float)(down ? height : width);
    for (size_t i = 0; i < width * height; i++)
        field[i] = field[i] * alpha / side;
    return rc;
}

/* torch.linspace over the middles of `count` pixels, from -1 to 1. */
static float middle(uint32_t at, uint32_t count)
{
    float first = (float)(-(double)count + 1) / (float)count, last = (float)((double)count - 1) / (float)count;
    float step = count > 1 ? (last - first) / (float)(count - 1) : 0;
    return at < count / 2 || count == 1 ? first + step * (float)at : last - step * (float)(count - 1 - at);
}

/* place maps -1 to 1 to the pixels of a side that has `count` of them. */
static float place(float at, uint32_t count)
{
    return (at + 1.0f) * ((float)count / 2.0f) - 0.5f;
}

static bool is_inside(float x, float y, const struct image *in)
{
    return x >= 0 && y >= 0 && x < (float)in->width && y < (float)in->height;
}

/* grid_sample's four neighbours, with nothing outside; what part of them is inside goes to *part. */
static void sample(const struct image *in, float x, float y, float out[IMAGE_CHANNELS], float *part)
{
    float left = floorf(x), top = floorf(y), dx = x - left, dy = y - top;
    const float weights[4] = {(1 - dx) * (1 - dy), dx * (1 - dy), (1 - dx) * dy, dx * dy};
    *part = out[0] = out[1] = out[2] = 0;
    for (int i = 0; i < 4; i++) {
        float at_x = left + (float)(i & 1), at_y = top + (float)(i >> 1);
        if (!is_inside(at_x, at_y, in))
            continue;
        const uint8_t *from = image_row(in, (uint32_t)at_y) + (size_t)at_x * IMAGE_CHANNELS;
        for (int c = 0; c < IMAGE_CHANNELS; c++)
            out[c] += weights[i] * (float)from[c];
        *part += weights[i];
    }
}

static void make_pixel(const struct values *v, const struct image *in, float x, float y, uint8_t *to)
{
    float level[IMAGE_CHANNELS], part;
    bool nearest = v->interpolation == FILTER_NEAREST;
    if (nearest) {
        x = rintf(x);
        y = rintf(y);
    }
    sample(in, x, y, level, &part);
    for (int c = 0; c < IMAGE_CHANNELS; c++) {
        float fill = (float)v->fill.value[c], value = (level[c] - fill) * part + fill;
        if (nearest)
            value = part < 0.5f ? fill : level[c];
        value = rintf(value);
        to[c] = value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)value;
    }
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    const struct values *v = values;
    size_t count = (size_t)in->width * in->height;
    float *across = scratch_take(scratch, count * sizeof *across), *down = scratch_take(scratch, count * sizeof *down);
    if (!across || !down)
        return LARDER_ENOMEM;
    struct rng rng;
    random_seed(&rng, p->seed);
    if (make_field(v, in, false, &rng, across, scratch) || make_field(v, in, true, &rng, down, scratch))
        return LARDER_ENOMEM;
    for (uint32_t y = 0; y < out->height; y++) {
        uint8_t *to = image_row(out, y);
        float at_y = middle(y, in->height);
        for (uint32_t x = 0; x < out->width; x++, to += IMAGE_CHANNELS) {
            size_t i = (size_t)y * in->width + x;
            make_pixel(v, in, place(middle(x, in->width) + across[i], in->width), place(at_y + down[i], in->height),
                       to);
        }
    }
    return 0;
}

const struct op_kind op_elastic_transform = {
    .name = "elastic_transform",
    .python = "ElasticTransform",
    .text = "Moves each pixel a little, and neighbours alike: `alpha` says how far, `sigma` over how many pixels "
            "alike. A number each, or `[x, y]`.",
    .flags = OP_RANDOM,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};
