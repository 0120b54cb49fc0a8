#include "preprocess/timm.h"

#include <math.h>

#include "common/larder_err.h"
#include "preprocess/affine.h"
#include "preprocess/box_blur.h"
#include "preprocess/chance.h"
#include "preprocess/color.h"
#include "preprocess/pixels.h"

#define LEVELS 10.0 /* a magnitude of 10 is a change's full strength */
#define UNIFORM_ABOVE 100

const char *const timm_filter_names[] = {"random", "nearest", "bilinear", "bicubic", NULL};
enum { FILTER_RANDOM, FIRST_FILTER }; /* then enum filter's, in its order */
_Static_assert(FILTER_NEAREST == 0 && FILTER_BILINEAR == 1 && FILTER_BICUBIC == 2, "the choices are in its order");

/* ── strengths ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static double with_sign(struct rng *rng, double value)
{
    return random_unit(rng) > 0.5 ? -value : value;
}

static double increasing(struct rng *rng, double part)
{
    return fmax(0.1, 1.0 + with_sign(rng, part * 0.9));
}

static double between(double low, double high, double part)
{
    return fmax(low, fmin(high, low + (high - low) * part));
}

/* What a magnitude, as a part of full strength, means for the change: timm's level_fn. */
static double amount_of(const struct timm_values *how, enum timm_change change, double part, struct rng *rng)
{
    switch (change) {
    case TIMM_ROTATE: return with_sign(rng, part * 30);
    case TIMM_POSTERIZE: return trunc(part * 4);
    case TIMM_POSTERIZE_INCREASING: return 4 - trunc(part * 4);
    case TIMM_POSTERIZE_ORIGINAL: return trunc(part * 4) + 4;
    case TIMM_SOLARIZE: return fmin(256, trunc(part * 256));
    case TIMM_SOLARIZE_INCREASING: return 256 - fmin(256, trunc(part * 256));
    case TIMM_SOLARIZE_ADD: return fmin(128, trunc(part * 110));
    case TIMM_COLOR:
    case TIMM_CONTRAST:
    case TIMM_BRIGHTNESS:
    case TIMM_SHARPNESS: return part * 1.8 + 0.1;
    case TIMM_COLOR_INCREASING:
    case TIMM_CONTRAST_INCREASING:
    case TIMM_BRIGHTNESS_INCREASING:
    case TIMM_SHARPNESS_INCREASING: return increasing(rng, part);
    case TIMM_SHEAR_X:
    case TIMM_SHEAR_Y: return with_sign(rng, part * 0.3);
    case TIMM_TRANSLATE_X_REL:
    case TIMM_TRANSLATE_Y_REL: return with_sign(rng, part * how->translate);
    case TIMM_DESATURATE: return between(0.5, 1.0, part);
    case TIMM_GAUSSIAN_BLUR: return between(0.1, 2.0, part);
    case TIMM_GAUSSIAN_BLUR_RAND: return 0.1 + (2.0 * between(0, 1, part) - 0.1) * random_unit(rng);
    default: return 0;
    }
}

static bool has_filter(enum timm_change change)
{
    return change == TIMM_ROTATE || (change >= TIMM_SHEAR_X && change <= TIMM_TRANSLATE_Y_REL);
}

void timm_draw(const struct timm_values *how, enum timm_change change, double magnitude, double p, struct rng *rng,
               int32_t *choice, double *amount)
{
    *choice = TIMM_NOTHING;
    *amount = 0;
    if (p < 1 && random_unit(rng) > p)
        return;
    if (how->mstd > UNIFORM_ABOVE)
        magnitude *= random_unit(rng);
    else if (how->mstd > 0)
        magnitude += how->mstd * chance_normal(rng);
    magnitude = fmax(0, fmin(magnitude, how->mmax > 0 ? how->mmax : LEVELS));
    *amount = amount_of(how, change, magnitude / LEVELS, rng);
    enum filter filter = FILTER_NEAREST;
    if (has_filter(change) && how->interpolation == FILTER_RANDOM)
        filter = random_below(rng, 2) ? FILTER_BICUBIC : FILTER_BILINEAR;
    else if (has_filter(change))
        filter = (enum filter)(how->interpolation - FIRST_FILTER);
    *choice = (int32_t)change | (int32_t)filter << 8;
}

