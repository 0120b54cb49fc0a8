/* random_posterize: keeps a few bits of each channel, by chance. */
#include "preprocess/color.h"
#include "preprocess/op.h"

struct values {
    int32_t bits;
    double p;
};

static const struct arg args[] = {
    {.name = "bits", .type = ARG_INTEGER, .offset = offsetof(struct values, bits), .min = 0, .max = 8},
    {.name = "p", .type = ARG_NUMBER, .offset = offsetof(struct values, p), .initial = "0.5", .min = 0, .max = 1},
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
    color_posterize(in, ((const struct values *)values)->bits);
    return 0;
}

const struct op_kind op_random_posterize = {
    .name = "random_posterize",
    .flags = OP_RANDOM | OP_IN_PLACE,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};
