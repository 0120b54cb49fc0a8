/* jpeg_write.c: libjpeg-turbo with its defaults, but for the tables. It reports errors by calling error_exit, which
 * jumps back to jpeg_write. Nothing but memory can fail. */
#include "preprocess/decode/jpeg_write.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include "preprocess/decode/exif.h"
#include "preprocess/decode/jpeg_sink.h"

struct write {
    struct jpeg_compress_struct to;
    struct jpeg_error_mgr errors;
    jmp_buf back;
    struct jpeg_sink made;
    uint8_t *grey; /* a row; NULL: the picture has colours */
};

static _Noreturn void error_exit(j_common_ptr cinfo)
{
    struct write *write = cinfo->client_data;
    longjmp(write->back, 1);
}

static void emit_message(j_common_ptr cinfo, int level)
{
    (void)cinfo, (void)level;
}

static bool is_grey(const struct image *image)
{
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *pixel = image_row(image, y);
        for (uint32_t x = 0; x < image->width; x++, pixel += IMAGE_CHANNELS) {
            if (pixel[0] != pixel[1] || pixel[1] != pixel[2])
                return false;
        }
    }
    return true;
}

static uint32_t mcus_across(const struct jpeg_compress_struct *to)
{
    uint32_t width = DCTSIZE * (uint32_t)(to->num_components == 1 ? 1 : to->max_h_samp_factor);
    return (to->image_width + width - 1) / width;
}

static void write_exif(struct write *write, uint32_t orientation)
{
    uint8_t segment[EXIF_BYTES];
    if (orientation == EXIF_UPRIGHT)
        return;
    exif_put(orientation, segment);
    jpeg_write_marker(&write->to, JPEG_APP0 + 1, segment, sizeof segment);
}

static void write_rows(struct write *write, const struct image *image)
{
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *row = image_row(image, y);
        for (uint32_t x = 0; write->grey && x < image->width; x++)
            write->grey[x] = row[(size_t)x * IMAGE_CHANNELS];
        JSAMPROW rows[] = {write->grey ? write->grey : row};
        jpeg_write_scanlines(&write->to, rows, 1);
    }
}

static void write_body(struct write *write, const struct image *image, const struct jpeg_writing *how)
{
    struct jpeg_compress_struct *to = &write->to;
    jpeg_create_compress(to);
    jpeg_sink_begin(&write->made, to);
    to->image_width = image->width;
    to->image_height = image->height;
    to->input_components = write->grey ? 1 : IMAGE_CHANNELS;
    to->in_color_space = write->grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(to);
    jpeg_set_quality(to, (int)how->quality, TRUE);
    to->dct_method = JDCT_ISLOW;
    to->optimize_coding = TRUE;
    to->restart_interval = 0;
    if (how->restart_mcus) {
        to->max_h_samp_factor = to->comp_info[0].h_samp_factor; /* libjpeg finds it when it starts */
        to->restart_interval = how->restart_mcus < mcus_across(to) ? how->restart_mcus : mcus_across(to);
    }
    jpeg_start_compress(to, TRUE);
    write_exif(write, how->orientation);
    write_rows(write, image);
    jpeg_finish_compress(to);
}

uint8_t *jpeg_write(const struct image *image, const struct jpeg_writing *how, size_t *len_bytes)
{
    struct write *write = calloc(1, sizeof *write);
    bool grey = write && is_grey(image);
    if (grey)
        write->grey = malloc(image->width);
    if (!write || (grey && !write->grey)) {
        free(write);
        return NULL;
    }
    write->to.err = jpeg_std_error(&write->errors);
    write->to.client_data = write;
    write->errors.error_exit = error_exit;
    write->errors.emit_message = emit_message;
    bool good = setjmp(write->back) == 0;
    if (good)
        write_body(write, image, how);
    jpeg_destroy_compress(&write->to);
    uint8_t *made = write->made.bytes;
    if (good) {
        *len_bytes = write->made.len_bytes;
    } else {
        free(made);
        made = NULL;
    }
    free(write->grey);
    free(write);
    return made;
}
