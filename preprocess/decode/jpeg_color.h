/* jpeg_color.h: pixels from the planes of a JPEG whose chroma is halved both ways (4:2:0).
 *
 * The arithmetic is libjpeg's, and so are the bytes: "fancy" upsampling, where a sample of chroma counts three times
 * and its neighbour once in each direction, and JFIF's YCbCr to RGB with 16 fractional bits. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_COLOR_H
#define LARDER_PREPROCESS_DECODE_JPEG_COLOR_H

#include <stdint.h>

#define JPEG_COLOR_COLUMNS 16 /* pixels made at once */
#define JPEG_COLOR_BEHIND (JPEG_COLOR_COLUMNS / 2)

/* The samples that a row of pixels is made of. The last sample of a row of chroma is repeated behind it. Rows of luma
 * can be read up to a multiple of JPEG_COLOR_COLUMNS, rows of chroma up to half of that and JPEG_COLOR_BEHIND more. The
 * other bytes there change no pixel of the width. */
struct jpeg_color_row {
    const uint8_t *luma;
    const uint8_t *blue[2], *red[2]; /* chroma: the row that this one lies in, and its neighbour on the nearer side */
};

/* jpeg_color_row makes `width` pixels, 1 at least. It writes up to a multiple of JPEG_COLOR_COLUMNS pixels. */
void jpeg_color_row(const struct jpeg_color_row *row, uint32_t width, uint8_t *rgb);
/* jpeg_color_row_portable does the same in plain C: the definition that the vector version is tested against. */
void jpeg_color_row_portable(const struct jpeg_color_row *row, uint32_t width, uint8_t *rgb);

#endif
