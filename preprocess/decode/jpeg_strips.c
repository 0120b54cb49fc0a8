#include "preprocess/decode/jpeg_strips.h"

#include <jerror.h>

#include "preprocess/decode/jpeg_color.h"
#include "preprocess/decode/jpeg_form.h"
#include "preprocess/decode/jpeg_idct.h"

#define COMPONENTS 3
#define HALVED 2                  /* luma has this many times chroma's samples in each direction */
#define MCU (HALVED * DCTSIZE)    /* columns and rows of luma of an MCU */
#define LUMA_ROWS (2 * MCU)       /* rows that are kept: of the MCUs at hand, and of those above */
#define CHROMA_ROWS (2 * DCTSIZE) /* the same of chroma */

struct strips {
    struct jpeg_decompress_struct *cinfo;
    struct jpeg_rows *rows;
    uint32_t first, count;          /* columns of MCUs that are made */
    JBLOCKARRAY blocks[COMPONENTS]; /* of a row of MCUs */
    JSAMPARRAY samples[COMPONENTS]; /* their samples from column `first` on, and those of the row of MCUs above */
};

bool jpeg_strips_fit(const struct jpeg_decompress_struct *cinfo)
{
    return jpeg_idct_is_there() && cinfo->scale_num == cinfo->scale_denom && jpeg_form_kind(cinfo) == DECODED_HALVED;
}

uint32_t jpeg_strips_columns(struct rect rect)
{
    uint32_t width = rect.x + rect.width - jpeg_color_left(rect.x);
    return (width + JPEG_COLOR_COLUMNS - 1) / JPEG_COLOR_COLUMNS * JPEG_COLOR_COLUMNS;
}

/* Rows of samples with what jpeg_color.h may read behind them. */
static JSAMPARRAY take_samples(struct jpeg_decompress_struct *cinfo, uint32_t columns, uint32_t rows)
{
    return cinfo->mem->alloc_sarray((j_common_ptr)cinfo, JPOOL_IMAGE, columns + JPEG_COLOR_COLUMNS + JPEG_COLOR_BEHIND,
                                    rows);
}

static void begin(struct strips *strips, struct jpeg_memory *memory, uint32_t left, uint32_t right)
{
    struct jpeg_decompress_struct *cinfo = strips->cinfo;
    uint32_t chroma_columns = (cinfo->image_width + 1) / HALVED, behind = (right + 1) / HALVED + 1;
    uint32_t end = behind < chroma_columns ? behind : chroma_columns;
    strips->rows = memory->rows;
    strips->first = left / MCU;
    strips->count = (end + DCTSIZE - 1) / DCTSIZE - strips->first;
    jpeg_rows_want(strips->rows, strips->first, strips->count);
    for (int i = 0; i < COMPONENTS; i++) {
        strips->blocks[i] = jpeg_memory_blocks(memory, i);
        if (!strips->blocks[i] || !cinfo->comp_info[i].quant_table)
            ERREXIT1(cinfo, JERR_NO_QUANT_TABLE, i);
        strips->samples[i] = take_samples(cinfo, strips->count * (i ? DCTSIZE : MCU), i ? CHROMA_ROWS : LUMA_ROWS);
    }
}

/* A row of blocks, `count` of them. */
static void make_blocks(const struct strips *strips, int component, JBLOCKROW blocks, uint32_t count,
                        JSAMPARRAY samples)
{
    const UINT16 *quantisers = strips->cinfo->comp_info[component].quant_table->quantval;
    size_t stride = (size_t)(samples[1] - samples[0]);
    for (uint32_t i = 0; i < count; i += 2) {
        uint32_t other = i + 1 < count ? i + 1 : i;
        jpeg_idct_pair(blocks[i], blocks[other], quantisers, samples[0] + (size_t)i * DCTSIZE,
                       samples[0] + (size_t)other * DCTSIZE, stride);
    }
}

