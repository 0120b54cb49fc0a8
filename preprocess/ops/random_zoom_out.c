/* random_zoom_out: by chance, at a random place of a larger canvas. */
#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

struct values {
    struct arg_color fill;
    struct arg_range side_range;
    double p;
};

static const struct arg args[] = {
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, fill), .initial = "0", .min = 0, .max = 255},
    {.name = "side_range",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, side_range),
     .initial = "[1, 4]",
     .min = 1,
     .max = 64},
    {.name = "p", .type = ARG_NUMBER, .offset = offsetof(struct values, p), .initial = "0.5", .min = 0, .max = 1},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    double side = ((const struct values *)values)->side_range.high;
    shape->width = shape->height = 0;
    shape->most = (uint64_t)((double)shape->most * side * side);
    return 0;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    const struct values *v = values;
    p->skip = !op_chance(rng, v->p);
    if (p->skip)
        return 0;
    /* torchvision draws in single precision. */
    float low = (float)v->side_range.low, times = low + (float)random_unit(rng) * ((float)v->side_range.high - low);
    float width = (float)p->in_width * times, height = (float)p->in_height * times;
    if (width > 16 * OP_SIZE_MAX || height > 16 * OP_SIZE_MAX)
        return error_set(err, LARDER_ELIMIT, "an image of %u × %u would become %.0f × %.0f pixels: resize it first",
                         p->in_width, p->in_height, width, height);
    p->out_width = (uint32_t)width;
    p->out_height = (uint32_t)height;
    p->rect = (struct rect){.width = p->in_width, .height = p->in_height};
    p->rect.x = (uint32_t)((float)(p->out_width - p->in_width) * (float)random_unit(rng));
    p->rect.y = (uint32_t)((float)(p->out_height - p->in_height) * (float)random_unit(rng));
    return 0;
}

static void move_rows(const void *values, const struct op_plan *p, struct rows *rows)
{
    (void)values;
    rows_crop(rows, (struct rows_window){-(int64_t)p->rect.x, -(int64_t)p->rect.y, p->out_width, p->out_height});
}

static int32_t *indices(uint32_t before, uint32_t in, uint32_t out, struct scratch *scratch)
{
    int32_t *list = scratch_take(scratch, out * sizeof *list);
    for (uint32_t i = 0; list && i < out; i++)
        list[i] = (int32_t)pixels_pad_index((int64_t)i - before, in, PAD_CONSTANT);
    return list;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    const struct values *v = values;
    uint8_t fill[IMAGE_CHANNELS];
    pixels_color(&v->fill, fill);
    const int32_t *columns = indices(p->rect.x, in->width, out->width, scratch);
    const int32_t *rows = indices(p->rect.y, in->height, out->height, scratch);
    if (!columns || !rows)
        return LARDER_ENOMEM;
    pixels_gather(in, columns, rows, fill, out);
    return 0;
}

const struct op_kind op_random_zoom_out = {
    .name = "random_zoom_out",
    .python = "RandomZoomOut",
    .text = "Puts the image at a random place of a canvas of `side_range` times its size, with probability `p`. "
            "A crop or a resize to `[height, width]` follows.",
    .flags = OP_RANDOM | OP_MASKS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .plan = plan,
    .apply = apply,
    .rows = move_rows,
};
