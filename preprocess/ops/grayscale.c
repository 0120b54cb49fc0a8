/* grayscale: luminance, in one channel or the same in three. Within a pipeline there are always three; the last step
 * keeps as many as the shape says. */
#include "preprocess/color.h"
#include "preprocess/ops/op.h"

struct values {
    int32_t channels;
};

static const struct arg args[] = {
    {.name = "num_output_channels",
     .type = ARG_INTEGER,
     .offset = offsetof(struct values, channels),
     .initial = "1",
     .min = 1,
     .max = 3},
    {0},
};

static int check(void *values, struct error *err)
{
    const struct values *v = values;
    return v->channels == 2 ? error_set(err, LARDER_EINVAL, "num_output_channels must be 1 or 3, not 2") : 0;
}

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    shape->channels = (uint32_t)((const struct values *)values)->channels;
    return 0;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)values, (void)p, (void)out, (void)scratch;
    color_grayscale(in);
    return 0;
}

const struct op_kind op_grayscale = {
    .name = "grayscale",
    .python = "Grayscale",
    .text = "Makes the image grey, in 1 or 3 channels.",
    .flags = OP_IN_PLACE | OP_COLORS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .check = check,
    .shape = shape,
    .apply = apply,
};
