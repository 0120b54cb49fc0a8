/* scale_jitter, random_shortest_size, random_resize: resized by a factor of chance, or to an edge of one; the shape
 * stays. What comes out has another size from sample to sample, so a crop or a resize follows. */
#include <math.h>

#include "preprocess/ops/op.h"

struct values {
    struct arg_size target;
    struct arg_range scale;
    int32_t shortest, longest; /* longest 0: no limit */
    int32_t interpolation;
    bool antialias;
};

#define RESIZING_ARGS                                                                                          \
    {.name = "interpolation",                                                                                  \
     .type = ARG_CHOICE,                                                                                       \
     .offset = offsetof(struct values, interpolation),                                                         \
     .initial = "\"bilinear\"",                                                                                \
     .choices = filter_names},                                                                                 \
    {                                                                                                          \
        .name = "antialias", .type = ARG_BOOL, .offset = offsetof(struct values, antialias), .initial = "true" \
    }

static const struct arg jitter_args[] = {
    {.name = "target_size",
     .type = ARG_SQUARE,
     .offset = offsetof(struct values, target),
     .min = 1,
     .max = OP_SIZE_MAX},
    {.name = "scale_range",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, scale),
     .initial = "[0.1, 2.0]",
     .min = 1e-3,
     .max = 1e3},
    RESIZING_ARGS,
    {0},
};

static const struct arg shortest_args[] = {
    {.name = "min_size",
     .type = ARG_INTEGER,
     .offset = offsetof(struct values, shortest),
     .min = 1,
     .max = OP_SIZE_MAX},
    {.name = "max_size",
     .type = ARG_INTEGER,
     .offset = offsetof(struct values, longest),
     .initial = "0",
     .min = 0,
     .max = OP_SIZE_MAX},
    RESIZING_ARGS,
    {0},
};

static const struct arg resize_args[] = {
    {.name = "min_size",
     .type = ARG_INTEGER,
     .offset = offsetof(struct values, shortest),
     .min = 1,
     .max = OP_SIZE_MAX},
    {.name = "max_size", .type = ARG_INTEGER, .offset = offsetof(struct values, longest), .min = 1, .max = OP_SIZE_MAX},
    RESIZING_ARGS,
    {0},
};

static int check_resize(void *values, struct error *err)
{
    const struct values *v = values;
    return v->shortest <= v->longest ? 0 : error_set(err, LARDER_EINVAL, "min_size is above max_size");
}

static int jitter_shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    const struct values *v = values;
    shape->width = shape->height = 0;
    shape->most = (uint64_t)(v->target.width * v->scale.high + 1) * (uint64_t)(v->target.height * v->scale.high + 1);
    return 0;
}

static int shortest_shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    const struct values *v = values;
    shape->width = shape->height = 0;
    shape->most = (uint64_t)v->shortest * (uint64_t)v->longest;
    return 0;
}

static int resize_shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)values, (void)err;
    shape->width = shape->height = 0;
    shape->most = 0;
    return 0;
}

/* As torchvision does: cut off, not rounded. */
static int resize_to(struct op_plan *p, double width, double height, struct error *err)
{
    width = trunc(width);
    height = trunc(height);
    if (width < 1 || height < 1 || width > 16 * OP_SIZE_MAX || height > 16 * OP_SIZE_MAX)
        return error_set(err, LARDER_ELIMIT, "an image of %u × %u would become %.0f × %.0f pixels", p->in_width,
                         p->in_height, width, height);
    p->out_width = (uint32_t)width;
    p->out_height = (uint32_t)height;
    return 0;
}

static int plan_jitter(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    const struct values *v = values;
    /* torchvision draws in single precision, and takes the target's sides in this order. */
    float scale = (float)v->scale.low + (float)random_unit(rng) * (float)(v->scale.high - v->scale.low);
    double ratio = fmin((double)v->target.width / p->in_height, (double)v->target.height / p->in_width);
    p->real[0] = scale;
    float times = (float)ratio * scale;
    return resize_to(p, (float)p->in_width * times, (float)p->in_height * times, err);
}

static int plan_shortest(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)rng;
    const struct values *v = values;
    double shorter = fmin(p->in_width, p->in_height), longer = fmax(p->in_width, p->in_height);
    double ratio = v->shortest / shorter;
    if (v->longest)
        ratio = fmin(ratio, v->longest / longer);
    return resize_to(p, p->in_width * ratio, p->in_height * ratio, err);
}

/* The shorter edge becomes one of the sizes from min_size to max_size. */
static int plan_resize(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    const struct values *v = values;
    double size = v->shortest + (double)random_below(rng, (uint64_t)(v->longest - v->shortest) + 1);
    bool upright = p->in_height > p->in_width;
    double longer = size * (upright ? p->in_height : p->in_width) / (upright ? p->in_width : p->in_height);
    p->real[0] = size;
    return resize_to(p, upright ? size : longer, upright ? longer : size, err);
}

static bool join(const void *values, const struct op_plan *p, struct geometry *geometry)
{
    const struct values *v = values;
    struct resizing how = {(enum filter)v->interpolation, v->antialias, false};
    return geometry_resize(geometry, p->out_width, p->out_height, how);
}

static void move_rows(const void *values, const struct op_plan *p, struct rows *rows)
{
    (void)values;
    rows_resize(rows, p->in_width, p->in_height, p->out_width, p->out_height);
}

const struct op_kind op_scale_jitter = {
    .name = "scale_jitter",
    .python = "ScaleJitter",
    .text = "Resizes so that the image just fits into `target_size`, times a random factor. A crop follows.",
    .flags = OP_RANDOM,
    .args = jitter_args,
    .values_bytes = sizeof(struct values),
    .shape = jitter_shape,
    .plan = plan_jitter,
    .join = join,
    .rows = move_rows,
};

const struct op_kind op_random_shortest_size = {
    .name = "random_shortest_size",
    .python = "RandomShortestSize",
    .text = "Resizes the shorter edge to `min_size`, or the longer one to `max_size` if that is less (0: no limit). "
            "`RandomChoice` of several is torchvision's list of sizes.",
    .args = shortest_args,
    .values_bytes = sizeof(struct values),
    .shape = shortest_shape,
    .plan = plan_shortest,
    .join = join,
    .rows = move_rows,
};

const struct op_kind op_random_resize = {
    .name = "random_resize",
    .python = "RandomResize",
    .text = "Resizes the shorter edge to a random size from `min_size` to `max_size`. A crop follows.",
    .flags = OP_RANDOM,
    .args = resize_args,
    .values_bytes = sizeof(struct values),
    .check = check_resize,
    .shape = resize_shape,
    .plan = plan_resize,
    .join = join,
    .rows = move_rows,
};
