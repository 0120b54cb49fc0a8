/* jpeg_color.h: pixels from the planes of a JPEG whose chroma is halved both ways (4:2:0).
 *
 * The arithmetic is libjpeg's, and so are the bytes: "fancy" upsampling, where a sample of chroma counts three times
 * and its neighbour once in each direction, and JFIF's YCbCr to RGB with 16 fractional bits. Pure. */
#ifndef LARDER_PREPROCESS_DECODE_JPEG_COLOR_H
#define LARDER_PREPROCESS_DECODE_JPEG_COLOR_H

#include <stddef.h>
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

/* jpeg_color_other returns the row of chroma that row y of the image's pixels is made of beside row y / 2. It is the
 * neighbour on the nearer side, or itself at the image's edge. Pure. */
static inline uint32_t jpeg_color_other(uint32_t y, uint32_t height)
{
    uint32_t near = y / 2, last = (height - 1) / 2;
    if (y % 2 == 0)
        return near > 0 ? near - 1 : near;
    return near < last ? near + 1 : near;
}

/* jpeg_color_left returns the even column from which rows are made where pixels from x on are wanted. The first pixel
 * of a row counts no sample to its left, so it is not one of them. Pure. */
static inline uint32_t jpeg_color_left(uint32_t x)
{
    return x > 1 ? (x - 1) & ~UINT32_C(1) : 0;
}

/* jpeg_color_repeat_last repeats the last of `count` samples behind it, in each row of a block's height. */
static inline void jpeg_color_repeat_last(uint8_t *row, size_t stride, uint32_t count)
{
    for (int i = 0; i < 8; i++, row += stride)
        row[count] = row[count - 1];
}

/* jpeg_color_row makes `width` pixels, 1 at least. It writes up to a multiple of JPEG_COLOR_COLUMNS pixels. */
void jpeg_color_row(const struct jpeg_color_row *row, uint32_t width, uint8_t *rgb);
/* jpeg_color_row_portable does the same in plain C: the definition that the vector version is tested against. */
void jpeg_color_row_portable(const struct jpeg_color_row *row, uint32_t width, uint8_t *rgb);

#endif
