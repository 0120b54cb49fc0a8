/* decoder.h: what a decoder is. Each has a file, which defines its struct decoder_kind, and a row in decode.c. Another
 * one needs nothing else.
 *
 * An image is opened, perhaps scaled, decoded once (or not), and closed. All of it happens in the thread that owns the
 * decoder, and blocks for no longer than the work takes. */
#ifndef LARDER_PREPROCESS_DECODE_DECODER_H
#define LARDER_PREPROCESS_DECODE_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preprocess/decode/decoded.h"
#include "preprocess/decode/fault.h"
#include "preprocess/image.h"
#include "preprocess/limits.h"
#include "preprocess/scratch.h"

/* The image at hand. Its bytes and the scratch memory are the caller's, and live until it is closed. */
struct decoding {
    const struct prepare_limits *limits;
    const uint8_t *bytes;
    size_t len_bytes;
    struct scratch *scratch;
    struct rect whole;              /* set by open: the image's size, as it is to be seen */
    const struct decode_sink *sink; /* whom region may give the rows, instead of an image; NULL: none */
    bool values;                    /* a mask: of each pixel its number is wanted, and no color */
    uint32_t value_bits;            /* set by open, where values are wanted: bits of a number */
    uint64_t outside_bytes; /* set by open: the most that the decoder's library takes from malloc for the image; or 0 */
};

struct decoder_kind {
    const char *name;
    /* Looks at the first bytes, and tells whether the image is for this decoder. Pure. */
    bool (*is)(const uint8_t *bytes, size_t len_bytes);
    bool values;        /* it can read masks: region's pixels are then the numbers, the lower 8 bits first */
    size_t state_bytes; /* size of the kind's own state, which is zeroed when the thread's decoder is made */
    /* Optional. Makes what the state holds for as long as the thread's decoder lives. LARDER_ENOMEM. destroy frees it.
     */
    int (*create)(void *state, const struct prepare_limits *limits);
    void (*destroy)(void *state);
    /* Reads the header, applies the limits, and fills in the last fields of the image. It returns 0, or fault's code;
     * close is called either way. */
    int (*open)(void *state, struct decoding *image, struct decode_fault *fault);
    /* Optional. The image is wanted divided by 2, 4 or 8, its size rounded up. NULL: the decoder cannot do that. */
    void (*scale)(void *state, uint32_t divisor);
    /* Optional. Returns the bytes of scratch memory that region takes for the rectangle, rounded up. */
    size_t (*needs)(void *state, struct rect rect);
    /* Decodes the rectangle into scratch memory, or gives all its rows to the sink, and leaves *out's data NULL. It
     * returns 0, or fault's code. */
    int (*region)(void *state, const struct decoding *image, struct rect rect, struct image *out,
                  struct decode_fault *fault);
    /* Optional, both or neither. form says what form keeps the image that was opened; if it is not DECODED_RGB, planes
     * fills in the form's planes, in place of region. It returns 0, or fault's code. */
    enum decoded_kind (*form)(void *state);
    int (*planes)(void *state, struct decoded *form, struct decode_fault *fault);
    void (*close)(void *state); /* optional: frees what open has made */
};

extern const struct decoder_kind decoder_jpeg, decoder_png, decoder_webp, decoder_tiff, decoder_gif, decoder_plain;

#endif
