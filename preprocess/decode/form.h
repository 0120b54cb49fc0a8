/* form.h: what the headers of PNG, TIFF and GIF say of the pixels that libvips does not hand on.
 *
 * libvips reads more forms than Pillow does, and some of them as another picture. Of TIFF those alone are let through
 * of which both are known to give the same pixels; docs/preprocess.md lists them. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_FORM_H
#define LARDER_PREPROCESS_DECODE_FORM_H

#include "preprocess/decode/fault.h"
#include "preprocess/image.h"

#define FORM_UPRIGHT 1
#define FORM_SIDEWAYS 5 /* from this orientation on, rows become columns */

struct form {
    uint32_t orientation; /* 1 … 8, as in EXIF; the pixels are to be turned */
    bool clips;           /* 16-bit grey, of which Pillow makes values above 255 white */
    bool has_clear;       /* transparent pixels have the color `clear`, whatever libvips makes of them */
    uint8_t clear[IMAGE_CHANNELS];
};

/* form_read reads the header of a PNG, TIFF, GIF or WebP; of other bytes it says what is usual. It returns 0, or the
 * code of fault: it is damaged, or of a form that is not read. */
int form_read(const uint8_t *bytes, size_t len_bytes, struct form *out, struct decode_fault *fault);

bool form_is_tiff(const uint8_t *bytes, size_t len_bytes);
/* form_read_tiff is form_read for what form_is_tiff says. */
int form_read_tiff(const uint8_t *bytes, size_t len_bytes, struct form *out, struct decode_fault *fault);

#endif
