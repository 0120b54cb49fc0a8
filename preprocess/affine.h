/* affine.h: puts images through an affine map, with Pillow's arithmetic (Geometry.c). Pure. */
#ifndef LARDER_PREPROCESS_AFFINE_H
#define LARDER_PREPROCESS_AFFINE_H

#include "preprocess/geometry.h"
#include "preprocess/image.h"

/* The map from a pixel (x, y) of the result to the source: x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5]. */
struct affine {
    double m[6];
};

/* The filters that a map can use, as choices of an `interpolation` argument: nearest, bilinear, bicubic. */
extern const char *const affine_filter_names[];

/* affine_apply makes the pixels of out, which may have any size. Pixels that the map takes from outside of `in` are
 * fill. `in` is in scratch memory: up to 4 bytes after its last pixel are read. */
void affine_apply(const struct affine *affine, enum filter filter, const uint8_t fill[IMAGE_CHANNELS],
                  const struct image *in, const struct image *out);

/* affine_shear and affine_move return the map of torchvision's functional.affine with a shear alone, or a move
 * alone. */
struct affine affine_shear(double x, double y);  /* tangents; the upper left corner stays */
struct affine affine_move(int32_t x, int32_t y); /* pixels */

/* affine_rotation returns the map of Pillow's rotate: counter-clockwise by degrees about (x, y), for an image of width
 * × height. With `expand` width and height are changed to hold all of the result. */
struct affine affine_rotation(double degrees, double x, double y, bool expand, uint32_t *width, uint32_t *height);

#endif
