/* png_filter.h: takes the filters back that a PNG's rows were stored with. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_PNG_FILTER_H
#define LARDER_PREPROCESS_DECODE_PNG_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes behind the last row that png_unfilter may read, but never writes. */
#define PNG_FILTER_SLACK 16

/* How the bytes of a row differ from the pixels' bytes: by nothing, the pixel to the left, the one above, the mean of
 * both, or the one of these and of the pixel above to the left that is nearest to left + above - above left. */
enum png_filter { PNG_NONE, PNG_SUB, PNG_UP, PNG_AVG, PNG_PAETH, PNG_FILTERS };

/* png_filter_begins tells whether a row of this filter is made without the one above. */
static inline bool png_filter_begins(uint8_t filter)
{
    return filter == PNG_NONE || filter == PNG_SUB;
}

/* png_unfilter makes the first `bytes` bytes of a row's pixels in place. `above` has those of the row above; zeros for
 * the first row. A pixel has pixel_bytes, 1 to 8; the pixels of one byte are 1 if they are narrower. */
void png_unfilter(uint8_t filter, const uint8_t *above, uint8_t *row, size_t bytes, size_t pixel_bytes);

#endif
