#include "preprocess/reference.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

struct guard {
    struct jpeg_error_mgr errors; /* first: libjpeg hands it back */
    jmp_buf back;
};

static void error_exit(j_common_ptr cinfo)
{
    longjmp(((struct guard *)cinfo->err)->back, 1);
}

static void no_message(j_common_ptr cinfo)
{
    (void)cinfo;
}

static bool grow(uint8_t **buffer, size_t *capacity, size_t bytes)
{
    if (bytes <= *capacity)
        return true;
    uint8_t *grown = realloc(*buffer, bytes);
    if (!grown)
        return false;
    *buffer = grown;
    *capacity = bytes;
    return true;
}

bool reference_decode(const uint8_t *bytes, size_t len_bytes, struct rect rect, uint8_t **buffer, size_t *capacity)
{
    struct jpeg_decompress_struct cinfo;
    struct guard guard;
    cinfo.err = jpeg_std_error(&guard.errors);
    guard.errors.error_exit = error_exit;
    guard.errors.output_message = no_message;
    jpeg_create_decompress(&cinfo);
    if (setjmp(guard.back)) {
        jpeg_destroy_decompress(&cinfo);
        return false;
    }
    jpeg_mem_src(&cinfo, bytes, len_bytes);
    jpeg_read_header(&cinfo, TRUE);
    if (cinfo.num_components != 4)
        cinfo.out_color_space = JCS_RGB;
    jpeg_start_decompress(&cinfo);
    JDIMENSION x = rect.x, width = rect.width;
    if (width < cinfo.output_width)
        jpeg_crop_scanline(&cinfo, &x, &width);
    if (rect.y > 0)
        jpeg_skip_scanlines(&cinfo, rect.y);
    size_t stride = (size_t)cinfo.output_width * (size_t)cinfo.output_components;
    bool ok = grow(buffer, capacity, stride * rect.height);
    while (ok && cinfo.output_scanline < rect.y + rect.height) {
        JSAMPROW row = *buffer + stride * (cinfo.output_scanline - rect.y);
        jpeg_read_scanlines(&cinfo, &row, 1);
    }
    jpeg_destroy_decompress(&cinfo);
    return ok;
}
