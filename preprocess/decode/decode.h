/* decode.h: decodes a rectangle of an image.
 *
 *   decode_open    recognises the format, reads the header, applies the limits
 *   decode_scale   where a smaller image will do: may divide it (JPEG only)
 *   decode_reserve the memory for a rectangle, so that what does not fit is known before the work
 *   decode_form    in place of decode_region: the whole image, to be kept
 *   decode_region  once, or decode_rows: decodes the rectangle (or nothing more than rows above it that the format
 *                  forces)
 *   decode_close   always, also after a failure
 *
 * libjpeg-turbo decodes JPEG, libpng and libdeflate PNG, libwebp WebP, libtiff TIFF, and the files here GIF, BMP and
 * binary PNM. Output is 8-bit RGB, the same as torchvision's ImageFolder makes. Greyscale is copied to all channels,
 * and palettes are looked up. The upper 8 of 16 bits are kept. CMYK is converted as Pillow does. Alpha is dropped
 * without compositing. Orientation in EXIF is not applied. One thread owns a decoder. */
#ifndef LARDER_PREPROCESS_DECODE_DECODE_H
#define LARDER_PREPROCESS_DECODE_DECODE_H

#include "preprocess/decode/decoded.h"
#include "preprocess/decode/fault.h"
#include "preprocess/image.h"
#include "preprocess/limits.h"
#include "preprocess/scratch.h"

struct decoder;

int decoder_create(const struct prepare_limits *limits, struct decoder **out);
void decoder_destroy(struct decoder *decoder); /* accepts NULL */

/* decode_open borrows `bytes`, and uses `scratch`, until decode_close. *whole gets the image's size. */
int decode_open(struct decoder *decoder, const void *bytes, size_t len_bytes, struct scratch *scratch,
                struct rect *whole, struct decode_fault *fault);
/* decode_open_mask opens a mask: decode_region then returns the numbers that its pixels are, the indices of a palette
 * or levels of grey, as "colors" whose red is the lower 8 bits and whose green the upper ones. *bits gets how many bits
 * a number has. Only PNG can be read so. */
int decode_open_mask(struct decoder *decoder, const void *bytes, size_t len_bytes, struct scratch *scratch,
                     struct rect *whole, uint32_t *bits, struct decode_fault *fault);
/* decode_scale asks for the image divided by 2, 4 or 8, its size rounded up. It returns the divisor that will be used:
 * this one, or 1. */
uint32_t decode_scale(struct decoder *decoder, uint32_t divisor);
/* decode_reserve makes sure, before anything is decoded, of the memory that decode_region will take for the
 * rectangle. */
int decode_reserve(struct decoder *decoder, struct rect rect, struct decode_fault *fault);
/* decode_region returns the rectangle's pixels, in scratch memory. Rows may be longer than the rectangle is wide. */
int decode_region(struct decoder *decoder, struct rect rect, struct image *out, struct decode_fault *fault);
/* decode_rows is decode_region, but may give the rows to the sink as they are decoded. out->data is NULL then. */
int decode_rows(struct decoder *decoder, struct rect rect, const struct decode_sink *sink, struct image *out,
                struct decode_fault *fault);
/* decode_form_bytes returns the bytes that the form of the image takes. decode_form decodes the whole image, which was
 * not scaled, into a new form. The caller gives it back with blocks_give. */
size_t decode_form_bytes(const struct decoder *decoder);
int decode_form(struct decoder *decoder, struct decoded **out, struct decode_fault *fault);
void decode_close(struct decoder *decoder);

#endif
