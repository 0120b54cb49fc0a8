#include "preprocess/decode/jpeg_form.h"

#include "preprocess/decode/jpeg_color.h"

#define HALVED 2 /* luma has this many times chroma's samples in each direction */
/* If there are fewer columns of chroma, libjpeg repeats samples instead of weighing neighbours. */
#define FANCY_COLUMNS_MIN 3

static bool has_sampling(const jpeg_component_info *component, int factor)
{
    return component->h_samp_factor == factor && component->v_samp_factor == factor;
}

enum decoded_kind jpeg_form_kind(const struct jpeg_decompress_struct *cinfo)
{
    const jpeg_component_info *parts = cinfo->comp_info;
    if (cinfo->jpeg_color_space == JCS_GRAYSCALE && cinfo->num_components == 1 && has_sampling(&parts[0], 1))
        return DECODED_GREY;
    if (cinfo->jpeg_color_space == JCS_YCbCr && cinfo->num_components == DECODED_PLANES_MAX &&
        cinfo->image_width >= HALVED * FANCY_COLUMNS_MIN && has_sampling(&parts[0], HALVED) &&
        has_sampling(&parts[1], 1) && has_sampling(&parts[2], 1))
        return DECODED_HALVED;
    return DECODED_RGB;
}

void jpeg_form_read(struct jpeg_decompress_struct *cinfo, struct decoded *form)
{
    int n_planes = cinfo->num_components;
    uint32_t chroma_columns = (form->width + 1) / HALVED;
    for (JDIMENSION row = 0; row < cinfo->total_iMCU_rows; row++) {
        JSAMPROW rows[DECODED_PLANES_MAX][HALVED * DCTSIZE];
        JSAMPARRAY planes[DECODED_PLANES_MAX];
        for (int i = 0; i < n_planes; i++) {
            uint32_t high = (uint32_t)cinfo->comp_info[i].v_samp_factor * DCTSIZE;
            planes[i] = rows[i];
            for (uint32_t y = 0; y < high; y++)
                rows[i][y] = decoded_plane(form, i) + form->stride[i] * ((size_t)row * high + y);
        }
        jpeg_read_raw_data(cinfo, planes, (JDIMENSION)cinfo->max_v_samp_factor * DCTSIZE);
        for (int i = 1; i < n_planes; i++)
            jpeg_color_repeat_last(rows[i][0], form->stride[i], chroma_columns);
    }
}
