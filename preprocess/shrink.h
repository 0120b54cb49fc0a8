/* shrink.h: an image that is larger than is wanted, as a smaller JPEG.
 *
 * The image is decoded as the daemon decodes it (decode/decode.h), whole and at full scale. Then it is resampled with
 * Lanczos's filter over three lobes, antialiased. These are the pixels of Pillow's Image.resize with LANCZOS, bit for
 * bit. The longer side becomes max_side, and the other one what comes nearest to the same shape, at least one pixel.
 * The same bytes give the same bytes. prepare_init comes first. Any thread. */
#ifndef LARDER_PREPROCESS_SHRINK_H
#define LARDER_PREPROCESS_SHRINK_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "preprocess/limits.h"

#define SHRINK_SIDE_MAX 65500 /* the longest side of a JPEG */

struct shrinking {
    uint32_t max_side;     /* pixels, 1 … SHRINK_SIDE_MAX */
    uint32_t quality;      /* the JPEG's, 1 … 100 */
    uint32_t restart_mcus; /* MCUs from one restart marker to the next, see jpeg_rewrite; 0: no markers */
};

struct shrunk {
    enum {
        SHRUNK_MADE,      /* bytes */
        SHRUNK_NOT,       /* no side is longer than max_side. Only the header was looked at */
        SHRUNK_UNDECODED, /* why says what is wrong with the image */
    } outcome;
    uint8_t *bytes; /* the caller frees them */
    size_t len_bytes;
    struct error why;
};

/* shrink returns 0, or LARDER_ENOMEM. limits->budget is not used. */
int shrink(const struct prepare_limits *limits, const struct shrinking *how, const uint8_t *bytes, size_t len_bytes,
           struct shrunk *out, struct error *err);

#endif
