/* resample_priv.h: what the resampler and its vector versions share. */
#ifndef LARDER_PREPROCESS_RESAMPLE_PRIV_H
#define LARDER_PREPROCESS_RESAMPLE_PRIV_H

#include <stdint.h>

#include "preprocess/image.h"
#include "preprocess/resample.h"

#define RESAMPLE_BITS 22 /* fractional bits of a weight: Pillow's PRECISION_BITS */
#define RESAMPLE_ROUND (1 << (RESAMPLE_BITS - 1))
/* Weights come in groups of this many, the last one filled up with zeros: what they read then has no influence. */
#define RESAMPLE_GROUP 4
_Static_assert(RESAMPLE_GROUP - 1 <= IMAGE_SLACK_ROWS, "a whole group of rows may be read");
/* The horizontal pass makes this many rows, and this many pixels of a row, at once: axes and output have room for
 * multiples of them. */
#define RESAMPLE_ROWS 4
#define RESAMPLE_COLUMNS 4

/* The weights along one side, for the outputs of a window. */
struct resample_axis {
    uint32_t count;   /* outputs; the arrays go on, with weights of zero, to a multiple of RESAMPLE_COLUMNS */
    uint32_t groups;  /* groups of weights an output, the same for all */
    int32_t *first;   /* each output's first source pixel, counted from the first that is needed */
    int32_t *weights; /* groups × RESAMPLE_GROUP weights for each output */
    void *packed;     /* the same weights in the form that a vector version takes */
};

struct resample_kernel {
    /* Bytes of `packed` for a group of weights, and the function that packs. 0 and NULL: the version takes the plain
     * weights. */
    size_t packed_bytes;
    void (*pack)(const int32_t *weights, size_t groups, void *packed);
    /* Makes `rows` rows of axis->count RGB pixels. It may write up to whole multiples of both, and 4 bytes past a row's
     * end. */
    void (*horizontal)(const struct resample_axis *axis, const uint8_t *source, size_t stride, uint32_t rows,
                       uint8_t *out, size_t out_stride);
    /* Makes row `index` from the rows of source. It writes `bytes` bytes and no more. */
    void (*vertical)(const struct resample_axis *axis, uint32_t index, const uint8_t *source, size_t stride,
                     uint32_t bytes, uint8_t *out);
};

extern const struct resample_kernel resample_portable, resample_avx2, resample_avx512;

static inline uint8_t resample_clip(int32_t sum)
{
    int32_t value = sum >> RESAMPLE_BITS;
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

#endif
