/* crop_or_pad.c: timm's crops that pad where the image is too small: center_crop_or_pad, random_crop_or_pad. */
#include <math.h>

#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

struct values {
    struct arg_size size;
    struct arg_color fill;
    int32_t mode;
};

static const struct arg args[] = {
    {.name = "size", .type = ARG_SQUARE, .offset = offsetof(struct values, size), .min = 1, .max = OP_SIZE_MAX},
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, fill), .initial = "0", .min = 0, .max = 255},
    {.name = "padding_mode",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, mode),
     .initial = "\"constant\"",
     .choices = pad_mode_names},
    {0},
};

/* Where the result begins in the image; below 0 it begins with a border. */
enum { LEFT, TOP };

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    const struct values *v = values;
    shape->width = v->size.width;
    shape->height = v->size.height;
    return 0;
}

static int32_t central(uint32_t in, uint32_t out)
{
    return out > in ? -(int32_t)((out - in) / 2) : (int32_t)rint((in - out) / 2.0);
}

static int plan_central(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)rng, (void)err;
    const struct values *v = values;
    p->out_width = v->size.width;
    p->out_height = v->size.height;
    p->choice[LEFT] = central(p->in_width, p->out_width);
    p->choice[TOP] = central(p->in_height, p->out_height);
    return 0;
}

static int32_t anywhere(struct rng *rng, uint32_t in, uint32_t out)
{
    return out > in ? -(int32_t)random_below(rng, out - in + 1) : (int32_t)random_below(rng, in - out + 1);
}

static int plan_random(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    p->out_width = v->size.width;
    p->out_height = v->size.height;
    p->choice[TOP] = anywhere(rng, p->in_height, p->out_height);
    p->choice[LEFT] = anywhere(rng, p->in_width, p->out_width);
    return 0;
}

static bool join(const void *values, const struct op_plan *p, struct geometry *geometry)
{
    (void)values;
    if (p->in_width < p->out_width || p->in_height < p->out_height)
        return false;
    geometry_crop(geometry,
                  (struct rect){(uint32_t)p->choice[LEFT], (uint32_t)p->choice[TOP], p->out_width, p->out_height});
    return true;
}

static void move_rows(const void *values, const struct op_plan *p, struct rows *rows)
{
    (void)values;
    rows_crop(rows, (struct rows_window){p->choice[LEFT], p->choice[TOP], p->out_width, p->out_height});
}

static int32_t *indices(const struct values *v, int32_t first, uint32_t in, uint32_t out, struct scratch *scratch)
{
    int32_t *list = scratch_take(scratch, out * sizeof *list);
    for (uint32_t i = 0; list && i < out; i++)
        list[i] = (int32_t)pixels_pad_index((int64_t)first + i, in, (enum pad_mode)v->mode);
    return list;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    const struct values *v = values;
    uint8_t fill[IMAGE_CHANNELS];
    pixels_color(&v->fill, fill);
    const int32_t *columns = indices(v, p->choice[LEFT], in->width, out->width, scratch);
    const int32_t *rows = indices(v, p->choice[TOP], in->height, out->height, scratch);
    if (!columns || !rows)
        return LARDER_ENOMEM;
    pixels_gather(in, columns, rows, fill, out);
    return 0;
}

const struct op_kind op_center_crop_or_pad = {
    .name = "center_crop_or_pad",
    .python = "CenterCropOrPad",
    .text = "timm's: cuts out the middle. A smaller image is padded with `fill`.",
    .flags = OP_MASKS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .plan = plan_central,
    .join = join,
    .rows = move_rows,
    .apply = apply,
};

const struct op_kind op_random_crop_or_pad = {
    .name = "random_crop_or_pad",
    .python = "RandomCropOrPad",
    .text = "timm's: cuts out a piece at a random place. A smaller image is put at a random place, and padded.",
    .flags = OP_RANDOM | OP_MASKS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .plan = plan_random,
    .join = join,
    .rows = move_rows,
    .apply = apply,
};
