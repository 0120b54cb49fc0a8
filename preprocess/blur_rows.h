/* blur_rows.h: weighted sums of rows of numbers; its versions are chosen by simd.h. Pure. */
#ifndef LARDER_PREPROCESS_BLUR_ROWS_H
#define LARDER_PREPROCESS_BLUR_ROWS_H

#include <stddef.h>
#include <stdint.h>

/* `weigh` makes whole blocks of this many numbers: rows and results have room for them. */
#define BLUR_BLOCK 96

struct blur_rows {
    void (*widen)(const uint8_t *bytes, size_t count, float *out);
    /* out[i] = weights[0] × rows[0][i] + weights[1] × rows[1][i] + …, in this order, each product and sum rounded. */
    void (*weigh)(const float *const *rows, const float *weights, uint32_t n_rows, size_t count, float *out);
    /* Rounds numbers from 0 on to the nearest whole ones, ties to even, and cuts them off at 255. */
    void (*narrow)(const float *numbers, size_t count, uint8_t *out);
};

extern const struct blur_rows blur_rows_portable, blur_rows_avx2, blur_rows_avx512;

#endif
