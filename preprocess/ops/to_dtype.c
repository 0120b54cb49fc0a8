/* to_dtype: to floating point, from 0 … 255, or with scale from 0 … 1. Within a pipeline float16 is float32; it is
 * rounded once, at the end. torchvision's ToTensor divides by 255, and its v2.ToDtype multiplies by the reciprocal. */
#include "preprocess/ops/op.h"

struct values {
    int32_t dtype;
    bool scale, reciprocal;
};

static const char *const dtypes[] = {"uint8", "float16", "float32", "half=float16", "float=float32", NULL};

_Static_assert(PIXEL_UINT8 == 0 && PIXEL_FLOAT16 == 1 && PIXEL_FLOAT32 == 2, "choices are in enum pixel_dtype's order");

static const struct arg args[] = {
    {.name = "dtype", .type = ARG_CHOICE, .offset = offsetof(struct values, dtype), .choices = dtypes},
    {.name = "scale", .type = ARG_BOOL, .offset = offsetof(struct values, scale), .initial = "false"},
    {.name = "reciprocal", .type = ARG_BOOL, .offset = offsetof(struct values, reciprocal), .initial = "false"},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    enum pixel_dtype dtype = (enum pixel_dtype)((const struct values *)values)->dtype;
    if (dtype == PIXEL_UINT8 && shape->dtype != PIXEL_UINT8)
        return error_set(err, LARDER_EINVAL,
                         "pixels are floating point already: remove this step, or the to_dtype before it");
    shape->dtype = dtype;
    return 0;
}

static void level(const void *values, enum pixel_dtype from, float level[IMAGE_CHANNELS])
{
    const struct values *v = values;
    for (int c = 0; c < IMAGE_CHANNELS && v->scale && from == PIXEL_UINT8; c++)
        level[c] = v->reciprocal ? level[c] * (1 / 255.0f) : level[c] / 255.0f;
}

const struct op_kind op_to_dtype = {
    .name = "to_dtype",
    .python = "ToDtype",
    .text = "Converts to `uint8`, `float16` or `float32`. With `scale`, 0 … 255 becomes 0 … 1: divided by 255, as by "
            "`ToTensor`, or with `reciprocal` times 1/255, as by `v2.ToDtype`.",
    .flags = OP_FLOAT,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .level = level,
};
