/* by_libjpeg.h: the pixels that libjpeg makes by itself, as another opinion. */
#ifndef TESTS_FUZZ_PREPROCESS_BY_LIBJPEG_H
#define TESTS_FUZZ_PREPROCESS_BY_LIBJPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preprocess/image.h"
#include "preprocess/limits.h"
#include "preprocess/scratch.h"

/* by_libjpeg_is says whether the bytes begin with the header of a progressive JPEG. */
bool by_libjpeg_is(const uint8_t *bytes, size_t len_bytes);

/* BAD: libjpeg has an error, or a warning that means wrong pixels. SMOOTHED: coefficients are not complete, so libjpeg
 * may have smoothed blocks; then a rectangle depends on where it was cut off. */
enum by_libjpeg { BY_LIBJPEG_BAD, BY_LIBJPEG_SMOOTHED, BY_LIBJPEG_READ };

/* by_libjpeg decodes a rectangle of a JPEG, divided by `divisor`, or all of it where it is empty; then *rect gets the
 * whole. The pixels are scratch memory. */
enum by_libjpeg by_libjpeg(const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes,
                           uint32_t divisor, struct scratch *scratch, struct rect *rect, struct image *out);

#endif
