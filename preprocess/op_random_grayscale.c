/* random_grayscale: luminance in all three channels, by chance. */
#include "preprocess/color.h"
#include "preprocess/op.h"

struct values {
    double p;
};

static const struct arg args[] = {
    {.name = "p", .type = ARG_NUMBER, .offset = offsetof(struct values, p), .initial = "0.1", .min = 0, .max = 1},
    {0},
};

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    p->skip = !op_chance(rng, ((const struct values *)values)->p);
    return 0;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)values, (void)p, (void)out, (void)scratch;
    color_grayscale(in);
    return 0;
}

const struct op_kind op_random_grayscale = {
    .name = "random_grayscale",
    .flags = OP_RANDOM | OP_IN_PLACE,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};
