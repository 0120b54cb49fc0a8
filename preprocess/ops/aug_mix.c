/* aug_mix.c: chains of random changes, mixed with each other and with the image: aug_mix as torchvision draws and mixes
 * it, timm_aug_mix as timm does.
 *
 * The plan has the chains one after the other, DEPTH_MAX places each, then what part each chain has, and what part all
 * of them together. */
#include "preprocess/affine.h"
#include "preprocess/augment.h"
#include "preprocess/chance.h"
#include "preprocess/ops/op.h"
#include "preprocess/pixels.h"
#include "preprocess/timm.h"

#define BINS 10
#define WIDTH_MAX 8
#define DEPTH_MAX 4
#define NO_STEP (-2) /* a chain's end */
enum { WEIGHTS = WIDTH_MAX * DEPTH_MAX, MIXED = WEIGHTS + WIDTH_MAX };
_Static_assert(WIDTH_MAX *DEPTH_MAX <= PLAN_CHOICES && MIXED < PLAN_REALS, "the chains have room in a plan");

struct values {
    int32_t width, depth;
    double alpha;
    int32_t severity; /* torchvision's */
    bool all_ops;
    int32_t interpolation;
    struct arg_color fill;
    double magnitude; /* timm's */
    struct timm_values how;
};

#define CHAIN_ARGS(width_name, depth_name)                                                                          \
    {.name = (width_name),                                                                                          \
     .type = ARG_INTEGER,                                                                                           \
     .offset = offsetof(struct values, width),                                                                      \
     .initial = "3",                                                                                                \
     .min = 1,                                                                                                      \
     .max = WIDTH_MAX},                                                                                             \
        {.name = (depth_name),                                                                                      \
         .type = ARG_INTEGER,                                                                                       \
         .offset = offsetof(struct values, depth),                                                                  \
         .initial = "-1",                                                                                           \
         .min = -1,                                                                                                 \
         .max = DEPTH_MAX},                                                                                         \
    {                                                                                                               \
        .name = "alpha", .type = ARG_NUMBER, .offset = offsetof(struct values, alpha), .initial = "1", .min = 1e-3, \
        .max = 1e3                                                                                                  \
    }

static const struct arg args[] = {
    {.name = "severity",
     .type = ARG_INTEGER,
     .offset = offsetof(struct values, severity),
     .initial = "3",
     .min = 1,
     .max = BINS},
    CHAIN_ARGS("mixture_width", "chain_depth"),
    {.name = "all_ops", .type = ARG_BOOL, .offset = offsetof(struct values, all_ops), .initial = "true"},
    {.name = "interpolation",
     .type = ARG_CHOICE,
     .offset = offsetof(struct values, interpolation),
     .initial = "\"bilinear\"",
     .choices = affine_filter_names},
    {.name = "fill", .type = ARG_COLOR, .offset = offsetof(struct values, fill), .initial = "0", .min = 0, .max = 255},
    {0},
};

static const struct arg timm_args[] = {
    {.name = "magnitude",
     .type = ARG_NUMBER,
     .offset = offsetof(struct values, magnitude),
     .initial = "3",
     .min = 0,
     .max = 100},
    CHAIN_ARGS("width", "depth"),
    TIMM_ARGS(values, how, "101"),
    {0},
};

/* ── drawing ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

static int32_t draw_depth(const struct values *v, struct rng *rng)
{
    return v->depth > 0 ? v->depth : 1 + (int32_t)random_below(rng, 3);
}

static void draw_weights(const struct values *v, struct rng *rng, struct op_plan *p)
{
    double both[2];
    chance_dirichlet(rng, v->alpha, 2, both);
    chance_dirichlet(rng, v->alpha, (size_t)v->width, &p->real[WEIGHTS]);
    p->real[MIXED] = both[1];
    for (int i = 0; i < WIDTH_MAX * DEPTH_MAX; i++)
        p->choice[i] = NO_STEP;
}

/* torchvision's changes; the last four are those of all_ops. */
static const enum augment_change changes[] = {
    AUGMENT_SHEAR_X,   AUGMENT_SHEAR_Y,  AUGMENT_TRANSLATE_X,  AUGMENT_TRANSLATE_Y, AUGMENT_ROTATE,
    AUGMENT_POSTERIZE, AUGMENT_SOLARIZE, AUGMENT_AUTOCONTRAST, AUGMENT_EQUALIZE,    AUGMENT_BRIGHTNESS,
    AUGMENT_COLOR,     AUGMENT_CONTRAST, AUGMENT_SHARPNESS,
};
#define CHANGES (sizeof changes / sizeof *changes)

