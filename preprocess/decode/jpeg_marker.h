/* jpeg_marker.h: the markers between entropy-coded bytes of a JPEG. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_MARKER_H
#define LARDER_PREPROCESS_DECODE_JPEG_MARKER_H

#include <stdint.h>

#define JPEG_MARKER_RESTARTS 8 /* RST0 to RST7, over and over */

/* jpeg_marker_find returns the next marker in entropy-coded bytes; NULL: there is none, or it is written in an unusual
 * way. */
const uint8_t *jpeg_marker_find(const uint8_t *at, const uint8_t *end);

#endif
