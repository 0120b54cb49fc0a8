/* random_erasing: fills a random rectangle, by chance, with a value or with normal noise. */
#include <math.h>

#include "preprocess/ops/op.h"

#define TRIES 10

struct values {
    double p;
    struct arg_range scale, ratio;
    struct arg_color value;
    bool inplace;
};

static const struct arg args[] = {
    {.name = "p", .type = ARG_NUMBER, .offset = offsetof(struct values, p), .initial = "0.5", .min = 0, .max = 1},
    {.name = "scale",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, scale),
     .initial = "[0.02, 0.33]",
     .min = 0,
     .max = 1},
    {.name = "ratio",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, ratio),
     .initial = "[0.3, 3.3]",
     .min = 1e-3,
     .max = 1e3},
    {.name = "value",
     .type = ARG_NOISE,
     .offset = offsetof(struct values, value),
     .initial = "0",
     .min = -1e6,
     .max = 1e6},
    {.name = "inplace", .type = ARG_IGNORED, .offset = offsetof(struct values, inplace), .initial = "false"},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    const struct values *v = values;
    if (shape->dtype != PIXEL_UINT8)
        return 0;
    if (v->value.random)
        return error_set(err, LARDER_EINVAL, "value \"random\" needs floating point: put it after to_dtype");
    for (int c = 0; c < IMAGE_CHANNELS; c++) {
        if (v->value.value[c] < 0 || v->value.value[c] > 255)
            return error_set(err, LARDER_EINVAL,
                             "value must be from 0 to 255 for 8-bit pixels, or put it after to_dtype");
    }
    return 0;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    p->skip = true;
    if (!op_chance(rng, v->p))
        return 0;
    double area = (double)p->in_width * p->in_height, log_low = log(v->ratio.low), log_high = log(v->ratio.high);
    for (int i = 0; i < TRIES; i++) {
        double target = area * op_uniform(rng, v->scale.low, v->scale.high);
        double ratio = exp(op_uniform(rng, log_low, log_high));
        double height = rint(sqrt(target * ratio)), width = rint(sqrt(target / ratio));
        if (height >= p->in_height || width >= p->in_width)
            continue;
        p->rect = (struct rect){.width = (uint32_t)width, .height = (uint32_t)height};
        p->rect.y = (uint32_t)random_below(rng, p->in_height - p->rect.height + 1);
        p->rect.x = (uint32_t)random_below(rng, p->in_width - p->rect.width + 1);
        p->seed = random_u64(rng);
        p->skip = false;
        return 0;
    }
    return 0;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)out;
    (void)scratch;
    const struct values *v = values;
    for (uint32_t y = 0; y < p->rect.height; y++) {
        uint8_t *to = image_row(in, p->rect.y + y) + (size_t)p->rect.x * IMAGE_CHANNELS;
        for (size_t i = 0; i < (size_t)p->rect.width * IMAGE_CHANNELS; i++)
            to[i] = (uint8_t)v->value.value[i % IMAGE_CHANNELS];
    }
    return 0;
}

/* A standard normal number (Box and Muller). */
static float normal(struct rng *rng)
{
    double radius = sqrt(-2 * log(1 - random_unit(rng)));
    return (float)(radius * cos(2 * M_PI * random_unit(rng)));
}

static void change(const void *values, const struct op_plan *p, float *pixels)
{
    const struct values *v = values;
    struct rng rng;
    random_seed(&rng, p->seed);
    for (uint32_t y = 0; y < p->rect.height; y++) {
        float *to = pixels + ((size_t)(p->rect.y + y) * p->in_width + p->rect.x) * IMAGE_CHANNELS;
        for (size_t i = 0; i < (size_t)p->rect.width * IMAGE_CHANNELS; i++)
            to[i] = v->value.random ? normal(&rng) : (float)v->value.value[i % IMAGE_CHANNELS];
    }
}

const struct op_kind op_random_erasing = {
    .name = "random_erasing",
    .python = "RandomErasing",
    .text = "Overwrites a random rectangle, with probability `p`. `value` may be `\"random\"` after `to_dtype`.",
    .flags = OP_RANDOM | OP_IN_PLACE | OP_FLOAT | OP_COLORS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .plan = plan,
    .apply = apply,
    .change = change,
};
