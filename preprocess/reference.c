#include "preprocess/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "common/clock.h"

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

static double luma_part(const struct jpeg_decompress_struct *cinfo)
{
    double blocks[2] = {0};
    for (int i = 0; i < cinfo->num_components; i++)
        blocks[i > 0] += cinfo->comp_info[i].h_samp_factor * cinfo->comp_info[i].v_samp_factor;
    return blocks[0] / (blocks[0] + blocks[1]);
}

/* *luma gets the part of the blocks that are luma. */
static bool decode(const uint8_t *bytes, size_t len_bytes, struct rect rect, bool grey, uint8_t **buffer,
                   size_t *capacity, double *luma)
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
    if (grey)
        cinfo.out_color_space = JCS_GRAYSCALE;
    else if (cinfo.num_components != 4)
        cinfo.out_color_space = JCS_RGB;
    *luma = luma_part(&cinfo);
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

bool reference_decode(const uint8_t *bytes, size_t len_bytes, struct rect rect, uint8_t **buffer, size_t *capacity)
{
    double luma;
    return decode(bytes, len_bytes, rect, false, buffer, capacity, &luma);
}

/* A column of the same rows takes the entropy decoding of all of them, and next to nothing else. Decoding to grey takes
 * the IDCT of luma, and next to nothing after it; that of chroma takes as long for each block. */
bool reference_time(const uint8_t *bytes, size_t len_bytes, struct rect rect, uint8_t **buffer, size_t *capacity,
                    struct reference_parts *parts)
{
    struct rect column = {.x = rect.x, .y = rect.y, .width = 1, .height = rect.height};
    double took[2][2], luma = 1; /* [grey][column] */
    for (int i = 0; i < 4; i++) {
        bool grey = i & 1, narrow = i & 2;
        uint64_t from = clock_thread_ns();
        if (!decode(bytes, len_bytes, narrow ? column : rect, grey, buffer, capacity, &luma))
            return false;
        took[grey][narrow] = (double)(clock_thread_ns() - from);
    }
    double idct = fmax(took[true][false] - took[true][true], 0) / luma;
    parts->idct_ns += idct;
    parts->color_ns += fmax(took[false][false] - took[false][true] - idct, 0);
    return true;
}
