/* augment.h: the fourteen changes that trivial_augment_wide, rand_augment and auto_augment choose from, as
 * torchvision's autoaugment.py has them. */
#ifndef LARDER_PREPROCESS_AUGMENT_H
#define LARDER_PREPROCESS_AUGMENT_H

#include "common/random.h"
#include "preprocess/geometry.h"
#include "preprocess/image.h"
#include "preprocess/scratch.h"

enum augment_change {
    AUGMENT_IDENTITY,
    AUGMENT_SHEAR_X,
    AUGMENT_SHEAR_Y,
    AUGMENT_TRANSLATE_X,
    AUGMENT_TRANSLATE_Y,
    AUGMENT_ROTATE,
    AUGMENT_BRIGHTNESS,
    AUGMENT_COLOR,
    AUGMENT_CONTRAST,
    AUGMENT_SHARPNESS,
    AUGMENT_POSTERIZE,
    AUGMENT_SOLARIZE,
    AUGMENT_AUTOCONTRAST,
    AUGMENT_EQUALIZE,
    AUGMENT_CHANGES
};

/* How strong each change is at most. */
struct augment_space {
    double most[AUGMENT_CHANGES]; /* strength at the highest bin; 0: the change has none */
    double posterize_bits;        /* bits that posterising takes away at the highest bin */
};

/* augment_space_of returns the strengths of AutoAugment and RandAugment, for images of this size. */
struct augment_space augment_space_of(uint32_t width, uint32_t height);

/* augment_draw returns a change's strength at `bin` of `bins`, with a drawn sign where it has one. */
double augment_draw(const struct augment_space *space, enum augment_change change, int32_t bin, int32_t bins,
                    struct rng *rng);

/* augment_apply changes the image in place. It fails with LARDER_ENOMEM alone. */
int augment_apply(enum augment_change change, double magnitude, enum filter filter, const uint8_t fill[IMAGE_CHANNELS],
                  const struct image *image, struct scratch *scratch);

#endif
