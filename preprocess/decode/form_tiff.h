/* form_tiff.h: the forms of TIFF that are read.
 *
 * libtiff reads more forms than Pillow does, and decodes some of them to a different picture. Only those are accepted
 * of which Pillow and we are known to make the same pixels; docs/internals/preprocess.md lists them. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_FORM_TIFF_H
#define LARDER_PREPROCESS_DECODE_FORM_TIFF_H

#include "preprocess/decode/fault.h"

#define FORM_UPRIGHT 1
#define FORM_SIDEWAYS 5 /* in this and higher orientations rows become columns */

bool form_is_tiff(const uint8_t *bytes, size_t len_bytes);
/* form_read_tiff reads the first directory of bytes that form_is_tiff accepts, and says how its picture is to be
 * turned, from 1 to 8 as in EXIF. It returns 0, or the code of fault: it is damaged, or of a form that is not read. */
int form_read_tiff(const uint8_t *bytes, size_t len_bytes, uint32_t *orientation, struct decode_fault *fault);

#endif
