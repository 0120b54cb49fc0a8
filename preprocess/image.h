/* image.h: pixels and rectangles, as the parts of preprocess/ pass them on. */
#ifndef LARDER_PREPROCESS_IMAGE_H
#define LARDER_PREPROCESS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Vector code may read, but never write, up to this many bytes past the last pixel of an image in scratch memory, and
 * as far past this many rows that would come next. */
#define IMAGE_SLACK_BYTES 64
#define IMAGE_SLACK_ROWS 3
#define IMAGE_CHANNELS 3

struct rect {
    uint32_t x, y, width, height;
};

/* Interleaved RGB, 8 bits a channel. The struct does not own the bytes: they are scratch memory, or an output's
 * destination. */
struct image {
    uint8_t *data;
    size_t stride; /* bytes from row to row */
    uint32_t width, height;
};

static inline uint8_t *image_row(const struct image *image, uint32_t y)
{
    return image->data + image->stride * y;
}

#endif
