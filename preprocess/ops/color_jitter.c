/* color_jitter: brightness, contrast, saturation and hue, in random order. */
#include "preprocess/color.h"
#include "preprocess/ops/op.h"

enum { PARTS = COLOR_HUE + 1 };
_Static_assert(PARTS <= COLOR_ADJUSTMENTS_MAX && PARTS <= PLAN_CHOICES, "all parts are planned, and done together");

struct values {
    struct arg_range factor[PARTS];
};

#define FACTOR_ARG(label, part)                                                                                       \
    {                                                                                                                 \
        .name = label, .type = ARG_JITTER, .offset = offsetof(struct values, factor[part]), .initial = "0", .min = 0, \
        .max = 100                                                                                                    \
    }

static const struct arg args[] = {
    FACTOR_ARG("brightness", COLOR_BRIGHTNESS),
    FACTOR_ARG("contrast", COLOR_CONTRAST),
    FACTOR_ARG("saturation", COLOR_SATURATION),
    {.name = "hue",
     .type = ARG_SPREAD,
     .offset = offsetof(struct values, factor[COLOR_HUE]),
     .initial = "0",
     .min = -0.5,
     .max = 0.5},
    {0},
};

/* Each part's factor, and in which order they go. A part that can change nothing is left out, as in torchvision. */
static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    for (int32_t i = 0; i < PARTS; i++) { /* Fisher and Yates, inside out */
        int32_t at = (int32_t)random_below(rng, (uint64_t)i + 1);
        p->choice[i] = p->choice[at];
        p->choice[at] = i;
    }
    for (int part = 0; part < PARTS; part++)
        p->real[part] = op_uniform(rng, v->factor[part].low, v->factor[part].high);
    return 0;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)out;
    (void)scratch;
    const struct values *v = values;
    struct color_adjustment adjustments[PARTS];
    uint32_t count = 0;
    for (int i = 0; i < PARTS; i++) {
        enum color_what what = (enum color_what)p->choice[i];
        double nothing = what == COLOR_HUE ? 0 : 1;
        if (v->factor[what].low != nothing || v->factor[what].high != nothing)
            adjustments[count++] = (struct color_adjustment){what, p->real[what]};
    }
    color_adjust(in, adjustments, count);
    return 0;
}

const struct op_kind op_color_jitter = {
    .name = "color_jitter",
    .python = "ColorJitter",
    .text = "Changes brightness, contrast, saturation and hue at random, in random order.",
    .flags = OP_RANDOM | OP_IN_PLACE | OP_COLORS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};
