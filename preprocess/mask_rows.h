/* mask_rows.h: makes numbers of a row of a mask's pixels (masks.h); its versions are chosen by simd.h. Pure. */
#ifndef LARDER_PREPROCESS_MASK_ROWS_H
#define LARDER_PREPROCESS_MASK_ROWS_H

#include <stdint.h>

#define MASK_FILLED 255 /* of a pixel of a mask, all three */

/* Numbers of 8, 32 and 64 bits. `fill` stands where the image has no pixel. */
struct mask_rows {
    void (*bytes)(const uint8_t *row, uint32_t count, int32_t fill, uint8_t *to);
    void (*words)(const uint8_t *row, uint32_t count, int32_t fill, int32_t *to);
    void (*longs)(const uint8_t *row, uint32_t count, int32_t fill, int64_t *to);
};

extern const struct mask_rows mask_rows_portable, mask_rows_avx2, mask_rows_avx512;

#endif
