/* resize_keep_ratio: so that the shorter side, relative to a target, just reaches it, or the longer one, or something
 * between. By chance larger or smaller, or of another shape. As timm does. */
#include <math.h>

#include "preprocess/ops/op.h"

struct values {
    struct arg_size size;
    double longest; /* 0: the target lies within the result, 1: the result lies within the target */
    int32_t interpolation;
    double scale_p, aspect_p;
    struct arg_range scale, aspect;
    bool scale_area;
};

static const struct arg args[] = {
    {.name = "size", .type = ARG_SQUARE, .offset = offsetof(struct values, size), .min = 1, .max = OP_SIZE_MAX},
    {.name = "longest",
     .type = ARG_NUMBER,
     .offset = offsetof(struct values, longest),
     .initial = "0",
     .min = 0,
     .max = 1},
    {.name = "interpolation",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, interpolation),
     .initial = "\"bilinear\"",
     .choices = filter_names},
    {.name = "random_scale_prob",
     .type = ARG_NUMBER,
     .offset = offsetof(struct values, scale_p),
     .initial = "0",
     .min = 0,
     .max = 1},
    {.name = "random_scale_range",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, scale),
     .initial = "[0.85, 1.05]",
     .min = 1e-3,
     .max = 1e3},
    {.name = "random_scale_area", .type = ARG_BOOL, .offset = offsetof(struct values, scale_area), .initial = "false"},
    {.name = "random_aspect_prob",
     .type = ARG_NUMBER,
     .offset = offsetof(struct values, aspect_p),
     .initial = "0",
     .min = 0,
     .max = 1},
    {.name = "random_aspect_range",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, aspect),
     .initial = "[0.9, 1.11]",
     .min = 1e-3,
     .max = 1e3},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)values, (void)err;
    shape->width = shape->height = 0;
    shape->most = 0;
    return 0;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    const struct values *v = values;
    double tall = (double)p->in_height / v->size.height, wide = (double)p->in_width / v->size.width;
    double ratio = fmax(tall, wide) * v->longest + fmin(tall, wide) * (1. - v->longest), factor = 1, narrower = 1;
    if (v->scale_p > 0 && op_chance(rng, v->scale_p)) {
        factor = op_uniform(rng, v->scale.low, v->scale.high);
        factor = v->scale_area ? 1. / sqrt(factor) : factor;
    }
    if (v->aspect_p > 0 && op_chance(rng, v->aspect_p))
        narrower = sqrt(exp(op_uniform(rng, log(v->aspect.low), log(v->aspect.high))));
    p->real[0] = factor;
    p->real[1] = narrower;
    double height = rint(p->in_height * (factor / narrower) / ratio),
           width = rint(p->in_width * (factor * narrower) / ratio);
    if (width < 1 || height < 1 || width > 16 * OP_SIZE_MAX || height > 16 * OP_SIZE_MAX)
        return error_set(err, LARDER_ELIMIT, "an image of %u × %u would become %.0f × %.0f pixels", p->in_width,
                         p->in_height, width, height);
    p->out_width = (uint32_t)width;
    p->out_height = (uint32_t)height;
    return 0;
}

static bool join(const void *values, const struct op_plan *p, struct geometry *geometry)
{
    const struct values *v = values;
    struct resizing how = {(enum filter)v->interpolation, true, false};
    return geometry_resize(geometry, p->out_width, p->out_height, how);
}

static void move_rows(const void *values, const struct op_plan *p, struct rows *rows)
{
    (void)values;
    rows_resize(rows, p->in_width, p->in_height, p->out_width, p->out_height);
}

const struct op_kind op_resize_keep_ratio = {
    .name = "resize_keep_ratio",
    .python = "ResizeKeepRatio",
    .text = "timm's: resizes so that the image covers `size` (with `longest=1`: lies within it). A crop follows.",
    .flags = OP_RANDOM,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .plan = plan,
    .join = join,
    .rows = move_rows,
};
