/* jpeg_mark.h: restart markers for a JPEG in memory. The bench compares with and without. */
#ifndef LARDER_PREPROCESS_JPEG_MARK_H
#define LARDER_PREPROCESS_JPEG_MARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* jpeg_mark makes a baseline JPEG of the same coefficients, with optimised codes and a restart marker after every
 * `interval` MCUs, or after each row of MCUs if a row has fewer. The caller frees *out. False: the bytes are no JPEG
 * that libjpeg reads without a warning. */
bool jpeg_mark(const uint8_t *bytes, size_t len_bytes, uint32_t interval, uint8_t **out, size_t *out_bytes);

#endif
