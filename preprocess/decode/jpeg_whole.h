/* jpeg_whole.h: all coefficients of a JPEG, as libjpeg keeps them, read by jpeg_rows.h. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_WHOLE_H
#define LARDER_PREPROCESS_DECODE_JPEG_WHOLE_H

#include <stdio.h>

#include <jpeglib.h>

#include "preprocess/decode/planes_file.h"

/* jpeg_whole_read reads the coefficients of a file whose header `from` has read, into arrays as those of
 * jpeg_read_coefficients: those of a JPEG in planes, or, if planes is NULL, of a baseline JPEG that ends behind its one
 * scan. NULL: it is another JPEG, or it is damaged; libjpeg may read it, once the header was read again. Other errors
 * leave through from's error_exit. */
jvirt_barray_ptr *jpeg_whole_read(struct jpeg_decompress_struct *from, const struct planes_file *planes);

#endif
