/* affine.h: images through an affine map, with Pillow's arithmetic (Geometry.c). */
#ifndef LARDER_PREPROCESS_AFFINE_H
#define LARDER_PREPROCESS_AFFINE_H

#include "preprocess/geometry.h"
#include "preprocess/image.h"

/* From a pixel of the result to the source: x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5]. */
struct affine {
    double m[6];
};

/* The filters that a map can use, as choices of an `interpolation` argument: nearest, bilinear, bicubic. */
extern const char *const affine_filter_names[];

/* affine_apply makes out, of any size; fill where the map leads outside. */
void affine_apply(const struct affine *affine, enum filter filter, const uint8_t fill[IMAGE_CHANNELS],
                  const struct image *in, const struct image *out);

/* affine_shear, affine_move: torchvision's functional.affine with that alone. */
struct affine affine_shear(double x, double y); /* tangents, about the corner */
struct affine affine_move(int32_t x, int32_t y);

/* affine_rotation: Pillow's rotate, counter-clockwise by degrees about (x, y), of an image of width × height. expand:
 * the size is changed to hold all of it. */
struct affine affine_rotation(double degrees, double x, double y, bool expand, uint32_t *width, uint32_t *height);

#endif
