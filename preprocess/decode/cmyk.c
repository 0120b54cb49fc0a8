/* cmyk.c: CMYK, as printers' files have it, to RGB. */
#include "preprocess/decode/cmyk.h"

#include "preprocess/image.h"

/* a × b / 255, rounded as Pillow's MULDIV255. */
static inline unsigned muldiv255(unsigned a, unsigned b)
{
    unsigned t = a * b + 128;
    return ((t >> 8) + t) >> 8;
}

void decode_cmyk(const uint8_t *in, size_t step, bool inverted, uint8_t *out, uint32_t width)
{
    unsigned flip = inverted ? 255 : 0;
    for (uint32_t x = 0; x < width; x++, in += step, out += IMAGE_CHANNELS) {
        unsigned white = 255 - (in[3] ^ flip);
        for (int c = 0; c < IMAGE_CHANNELS; c++)
            out[c] = (uint8_t)(white - muldiv255(in[c] ^ flip, white));
    }
}
