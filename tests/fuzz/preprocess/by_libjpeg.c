#include "tests/fuzz/preprocess/by_libjpeg.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "common/check.h"
#include "preprocess/decode/cmyk.h"

#define INKS 4

struct reader {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    const struct prepare_limits *limits;
    jmp_buf back;
};

static _Noreturn void error_exit(j_common_ptr cinfo)
{
    longjmp(((struct reader *)cinfo->client_data)->back, 1);
}

static void emit_message(j_common_ptr cinfo, int level)
{
    int code = cinfo->err->msg_code;
    if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC ||
                      code == JWRN_JPEG_EOF || code == JWRN_ARITH_BAD_CODE))
        error_exit(cinfo);
}

static void watch_scans(j_common_ptr cinfo)
{
    const struct reader *reader = cinfo->client_data;
    if (((j_decompress_ptr)cinfo)->input_scan_number > (int)reader->limits->scans_max)
        error_exit(cinfo);
}

static bool has_end(const struct jpeg_source_mgr *source)
{
    static const uint8_t end[] = {0xff, JPEG_EOI};
    return memmem(source->next_input_byte, source->bytes_in_buffer, end, sizeof end) != NULL;
}

static void open_header(struct reader *reader, const uint8_t *bytes, size_t len_bytes)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    cinfo->err = jpeg_std_error(&reader->errors);
    cinfo->client_data = reader;
    reader->errors.error_exit = error_exit;
    reader->errors.emit_message = emit_message;
    reader->progress.progress_monitor = watch_scans;
    jpeg_create_decompress(cinfo);
    cinfo->progress = &reader->progress;
    jpeg_mem_src(cinfo, bytes, len_bytes);
    jpeg_read_header(cinfo, TRUE);
}

bool by_libjpeg_is(const uint8_t *bytes, size_t len_bytes)
{
    struct reader reader = {0};
    volatile bool is = false;
    if (len_bytes < 3 || bytes[0] != 0xff || bytes[1] != 0xd8)
        return false;
    if (setjmp(reader.back) == 0) {
        open_header(&reader, bytes, len_bytes);
        is = reader.cinfo.progressive_mode;
    }
    jpeg_destroy_decompress(&reader.cinfo);
    return is;
}

static void start(struct reader *reader, uint32_t divisor)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    if ((uint64_t)cinfo->image_width * cinfo->image_height > reader->limits->pixels_max || !has_end(cinfo->src) ||
        (cinfo->num_components != 1 && cinfo->num_components != 3 && cinfo->num_components != INKS))
        error_exit((j_common_ptr)cinfo);
    cinfo->out_color_space = cinfo->num_components == INKS ? JCS_CMYK : JCS_RGB;
    cinfo->dct_method = JDCT_ISLOW;
    cinfo->scale_num = 1;
    cinfo->scale_denom = divisor;
    jpeg_start_decompress(cinfo);
}

/* Decodes all rows, and keeps those of the rectangle. */
static void read_rows(struct reader *reader, struct scratch *scratch, struct rect *rect, struct image *out)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    if (!rect->width)
        *rect = (struct rect){.width = cinfo->output_width, .height = cinfo->output_height};
    uint8_t *row = scratch_take(scratch, (size_t)cinfo->output_width * INKS);
    CHECK(row && scratch_image(scratch, rect->width, rect->height, out) == 0);
    while (cinfo->output_scanline < cinfo->output_height) {
        uint32_t y = cinfo->output_scanline;
        jpeg_read_scanlines(cinfo, &row, 1);
        if (y < rect->y || y - rect->y >= rect->height)
            continue;
        if (cinfo->out_color_space == JCS_CMYK)
            decode_cmyk(row + (size_t)rect->x * INKS, INKS, true, image_row(out, y - rect->y), rect->width);
        else
            memcpy(image_row(out, y - rect->y), row + (size_t)rect->x * IMAGE_CHANNELS,
                   (size_t)rect->width * IMAGE_CHANNELS);
    }
}

static bool is_complete(const struct jpeg_decompress_struct *cinfo)
{
    for (int i = 0; cinfo->progressive_mode && i < cinfo->num_components; i++) {
        for (int k = 0; k < DCTSIZE2; k++) {
            if (cinfo->coef_bits[i][k])
                return false;
        }
    }
    return true;
}

enum by_libjpeg by_libjpeg(const struct prepare_limits *limits, const uint8_t *bytes, size_t len_bytes,
                           uint32_t divisor, struct scratch *scratch, struct rect *rect, struct image *out)
{
    struct reader reader = {.limits = limits};
    volatile enum by_libjpeg made = BY_LIBJPEG_BAD;
    if (setjmp(reader.back) == 0) {
        open_header(&reader, bytes, len_bytes);
        start(&reader, divisor);
        read_rows(&reader, scratch, rect, out);
        made = is_complete(&reader.cinfo) ? BY_LIBJPEG_READ : BY_LIBJPEG_SMOOTHED;
    }
    jpeg_destroy_decompress(&reader.cinfo);
    return made;
}
