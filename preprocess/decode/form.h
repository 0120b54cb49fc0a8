/* form.h: facts about the pixels that the headers of PNG, TIFF and GIF have and libvips does not hand on.
 *
 * libvips reads more forms than Pillow does, and decodes some of them to a different picture. Only those forms of TIFF
 * are accepted for which both are known to make the same pixels; docs/preprocess.md lists them. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_FORM_H
#define LARDER_PREPROCESS_DECODE_FORM_H

#include "preprocess/decode/fault.h"
#include "preprocess/image.h"

#define FORM_UPRIGHT 1
#define FORM_SIDEWAYS 5 /* in this and higher orientations rows become columns */

struct form {
    uint32_t orientation; /* 1 … 8, as in EXIF; the pixels are to be turned */
    bool clips;           /* 16-bit grey, of which Pillow makes values above 255 white */
    bool has_clear;       /* transparent pixels have the color `clear`, whatever libvips makes of them */
    uint8_t clear[IMAGE_CHANNELS];
};

/* form_read reads the header of a PNG, TIFF, GIF or WebP; for other bytes *out has the usual values. It returns 0, or
 * the code of fault: it is damaged, or of a form that is not read. */
int form_read(const uint8_t *bytes, size_t len_bytes, struct form *out, struct decode_fault *fault);

bool form_is_tiff(const uint8_t *bytes, size_t len_bytes);
/* form_read_tiff is form_read for bytes that form_is_tiff accepts. */
int form_read_tiff(const uint8_t *bytes, size_t len_bytes, struct form *out, struct decode_fault *fault);

#endif
