/* pixels.h: work on pixels that several operators share. */
#ifndef LARDER_PREPROCESS_PIXELS_H
#define LARDER_PREPROCESS_PIXELS_H

#include "preprocess/args.h"
#include "preprocess/image.h"
#include "preprocess/scratch.h"

/* pixels_copy copies the pixels of `in` to out, which has the same size. */
void pixels_copy(const struct image *in, struct image *out);

/* pixels_color makes a colour argument a pixel. It drops fractions, as Python's int() does. */
void pixels_color(const struct arg_color *color, uint8_t out[IMAGE_CHANNELS]);

/* pixels_fill sets `count` pixels in a row. */
void pixels_fill(uint8_t *to, uint32_t count, const uint8_t fill[IMAGE_CHANNELS]);

/* How an image goes on beyond its borders: np.pad's modes. */
enum pad_mode { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_SYMMETRIC };
extern const char *const pad_mode_names[];

#define PIXELS_OUTSIDE (-1)
/* pixels_pad_index says which of `count` pixels in a row stands at `at`, which may be below 0 or beyond the end.
 * PIXELS_OUTSIDE: none of them. */
int64_t pixels_pad_index(int64_t at, uint32_t count, enum pad_mode mode);

/* pixels_gather sets out's pixel (x, y) to in's (columns[x], rows[y]), or to fill where either is PIXELS_OUTSIDE. */
void pixels_gather(const struct image *in, const int32_t *columns, const int32_t *rows,
                   const uint8_t fill[IMAGE_CHANNELS], struct image *out);

#endif
