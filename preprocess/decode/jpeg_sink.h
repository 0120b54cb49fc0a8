/* jpeg_sink.h: a destination for libjpeg that is memory, which the caller owns at any time.
 *
 * libjpeg's own destination (jpeg_mem_dest) says where the bytes are only when the JPEG is finished. After an error its
 * caller cannot free them. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_SINK_H
#define LARDER_PREPROCESS_DECODE_JPEG_SINK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

struct jpeg_sink {
    struct jpeg_destination_mgr manager; /* the first field, because libjpeg hands it back as cinfo->dest */
    uint8_t *bytes;                      /* malloc'ed; the caller frees them, after an error too */
    size_t len_bytes;                    /* once jpeg_finish_compress is done */
    size_t cap_bytes;
};

/* jpeg_sink_begin makes an empty sink the destination of cinfo, for which it lives. */
void jpeg_sink_begin(struct jpeg_sink *sink, j_compress_ptr cinfo);

#endif
