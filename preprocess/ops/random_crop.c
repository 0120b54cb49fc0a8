/* random_crop: a crop of fixed size at a random place, of the image or, where asked for, of the padded image. */
#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

struct values {
    struct arg_size size;
    struct arg_padding padding;
    bool pad_if_needed;
    struct arg_color fill;
    int32_t mode;
};

static const struct arg args[] = {
    {.name = "size", .type = ARG_SQUARE, .offset = offsetof(struct values, size), .min = 1, .max = OP_SIZE_MAX},
    {.name = "padding",
     .type = ARG_PADDING,
     .offset = offsetof(struct values, padding),
     .initial = "null",
     .min = 0,
     .max = OP_SIZE_MAX},
    {.name = "pad_if_needed", .type = ARG_BOOL, .offset = offsetof(struct values, pad_if_needed), .initial = "false"},
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, fill), .initial = "0", .min = 0, .max = 255},
    {.name = "padding_mode",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, mode),
     .initial = "\"constant\"",
     .choices = pad_mode_names},
    {0},
};

static int too_small(uint32_t width, uint32_t height, const struct values *v, int code, struct error *err)
{
    return error_set(
        err, code, "an image of %u × %u pixels is smaller than the crop of %u × %u: set pad_if_needed, or resize first",
        width, height, v->size.width, v->size.height);
}

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    const struct values *v = values;
    uint32_t width = shape->width + v->padding.left + v->padding.right,
             height = shape->height + v->padding.top + v->padding.bottom;
    if (!v->pad_if_needed && ((shape->width && width < v->size.width) || (shape->height && height < v->size.height)))
        return too_small(width, height, v, LARDER_EINVAL, err);
    shape->width = v->size.width;
    shape->height = v->size.height;
    return 0;
}

/* Returns the pixels that pad_if_needed adds at either end: all that are missing, as in torchvision. */
static uint32_t missing(const struct values *v, uint32_t padded, uint32_t wanted)
{
    return v->pad_if_needed && padded < wanted ? wanted - padded : 0;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    const struct values *v = values;
    uint32_t width = p->in_width + v->padding.left + v->padding.right,
             height = p->in_height + v->padding.top + v->padding.bottom;
    width += 2 * missing(v, width, v->size.width);
    height += 2 * missing(v, height, v->size.height);
    if (width < v->size.width || height < v->size.height)
        return too_small(width, height, v, LARDER_ELIMIT, err);
    p->out_width = v->size.width;
    p->out_height = v->size.height;
    p->rect = (struct rect){.width = p->out_width, .height = p->out_height};
    p->rect.y = (uint32_t)random_below(rng, height - p->out_height + 1);
    p->rect.x = (uint32_t)random_below(rng, width - p->out_width + 1);
    return 0;
}

static bool join(const void *values, const struct op_plan *p, struct geometry *geometry)
{
    const struct values *v = values;
    const struct arg_padding *pad = &v->padding;
    if (pad->left || pad->top || pad->right || pad->bottom || p->in_width < p->out_width ||
        p->in_height < p->out_height)
        return false;
    geometry_crop(geometry, p->rect);
    return true;
}

/* The image is padded first, and then cut. */
static void move_rows(const void *values, const struct op_plan *p, struct rows *rows)
{
    const struct values *v = values;
    uint32_t width = p->in_width + v->padding.left + v->padding.right,
             height = p->in_height + v->padding.top + v->padding.bottom;
    uint32_t more_x = missing(v, width, v->size.width), more_y = missing(v, height, v->size.height);
    rows_crop(rows, (struct rows_window){-(int64_t)v->padding.left - more_x, -(int64_t)v->padding.top - more_y,
                                         width + 2 * more_x, height + 2 * more_y});
    rows_crop(rows, (struct rows_window){p->rect.x, p->rect.y, p->out_width, p->out_height});
}

/* One side: the crop's pixels, through pad_if_needed's border, through padding's border, to the image's. */
static int32_t *indices(const struct values *v, uint32_t in, uint32_t before, uint32_t after, struct op_plan side,
                        struct scratch *scratch)
{
    uint32_t padded = in + before + after, added = missing(v, padded, side.out_width);
    int32_t *list = scratch_take(scratch, side.out_width * sizeof *list);
    for (uint32_t i = 0; list && i < side.out_width; i++) {
        int64_t at = pixels_pad_index((int64_t)side.rect.x + i - added, padded, (enum pad_mode)v->mode);
        list[i] = (int32_t)(at == PIXELS_OUTSIDE ? at : pixels_pad_index(at - before, in, (enum pad_mode)v->mode));
    }
    return list;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    const struct values *v = values;
    uint8_t fill[IMAGE_CHANNELS];
    pixels_color(&v->fill, fill);
    struct op_plan x = *p, y = *p;
    y.out_width = p->out_height;
    y.rect.x = p->rect.y;
    const int32_t *columns = indices(v, in->width, v->padding.left, v->padding.right, x, scratch);
    const int32_t *rows = indices(v, in->height, v->padding.top, v->padding.bottom, y, scratch);
    if (!columns || !rows)
        return LARDER_ENOMEM;
    pixels_gather(in, columns, rows, fill, out);
    return 0;
}

const struct op_kind op_random_crop = {
    .name = "random_crop",
    .python = "RandomCrop",
    .text = "Cuts out a piece of that size at a random place.",
    .flags = OP_RANDOM | OP_MASKS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .plan = plan,
    .join = join,
    .rows = move_rows,
    .apply = apply,
};
