#include "preprocess/decode/turn.h"

#include <string.h>

#include "preprocess/decode/form_tiff.h"

struct turn turn_of(uint32_t orientation, uint32_t width, uint32_t height)
{
    uint32_t o = orientation;
    return (struct turn){.mirror_x = o == 2 || o == 3 || o == 7 || o == 8,
                         .mirror_y = o == 3 || o == 4 || o == 6 || o == 7,
                         .sideways = o >= FORM_SIDEWAYS,
                         .width = width,
                         .height = height};
}

struct rect turn_back(const struct turn *turn, struct rect rect)
{
    if (turn->sideways)
        rect = (struct rect){rect.y, rect.x, rect.height, rect.width};
    if (turn->mirror_x)
        rect.x = turn->width - rect.x - rect.width;
    if (turn->mirror_y)
        rect.y = turn->height - rect.y - rect.height;
    return rect;
}

void turn_row(const struct turn *turn, const uint8_t *row, uint32_t y, uint32_t width, uint32_t height,
              const struct image *out)
{
    uint32_t to_y = turn->mirror_y ? height - 1 - y : y;
    for (uint32_t x = 0; x < width; x++, row += IMAGE_CHANNELS) {
        uint32_t to_x = turn->mirror_x ? width - 1 - x : x;
        uint8_t *to = turn->sideways ? image_row(out, to_x) + (size_t)to_y * IMAGE_CHANNELS
                                     : image_row(out, to_y) + (size_t)to_x * IMAGE_CHANNELS;
        memcpy(to, row, IMAGE_CHANNELS);
    }
}
