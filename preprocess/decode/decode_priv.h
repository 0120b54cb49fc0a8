/* decode_priv.h: what the decoders share. */
#ifndef LARDER_PREPROCESS_DECODE_DECODE_PRIV_H
#define LARDER_PREPROCESS_DECODE_DECODE_PRIV_H

#include "preprocess/decode/fault.h"
#include "preprocess/decode/form.h"
#include "preprocess/image.h"
#include "preprocess/scratch.h"

/* decode_cmyk converts a row of `width` CMYK pixels, `step` bytes apart, to RGB as Pillow does. `inverted`: 0 is
 * full ink, as Adobe writes it. */
void decode_cmyk(const uint8_t *in, size_t step, bool inverted, uint8_t *out, uint32_t width);

struct jpeg_reader;
int jpeg_reader_create(const struct prepare_limits *limits, struct jpeg_reader **out);
void jpeg_reader_destroy(struct jpeg_reader *reader);
int jpeg_reader_open(struct jpeg_reader *reader, const uint8_t *bytes, size_t len_bytes, struct scratch *scratch,
                     struct rect *whole, struct decode_fault *fault);
void jpeg_reader_scale(struct jpeg_reader *reader, uint32_t divisor);
size_t jpeg_reader_needs(struct jpeg_reader *reader, struct rect rect); /* bytes of scratch memory, rounded up */
int jpeg_reader_region(struct jpeg_reader *reader, struct rect rect, struct image *out, struct decode_fault *fault);
void jpeg_reader_close(struct jpeg_reader *reader);

/* *outside_bytes gets the most that the library will take from malloc for the image. */

/* Still WebP images. They keep nothing between the calls. */
bool webp_is_still(const uint8_t *bytes, size_t len_bytes);
int webp_open(const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes, struct rect *whole,
              uint64_t *outside_bytes, struct decode_fault *fault);
int webp_region(const uint8_t *bytes, size_t len_bytes, struct rect rect, struct scratch *scratch, struct image *out,
                struct decode_fault *fault);

/* An image of libvips, and what it does not say of its pixels. vips_reader_close drops it. */
struct vips_picture {
    void *image;
    struct form form;
};
/* vips_reader_open returns the size of the image as it is to be seen: turned, where its header says so. */
int vips_reader_open(const struct prepare_limits *limits, const void *bytes, size_t len_bytes,
                     struct vips_picture *picture, struct rect *whole, uint64_t *outside_bytes,
                     struct decode_fault *fault);
int vips_reader_region(const struct vips_picture *picture, struct rect rect, struct scratch *scratch, struct image *out,
                       struct decode_fault *fault);
void vips_reader_close(struct vips_picture *picture);

#endif
