/* random_rotation: counter-clockwise by a random angle, about the middle or a given point. */
#include <math.h>

#include "preprocess/affine.h"
#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

struct values {
    struct arg_range degrees;
    int32_t interpolation;
    bool expand;
    struct arg_range center; /* low: x, high: y */
    struct arg_color fill;
};

static const struct arg args[] = {
    {.name = "degrees", .type = ARG_SPREAD, .offset = offsetof(struct values, degrees), .min = -3600, .max = 3600},
    {.name = "interpolation",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, interpolation),
     .initial = "\"nearest\"",
     .choices = affine_filter_names},
    {.name = "expand", .type = ARG_BOOL, .offset = offsetof(struct values, expand), .initial = "false"},
    {.name = "center",
     .type = ARG_POINT,
     .offset = offsetof(struct values, center),
     .initial = "null",
     .min = -1e6,
     .max = 1e6},
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, fill), .initial = "0", .min = 0, .max = 255},
    {0},
};

static int shape(const void *values, struct op_shape *shape, struct error *err)
{
    (void)err;
    if (((const struct values *)values)->expand)
        shape->width = shape->height = 0, shape->most = 0;
    return 0;
}

static bool is_fixed(const void *values)
{
    const struct values *v = values;
    return v->degrees.low >= v->degrees.high;
}

enum way { BY_MAP, BY_90, BY_180, BY_270 };

/* Right angles move pixels without a filter, as in Pillow's rotate. */
static enum way way_of(const struct values *v, double angle, const struct op_plan *p)
{
    if (!v->center.given && angle == 180)
        return BY_180;
    if (!v->center.given && (angle == 90 || angle == 270) && (v->expand || p->in_width == p->in_height))
        return angle == 90 ? BY_90 : BY_270;
    return BY_MAP;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    const struct values *v = values;
    double angle = fmod(op_uniform(rng, v->degrees.low, v->degrees.high), 360.0);
    angle = angle < 0 ? angle + 360.0 : angle;
    p->skip = angle == 0 && !v->center.given;
    p->real[6] = angle;
    p->choice[0] = way_of(v, angle, p);
    if (p->choice[0] == BY_90 || p->choice[0] == BY_270) {
        p->out_width = p->in_height;
        p->out_height = p->in_width;
    } else if (p->choice[0] == BY_MAP && !p->skip) {
        double x = v->center.given ? v->center.low : p->in_width / 2.0,
               y = v->center.given ? v->center.high : p->in_height / 2.0;
        struct affine affine = affine_rotation(angle, x, y, v->expand, &p->out_width, &p->out_height);
        for (int i = 0; i < 6; i++)
            p->real[i] = affine.m[i];
    }
    if (p->out_width > 16 * OP_SIZE_MAX || p->out_height > 16 * OP_SIZE_MAX || p->out_width == 0 || p->out_height == 0)
        return error_set(err, LARDER_ELIMIT, "an image of %u × %u pixels cannot be rotated: resize it first",
                         p->in_width, p->in_height);
    return 0;
}

static bool join(const void *values, const struct op_plan *p, struct geometry *geometry)
{
    (void)values;
    if (p->choice[0] != BY_180)
        return false;
    geometry->mirror_x = !geometry->mirror_x;
    geometry->mirror_y = !geometry->mirror_y;
    return true;
}

static void quarter_turn(const struct image *in, const struct image *out, bool counter_clockwise)
{
    for (uint32_t y = 0; y < out->height; y++) {
        uint8_t *to = image_row(out, y);
        uint32_t column = counter_clockwise ? in->width - 1 - y : y;
        for (uint32_t x = 0; x < out->width; x++, to += IMAGE_CHANNELS) {
            const uint8_t *from = image_row(in, counter_clockwise ? x : in->height - 1 - x) +
                                  (size_t)column * IMAGE_CHANNELS;
            for (int c = 0; c < IMAGE_CHANNELS; c++)
                to[c] = from[c];
        }
    }
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)scratch;
    const struct values *v = values;
    if (p->choice[0] != BY_MAP) {
        quarter_turn(in, out, p->choice[0] == BY_90);
        return 0;
    }
    struct affine affine;
    uint8_t fill[IMAGE_CHANNELS];
    for (int i = 0; i < 6; i++)
        affine.m[i] = p->real[i];
    pixels_color(&v->fill, fill);
    affine_apply(&affine, (enum filter)v->interpolation, fill, in, out);
    return 0;
}

const struct op_kind op_random_rotation = {
    .name = "random_rotation",
    .python = "RandomRotation",
    .text = "Turns by a random angle of up to `degrees` to either side.",
    .flags = OP_RANDOM,
    .args = args,
    .values_bytes = sizeof(struct values),
    .is_fixed = is_fixed,
    .shape = shape,
    .plan = plan,
    .join = join,
    .apply = apply,
};
