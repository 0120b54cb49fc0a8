/* same.h: compares decoders with libvips. */
#ifndef TESTS_FUZZ_PREPROCESS_SAME_H
#define TESTS_FUZZ_PREPROCESS_SAME_H

#include <stddef.h>
#include <stdint.h>

#include "preprocess/limits.h"

/* check_same has a PNG, TIFF or GIF decoded by us and by libvips, whole and in part. Either both refuse it or both make
 * the same pixels. Other bytes are let pass. */
void check_same(const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes);

#endif
