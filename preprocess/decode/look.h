/* look.h: how the bytes of a file's pixels become RGB, as Pillow's convert("RGB") makes it. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_LOOK_H
#define LARDER_PREPROCESS_DECODE_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preprocess/image.h"

#define LOOK_COLORS 256

enum look_kind {
    LOOK_NUMBERS, /* `bits` (1, 2, 4, 8) bits that stand for a color */
    LOOK_BYTES,   /* three of a pixel's bytes are red, green and blue */
    LOOK_CUT,     /* a number of 16 or 32 bits, in the machine's order; what is above 255 is white, below 0 black */
    LOOK_INKS     /* CMYK, without profiles, of `wide` bytes an ink */
};

enum look_number { LOOK_U16, LOOK_S16, LOOK_S32, LOOK_FLOAT };

struct look {
    enum look_kind kind;
    unsigned bits;
    size_t step;             /* bytes from pixel to pixel */
    size_t red, green, blue; /* LOOK_BYTES: where in a pixel */
    size_t wide;             /* LOOK_INKS: bytes of an ink, of which the one at `red` counts */
    enum look_number number;
    uint8_t colors[LOOK_COLORS][IMAGE_CHANNELS];
};

/* look_greys fills the colors with the greys that `bits` bits can say, from black to white or backwards. */
void look_greys(struct look *look, bool white_first);
/* look_row makes `width` pixels of a row, from pixel x on. */
void look_row(const struct look *look, const uint8_t *row, size_t x, uint32_t width, uint8_t *out);

#endif
