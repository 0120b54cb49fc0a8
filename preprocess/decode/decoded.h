/* decoded.h: a whole image as its decoder leaves it, kept in memory instead of the file's bytes.
 *
 * A JPEG's planes are kept before upsampling and colour conversion, because they are half as large as its pixels.
 * Making the pixels of a rectangle from them reads only its rows and columns, and gives the bytes that decoding the
 * file would give. Any other image is kept as its pixels. A form is one block of memory. It holds no pointer, so free()
 * frees it, and a copy of its bytes is another one. It never changes, so several threads may read it at once. */
#ifndef LARDER_PREPROCESS_DECODE_DECODED_H
#define LARDER_PREPROCESS_DECODE_DECODED_H

#include <stddef.h>
#include <stdint.h>

#include "preprocess/image.h"
#include "preprocess/scratch.h"

/* Who takes a rectangle's rows as they are decoded. `rows` gets some of them, from row y of the rectangle on, and keeps
 * none. Where decoding begins anew, so do they. LARDER_ENOMEM. */
struct decode_sink {
    int (*rows)(void *context, uint32_t y, const uint8_t *from, size_t stride, uint32_t count);
    void *context;
};

#define DECODED_PLANES_MAX 3

enum decoded_kind {
    DECODED_RGB,    /* interleaved pixels */
    DECODED_GREY,   /* one plane of a JPEG */
    DECODED_HALVED, /* three planes, YCbCr; chroma has half of luma's rows and columns, rounded up (4:2:0) */
};

struct decoded {
    uint32_t magic;
    enum decoded_kind kind;
    uint32_t width, height; /* of the image */
    size_t bytes;           /* that the block takes, this struct included */
    size_t stride[DECODED_PLANES_MAX];
    size_t offset[DECODED_PLANES_MAX]; /* from the struct's start to the plane's */
};

/* decoded_bytes returns the bytes that the form of an image takes. Pure. */
size_t decoded_bytes(enum decoded_kind kind, uint32_t width, uint32_t height);
/* decoded_create returns a form whose planes are yet to be filled in; the caller gives it back with blocks_give.
 * NULL: no memory. */
struct decoded *decoded_create(enum decoded_kind kind, uint32_t width, uint32_t height);
/* decoded_plane returns the first row of a plane. Planes of a JPEG have room for whole MCUs. */
static inline uint8_t *decoded_plane(const struct decoded *form, int plane)
{
    return (uint8_t *)(uintptr_t)form + form->offset[plane];
}

/* decoded_region returns the pixels of a rectangle that lies in the image. They are in scratch memory or in the form
 * itself, and may not be changed. LARDER_ENOMEM. */
int decoded_region(const struct decoded *form, struct rect rect, struct scratch *scratch, struct image *out);

#endif
