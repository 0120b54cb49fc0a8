/* trivial_augment_wide: one random change of random strength. */
#include "preprocess/affine.h"
#include "preprocess/augment.h"
#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

struct values {
    int32_t bins;
    int32_t interpolation;
    struct arg_color fill;
};

static const struct arg args[] = {
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

static const struct augment_space space = {
    .most = {[AUGMENT_SHEAR_X] = 0.99,
             [AUGMENT_SHEAR_Y] = 0.99,
             [AUGMENT_TRANSLATE_X] = 32,
             [AUGMENT_TRANSLATE_Y] = 32,
             [AUGMENT_ROTATE] = 135,
             [AUGMENT_BRIGHTNESS] = 0.99,
             [AUGMENT_COLOR] = 0.99,
             [AUGMENT_CONTRAST] = 0.99,
             [AUGMENT_SHARPNESS] = 0.99},
    .posterize_bits = 6,
};

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    enum augment_change change = (enum augment_change)random_below(rng, AUGMENT_CHANGES);
    p->choice[0] = (int32_t)change;
    p->real[0] = augment_draw(&space, change, (int32_t)random_below(rng, (uint64_t)v->bins), v->bins, rng);
    p->skip = change == AUGMENT_IDENTITY;
    return 0;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)out;
    const struct values *v = values;
    uint8_t fill[IMAGE_CHANNELS];
    pixels_color(&v->fill, fill);
    return augment_apply((enum augment_change)p->choice[0], p->real[0], (enum filter)v->interpolation, fill, in,
                         scratch);
}

const struct op_kind op_trivial_augment_wide = {
    .name = "trivial_augment_wide",
    .python = "TrivialAugmentWide",
    .text = "Makes one random change of random strength.",
    .flags = OP_RANDOM | OP_IN_PLACE,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};