static int plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    const struct augment_space space = {
        .most = {[AUGMENT_SHEAR_X] = 0.3,
                 [AUGMENT_SHEAR_Y] = 0.3,
                 [AUGMENT_TRANSLATE_X] = p->in_width / 3.0,
                 [AUGMENT_TRANSLATE_Y] = p->in_height / 3.0,
                 [AUGMENT_ROTATE] = 30,
                 [AUGMENT_BRIGHTNESS] = 0.9,
                 [AUGMENT_COLOR] = 0.9,
                 [AUGMENT_CONTRAST] = 0.9,
                 [AUGMENT_SHARPNESS] = 0.9},
        .posterize_bits = 4,
    };
    draw_weights(v, rng, p);
    for (int32_t chain = 0; chain < v->width; chain++) {
        int32_t depth = draw_depth(v, rng);
        for (int32_t i = chain * DEPTH_MAX; i < chain * DEPTH_MAX + depth; i++) {
            enum augment_change change = changes[random_below(rng, v->all_ops ? CHANGES : CHANGES - 4)];
            int32_t bin = (int32_t)random_below(rng, (uint64_t)v->severity);
            p->choice[i] = (int32_t)change;
            p->real[i] = augment_draw(&space, change, bin, BINS, rng);
            if (change == AUGMENT_POSTERIZE)
                p->real[i] -= 4; /* from 4 bits down, where the others begin with 8 */
        }
    }
    return 0;
}

static const enum timm_change timm_changes[] = {
    TIMM_AUTO_CONTRAST,
    TIMM_COLOR_INCREASING,
    TIMM_CONTRAST_INCREASING,
    TIMM_BRIGHTNESS_INCREASING,
    TIMM_SHARPNESS_INCREASING,
    TIMM_EQUALIZE,
    TIMM_ROTATE,
    TIMM_POSTERIZE_INCREASING,
    TIMM_SOLARIZE_INCREASING,
    TIMM_SHEAR_X,
    TIMM_SHEAR_Y,
    TIMM_TRANSLATE_X_REL,
    TIMM_TRANSLATE_Y_REL,
};

static int timm_plan(const void *values, struct rng *rng, struct op_plan *p, struct error *err)
{
    (void)err;
    const struct values *v = values;
    draw_weights(v, rng, p);
    for (int32_t chain = 0; chain < v->width; chain++) {
        int32_t depth = draw_depth(v, rng);
        for (int32_t i = chain * DEPTH_MAX; i < chain * DEPTH_MAX + depth; i++) {
            size_t change = random_below(rng, sizeof timm_changes / sizeof *timm_changes);
            timm_draw(&v->how, timm_changes[change], v->magnitude, 1, rng, &p->choice[i], &p->real[i]);
        }
    }
    return 0;
}

