#include "preprocess/decode/jpeg_whole.h"

#include <string.h>

#include "preprocess/decode/jpeg_rows.h"

/* Arrays for all coefficients, as jpeg_read_coefficients would give them. */
static jvirt_barray_ptr *take_arrays(struct jpeg_decompress_struct *from)
{
    jvirt_barray_ptr *arrays = from->mem->alloc_small((j_common_ptr)from, JPOOL_IMAGE,
                                                      sizeof *arrays * (size_t)from->num_components);
    for (int i = 0; i < from->num_components; i++) {
        const jpeg_component_info *component = &from->comp_info[i];
        JDIMENSION wide = (JDIMENSION)component->h_samp_factor, high = (JDIMENSION)component->v_samp_factor;
        arrays[i] = from->mem->request_virt_barray((j_common_ptr)from, JPOOL_IMAGE, TRUE,
                                                   (component->width_in_blocks + wide - 1) / wide * wide,
                                                   (component->height_in_blocks + high - 1) / high * high, high);
    }
    from->mem->realize_virt_arrays((j_common_ptr)from);
    return arrays;
}

static bool begin(struct jpeg_rows *rows, struct jpeg_decompress_struct *from, const struct planes_file *planes)
{
    if (!jpeg_rows_fit(from) || from->progressive_mode)
        return false;
    return planes ? jpeg_rows_begin_planes(rows, from, planes) : jpeg_rows_begin(rows, from);
}

jvirt_barray_ptr *jpeg_whole_read(struct jpeg_decompress_struct *from, const struct planes_file *planes)
{
    struct jpeg_rows *rows = from->mem->alloc_large((j_common_ptr)from, JPOOL_IMAGE, sizeof *rows);
    memset(rows, 0, sizeof *rows);
    if (!begin(rows, from, planes))
        return NULL;
    jvirt_barray_ptr *arrays = take_arrays(from);
    for (uint32_t row = 0; row < rows->n_rows; row++) {
        if (from->progress)
            from->progress->progress_monitor((j_common_ptr)from);
        for (int i = 0; i < from->num_components; i++) {
            JDIMENSION high = (JDIMENSION)from->comp_info[i].v_samp_factor;
            jpeg_rows_place(rows, i,
                            from->mem->access_virt_barray((j_common_ptr)from, arrays[i], row * high, high, TRUE));
        }
        if (!jpeg_rows_load(rows, row))
            return NULL;
    }
    return planes || rows->at[1] == JPEG_EOI ? arrays : NULL;
}
