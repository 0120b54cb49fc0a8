/* resample.h: applies a geometry to pixels: crop, antialiased separable resize, mirror.
 *
 * The arithmetic is Pillow's for 8 bits, and results equal Pillow's bit for bit. Filter weights are normalised in
 * double precision and rounded to 22 fractional bits. There are two passes, each rounded and clipped to 8 bits. The
 * first goes along rows. It goes along columns where the height shrinks, and by more than twice as many pixels as the
 * width: that is Pillow's rule since version 13, and before it always began with rows. Vector versions do the same sums
 * in other pieces and give the same bytes. */
#ifndef LARDER_PREPROCESS_RESAMPLE_H
#define LARDER_PREPROCESS_RESAMPLE_H

#include <stdbool.h>

#include "preprocess/geometry.h"
#include "preprocess/image.h"
#include "preprocess/scratch.h"

/* resample_needs returns the rectangle of the source that the result depends on. */
struct rect resample_needs(const struct geometry *geometry);

/* resample makes geometry->window's pixels. `source` holds the source's rectangle that begins at (x, y) and covers what
 * resample_needs returns. out has the window's size. It fails with LARDER_ENOMEM alone. */
int resample(const struct geometry *geometry, const struct image *source, uint32_t x, uint32_t y,
             const struct image *out, struct scratch *scratch);

/* The same where the source's rows come a few at a time, and are not kept: each is resampled along itself while it is
 * in the processor's cache. What is made of them is in scratch memory. */
struct resample_rows {
    const struct geometry *geometry; /* borrowed */
    struct scratch *scratch;         /* borrowed */
    struct passes *passes;           /* NULL: no row has come yet */
    struct image middle;             /* a row for each of the source's */
};

/* resample_takes_rows says whether a geometry begins with rows. */
bool resample_takes_rows(const struct geometry *geometry);
/* resample_take_rows takes `count` rows of the rectangle that resample_needs returns, from its row y on. They may come
 * again. LARDER_ENOMEM. */
int resample_take_rows(struct resample_rows *rows, uint32_t y, const uint8_t *from, size_t stride, uint32_t count);
/* resample_columns makes geometry->window's pixels once all rows were taken. */
void resample_columns(const struct resample_rows *rows, const struct image *out);

#endif
