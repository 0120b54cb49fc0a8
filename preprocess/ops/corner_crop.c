/* corner_crop: a corner of the image, as torchvision's five_crop cuts it out. */
#include "preprocess/ops/op.h"

struct values {
    struct arg_size size;
    int32_t corner;
};

enum corner { TOP_LEFT, TOP_RIGHT, BOTTOM_LEFT, BOTTOM_RIGHT };

static const char *const corners[] = {[TOP_LEFT] = "top_left",
                                      [TOP_RIGHT] = "top_right",
                                      [BOTTOM_LEFT] = "bottom_left",
                                      [BOTTOM_RIGHT] = "bottom_right",
                                      NULL};

static const struct arg args[] = {
    {.name = "size", .type = ARG_SQUARE, .offset = offsetof(struct values, size), .min = 1, .max = OP_SIZE_MAX},
    {.name = "corner",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, corner),
     .initial = "\"top_left\"",
     .choices = corners},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    const struct values *v = values;
    if ((shape->width && shape->width < v->size.width) || (shape->height && shape->height < v->size.height))
        return error_set(err, LARDER_EINVAL, "a crop of %u × %u is larger than the image, %u × %u", v->size.width,
                         v->size.height, shape->width, shape->height);
    shape->width = v->size.width;
    shape->height = v->size.height;
    return 0;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)rng;
    const struct values *v = values;
    if (v->size.width > p->in_width || v->size.height > p->in_height)
        return error_set(err, LARDER_ELIMIT, "a crop of %u × %u does not fit in an image of %u × %u: resize it first",
                         v->size.width, v->size.height, p->in_width, p->in_height);
    bool right = v->corner == TOP_RIGHT || v->corner == BOTTOM_RIGHT;
    bool bottom = v->corner == BOTTOM_LEFT || v->corner == BOTTOM_RIGHT;
    p->rect = (struct rect){right ? p->in_width - v->size.width : 0, bottom ? p->in_height - v->size.height : 0,
                            v->size.width, v->size.height};
    p->out_width = v->size.width;
    p->out_height = v->size.height;
    return 0;
}

static bool join(const void *values, const struct op_plan *p, struct geometry *geometry)
{
    (void)values;
    geometry_crop(geometry, p->rect);
    return true;
}

static void move_rows(const void *values, const struct op_plan *p, struct rows *rows)
{
    (void)values;
    rows_crop(rows, (struct rows_window){p->rect.x, p->rect.y, p->rect.width, p->rect.height});
}

const struct op_kind op_corner_crop = {
    .name = "corner_crop",
    .python = "CornerCrop",
    .text = "Cuts out a `corner` (`top_left`, `top_right`, `bottom_left`, `bottom_right`), as one of torchvision's "
            "`FiveCrop`.",
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .plan = plan,
    .join = join,
    .rows = move_rows,
};
