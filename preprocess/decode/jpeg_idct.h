/* jpeg_idct.h: samples of a JPEG's coefficients, of two blocks at once.
 *
 * The samples are those of libjpeg-turbo's vector code for JDCT_ISLOW, bit by bit, whatever the coefficients are. In a
 * photograph most of a block's lower rows and right columns are zero. Such blocks need half of the work. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_IDCT_H
#define LARDER_PREPROCESS_DECODE_JPEG_IDCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* jpeg_idct_is_there says whether this processor has the instructions (AVX2), and the version of simd.h that was chosen
 * uses them. */
bool jpeg_idct_is_there(void);

/* jpeg_idct_pair makes 8 rows of 8 samples of each of two blocks, at `first` and at `second`, rows `stride` bytes
 * apart. Blocks and quantisers have 64 numbers in natural order. Pure. The caller has asked whether it is there. */
void jpeg_idct_pair(const int16_t *first_block, const int16_t *second_block, const uint16_t *quantisers, uint8_t *first,
                    uint8_t *second, size_t stride);

#endif
