#include "preprocess/jpeg_mark.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

struct mark {
    struct jpeg_error_mgr errors; /* first: libjpeg hands it back */
    jmp_buf back;
    struct jpeg_decompress_struct from;
    struct jpeg_compress_struct to;
    unsigned char *made;
    unsigned long made_bytes;
};

static void error_exit(j_common_ptr cinfo)
{
    longjmp(((struct mark *)cinfo->err)->back, 1);
}

static void emit_message(j_common_ptr cinfo, int level)
{
    if (level < 0)
        error_exit(cinfo);
}

static void no_message(j_common_ptr cinfo)
{
    (void)cinfo;
}

static bool copy(struct mark *mark, const uint8_t *bytes, size_t len_bytes, uint32_t interval)
{
    if (setjmp(mark->back))
        return false;
    jpeg_create_decompress(&mark->from);
    jpeg_create_compress(&mark->to);
    jpeg_mem_src(&mark->from, bytes, len_bytes);
    jpeg_read_header(&mark->from, TRUE);
    jvirt_barray_ptr *coefficients = jpeg_read_coefficients(&mark->from);
    jpeg_copy_critical_parameters(&mark->from, &mark->to);
    uint32_t mcu_width = DCTSIZE * (uint32_t)(mark->from.num_components > 1 ? mark->from.max_h_samp_factor : 1);
    uint32_t per_row = (mark->from.image_width + mcu_width - 1) / mcu_width;
    mark->to.restart_interval = interval < per_row ? interval : per_row;
    mark->to.optimize_coding = TRUE;
    jpeg_mem_dest(&mark->to, &mark->made, &mark->made_bytes);
    jpeg_write_coefficients(&mark->to, coefficients);
    jpeg_finish_compress(&mark->to);
    return true;
}

bool jpeg_mark(const uint8_t *bytes, size_t len_bytes, uint32_t interval, uint8_t **out, size_t *out_bytes)
{
    struct mark *mark = calloc(1, sizeof *mark);
    if (!mark)
        return false;
    mark->from.err = mark->to.err = jpeg_std_error(&mark->errors);
    mark->errors.error_exit = error_exit;
    mark->errors.emit_message = emit_message;
    mark->errors.output_message = no_message;
    bool ok = copy(mark, bytes, len_bytes, interval);
    jpeg_destroy_decompress(&mark->from);
    jpeg_destroy_compress(&mark->to);
    if (ok) {
        *out = mark->made;
        *out_bytes = mark->made_bytes;
    } else {
        free(mark->made);
    }
    free(mark);
    return ok;
}
