/* exif.h: the orientation in a JPEG's Exif segment, read and written. The decoders do not apply it. It matters to who
 * gets encoded bytes. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_EXIF_H
#define LARDER_PREPROCESS_DECODE_EXIF_H

#include <stddef.h>
#include <stdint.h>

#define EXIF_UPRIGHT 1
#define EXIF_BYTES 32 /* length of the segment that exif_put writes */

/* exif_orientation returns 1 … 8: what the first Exif segment before the first scan says, else EXIF_UPRIGHT. Any bytes
 * are allowed. For a JPEG in planes (jpeg_planes.h) it reads the header's. */
uint32_t exif_orientation(const uint8_t *jpeg, size_t len_bytes);
/* exif_put writes a segment's data that says the orientation and nothing else. */
void exif_put(uint32_t orientation, uint8_t out[EXIF_BYTES]);

#endif
