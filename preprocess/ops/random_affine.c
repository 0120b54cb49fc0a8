/* random_affine: turned, moved, scaled and sheared at random, about the middle or a given point. The map is
 * torchvision's, the arithmetic Pillow's. */
#include <math.h>

#include "preprocess/affine.h"
#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

struct values {
    struct arg_range degrees;
    struct arg_range translate; /* low: of the width, high: of the height */
    struct arg_range scale;
    struct arg_range shear[2];
    int32_t interpolation;
    struct arg_color fill;
    struct arg_range center; /* low: x, high: y */
};

static const struct arg args[] = {
    {.name = "degrees", .type = ARG_SPREAD, .offset = offsetof(struct values, degrees), .min = -3600, .max = 3600},
    {.name = "translate",
     .type = ARG_PAIR,
     .offset = offsetof(struct values, translate),
     .initial = "0",
     .min = 0,
     .max = 1},
    {.name = "scale",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, scale),
     .initial = "[1, 1]",
     .min = 1e-3,
     .max = 1e3},
    {.name = "shear",
     .type = ARG_SHEAR,
     .offset = offsetof(struct values, shear),
     .initial = "0",
     .min = -3600,
     .max = 3600},
    {.name = "interpolation",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, interpolation),
     .initial = "\"nearest\"",
     .choices = affine_filter_names},
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, fill), .initial = "0", .min = 0, .max = 255},
    {.name = "center",
     .type = ARG_POINT,
     .offset = offsetof(struct values, center),
     .initial = "null",
     .min = -1e6,
     .max = 1e6},
    {0},
};

/* What is drawn, in the order of the plan's numbers behind the map's. */
enum { ANGLE = 6, MOVE_X, MOVE_Y, SCALE, SHEAR_X, SHEAR_Y };

static double radians(double degrees)
{
    return degrees * (M_PI / 180.0);
}

/* torchvision's _get_inverse_affine_matrix, sum by sum. */
static void make_map(const double drawn[], double x, double y, double m[6])
{
    double turn = radians(drawn[ANGLE]), sx = radians(drawn[SHEAR_X]), sy = radians(drawn[SHEAR_Y]);
    double a = cos(turn - sy) / cos(sy), b = -cos(turn - sy) * tan(sx) / cos(sy) - sin(turn);
    double c = sin(turn - sy) / cos(sy), d = -sin(turn - sy) * tan(sx) / cos(sy) + cos(turn);
    const double inverse[6] = {d, -b, 0.0, -c, a, 0.0};
    for (int i = 0; i < 6; i++)
        m[i] = inverse[i] / drawn[SCALE];
    m[2] += m[0] * (-x - drawn[MOVE_X]) + m[1] * (-y - drawn[MOVE_Y]);
    m[5] += m[3] * (-x - drawn[MOVE_X]) + m[4] * (-y - drawn[MOVE_Y]);
    m[2] += x;
    m[5] += y;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    double most_x = v->translate.low * p->in_width, most_y = v->translate.high * p->in_height;
    p->real[ANGLE] = op_uniform(rng, v->degrees.low, v->degrees.high);
    p->real[MOVE_X] = rint(op_uniform(rng, -most_x, most_x));
    p->real[MOVE_Y] = rint(op_uniform(rng, -most_y, most_y));
    p->real[SCALE] = op_uniform(rng, v->scale.low, v->scale.high);
    p->real[SHEAR_X] = op_uniform(rng, v->shear[0].low, v->shear[0].high);
    p->real[SHEAR_Y] = op_uniform(rng, v->shear[1].low, v->shear[1].high);
    make_map(p->real, v->center.given ? v->center.low : p->in_width * 0.5,
             v->center.given ? v->center.high : p->in_height * 0.5, p->real);
    return 0;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)scratch;
    const struct values *v = values;
    struct affine map;
    uint8_t fill[IMAGE_CHANNELS];
    pixels_color(&v->fill, fill);
    for (int i = 0; i < 6; i++)
        map.m[i] = p->real[i];
    affine_apply(&map, (enum filter)v->interpolation, fill, in, out);
    return 0;
}

const struct op_kind op_random_affine = {
    .name = "random_affine",
    .python = "RandomAffine",
    .text = "Turns by up to `degrees`, moves by up to the shares `translate` of width and height, scales and shears "
            "(in degrees; two numbers: along x; four: along x and y).",
    .flags = OP_RANDOM,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};
