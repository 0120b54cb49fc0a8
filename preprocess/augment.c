#include "preprocess/augment.h"

#include <math.h>

#include "common/larder_err.h"
#include "preprocess/affine.h"
#include "preprocess/color.h"
#include "preprocess/pixels.h"

/* torch.linspace in single precision: from either end to the middle. */
static double linspace(double from, double to, int32_t at, int32_t count)
{
    if (count < 2)
        return (float)from;
    float step = ((float)to - (float)from) / (float)(count - 1);
    return at < count / 2 ? (float)from + step * (float)at : (float)to - step * (float)(count - 1 - at);
}

static double strength_at(const struct augment_space *space, enum augment_change change, int32_t bin, int32_t bins)
{
    if (change == AUGMENT_POSTERIZE)
        return 8 - rint((double)bin / ((bins - 1) / space->posterize_bits));
    if (change == AUGMENT_SOLARIZE)
        return linspace(255.0, 0.0, bin, bins);
    return space->most[change] == 0 ? 0 : linspace(0, space->most[change], bin, bins);
}

struct augment_space augment_space_of(uint32_t width, uint32_t height)
{
    return (struct augment_space){.most = {[AUGMENT_SHEAR_X] = 0.3,
                                           [AUGMENT_SHEAR_Y] = 0.3,
                                           [AUGMENT_TRANSLATE_X] = 150.0 / 331.0 * width,
                                           [AUGMENT_TRANSLATE_Y] = 150.0 / 331.0 * height,
                                           [AUGMENT_ROTATE] = 30,
                                           [AUGMENT_BRIGHTNESS] = 0.9,
                                           [AUGMENT_COLOR] = 0.9,
                                           [AUGMENT_CONTRAST] = 0.9,
                                           [AUGMENT_SHARPNESS] = 0.9},
                                  .posterize_bits = 4};
}

double augment_draw(const struct augment_space *space, enum augment_change change, int32_t bin, int32_t bins,
                    struct rng *rng)
{
    double strength = strength_at(space, change, bin, bins);
    bool has_sign = change >= AUGMENT_SHEAR_X && change <= AUGMENT_SHARPNESS;
    return has_sign && random_below(rng, 2) ? -strength : strength;
}

/* Through an affine map, from a copy back into the same memory. */
static int through(const struct affine *affine, enum filter filter, const uint8_t fill[IMAGE_CHANNELS],
                   const struct image *image, struct scratch *scratch)
{
    struct image before;
    if (scratch_image(scratch, image->width, image->height, &before))
        return LARDER_ENOMEM;
    pixels_copy(image, &before);
    affine_apply(affine, filter, fill, &before, image);
    return 0;
}

static struct affine map_of(enum augment_change change, double magnitude, const struct image *image)
{
    uint32_t width = image->width, height = image->height;
    switch (change) {
    case AUGMENT_SHEAR_X: return affine_shear(magnitude, 0);
    case AUGMENT_SHEAR_Y: return affine_shear(0, magnitude);
    case AUGMENT_TRANSLATE_X: return affine_move((int32_t)magnitude, 0);
    case AUGMENT_TRANSLATE_Y: return affine_move(0, (int32_t)magnitude);
    default: {
        double angle = magnitude < 0 ? magnitude + 360.0 : magnitude;
        return affine_rotation(angle, width / 2.0, height / 2.0, false, &width, &height);
    }
    }
}

int augment_apply(enum augment_change change, double magnitude, enum filter filter, const uint8_t fill[IMAGE_CHANNELS],
                  const struct image *image, struct scratch *scratch)
{
    struct affine affine;
    switch (change) {
    case AUGMENT_ROTATE:
        if (magnitude == 0)
            return 0;
        /* fall through */
    case AUGMENT_SHEAR_X:
    case AUGMENT_SHEAR_Y:
    case AUGMENT_TRANSLATE_X:
    case AUGMENT_TRANSLATE_Y:
        affine = map_of(change, magnitude, image);
        return through(&affine, filter, fill, image, scratch);
    case AUGMENT_BRIGHTNESS: color_brightness(image, 1.0 + magnitude); return 0;
    case AUGMENT_COLOR: color_saturation(image, 1.0 + magnitude); return 0;
    case AUGMENT_CONTRAST: color_contrast(image, 1.0 + magnitude); return 0;
    case AUGMENT_SHARPNESS: return color_sharpness(image, 1.0 + magnitude, scratch);
    case AUGMENT_POSTERIZE: color_posterize(image, (int)magnitude); return 0;
    case AUGMENT_SOLARIZE: color_solarize(image, magnitude); return 0;
    case AUGMENT_AUTOCONTRAST: color_autocontrast(image); return 0;
    case AUGMENT_EQUALIZE: color_equalize(image); return 0;
    default: return 0;
    }
}
