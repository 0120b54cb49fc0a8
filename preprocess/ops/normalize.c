/* normalize: minus mean, over std, by channel. */
#include "preprocess/ops/op.h"

struct values {
    struct arg_color mean, std;
    bool inplace;
};

static const struct arg args[] = {
    {.name = "mean", .type = ARG_COLOR, .offset = offsetof(struct values, mean), .min = -1e6, .max = 1e6},
    {.name = "std", .type = ARG_COLOR, .offset = offsetof(struct values, std), .min = 1e-12, .max = 1e6},
    {.name = "inplace", .type = ARG_IGNORED, .offset = offsetof(struct values, inplace), .initial = "false"},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    const struct values *v = values;
    if (shape->dtype == PIXEL_UINT8)
        return error_set(
            err, LARDER_EINVAL,
            "it needs floating point: put {\"to_dtype\": {\"dtype\": \"float32\", \"scale\": true}} before it");
    for (int c = 1; c < IMAGE_CHANNELS && shape->channels == 1; c++) {
        if (v->mean.value[c] != v->mean.value[0] || v->std.value[c] != v->std.value[0])
            return error_set(err, LARDER_EINVAL, "there is one channel only: give one mean and one std");
    }
    return 0;
}

static void level(const void *values, enum pixel_dtype from, float level[IMAGE_CHANNELS])
{
    (void)from;
    const struct values *v = values;
    for (int c = 0; c < IMAGE_CHANNELS; c++)
        level[c] = (level[c] - (float)v->mean.value[c]) / (float)v->std.value[c];
}

const struct op_kind op_normalize = {
    .name = "normalize",
    .python = "Normalize",
    .text = "Computes `(x - mean) / std` by channel. It stands after `to_dtype`.",
    .flags = OP_FLOAT,
    .args = args,
    .values_bytes = sizeof(struct values),
    .shape = shape,
    .level = level,
};
