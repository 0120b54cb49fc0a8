/* same.h: compares decoders with libvips and libjpeg. */
#ifndef TESTS_FUZZ_PREPROCESS_SAME_H
#define TESTS_FUZZ_PREPROCESS_SAME_H

#include <stddef.h>
#include <stdint.h>

#include "preprocess/limits.h"

/* check_same has a PNG, TIFF or GIF decoded by us and by libvips, whole and in part. Where both read it, they make
 * the same pixels; same.c says what one may refuse that the other reads. So is a progressive JPEG with libjpeg, also
 * divided by 2, 4 and 8. Other bytes are let pass. */
void check_same(const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes);

#endif