/* ── pixels ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static struct affine map_of(enum timm_change change, double amount, const struct image *image)
{
    uint32_t width = image->width, height = image->height;
    switch (change) {
    case TIMM_SHEAR_X: return (struct affine){{1, amount, 0, 0, 1, 0}};
    case TIMM_SHEAR_Y: return (struct affine){{1, 0, 0, amount, 1, 0}};
    case TIMM_TRANSLATE_X_REL: return (struct affine){{1, 0, amount * width, 0, 1, 0}};
    case TIMM_TRANSLATE_Y_REL: return (struct affine){{1, 0, 0, 0, 1, amount * height}};
    default: {
        double angle = fmod(amount, 360.0);
        return affine_rotation(angle < 0 ? angle + 360.0 : angle, width / 2.0, height / 2.0, false, &width, &height);
    }
    }
}

static int move(const struct timm_values *how, enum timm_change change, enum filter filter, double amount,
                const struct image *image, struct scratch *scratch)
{
    struct image before;
    uint8_t fill[IMAGE_CHANNELS];
    if (change == TIMM_ROTATE && fmod(amount, 360.0) == 0)
        return 0;
    if (scratch_image(scratch, image->width, image->height, &before))
        return LARDER_ENOMEM;
    pixels_color(&how->fill, fill);
    pixels_copy(image, &before);
    const struct affine map = map_of(change, amount, image);
    affine_apply(&map, filter, fill, &before, image);
    return 0;
}

static void solarize_add(const struct image *image, int add)
{
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *row = image_row(image, y);
        for (size_t i = 0; i < (size_t)image->width * IMAGE_CHANNELS; i++) {
            if (row[i] < 128)
                row[i] = (uint8_t)(row[i] + add > 255 ? 255 : row[i] + add);
        }
    }
}

static void posterize(const struct image *image, double bits)
{
    if (bits < 8)
        color_posterize(image, bits < 0 ? 0 : (int)bits);
}

int timm_apply(const struct timm_values *how, int32_t choice, double amount, const struct image *image,
               struct scratch *scratch)
{
    enum timm_change change = (enum timm_change)(choice & 0xff);
    if (choice == TIMM_NOTHING)
        return 0;
    if (has_filter(change))
        return move(how, change, (enum filter)(choice >> 8), amount, image, scratch);
    switch (change) {
    case TIMM_AUTO_CONTRAST: color_autocontrast(image); return 0;
    case TIMM_EQUALIZE: color_equalize(image); return 0;
    case TIMM_INVERT: color_solarize(image, 0); return 0;
    case TIMM_POSTERIZE:
    case TIMM_POSTERIZE_INCREASING:
    case TIMM_POSTERIZE_ORIGINAL: posterize(image, amount); return 0;
    case TIMM_SOLARIZE:
    case TIMM_SOLARIZE_INCREASING: color_solarize(image, amount); return 0;
    case TIMM_SOLARIZE_ADD: solarize_add(image, (int)amount); return 0;
    case TIMM_COLOR:
    case TIMM_COLOR_INCREASING: color_saturation(image, amount); return 0;
    case TIMM_CONTRAST:
    case TIMM_CONTRAST_INCREASING: color_contrast(image, amount); return 0;
    case TIMM_BRIGHTNESS:
    case TIMM_BRIGHTNESS_INCREASING: color_brightness(image, amount); return 0;
    case TIMM_SHARPNESS:
    case TIMM_SHARPNESS_INCREASING: return color_sharpness(image, amount, scratch);
    case TIMM_DESATURATE: color_saturation(image, fmin(1, fmax(0, 1 - amount))); return 0;
    case TIMM_GAUSSIAN_BLUR:
    case TIMM_GAUSSIAN_BLUR_RAND: return box_blur_gaussian(image, amount, scratch);
    default: return 0;
    }
}
