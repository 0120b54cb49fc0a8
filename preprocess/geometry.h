/* geometry.h: joins crops, one resize and flips in a row into one step.
 *
 * A chain of such operators says which rectangle of the source is resized to what size, which window of that is
 * kept, and whether it is mirrored. So only the source pixels that matter need decoding, the resampler computes only
 * the window, and flips cost nothing. Nothing is approximated: the pixels are those of the operators one after the
 * other. Plain values; pure. */
#ifndef LARDER_PREPROCESS_GEOMETRY_H
#define LARDER_PREPROCESS_GEOMETRY_H

#include <stdbool.h>

#include "preprocess/image.h"

/* FILTER_MASK is nearest as torch's interpolate has it, which masks are resized by. No operator has it as a choice. */
enum filter {
    FILTER_NEAREST,
    FILTER_BILINEAR,
    FILTER_BICUBIC,
    FILTER_BOX,
    FILTER_HAMMING,
    FILTER_LANCZOS,
    FILTER_MASK
};

/* The choices of an `interpolation` argument, in enum filter's order. */
extern const char *const filter_names[];

/* How to resize. */
struct resizing {
    enum filter filter;
    bool antialias;   /* when shrinking, widen the filter by the ratio */
    bool dct_scaling; /* a JPEG may be decoded at 1/2, 1/4 or 1/8 first: faster, and not the same pixels */
};

struct geometry {
    struct rect box;                  /* rectangle of the source; the resampler does not look past its borders */
    double inset_x, inset_y;          /* offset of the part to resize in the box: 0 unless the source was scaled */
    double span_x, span_y;            /* the size of that part: the box's unless the source was scaled */
    uint32_t full_width, full_height; /* the size that the part is resized to */
    struct rect window;               /* the part of the resized pixels that is kept */
    bool resized;                     /* false: full size and box have the same size, and `how` has no meaning */
    struct resizing how;
    bool mirror_x, mirror_y; /* after all else */
};

/* geometry_start makes the geometry that changes nothing of a source of width × height. */
void geometry_start(struct geometry *geometry, uint32_t width, uint32_t height);
/* geometry_is_idle says whether the result is the source, which had width × height. */
bool geometry_is_idle(const struct geometry *geometry, uint32_t width, uint32_t height);
/* geometry_crop keeps a rectangle of the present result. */
void geometry_crop(struct geometry *geometry, struct rect rect);
/* geometry_resize resizes the present result. It returns false, and changes nothing, after a resize or a flip. */
bool geometry_resize(struct geometry *geometry, uint32_t width, uint32_t height, struct resizing how);

#define GEOMETRY_SCALING_MAX 8
/* geometry_scaling returns the divisor (8, 4, 2 or 1) by which the source may be made smaller beforehand, so that
 * something is left to shrink. geometry_scale says that this was done: box is then in pixels of the smaller source. */
uint32_t geometry_scaling(const struct geometry *geometry);
void geometry_scale(struct geometry *geometry, uint32_t divisor);

#endif
