/* random_resized_crop: a crop of random area and aspect ratio, resized. Drawn as torchvision's get_params does. */
#include <math.h>

#include "preprocess/ops/op.h"

#define TRIES 10

struct values {
    struct arg_size size;
    struct arg_range scale, ratio;
    int32_t interpolation;
    bool antialias, dct_scaling;
};

static const struct arg args[] = {
    {.name = "size", .type = ARG_SQUARE, .offset = offsetof(struct values, size), .min = 1, .max = OP_SIZE_MAX},
    {.name = "scale",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, scale),
     .initial = "[0.08, 1.0]",
     .min = 1e-6,
     .max = 1e3},
    {.name = "ratio",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, ratio),
     .initial = "[0.75, 1.3333333333333333]",
     .min = 1e-3,
     .max = 1e3},
    {.name = "interpolation",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, interpolation),
     .initial = "\"bilinear\"",
     .choices = filter_names},
    {.name = "antialias", .type = ARG_BOOL, .offset = offsetof(struct values, antialias), .initial = "true"},
    {.name = "dct_scaling", .type = ARG_BOOL, .offset = offsetof(struct values, dct_scaling), .initial = "false"},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    const struct values *v = values;
    shape->width = v->size.width;
    shape->height = v->size.height;
    return 0;
}

/* The largest central crop whose ratio lies within bounds. */
static struct rect central(const struct arg_range *ratio, uint32_t in_width, uint32_t in_height)
{
    double in_ratio = (double)in_width / in_height;
    long width = in_width, height = in_height;
    if (in_ratio < ratio->low)
        height = lrint(in_width / ratio->low);
    else if (in_ratio > ratio->high)
        width = lrint(in_height * ratio->high);
    width = width < 1 ? 1 : width > in_width ? in_width : width;
    height = height < 1 ? 1 : height > in_height ? in_height : height;
    return (struct rect){(in_width - (uint32_t)width) / 2, (in_height - (uint32_t)height) / 2, (uint32_t)width,
                         (uint32_t)height};
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    double area = (double)p->in_width * p->in_height;
    double log_low = log(v->ratio.low), log_high = log(v->ratio.high);
    p->out_width = v->size.width;
    p->out_height = v->size.height;
    for (int i = 0; i < TRIES; i++) {
        double target = area * op_uniform(rng, v->scale.low, v->scale.high);
        double ratio = exp(op_uniform(rng, log_low, log_high));
        double width = rint(sqrt(target * ratio)), height = rint(sqrt(target / ratio));
        if (width < 1 || height < 1 || width > p->in_width || height > p->in_height)
            continue;
        p->rect.width = (uint32_t)width;
        p->rect.height = (uint32_t)height;
        p->rect.y = (uint32_t)random_below(rng, p->in_height - p->rect.height + 1);
        p->rect.x = (uint32_t)random_below(rng, p->in_width - p->rect.width + 1);
        return 0;
    }
    p->rect = central(&v->ratio, p->in_width, p->in_height);
    return 0;
}

static bool join(const void *values, const struct op_plan *p, struct geometry *geometry)
{
    const struct values *v = values;
    struct resizing how = {(enum filter)v->interpolation, v->antialias, v->dct_scaling};
    struct geometry joined = *geometry;
    geometry_crop(&joined, p->rect);
    if (!geometry_resize(&joined, p->out_width, p->out_height, how))
        return false;
    *geometry = joined;
    return true;
}

static void move_rows(const void *values, const struct op_plan *p, struct rows *rows)
{
    (void)values;
    rows_crop(rows, (struct rows_window){p->rect.x, p->rect.y, p->rect.width, p->rect.height});
    rows_resize(rows, p->rect.width, p->rect.height, p->out_width, p->out_height);
}

const struct op_kind op_random_resized_crop = {
    .name = "random_resized_crop",
    .python = "RandomResizedCrop",
    .text = "Cuts out a piece of random area and shape, and resizes it.",
    .flags = OP_RANDOM,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .plan = plan,
    .join = join,
    .rows = move_rows,
};
