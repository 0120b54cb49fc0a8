/* auto_augment: two changes in a row, of a policy that was found by search. As torchvision has it. */
#include "preprocess/affine.h"
#include "preprocess/augment.h"
#include "preprocess/color.h"
#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"

#define BINS 10
#define STEPS 2
#define INVERT AUGMENT_CHANGES /* of these policies alone */

struct values {
    int32_t policy, interpolation;
    struct arg_color fill;
};

static const char *const policy_names[] = {"imagenet", "cifar10", "svhn", NULL};

static const struct arg args[] = {
    {.name = "policy",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, policy),
     .initial = "\"imagenet\"",
     .choices = policy_names},
    {.name = "interpolation",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, interpolation),
     .initial = "\"nearest\"",
     .choices = affine_filter_names},
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, fill), .initial = "0", .min = 0, .max = 255},
    {0},
};

/* A change, in how many of ten cases it is made, and how strong. */
struct step {
    int8_t change, tenths, bin;
};

#define PAIRS 25
#define ShearX AUGMENT_SHEAR_X
#define ShearY AUGMENT_SHEAR_Y
#define TranslateX AUGMENT_TRANSLATE_X
#define TranslateY AUGMENT_TRANSLATE_Y
#define Rotate AUGMENT_ROTATE
#define Brightness AUGMENT_BRIGHTNESS
#define Color AUGMENT_COLOR
#define Contrast AUGMENT_CONTRAST
#define Sharpness AUGMENT_SHARPNESS
#define Posterize AUGMENT_POSTERIZE
#define Solarize AUGMENT_SOLARIZE
#define AutoContrast AUGMENT_AUTOCONTRAST
#define Equalize AUGMENT_EQUALIZE
#define Invert INVERT

