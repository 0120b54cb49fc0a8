#include "preprocess/decode/jpeg_small.h"

#include "preprocess/decode/jpeg_color.h"

#define COMPONENTS 3
#define HALVED 2            /* luma has this many times chroma's samples in each direction */
#define SIDE_MAX 128        /* libjpeg is as fast with larger images, and makes only the wanted pixels */
#define FANCY_COLUMNS_MIN 3 /* columns of chroma: if there are fewer, libjpeg repeats samples instead */

static bool has_sampling(const jpeg_component_info *component, int factor)
{
    return component->h_samp_factor == factor && component->v_samp_factor == factor;
}

bool jpeg_small_fits(const struct jpeg_decompress_struct *cinfo)
{
    return cinfo->image_width <= SIDE_MAX && cinfo->image_height <= SIDE_MAX &&
           cinfo->image_width >= HALVED * FANCY_COLUMNS_MIN && cinfo->scale_num == cinfo->scale_denom &&
           cinfo->jpeg_color_space == JCS_YCbCr && cinfo->num_components == COMPONENTS &&
           has_sampling(&cinfo->comp_info[0], HALVED) && has_sampling(&cinfo->comp_info[1], 1) &&
           has_sampling(&cinfo->comp_info[2], 1);
}

uint32_t jpeg_small_columns(const struct jpeg_decompress_struct *cinfo)
{
    return (cinfo->image_width + JPEG_COLOR_COLUMNS - 1) / JPEG_COLOR_COLUMNS * JPEG_COLOR_COLUMNS;
}

/* Whole rows of MCUs, and what jpeg_color.h may read behind them. */
static JSAMPARRAY take_plane(struct jpeg_decompress_struct *cinfo, uint32_t factor)
{
    uint32_t columns = (cinfo->image_width + HALVED * DCTSIZE - 1) / (HALVED * DCTSIZE) * factor * DCTSIZE;
    return cinfo->mem->alloc_sarray((j_common_ptr)cinfo, JPOOL_IMAGE, columns + JPEG_COLOR_BEHIND,
                                    cinfo->total_iMCU_rows * factor * DCTSIZE);
}

static void read_planes(struct jpeg_decompress_struct *cinfo, JSAMPARRAY planes[COMPONENTS])
{
    uint32_t chroma_columns = (cinfo->image_width + 1) / HALVED;
    for (int i = 0; i < COMPONENTS; i++)
        planes[i] = take_plane(cinfo, i ? 1 : HALVED);
    for (JDIMENSION row = 0; row < cinfo->total_iMCU_rows; row++) {
        JSAMPARRAY rows[COMPONENTS] = {planes[0] + row * HALVED * DCTSIZE, planes[1] + row * DCTSIZE,
                                       planes[2] + row * DCTSIZE};
        jpeg_read_raw_data(cinfo, rows, HALVED * DCTSIZE);
        for (int i = 1; i < COMPONENTS; i++)
            jpeg_color_repeat_last(rows[i][0], (size_t)(rows[i][1] - rows[i][0]), chroma_columns);
    }
}

void jpeg_small_read(struct jpeg_decompress_struct *cinfo, uint32_t first, const struct image *image)
{
    JSAMPARRAY planes[COMPONENTS];
    read_planes(cinfo, planes);
    for (uint32_t i = 0; i < image->height; i++) {
        uint32_t y = first + i, near = y / HALVED, other = jpeg_color_other(y, cinfo->image_height);
        struct jpeg_color_row row = {.luma = planes[0][y],
                                     .blue = {planes[1][near], planes[1][other]},
                                     .red = {planes[2][near], planes[2][other]}};
        jpeg_color_row(&row, cinfo->image_width, image_row(image, i));
    }
}
