/* same.h: compares a decoder of ours with libvips. */
#ifndef TESTS_FUZZ_PREPROCESS_SAME_H
#define TESTS_FUZZ_PREPROCESS_SAME_H

#include "preprocess/limits.h"

/* check_same has the bytes decoded by `name`'s decoder and by libvips, whole and in part. Either both refuse them or
 * both make the same pixels. It does nothing if the bytes are not for that decoder. */
void check_same(const char *name, const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes);

#endif
