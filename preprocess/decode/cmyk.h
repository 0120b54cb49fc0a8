/* cmyk.h: CMYK as RGB. */
#ifndef LARDER_PREPROCESS_DECODE_CMYK_H
#define LARDER_PREPROCESS_DECODE_CMYK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* decode_cmyk converts a row of `width` CMYK pixels, `step` bytes apart, to RGB as Pillow does. `inverted`: 0 is
 * full ink, as Adobe writes it. */
void decode_cmyk(const uint8_t *in, size_t step, bool inverted, uint8_t *out, uint32_t width);

#endif
