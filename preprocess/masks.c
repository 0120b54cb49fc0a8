/* masks.c: makes the numbers of a mask of pixels that stand for them. See masks.h. */
#include "preprocess/masks.h"

#include <string.h>

static int32_t number_at(const struct mask_form *form, const uint8_t pixel[IMAGE_CHANNELS])
{
    bool filled = pixel[2] == MASK_FILLED;
    return filled ? form->fill : pixel[0] | pixel[1] << 8;
}

void mask_store(const struct pipeline *pipeline, const struct image *image, void *dst)
{
    const struct mask_form *form = &pipeline->mask;
    uint8_t *bytes = dst;
    int32_t *words = dst;
    int64_t *longs = dst;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *pixel = image_row(image, y);
        size_t at = (size_t)y * image->width;
        for (uint32_t x = 0; x < image->width; x++, at++, pixel += IMAGE_CHANNELS) {
            int32_t number = number_at(form, pixel);
            switch (form->dtype) {
            case PIXEL_INT32: words[at] = number; break;
            case PIXEL_INT64: longs[at] = number; break;
            default: bytes[at] = (uint8_t)number;
            }
        }
    }
}
