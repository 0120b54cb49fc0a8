/* jpeg_write.h: pixels as a JPEG. The same pixels give the same bytes. Any thread. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_WRITE_H
#define LARDER_PREPROCESS_DECODE_JPEG_WRITE_H

#include "preprocess/image.h"

#define JPEG_SIDE_MAX 65500 /* libjpeg's own limit */

struct jpeg_writing {
    uint32_t quality;      /* 1 … 100, libjpeg's scale */
    uint32_t restart_mcus; /* MCUs from one restart marker to the next, at most a row of MCUs; 0: no markers */
    uint32_t orientation;  /* written as Exif; EXIF_UPRIGHT: no Exif is written */
};

/* jpeg_write returns the bytes, which the caller frees, and their length: one baseline scan with Huffman tables made
 * for it. Colours have half the resolution in both directions (4:2:0). A picture without any colour gets one component.
 * No side is longer than JPEG_SIDE_MAX. NULL: memory ran out. */
uint8_t *jpeg_write(const struct image *image, const struct jpeg_writing *how, size_t *len_bytes);

#endif
