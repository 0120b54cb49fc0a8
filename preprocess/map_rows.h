/* map_rows.h: makes rows of pixels from places of another image, with Pillow's arithmetic (Geometry.c); its versions
 * are chosen by simd.h. Pure. All places are inside the image. Up to 4 bytes after its last pixel are read. */
#ifndef LARDER_PREPROCESS_MAP_ROWS_H
#define LARDER_PREPROCESS_MAP_ROWS_H

#include "preprocess/image.h"

/* Places along a row, in 16.16 fixed point, below 32,768. */
struct map_line {
    int64_t x, y;   /* the first one */
    int64_t dx, dy; /* from each to the next */
};

struct map_rows {
    /* The pixels at these offsets of `data`, in bytes. */
    void (*take)(const uint8_t *data, const uint32_t *offsets, uint32_t count, uint8_t *to);
    void (*nearest)(const struct image *in, const struct map_line *line, uint32_t count, uint8_t *to);
    /* Where the affine map takes the middles of `count` pixels of row y, from x on. */
    void (*places)(const double map[6], uint32_t x, uint32_t y, uint32_t count, double *xs, double *ys);
    void (*bilinear)(const struct image *in, const double *xs, const double *ys, uint32_t count, uint8_t *to);
};

extern const struct map_rows map_rows_portable, map_rows_avx2, map_rows_avx512;

#endif
