/* rand_augment: some random changes, one after the other, all of the same strength. */
#include "preprocess/affine.h"
#include "preprocess/augment.h"
#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

struct values {
    int32_t n_ops, magnitude, bins;
    int32_t interpolation;
    struct arg_color fill;
};

static const struct arg args[] = {
    {.name = "num_ops",
     .type = ARG_INTEGER,
     .offset = offsetof(struct values, n_ops),
     .initial = "2",
     .min = 0,
     .max = PLAN_CHOICES},
    {.name = "magnitude",
     .type = ARG_INTEGER,
     .offset = offsetof(struct values, magnitude),
     .initial = "9",
     .min = 0,
     .max = 10000},
    {.name = "num_magnitude_bins",
     .type = ARG_INTEGER,
     .offset = offsetof(struct values, bins),
     .initial = "31",
     .min = 2,
     .max = 10000},
    {.name = "interpolation",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, interpolation),
     .initial = "\"nearest\"",
     .choices = affine_filter_names},
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, fill), .initial = "0", .min = 0, .max = 255},
    {0},
};

_Static_assert(PLAN_CHOICES <= PLAN_REALS, "each change has a strength");

static int check(void *values, struct error *err)
{
    const struct values *v = values;
    if (v->magnitude >= v->bins)
        return error_set(err, LARDER_EINVAL, "magnitude must be below num_magnitude_bins (%d), not %d", v->bins,
                         v->magnitude);
    return 0;
}

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    const struct augment_space space = augment_space_of(p->in_width, p->in_height);
    for (int32_t i = 0; i < v->n_ops; i++) {
        enum augment_change change = (enum augment_change)random_below(rng, AUGMENT_CHANGES);
        p->choice[i] = (int32_t)change;
        p->real[i] = augment_draw(&space, change, v->magnitude, v->bins, rng);
    }
    return 0;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)out;
    const struct values *v = values;
    uint8_t fill[IMAGE_CHANNELS];
    pixels_color(&v->fill, fill);
    int rc = 0;
    for (int32_t i = 0; i < v->n_ops && rc == 0; i++)
        rc = augment_apply((enum augment_change)p->choice[i], p->real[i], (enum filter)v->interpolation, fill, in,
                           scratch);
    return rc;
}

const struct op_kind op_rand_augment = {
    .name = "rand_augment",
    .python = "RandAugment",
    .text = "Makes `num_ops` random changes of one strength.",
    .flags = OP_RANDOM | OP_IN_PLACE,
    .args = args,
    .values_bytes = sizeof(struct values),
    .check = check,
    .plan = plan,
    .apply = apply,
};
