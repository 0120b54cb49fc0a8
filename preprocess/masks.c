/* masks.c: makes the numbers of a mask of pixels that stand for them. See masks.h. */
#include "preprocess/masks.h"

#include "preprocess/mask_rows.h"
#include "preprocess/simd.h"

static const struct mask_rows *const versions[] = SIMD_TABLES(mask_rows);

void mask_store(const struct pipeline *pipeline, const struct image *image, void *dst)
{
    const struct mask_rows *rows = versions[simd_selected()];
    const struct mask_form *form = &pipeline->mask;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image_row(image, y);
        size_t at = (size_t)y * image->width;
        switch (form->dtype) {
        case PIXEL_INT32: rows->words(row, image->width, form->fill, (int32_t *)dst + at); break;
        case PIXEL_INT64: rows->longs(row, image->width, form->fill, (int64_t *)dst + at); break;
        default: rows->bytes(row, image->width, form->fill, (uint8_t *)dst + at);
        }
    }
}
