/* turn.h: pictures that are to be seen otherwise than they lie in their file, as EXIF's orientation says. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_TURN_H
#define LARDER_PREPROCESS_DECODE_TURN_H

#include "preprocess/image.h"

/* How the picture to be seen is made of the one in the file: mirrored first, then rows become columns. */
struct turn {
    bool mirror_x, mirror_y, sideways;
    uint32_t width, height; /* size of the picture in the file */
};

/* turn_of takes an orientation from 1 (none) to 8, and the file's size. */
struct turn turn_of(uint32_t orientation, uint32_t width, uint32_t height);
/* turn_back returns the rectangle of the file's picture that becomes `rect`. */
struct rect turn_back(const struct turn *turn, struct rect rect);
/* turn_row puts row y of the file's rectangle, which has `width` × `height` pixels, where it is to be seen. */
void turn_row(const struct turn *turn, const uint8_t *row, uint32_t y, uint32_t width, uint32_t height,
              const struct image *out);

#endif
