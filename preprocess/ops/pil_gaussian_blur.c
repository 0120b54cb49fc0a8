/* pil_gaussian_blur: Pillow's GaussianBlur with a random radius, by chance: the blur that MoCo, Barlow Twins, DINO and
 * timm write themselves. */
#include "preprocess/box_blur.h"
#include "preprocess/ops/op.h"

struct values {
    struct arg_range radius;
    double p;
};

static const struct arg args[] = {
    {.name = "radius",
     .type = ARG_SPAN,
     .offset = offsetof(struct values, radius),
     .initial = "[0.1, 2.0]",
     .min = 0,
     .max = BOX_BLUR_RADIUS_MAX},
    {.name = "p", .type = ARG_NUMBER, .offset = offsetof(struct values, p), .initial = "1", .min = 0, .max = 1},
    {0},
};

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    p->skip = !op_chance(rng, v->p);
    p->real[0] = op_uniform(rng, v->radius.low, v->radius.high);
    return 0;
}

static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)values, (void)out;
    return box_blur_gaussian(in, p->real[0], scratch);
}

const struct op_kind op_pil_gaussian_blur = {
    .name = "pil_gaussian_blur",
    .python = "PilGaussianBlur",
    .text = "Blurs as Pillow's `GaussianBlur` does, with a random `radius`, with probability `p`.",
    .flags = OP_RANDOM | OP_IN_PLACE | OP_COLORS,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};
