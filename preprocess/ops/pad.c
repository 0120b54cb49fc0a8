/* pad: a border around the image. pad_if_smaller: one on the right and below, of what a size lacks. */
#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

struct values {
    struct arg_padding padding;
    struct arg_color fill;
    int32_t mode;
};

static const struct arg args[] = {
    {.name = "padding", .type = ARG_PADDING, .offset = offsetof(struct values, padding), .min = 0, .max = OP_SIZE_MAX},
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, fill), .initial = "0", .min = 0, .max = 255},
    {.name = "padding_mode",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, mode),
     .initial = "\"constant\"",
     .choices = pad_mode_names},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    const struct values *v = values;
    shape->most = 0;
    if (shape->width)
        shape->width += v->padding.left + v->padding.right;
    if (shape->height)
        shape->height += v->padding.top + v->padding.bottom;
    return 0;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)rng;
    (void)err;
    const struct values *v = values;
    p->out_width = p->in_width + v->padding.left + v->padding.right;
    p->out_height = p->in_height + v->padding.top + v->padding.bottom;
    return 0;
}

static void move_rows(const void *values, const struct op_plan *p, struct rows *rows)
{
    const struct values *v = values;
    rows_crop(rows,
              (struct rows_window){-(int64_t)v->padding.left, -(int64_t)v->padding.top, p->out_width, p->out_height});
}

static int32_t *indices(const struct values *v, uint32_t before, uint32_t in, uint32_t out, struct scratch *scratch)
{
    int32_t *list = scratch_take(scratch, out * sizeof *list);
    for (uint32_t i = 0; list && i < out; i++)
        list[i] = (int32_t)pixels_pad_index((int64_t)i - before, in, (enum pad_mode)v->mode);
    return list;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)p;
    const struct values *v = values;
    uint8_t fill[IMAGE_CHANNELS];
    pixels_color(&v->fill, fill);
    const int32_t *columns = indices(v, v->padding.left, in->width, out->width, scratch);
    const int32_t *rows = indices(v, v->padding.top, in->height, out->height, scratch);
    if (!columns || !rows)
        return LARDER_ENOMEM;
    pixels_gather(in, columns, rows, fill, out);
    return 0;
}

struct least {
    struct arg_size size;
    struct arg_color fill;
};

static const struct arg least_args[] = {
    {.name = "size", .type = ARG_SQUARE, .offset = offsetof(struct least, size), .min = 1, .max = OP_SIZE_MAX},
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct least, fill), .initial = "0", .min = 0, .max = 255},
    {0},
};

static uint32_t at_least(uint32_t side, uint32_t least)
{
    return side > least ? side : least;
}

static int least_shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    const struct least *v = values;
    shape->most = 0;
    shape->width = shape->width ? at_least(shape->width, v->size.width) : 0;
    shape->height = shape->height ? at_least(shape->height, v->size.height) : 0;
    return 0;
}

static int least_plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)rng;
    (void)err;
    const struct least *v = values;
    p->out_width = at_least(p->in_width, v->size.width);
    p->out_height = at_least(p->in_height, v->size.height);
    p->skip = p->out_width == p->in_width && p->out_height == p->in_height;
    return 0;
}

static int least_apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                       struct scratch *scratch)
{
    const struct least *v = values;
    const struct values none = {.fill = v->fill, .mode = PAD_CONSTANT};
    return apply(&none, p, in, out, scratch);
}

static void least_rows(const void *values, const struct op_plan *p, struct rows *rows)
{
    (void)values;
    rows_crop(rows, (struct rows_window){0, 0, p->out_width, p->out_height});
}

const struct op_kind op_pad = {
    .name = "pad",
    .python = "Pad",
    .text = "Adds a border: one width, `[x, y]`, or `[left, top, right, bottom]`.",
    .flags = OP_MASKS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .plan = plan,
    .apply = apply,
    .rows = move_rows,
};

const struct op_kind op_pad_if_smaller = {
    .name = "pad_if_smaller",
    .python = "PadIfSmaller",
    .text = "Pads an image on the right and below, where it is smaller than `size`: as torchvision's references do "
            "before a crop of images with masks.",
    .flags = OP_MASKS,
    .args = least_args,
    .values_bytes = sizeof(struct least),
    .shape = least_shape,
    .plan = least_plan,
    .apply = least_apply,
    .rows = least_rows,
};
