/* array.c: samples that are arrays already, all of one type and shape. */
#include "preprocess/ops/op.h"

struct values {
    int32_t dtype;
    struct arg_dims shape;
};

static const char *const dtypes[] = {"uint8", "float16", "float32", "int16", "uint16",
                                     "int32", "int64",   "float64", NULL};

_Static_assert(PIXEL_INT16 == 3 && PIXEL_FLOAT64 == 7, "choices are in enum pixel_dtype's order");

static const struct arg args[] = {
    {.name = "dtype", .type = ARG_CHOICE, .offset = offsetof(struct values, dtype), .choices = dtypes},
    {.name = "shape", .type = ARG_DIMS, .offset = offsetof(struct values, shape), .min = 1, .max = 1 << 28},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    const struct values *v = values;
    double bytes = pixel_dtype_bytes((enum pixel_dtype)v->dtype);
    for (uint32_t i = 0; i < v->shape.n; i++)
        bytes *= v->shape.dim[i];
    if (bytes > UINT32_MAX)
        return error_set(err, LARDER_EINVAL, "an array of that shape takes over 4 GiB");
    shape->array = sample_layout_of_array("array", (enum pixel_dtype)v->dtype, v->shape.n, v->shape.dim);
    return 0;
}

const struct op_kind op_array = {
    .name = "array",
    .python = "Array",
    .text = "Gives samples that are arrays of that type and shape as they are: their bare numbers, little-endian, the "
            "last axis first, or a `.npy` file. What has another length, type or shape is a bad sample.",
    .flags = OP_ARRAY,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
};