/* Upsampling takes the sample behind the image's last one of a row of chroma to be the same. */
static void repeat_last(const struct strips *strips, JSAMPARRAY samples)
{
    uint32_t columns = (strips->cinfo->image_width + 1) / HALVED;
    if (columns > (strips->first + strips->count) * DCTSIZE)
        return;
    columns -= strips->first * DCTSIZE;
    jpeg_color_repeat_last(samples[0], (size_t)(samples[1] - samples[0]), columns);
}

/* The samples of a row of MCUs. */
static void make_samples(const struct strips *strips, uint32_t row)
{
    if (!jpeg_rows_load(strips->rows, row))
        ERREXIT(strips->cinfo, JERR_BAD_VIRTUAL_ACCESS);
    for (uint32_t i = 0; i < HALVED; i++)
        make_blocks(strips, 0, strips->blocks[0][i] + (size_t)HALVED * strips->first, HALVED * strips->count,
                    strips->samples[0] + row % 2 * MCU + i * DCTSIZE);
    for (int i = 1; i < COMPONENTS; i++) {
        JSAMPARRAY samples = strips->samples[i] + row % 2 * DCTSIZE;
        make_blocks(strips, i, strips->blocks[i][0] + strips->first, strips->count, samples);
        repeat_last(strips, samples);
    }
}

/* Pixels of row y of the image, from column `left` on. */
static void make_pixels(const struct strips *strips, uint32_t y, uint32_t left, uint32_t width, uint8_t *rgb)
{
    uint32_t near = y / HALVED % CHROMA_ROWS;
    uint32_t other = jpeg_color_other(y, strips->cinfo->image_height) % CHROMA_ROWS;
    uint32_t skip = left - strips->first * MCU;
    struct jpeg_color_row row = {
        .luma = strips->samples[0][y % LUMA_ROWS] + skip,
        .blue = {strips->samples[1][near] + skip / HALVED, strips->samples[1][other] + skip / HALVED},
        .red = {strips->samples[2][near] + skip / HALVED, strips->samples[2][other] + skip / HALVED},
    };
    jpeg_color_row(&row, width, rgb);
}

/* A few rows of the rectangle, from y on: where they are kept, or to the sink. */
static void make_rows(const struct strips *strips, struct rect rect, uint32_t y, uint32_t count,
                      const struct image *image, const struct decode_sink *sink)
{
    uint32_t left = jpeg_color_left(rect.x), to = sink ? 0 : y;
    for (uint32_t i = 0; i < count; i++)
        make_pixels(strips, rect.y + y + i, left, rect.x + rect.width - left, image_row(image, to + i));
    const uint8_t *from = image->data + (size_t)(rect.x - left) * IMAGE_CHANNELS;
    if (sink && sink->rows(sink->context, y, from, image->stride, count))
        ERREXIT1(strips->cinfo, JERR_OUT_OF_MEMORY, 0);
}

void jpeg_strips_read(struct jpeg_memory *memory, struct jpeg_decompress_struct *cinfo, struct rect rect,
                      const struct image *image, const struct decode_sink *sink)
{
    uint32_t y = rect.y, end = rect.y + rect.height;
    struct strips strips = {.cinfo = cinfo};
    begin(&strips, memory, jpeg_color_left(rect.x), rect.x + rect.width);
    uint32_t above = jpeg_color_other(y, cinfo->image_height); /* the first row of chroma, or the second */
    above = above < y / HALVED ? above : y / HALVED;
    for (uint32_t row = above / DCTSIZE; y < end; row++) {
        /* The last row of an MCU's pixels needs chroma of the MCU below. */
        uint32_t ready = row + 1 < cinfo->total_iMCU_rows ? (row + 1) * MCU - 1 : end;
        ready = ready < end ? ready : end;
        make_samples(&strips, row);
        for (uint32_t count; y < ready; y += count) {
            count = ready - y < JPEG_STRIPS_ROWS ? ready - y : JPEG_STRIPS_ROWS;
            make_rows(&strips, rect, y - rect.y, count, image, sink);
        }
    }
}
