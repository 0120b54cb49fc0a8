/* blur_rows.c: the sums of a block stay in registers while the rows go by. The compiler makes the vectors (simd.h). */
#include "preprocess/blur_rows.h"

#include "preprocess/simd.h"

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX2__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

typedef float vector __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(float)), may_alias));

enum { LANES = VECTOR_BYTES / sizeof(float), VECTORS = 6, STEP = LANES * VECTORS };
_Static_assert(BLUR_BLOCK % STEP == 0, "a block is some whole steps");

static void widen(const uint8_t *restrict bytes, size_t count, float *restrict out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)bytes[i];
}

static void weigh(const float *const *rows, const float *weights, uint32_t n_rows, size_t count, float *out)
{
    for (size_t i = 0; i < count; i += STEP) {
        vector sums[VECTORS] = {0};
        for (uint32_t r = 0; r < n_rows; r++) {
            const float *from = rows[r] + i;
            for (int v = 0; v < VECTORS; v++)
                sums[v] += weights[r] * *(const vector *)(from + v * LANES);
        }
        for (int v = 0; v < VECTORS; v++)
            *(vector *)(out + i + v * LANES) = sums[v];
    }
}

static void narrow(const float *restrict numbers, size_t count, uint8_t *restrict out)
{
    const float whole = 8388608.0f; /* 2^23: single precision has no fractions from there on */
    for (size_t i = 0; i < count; i++) {
        float number = numbers[i] < 255.0f ? numbers[i] : 255.0f;
        out[i] = (uint8_t)(int)(number + whole - whole);
    }
}

const struct blur_rows SIMD_NAME(blur_rows) = {.widen = widen, .weigh = weigh, .narrow = narrow};
