/* pixels.h: what several operators do to pixels. */
#ifndef LARDER_PREPROCESS_PIXELS_H
#define LARDER_PREPROCESS_PIXELS_H

#include "preprocess/args.h"
#include "preprocess/image.h"
#include "preprocess/scratch.h"

/* An `out` of the size of `in`. */
void pixels_copy(const struct image *in, struct image *out);

/* A colour argument as a pixel: fractions are dropped, as Python's int() does. */
void pixels_color(const struct arg_color *color, uint8_t out[IMAGE_CHANNELS]);

/* How an image goes on beyond its borders: np.pad's modes. */
enum pad_mode { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_SYMMETRIC };
extern const char *const pad_mode_names[];

#define PIXELS_OUTSIDE (-1)
/* pixels_pad_index says which of `count` pixels in a row stands at `at`, from below 0 to beyond the end. */
int64_t pixels_pad_index(int64_t at, uint32_t count, enum pad_mode mode);

/* pixels_gather makes out's pixel (x, y) from in's (columns[x], rows[y]), or from fill where one is PIXELS_OUTSIDE. */
void pixels_gather(const struct image *in, const int32_t *columns, const int32_t *rows,
                   const uint8_t fill[IMAGE_CHANNELS], struct image *out);

#endif
