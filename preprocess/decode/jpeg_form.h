/* jpeg_form.h: a JPEG's planes as a decoded form (decoded.h), from libjpeg's raw data. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_FORM_H
#define LARDER_PREPROCESS_DECODE_JPEG_FORM_H

#include <stdio.h>

#include <jpeglib.h>

#include "preprocess/decode/decoded.h"

/* jpeg_form_kind says what form suits a JPEG whose header was read. DECODED_RGB: its planes are not kept. */
enum decoded_kind jpeg_form_kind(const struct jpeg_decompress_struct *cinfo);
/* jpeg_form_read fills in the form's planes. Decompression was started with raw data, and its output too. Errors are
 * libjpeg's. */
void jpeg_form_read(struct jpeg_decompress_struct *cinfo, struct decoded *form);

#endif
