/* photometric.c: operators that by chance change the colours of a whole image: random_adjust_sharpness, random_invert,
 * random_channel_permutation, random_photometric_distort. */
#include "preprocess/color.h"
#include "preprocess/ops/op.h"

struct values {
    double p, sharpness;
    struct arg_range brightness, contrast, saturation, hue;
};

#define CHANCE_ARG                                                                                                  \
    {                                                                                                               \
        .name = "p", .type = ARG_NUMBER, .offset = offsetof(struct values, p), .initial = "0.5", .min = 0, .max = 1 \
    }
#define FACTOR_ARG(label, range)                                                                                   \
    {                                                                                                              \
        .name = #label, .type = ARG_RANGE, .offset = offsetof(struct values, label), .initial = (range), .min = 0, \
        .max = 100                                                                                                 \
    }

static const struct arg none[] = {{0}};
static const struct arg chance_alone[] = {CHANCE_ARG, {0}};
static const struct arg sharpness_args[] = {
    {.name = "sharpness_factor",
     .type = ARG_NUMBER,
     .offset = offsetof(struct values, sharpness),
     .min = 0,
     .max = 100},
    CHANCE_ARG,
    {0},
};
static const struct arg distort_args[] = {
    FACTOR_ARG(brightness, "[0.875, 1.125]"),
    FACTOR_ARG(contrast, "[0.5, 1.5]"),
    FACTOR_ARG(saturation, "[0.5, 1.5]"),
    {.name = "hue",
     .type = ARG_RANGE,
     .offset = offsetof(struct values, hue),
     .initial = "[-0.05, 0.05]",
     .min = -0.5,
     .max = 0.5},
    CHANCE_ARG,
    {0},
};

static int plan_chance(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    p->skip = !op_chance(rng, ((const struct values *)values)->p);
    return 0;
}

static int apply_sharpness(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                           struct scratch *scratch)
{
    (void)p, (void)out;
    return color_sharpness(in, ((const struct values *)values)->sharpness, scratch);
}

static int apply_invert(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                        struct scratch *scratch)
{
    (void)values, (void)p, (void)out, (void)scratch;
    color_solarize(in, 0);
    return 0;
}

/* ── the order of the channels ───────────────────────────────────────────────────────────────────────────────────── */

/* choice[at …]: of which old channel each new one is. */
static void draw_order(struct rng *rng, int32_t order[IMAGE_CHANNELS])
{
    for (int32_t i = 0; i < IMAGE_CHANNELS; i++) { /* Fisher and Yates, inside out */
        int32_t at = (int32_t)random_below(rng, (uint64_t)i + 1);
        order[i] = order[at];
        order[at] = i;
    }
}

static void reorder(const struct image *image, const int32_t order[IMAGE_CHANNELS])
{
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *pixel = image_row(image, y);
        for (uint32_t x = 0; x < image->width; x++, pixel += IMAGE_CHANNELS) {
            const uint8_t old[IMAGE_CHANNELS] = {pixel[0], pixel[1], pixel[2]};
            for (int c = 0; c < IMAGE_CHANNELS; c++)
                pixel[c] = old[order[c]];
        }
    }
}

static int plan_permutation(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)values, (void)err;
    draw_order(rng, p->choice);
    return 0;
}

static int apply_permutation(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                             struct scratch *scratch)
{
    (void)values, (void)out, (void)scratch;
    reorder(in, p->choice);
    return 0;
}

/* ── all of it ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* The plan has a factor for each part, and says whether the part is used. It also says whether contrast goes first, and
 * the order of the channels. */
enum { BRIGHTNESS, CONTRAST, SATURATION, HUE, PARTS, CONTRAST_FIRST = PARTS, PERMUTES, ORDER };

static int plan_distort(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    const struct arg_range *ranges[PARTS] = {&v->brightness, &v->contrast, &v->saturation, &v->hue};
    for (int i = 0; i < PARTS; i++) {
        p->choice[i] = op_chance(rng, v->p);
        p->real[i] = op_uniform(rng, ranges[i]->low, ranges[i]->high);
    }
    p->choice[CONTRAST_FIRST] = op_chance(rng, 0.5);
    p->choice[PERMUTES] = op_chance(rng, v->p);
    draw_order(rng, p->choice + ORDER);
    return 0;
}

static int apply_distort(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                         struct scratch *scratch)
{
    (void)values, (void)out, (void)scratch;
    if (p->choice[BRIGHTNESS])
        color_brightness(in, p->real[BRIGHTNESS]);
    if (p->choice[CONTRAST] && p->choice[CONTRAST_FIRST])
        color_contrast(in, p->real[CONTRAST]);
    if (p->choice[SATURATION])
        color_saturation(in, p->real[SATURATION]);
    if (p->choice[HUE])
        color_hue(in, p->real[HUE]);
    if (p->choice[CONTRAST] && !p->choice[CONTRAST_FIRST])
        color_contrast(in, p->real[CONTRAST]);
    if (p->choice[PERMUTES])
        reorder(in, p->choice + ORDER);
    return 0;
}

#define PHOTOMETRIC(name_, python_, args_, plan_, apply_, text_) \
    const struct op_kind op_##name_ = {                          \
        .name = #name_,                                          \
        .python = python_,                                       \
        .text = text_,                                           \
        .flags = OP_RANDOM | OP_IN_PLACE | OP_COLORS,            \
        .args = args_,                                           \
        .values_bytes = sizeof(struct values),                   \
        .plan = plan_,                                           \
        .apply = apply_,                                         \
    };

PHOTOMETRIC(random_adjust_sharpness, "RandomAdjustSharpness", sharpness_args, plan_chance, apply_sharpness,
            "Blurs (a factor below 1) or sharpens, with probability `p`.")
PHOTOMETRIC(random_invert, "RandomInvert", chance_alone, plan_chance, apply_invert,
            "Inverts all levels, with probability `p`.")
PHOTOMETRIC(random_channel_permutation, "RandomChannelPermutation", none, plan_permutation, apply_permutation,
            "Puts the channels into random order.")
PHOTOMETRIC(random_photometric_distort, "RandomPhotometricDistort", distort_args, plan_distort, apply_distort,
            "Changes brightness, contrast, saturation, hue and the order of the channels, each with probability `p`.")
