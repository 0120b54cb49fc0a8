/* resize: to [height, width], or so that the shorter edge gets a length (and the longer one at most max_size). */
#include <math.h>

#include "preprocess/ops/op.h"

struct values {
    struct arg_size size;
    int32_t interpolation;
    bool antialias, dct_scaling;
    int32_t max_size; /* 0: none */
};

static const struct arg args[] = {
    {.name = "size", .type = ARG_EDGE, .offset = offsetof(struct values, size), .min = 1, .max = OP_SIZE_MAX},
    {.name = "interpolation",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, interpolation),
     .initial = "\"bilinear\"",
     .choices = filter_names},
    {.name = "antialias", .type = ARG_BOOL, .offset = offsetof(struct values, antialias), .initial = "true"},
    {.name = "dct_scaling", .type = ARG_BOOL, .offset = offsetof(struct values, dct_scaling), .initial = "false"},
    {.name = "max_size",
     .type = ARG_INTEGER,
     .offset = offsetof(struct values, max_size),
     .initial = "0",
     .min = 0,
     .max = OP_SIZE_MAX},
    {0},
};

static int check(void *values, struct error *err)
{
    const struct values *v = values;
    if (v->max_size && v->size.width)
        return error_set(err, LARDER_EINVAL,
                         "max_size goes with a single size, the shorter edge's: remove it, or give one number");
    if (v->max_size && v->max_size <= (int32_t)v->size.height)
        return error_set(err, LARDER_EINVAL, "max_size must be above size (%u), not %d", v->size.height, v->max_size);
    return 0;
}

/* As torchvision's _compute_resized_output_size. */
static void target(const struct values *v, uint32_t in_width, uint32_t in_height, uint64_t *width, uint64_t *height)
{
    if (v->size.width) {
        *width = v->size.width;
        *height = v->size.height;
        return;
    }
    uint64_t in_short = in_width <= in_height ? in_width : in_height;
    uint64_t in_long = in_width <= in_height ? in_height : in_width;
    uint64_t to_short = v->size.height, to_long = v->size.height * in_long / in_short;
    if (v->max_size && to_long > (uint64_t)v->max_size) {
        to_short = (uint64_t)v->max_size * to_short / to_long;
        to_long = (uint64_t)v->max_size;
    }
    *width = in_width <= in_height ? to_short : to_long;
    *height = in_width <= in_height ? to_long : to_short;
}

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    const struct values *v = values;
    if (v->size.width) {
        shape->width = v->size.width;
        shape->height = v->size.height;
    } else if (!shape->width) {
        shape->most = (uint64_t)v->size.height * (uint64_t)v->max_size;
    } else {
        uint64_t width, height;
        target(v, shape->width, shape->height, &width, &height);
        shape->width = (uint32_t)width;
        shape->height = (uint32_t)height;
    }
    return 0;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)rng;
    uint64_t width, height;
    target(values, p->in_width, p->in_height, &width, &height);
    if (width < 1 || height < 1 || width > 16 * OP_SIZE_MAX || height > 16 * OP_SIZE_MAX)
        return error_set(
            err, LARDER_ELIMIT,
            "an image of %u × %u would become %llu × %llu pixels: give resize [height, width], or max_size",
            p->in_width, p->in_height, (unsigned long long)width, (unsigned long long)height);
    p->out_width = (uint32_t)width;
    p->out_height = (uint32_t)height;
    return 0;
}

static bool join(const void *values, const struct op_plan *p, struct geometry *geometry)
{
    const struct values *v = values;
    struct resizing how = {(enum filter)v->interpolation, v->antialias, v->dct_scaling};
    return geometry_resize(geometry, p->out_width, p->out_height, how);
}

static void move_rows(const void *values, const struct op_plan *p, struct rows *rows)
{
    (void)values;
    rows_resize(rows, p->in_width, p->in_height, p->out_width, p->out_height);
}

const struct op_kind op_resize = {
    .name = "resize",
    .python = "Resize",
    .text = "Resizes to `[height, width]`, or the shorter edge to a number. "
            "Then `max_size` limits the longer edge (0: no limit).",
    .order = "size interpolation max_size antialias dct_scaling",
    .args = args,
    .values_bytes = sizeof(struct values),
    .check = check,
    .shape = shape,
    .plan = plan,
    .join = join,
    .rows = move_rows,
};
