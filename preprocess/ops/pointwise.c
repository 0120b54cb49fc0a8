/* pointwise.c: operators that by chance change the levels of a whole image and move none of its pixels:
 * autocontrast, random_equalize, random_grayscale, random_posterize, random_solarize. */
#include "preprocess/color.h"
#include "preprocess/ops/op.h"

struct values {
    double p;
    int32_t bits;
    double threshold;
};

#define CHANCE_ARG(label, likely)                                                                                 \
    {                                                                                                             \
        .name = (label), .type = ARG_NUMBER, .offset = offsetof(struct values, p), .initial = (likely), .min = 0, \
        .max = 1                                                                                                  \
    }

static const struct arg mostly_not[] = {CHANCE_ARG("p", "0.1"), {0}};

static const struct arg half[] = {CHANCE_ARG("p", "0.5"), {0}};

static const struct arg posterize_args[] = {
    {.name = "bits", .type = ARG_INTEGER, .offset = offsetof(struct values, bits), .min = 0, .max = 8},
    CHANCE_ARG("p", "0.5"),
    {0},
};

static const struct arg solarize_args[] = {
    {.name = "threshold", .type = ARG_NUMBER, .offset = offsetof(struct values, threshold), .min = 0, .max = 256},
    CHANCE_ARG("p", "0.5"),
    {0},
};

static int plan_chance(const void *values, struct rng *rng, struct op_plan *plan, struct error *err)
{
    (void)err;
    plan->skip = !op_chance(rng, ((const struct values *)values)->p);
    return 0;
}

/* POINTWISE defines op_NAME, which does `change` to the image `in`; `v` are its arguments. */
#define POINTWISE(name_, python_, args_, change, text_)                                              \
    static int apply_##name_(const void *values, const struct op_plan *plan, const struct image *in, \
                             struct image *out, struct scratch *scratch)                             \
    {                                                                                                \
        const struct values *v = values;                                                             \
        (void)v, (void)plan, (void)out, (void)scratch;                                               \
        change;                                                                                      \
        return 0;                                                                                    \
    }                                                                                                \
    const struct op_kind op_##name_ = {                                                              \
        .name = #name_,                                                                              \
        .python = python_,                                                                           \
        .text = text_ ", with probability `p`.",                                                     \
        .flags = OP_RANDOM | OP_IN_PLACE | OP_COLORS,                                                \
        .args = args_,                                                                               \
        .values_bytes = sizeof(struct values),                                                       \
        .plan = plan_chance,                                                                         \
        .apply = apply_##name_,                                                                      \
    };

POINTWISE(autocontrast, "RandomAutocontrast", half, color_autocontrast(in), "Stretches each channel over all levels")
POINTWISE(random_equalize, "RandomEqualize", half, color_equalize(in), "Spreads each channel's levels evenly")
POINTWISE(random_grayscale, "RandomGrayscale", mostly_not, color_grayscale(in), "Makes the image grey, in 3 channels")
POINTWISE(random_posterize, "RandomPosterize", posterize_args, color_posterize(in, v->bits),
          "Keeps the upper `bits` bits of each level")
POINTWISE(random_solarize, "RandomSolarize", solarize_args, color_solarize(in, v->threshold),
          "Inverts the levels from `threshold` on")
