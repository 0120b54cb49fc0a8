/* warp.h: single pixels of an image at places between its pixels, with Pillow's arithmetic (Geometry.c), for maps that
 * are not affine. affine.h has those that are. Pure. */
#ifndef LARDER_PREPROCESS_WARP_H
#define LARDER_PREPROCESS_WARP_H

#include "preprocess/geometry.h"
#include "preprocess/image.h"

/* The map of Pillow's PERSPECTIVE, from a pixel (x, y) of the result to the source:
 *   x' = (m[0] x + m[1] y + m[2]) / (m[6] x + m[7] y + 1),  y' = (m[3] x + m[4] y + m[5]) / (m[6] x + m[7] y + 1). */
struct perspective {
    double m[8];
};

/* warp_perspective makes the pixels of out. Those that the map takes from outside of `in` are fill. The filter is
 * nearest, bilinear or bicubic. */
void warp_perspective(const struct perspective *map, enum filter filter, const uint8_t fill[IMAGE_CHANNELS],
                      const struct image *in, const struct image *out);

struct point {
    double x, y;
};

/* warp_perspective_of finds the map that takes the corner to[i] to from[i], as torchvision's least squares do: solved
 * in double precision, rounded to single. It returns false where corners lie so that there is none. */
bool warp_perspective_of(const struct point from[4], const struct point to[4], struct perspective *out);

#endif
