/* geometry.h: crops, one resize and flips in a row, as one thing to do to the pixels.
 *
 * A chain of such operators says which rectangle of the source is resized to what size, which window of that is kept, and
 * whether it is mirrored. So only the source pixels that matter need decoding, the resampler computes only the window, and
 * flips cost nothing. Nothing is approximated: the pixels are those of the operators one after the other. */
#ifndef LARDER_PREPROCESS_GEOMETRY_H
#define LARDER_PREPROCESS_GEOMETRY_H

#include <stdbool.h>

#include "preprocess/image.h"

enum filter { FILTER_NEAREST, FILTER_BILINEAR, FILTER_BICUBIC, FILTER_BOX, FILTER_HAMMING, FILTER_LANCZOS };

/* The choices of an `interpolation` argument, in enum filter's order. */
extern const char *const filter_names[];

struct geometry {
    struct rect box;    /* of the source; the resampler does not look past its borders */
    uint32_t full_width, full_height; /* of the box, resized */
    struct rect window; /* of the resized box: what is kept */
    bool resized;       /* false: full size and box are the same size, and no filter was named */
    bool antialias;     /* when shrinking, widen the filter by the ratio */
    enum filter filter;
    bool mirror_x, mirror_y; /* after all else */
};

void geometry_start(struct geometry *geometry, uint32_t width, uint32_t height);
/* geometry_is_idle: the result is the source, which was width × height. */
bool geometry_is_idle(const struct geometry *geometry, uint32_t width, uint32_t height);
/* geometry_crop takes a rectangle inside the present result. */
void geometry_crop(struct geometry *geometry, struct rect rect);
/* geometry_resize: false when there was a resize, or a flip, before. */
bool geometry_resize(struct geometry *geometry, uint32_t width, uint32_t height, enum filter filter, bool antialias);

#endif
