/* plain.h: reads formats whose pixels lie in the file as they are: BMP, and binary PBM, PGM and PPM. libvips does
 * not read BMP, and reads the others with a loader that it does not trust. ImageFolder's trees may hold all of them. */
#ifndef LARDER_PREPROCESS_DECODE_PLAIN_H
#define LARDER_PREPROCESS_DECODE_PLAIN_H

#include "preprocess/decode/decode_priv.h"

/* What a header says. plain_open has checked that every row lies within the file. */
struct plain_image {
    struct rect whole;
    const uint8_t *pixels; /* the row that comes first in the file */
    size_t stride;
    bool upwards; /* the first row is the lowest */
    enum {
        PLAIN_BITS1,
        PLAIN_BITS4,
        PLAIN_BITS8,
        PLAIN_GREY8,
        PLAIN_GREY16,
        PLAIN_RGB8,
        PLAIN_RGB16,
        PLAIN_BGR8,
        PLAIN_BGRX8
    } form;
    uint32_t most;     /* in PNM the value that means white */
    uint32_t n_colors; /* of the palette, in BMP */
    uint8_t palette[256][IMAGE_CHANNELS];
};

/* plain_open returns false for other formats. Otherwise *rc is 0, or the code of fault. out borrows from bytes. */
bool plain_open(const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes, struct plain_image *out,
                int *rc, struct decode_fault *fault);
int plain_region(const struct plain_image *plain, struct rect rect, struct scratch *scratch, struct image *out,
                 struct decode_fault *fault);

#endif