/* ── mixing ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

typedef int change_image(const struct values *v, int32_t choice, double amount, const struct image *image,
                         struct scratch *scratch);

static int change_torchvision(const struct values *v, int32_t choice, double amount, const struct image *image,
                              struct scratch *scratch)
{
    uint8_t fill[IMAGE_CHANNELS];
    pixels_color(&v->fill, fill);
    return augment_apply((enum augment_change)choice, amount, (enum filter)v->interpolation, fill, image, scratch);
}

static int change_timm(const struct values *v, int32_t choice, double amount, const struct image *image,
                       struct scratch *scratch)
{
    return timm_apply(&v->how, choice, amount, image, scratch);
}

static void add(const struct image *image, float weight, float *sums)
{
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image_row(image, y);
        for (size_t i = 0; i < (size_t)image->width * IMAGE_CHANNELS; i++)
            *sums++ += weight * (float)row[i];
    }
}

/* Adds what each chain makes of the image, by its weight. */
static int add_chains(const struct values *v, const struct op_plan *p, const struct image *in, change_image *change,
                      float whole, float *sums, struct scratch *scratch)
{
    struct image chain;
    if (scratch_image(scratch, in->width, in->height, &chain))
        return LARDER_ENOMEM;
    for (int32_t n = 0; n < v->width; n++) {
        pixels_copy(in, &chain);
        for (int i = n * DEPTH_MAX; i < (n + 1) * DEPTH_MAX && p->choice[i] != NO_STEP; i++) {
            if (change(v, p->choice[i], p->real[i], &chain, scratch))
                return LARDER_ENOMEM;
        }
        add(&chain, (float)p->real[WEIGHTS + n] * whole, sums);
    }
    return 0;
}

static float *zeros(const struct image *image, struct scratch *scratch)
{
    size_t count = (size_t)image->width * image->height * IMAGE_CHANNELS;
    float *sums = scratch_take(scratch, count * sizeof *sums);
    for (size_t i = 0; i < count && sums; i++)
        sums[i] = 0;
    return sums;
}

static uint8_t cut(float value)
{
    return value >= 255.0f ? 255 : value <= 0.0f ? 0 : (uint8_t)value;
}

/* One sum of the image and all chains, in single precision, cut off. */
static int apply(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                 struct scratch *scratch)
{
    (void)out;
    const struct values *v = values;
    float *sums = zeros(in, scratch);
    if (!sums)
        return LARDER_ENOMEM;
    add(in, (float)(1 - p->real[MIXED]), sums);
    if (add_chains(v, p, in, change_torchvision, (float)p->real[MIXED], sums, scratch))
        return LARDER_ENOMEM;
    for (uint32_t y = 0; y < in->height; y++) {
        uint8_t *row = image_row(in, y);
        for (size_t i = 0; i < (size_t)in->width * IMAGE_CHANNELS; i++)
            row[i] = cut(*sums++);
    }
    return 0;
}

/* The chains' sum cut off, and then blended with the image as Pillow does. */
static int timm_mix(const void *values, const struct op_plan *p, const struct image *in, struct image *out,
                    struct scratch *scratch)
{
    (void)out;
    const struct values *v = values;
    float *sums = zeros(in, scratch), mixed = (float)p->real[MIXED];
    if (!sums || add_chains(v, p, in, change_timm, 1, sums, scratch))
        return LARDER_ENOMEM;
    for (uint32_t y = 0; y < in->height; y++) {
        uint8_t *row = image_row(in, y);
        for (size_t i = 0; i < (size_t)in->width * IMAGE_CHANNELS; i++)
            row[i] = (uint8_t)((float)row[i] + mixed * (float)(cut(*sums++) - row[i]));
    }
    return 0;
}

const struct op_kind op_aug_mix = {
    .name = "aug_mix",
    .python = "AugMix",
    .text = "Mixes `mixture_width` chains of random changes with each other and with the image.",
    .flags = OP_RANDOM | OP_IN_PLACE,
    .args = args,
    .values_bytes = sizeof(struct values),
    .plan = plan,
    .apply = apply,
};

const struct op_kind op_timm_aug_mix = {
    .name = "timm_aug_mix",
    .python = "TimmAugMix",
    .text = "timm's AugMix: `width` chains of `depth` random changes (-1: one to three), of a strength about "
            "`magnitude`.",
    .flags = OP_RANDOM | OP_IN_PLACE,
    .args = timm_args,
    .values_bytes = sizeof(struct values),
    .plan = timm_plan,
    .apply = timm_mix,
};
