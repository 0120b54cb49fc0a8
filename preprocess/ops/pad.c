/* pad: a border around the image. */
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
