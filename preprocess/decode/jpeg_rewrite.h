/* jpeg_rewrite.h: writes a JPEG again, without loss, so that a crop of it is decoded from a part of its bytes
 * (jpeg_rows.h).
 *
 * The coefficients stay as they are, and with them every pixel. The new JPEG has one interleaved baseline scan, Huffman
 * tables made for it, and a restart marker after every few MCUs. It keeps only those APPn and COM segments that tell
 * the colours (JFIF, Adobe) or are Exif's. Any thread. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_REWRITE_H
#define LARDER_PREPROCESS_DECODE_JPEG_REWRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* MCUs between restart markers. With fewer the file grows, with more a crop decodes more. */
#define JPEG_REWRITE_MCUS 8

/* jpeg_rewrite returns new bytes, which the caller frees, and their length. A restart marker comes after every `wanted`
 * MCUs, or after each row of MCUs if a row has fewer. It turns a JPEG in planes (jpeg_planes.h) into a JPEG. NULL:
 * these bytes are to be kept. They are no JPEG, or one with arithmetic coding, of other than 8 bits or of other than
 * one or three components, incomplete, damaged or too large; its coefficients are none of eight-bit samples; libjpeg
 * finds another orientation than exif.h; or memory ran out. */
uint8_t *jpeg_rewrite(const uint8_t *bytes, size_t len_bytes, uint32_t wanted, size_t *new_bytes);
/* jpeg_rewrite_in_planes returns the same JPEG in planes, in segments of PLANES_INTERVAL_MAX MCUs, or of a row if it
 * has fewer. jpeg_rewrite makes of them what it would make of these bytes. NULL: as above, or planes are not for such
 * components. */
uint8_t *jpeg_rewrite_in_planes(const uint8_t *jpeg, size_t len_bytes, size_t *new_bytes);

/* Bounds for rewriting that has no hurry. */
struct jpeg_leave {
    uint32_t scans_max;       /* most scans of a progressive JPEG, at most 100 */
    uint64_t pixels_max;      /* it takes up to JPEG_REWRITE_PIXEL_BYTES of memory for each */
    bool (*go_on)(void *ctx); /* called before each row of MCUs; it may block; false: give up */
    void *ctx;
};
#define JPEG_REWRITE_PIXEL_BYTES 6

/* jpeg_rewrite_at_leisure is jpeg_rewrite_in_planes within these bounds; it returns NULL also where they were exceeded.
 * leave NULL: there are none. */
uint8_t *jpeg_rewrite_at_leisure(const uint8_t *jpeg, size_t len_bytes, const struct jpeg_leave *leave,
                                 size_t *new_bytes);

#endif
