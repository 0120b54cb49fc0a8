/* timm.h: the changes that timm's RandAugment, AutoAugment and AugMix choose from, as its auto_augment.py has them.
 * Their strengths, maps and filters are other than torchvision's (augment.h). Pure apart from scratch memory. */
#ifndef LARDER_PREPROCESS_TIMM_H
#define LARDER_PREPROCESS_TIMM_H

#include "common/random.h"
#include "preprocess/args.h"
#include "preprocess/image.h"
#include "preprocess/scratch.h"

enum timm_change {
    TIMM_AUTO_CONTRAST,
    TIMM_EQUALIZE,
    TIMM_INVERT,
    TIMM_ROTATE,
    TIMM_POSTERIZE,
    TIMM_POSTERIZE_INCREASING,
    TIMM_POSTERIZE_ORIGINAL,
    TIMM_SOLARIZE,
    TIMM_SOLARIZE_INCREASING,
    TIMM_SOLARIZE_ADD,
    TIMM_COLOR,
    TIMM_COLOR_INCREASING,
    TIMM_CONTRAST,
    TIMM_CONTRAST_INCREASING,
    TIMM_BRIGHTNESS,
    TIMM_BRIGHTNESS_INCREASING,
    TIMM_SHARPNESS,
    TIMM_SHARPNESS_INCREASING,
    TIMM_SHEAR_X,
    TIMM_SHEAR_Y,
    TIMM_TRANSLATE_X_REL,
    TIMM_TRANSLATE_Y_REL,
    TIMM_DESATURATE,
    TIMM_GAUSSIAN_BLUR,
    TIMM_GAUSSIAN_BLUR_RAND,
};

/* What timm calls hparams. */
struct timm_values {
    double mstd;           /* deviation of the magnitude; above 100 it is uniform from 0 */
    double mmax;           /* the most that a magnitude may be */
    double translate;      /* share of a side, at magnitude 10 */
    int32_t interpolation; /* index in timm_filter_names */
    struct arg_color fill;
};

extern const char *const timm_filter_names[];

/* The arguments of these, as rows of an operator's table; `values` is the struct and `member` its struct timm_values.
 * mstd_ is the default. */
#define TIMM_ARGS(values, member, mstd_)                                                                               \
    {.name = "mstd",                                                                                                   \
     .type = ARG_NUMBER,                                                                                               \
     .offset = offsetof(struct values, member.mstd),                                                                   \
     .initial = (mstd_),                                                                                               \
     .min = 0,                                                                                                         \
     .max = 1000},                                                                                                     \
        {.name = "mmax",                                                                                               \
         .type = ARG_NUMBER,                                                                                           \
         .offset = offsetof(struct values, member.mmax),                                                               \
         .initial = "10",                                                                                              \
         .min = 0,                                                                                                     \
         .max = 100},                                                                                                  \
        {.name = "translate_pct",                                                                                      \
         .type = ARG_NUMBER,                                                                                           \
         .offset = offsetof(struct values, member.translate),                                                          \
         .initial = "0.45",                                                                                            \
         .min = 0,                                                                                                     \
         .max = 1},                                                                                                    \
        {.name = "interpolation",                                                                                      \
         .type = ARG_CHOICE,                                                                                           \
         .offset = offsetof(struct values, member.interpolation),                                                      \
         .initial = "\"random\"",                                                                                      \
         .choices = timm_filter_names},                                                                                \
    {                                                                                                                  \
        .name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, member.fill), .initial = "128", .min = 0, \
        .max = 255                                                                                                     \
    }

#define TIMM_NOTHING (-1)
/* timm_draw makes a change of that magnitude, or none where chance (p) is against it. *choice gets the change and its
 * filter, or TIMM_NOTHING; *amount what the magnitude means for the change. */
void timm_draw(const struct timm_values *how, enum timm_change change, double magnitude, double p, struct rng *rng,
               int32_t *choice, double *amount);

/* timm_apply does what timm_draw has drawn, in place. It fails with LARDER_ENOMEM alone. */
int timm_apply(const struct timm_values *how, int32_t choice, double amount, const struct image *image,
               struct scratch *scratch);

#endif