static const struct step policies[][PAIRS][STEPS] = {
    {
        {{Posterize, 4, 8}, {Rotate, 6, 9}},  {{Solarize, 6, 5}, {AutoContrast, 6, 0}},
        {{Equalize, 8, 0}, {Equalize, 6, 0}}, {{Posterize, 6, 7}, {Posterize, 6, 6}},
        {{Equalize, 4, 0}, {Solarize, 2, 4}}, {{Equalize, 4, 0}, {Rotate, 8, 8}},
        {{Solarize, 6, 3}, {Equalize, 6, 0}}, {{Posterize, 8, 5}, {Equalize, 10, 0}},
        {{Rotate, 2, 3}, {Solarize, 6, 8}},   {{Equalize, 6, 0}, {Posterize, 4, 6}},
        {{Rotate, 8, 8}, {Color, 4, 0}},      {{Rotate, 4, 9}, {Equalize, 6, 0}},
        {{Equalize, 0, 0}, {Equalize, 8, 0}}, {{Invert, 6, 0}, {Equalize, 10, 0}},
        {{Color, 6, 4}, {Contrast, 10, 8}},   {{Rotate, 8, 8}, {Color, 10, 2}},
        {{Color, 8, 8}, {Solarize, 8, 7}},    {{Sharpness, 4, 7}, {Invert, 6, 0}},
        {{ShearX, 6, 5}, {Equalize, 10, 0}},  {{Color, 4, 0}, {Equalize, 6, 0}},
        {{Equalize, 4, 0}, {Solarize, 2, 4}}, {{Solarize, 6, 5}, {AutoContrast, 6, 0}},
        {{Invert, 6, 0}, {Equalize, 10, 0}},  {{Color, 6, 4}, {Contrast, 10, 8}},
        {{Equalize, 8, 0}, {Equalize, 6, 0}},
    },
    {
        {{Invert, 1, 0}, {Contrast, 2, 6}},         {{Rotate, 7, 2}, {TranslateX, 3, 9}},
        {{Sharpness, 8, 1}, {Sharpness, 9, 3}},     {{ShearY, 5, 8}, {TranslateY, 7, 9}},
        {{AutoContrast, 5, 0}, {Equalize, 9, 0}},   {{ShearY, 2, 7}, {Posterize, 3, 7}},
        {{Color, 4, 3}, {Brightness, 6, 7}},        {{Sharpness, 3, 9}, {Brightness, 7, 9}},
        {{Equalize, 6, 0}, {Equalize, 5, 0}},       {{Contrast, 6, 7}, {Sharpness, 6, 5}},
        {{Color, 7, 7}, {TranslateX, 5, 8}},        {{Equalize, 3, 0}, {AutoContrast, 4, 0}},
        {{TranslateY, 4, 3}, {Sharpness, 2, 6}},    {{Brightness, 9, 6}, {Color, 2, 8}},
        {{Solarize, 5, 2}, {Invert, 0, 0}},         {{Equalize, 2, 0}, {AutoContrast, 6, 0}},
        {{Equalize, 2, 0}, {Equalize, 6, 0}},       {{Color, 9, 9}, {Equalize, 6, 0}},
        {{AutoContrast, 8, 0}, {Solarize, 2, 8}},   {{Brightness, 1, 3}, {Color, 7, 0}},
        {{Solarize, 4, 5}, {AutoContrast, 9, 0}},   {{TranslateY, 9, 9}, {TranslateY, 7, 9}},
        {{AutoContrast, 9, 0}, {Solarize, 8, 3}},   {{Equalize, 8, 0}, {Invert, 1, 0}},
        {{TranslateY, 7, 9}, {AutoContrast, 9, 0}},
    },
    {
        {{ShearX, 9, 4}, {Invert, 2, 0}},       {{ShearY, 9, 8}, {Invert, 7, 0}},
        {{Equalize, 6, 0}, {Solarize, 6, 6}},   {{Invert, 9, 0}, {Equalize, 6, 0}},
        {{Equalize, 6, 0}, {Rotate, 9, 3}},     {{ShearX, 9, 4}, {AutoContrast, 8, 0}},
        {{ShearY, 9, 8}, {Invert, 4, 0}},       {{ShearY, 9, 5}, {Solarize, 2, 6}},
        {{Invert, 9, 0}, {AutoContrast, 8, 0}}, {{Equalize, 6, 0}, {Rotate, 9, 3}},
        {{ShearX, 9, 4}, {Solarize, 3, 3}},     {{ShearY, 8, 8}, {Invert, 7, 0}},
        {{Equalize, 9, 0}, {TranslateY, 6, 6}}, {{Invert, 9, 0}, {Equalize, 6, 0}},
        {{Contrast, 3, 3}, {Rotate, 8, 4}},     {{Invert, 8, 0}, {TranslateY, 0, 2}},
        {{ShearY, 7, 6}, {Solarize, 4, 8}},     {{Invert, 6, 0}, {Rotate, 8, 4}},
        {{ShearY, 3, 7}, {TranslateX, 9, 3}},   {{ShearX, 1, 6}, {Invert, 6, 0}},
        {{Solarize, 7, 2}, {TranslateY, 6, 7}}, {{ShearY, 8, 4}, {Invert, 8, 0}},
        {{ShearX, 7, 9}, {TranslateY, 8, 3}},   {{ShearY, 8, 5}, {AutoContrast, 7, 0}},
        {{ShearX, 7, 2}, {Invert, 1, 0}},
    },
};

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    const struct augment_space space = augment_space_of(p->in_width, p->in_height);
    const struct step *pair = policies[v->policy][random_below(rng, PAIRS)];
    for (int i = 0; i < STEPS; i++) {
        bool made = op_chance(rng, pair[i].tenths / 10.0);
        p->choice[i] = made ? pair[i].change : AUGMENT_IDENTITY;
        if (pair[i].change != INVERT)
            p->real[i] = augment_draw(&space, (enum augment_change)pair[i].change, pair[i].bin, BINS, rng);
    }
    p->skip = p->choice[0] == AUGMENT_IDENTITY && p->choice[1] == AUGMENT_IDENTITY;
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
    for (int i = 0; i < STEPS && rc == 0; i++) {
        if (p->choice[i] == INVERT)
            color_solarize(in, 0);
        else
            rc = augment_apply((enum augment_change)p->choice[i], p->real[i], (enum filter)v->interpolation, fill, in,
                               scratch);
    }
    return rc;
}

const struct op_kind op_auto_augment = {
    .name = "auto_augment",
    .python = "AutoAugment",
    .text = "Makes two changes in a row, by a `policy` that was found by search: `imagenet`, `cifar10` or `svhn`.",
    .flags = OP_RANDOM | OP_IN_PLACE,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};
