/* exact_size: leaves the pixels as they are, and refuses an image of any other size. So the size of samples is known
 * where no operator makes it. */
#include "preprocess/ops/op.h"

struct values {
    struct arg_size size;
};

static const struct arg args[] = {
    {.name = "size", .type = ARG_SQUARE, .offset = offsetof(struct values, size), .min = 1, .max = OP_SIZE_MAX},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    const struct arg_size *size = &((const struct values *)values)->size;
    if ((shape->width && shape->width != size->width) || (shape->height && shape->height != size->height))
        return error_set(err, LARDER_EINVAL,
                         "all images have %u × %u pixels here, and not %u × %u: give it that size, or leave it out",
                         shape->width, shape->height, size->width, size->height);
    shape->width = size->width;
    shape->height = size->height;
    return 0;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)rng;
    const struct arg_size *size = &((const struct values *)values)->size;
    if (p->in_width == size->width && p->in_height == size->height)
        return 0;
    return error_set(err, LARDER_EFORMAT,
                     "it has %u × %u pixels where all images must have %u × %u: leave the file out, or crop or resize "
                     "all to one size",
                     p->in_width, p->in_height, size->width, size->height);
}

const struct op_kind op_exact_size = {
    .name = "exact_size",
    .python = "ExactSize",
    .text = "Leaves an image of that size as it is. An image of another size is a bad sample.",
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .plan = plan,
};
