/* jpeg_rewrite.c: libjpeg writes the coefficients, or no more than the header if planes are written, and reads those
 * that jpeg_whole.h cannot. It reports errors by calling error_exit, which jumps back to `finish`. A warning is an
 * error here, because it means that coefficients are missing or made up. */
#include "preprocess/decode/jpeg_rewrite.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include "preprocess/decode/exif.h"
#include "preprocess/decode/jpeg_planes.h"
#include "preprocess/decode/jpeg_sink.h"
#include "preprocess/decode/jpeg_whole.h"

#define PIXELS_MAX ((uint64_t)200000000) /* coefficients are kept whole */
#define SCANS_MAX 100
#define MARKER_BYTES_MAX 0xffff
#define EXIF_MARKER (JPEG_APP0 + 1)
#define DC_MIN (-1024) /* of samples of eight bits */
#define DC_MAX 1023

struct rewrite {
    struct jpeg_decompress_struct from;
    struct jpeg_compress_struct to;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    jmp_buf header_written;
    struct jpeg_sink made;        /* a JPEG, or the header of one in planes */
    struct jpeg_planes in_planes; /* what is made, if to_planes is set */
    bool to_planes;
    struct planes_file planes; /* the input, unless it is a JPEG */
    bool from_planes;
    bool by_rows; /* libjpeg did not read the coefficients */
    struct jpeg_leave leave;
};

static _Noreturn void error_exit(j_common_ptr cinfo)
{
    struct rewrite *rewrite = cinfo->client_data;
    longjmp(rewrite->back, 1);
}

static void emit_message(j_common_ptr cinfo, int level)
{
    if (level < 0)
        error_exit(cinfo);
}

/* This is called before a row of MCUs is read or written. */
static void watch(j_common_ptr cinfo)
{
    struct rewrite *rewrite = cinfo->client_data;
    const struct jpeg_leave *leave = &rewrite->leave;
    if (cinfo->is_decompressor && ((j_decompress_ptr)cinfo)->input_scan_number > (int)leave->scans_max)
        error_exit(cinfo);
    if (leave->go_on && !leave->go_on(leave->ctx))
        error_exit(cinfo);
    if (!cinfo->is_decompressor && rewrite->to_planes)
        longjmp(rewrite->header_written, 1);
}

static bool can_rewrite(const struct jpeg_decompress_struct *from, uint64_t pixels_max)
{
    bool colours = from->jpeg_color_space == JCS_GRAYSCALE || from->jpeg_color_space == JCS_YCbCr ||
                   from->jpeg_color_space == JCS_RGB;
    return colours && (from->num_components == 1 || from->num_components == 3) && from->data_precision == 8 &&
           !from->arith_code && (uint64_t)from->image_width * from->image_height <= pixels_max;
}

/* is_complete tells whether no scan is missing. libjpeg smooths the blocks of a progressive JPEG that lacks scans; it
 * would not smooth those of the baseline JPEG that is made. */
static bool is_complete(const struct jpeg_decompress_struct *from)
{
    for (int i = 0; from->progressive_mode && i < from->num_components; i++) {
        for (int k = 0; k < DCTSIZE2; k++) {
            if (from->coef_bits[i][k])
                return false;
        }
    }
    return true;
}

/* dc_fits tells whether the difference of any two DC coefficients can be written. Where it cannot, it would depend on
 * where segments begin whether these can be. Damage alone makes others. */
static bool dc_fits(struct jpeg_decompress_struct *from, jvirt_barray_ptr *coefficients)
{
    bool fits = true;
    for (int i = 0; i < from->num_components; i++) {
        const jpeg_component_info *component = &from->comp_info[i];
        for (JDIMENSION y = 0; y < component->height_in_blocks; y++) {
            JBLOCKARRAY rows = from->mem->access_virt_barray((j_common_ptr)from, coefficients[i], y, 1, FALSE);
            for (JDIMENSION x = 0; x < component->width_in_blocks; x++)
                fits &= rows[0][x][0] >= DC_MIN && rows[0][x][0] <= DC_MAX;
        }
    }
    return fits;
}

/* libjpeg writes JFIF's and Adobe's itself. */
static void copy_exif(struct rewrite *rewrite)
{
    for (jpeg_saved_marker_ptr marker = rewrite->from.marker_list; marker; marker = marker->next) {
        if (marker->data_length >= 4 && memcmp(marker->data, "Exif", 4) == 0)
            jpeg_write_marker(&rewrite->to, marker->marker, marker->data, marker->data_length);
    }
}

static uint32_t mcus_across(const struct jpeg_decompress_struct *from)
{
    uint32_t width = DCTSIZE * (uint32_t)(from->num_components == 1 ? 1 : from->max_h_samp_factor);
    return (from->image_width + width - 1) / width;
}

/* Reads the header, and all coefficients: as fast as possible, or, where that cannot be, as libjpeg does. */
static jvirt_barray_ptr *read_all(struct rewrite *rewrite, const uint8_t *bytes, size_t len_bytes)
{
    struct jpeg_decompress_struct *from = &rewrite->from;
    jpeg_mem_src(from, bytes, len_bytes);
    jpeg_read_header(from, TRUE);
    if (!can_rewrite(from, rewrite->leave.pixels_max))
        return NULL;
    jvirt_barray_ptr *coefficients = jpeg_whole_read(from, rewrite->from_planes ? &rewrite->planes : NULL);
    rewrite->by_rows = coefficients != NULL;
    if (coefficients || rewrite->from_planes)
        return coefficients;
    jpeg_abort_decompress(from);
    jpeg_mem_src(from, bytes, len_bytes);
    jpeg_read_header(from, TRUE);
    return jpeg_read_coefficients(from);
}

static void write_jpeg(struct rewrite *rewrite, jvirt_barray_ptr *coefficients)
{
    jpeg_write_coefficients(&rewrite->to, coefficients);
    copy_exif(rewrite);
    jpeg_finish_compress(&rewrite->to);
    if (!rewrite->by_rows)
        jpeg_finish_decompress(&rewrite->from);
}

static void write_in_planes(struct rewrite *rewrite, jvirt_barray_ptr *coefficients)
{
    rewrite->to.optimize_coding = FALSE;
    rewrite->to.progress = &rewrite->progress;
    if (setjmp(rewrite->header_written) == 0)
        write_jpeg(rewrite, coefficients);
    size_t header_bytes = (size_t)(rewrite->made.manager.next_output_byte - rewrite->made.bytes);
    jpeg_planes_write(&rewrite->from, coefficients, rewrite->made.bytes, header_bytes, &rewrite->in_planes);
    if (!rewrite->by_rows)
        jpeg_finish_decompress(&rewrite->from);
}

static bool rewrite_body(struct rewrite *rewrite, const uint8_t *bytes, size_t len_bytes, uint32_t wanted)
{
    struct jpeg_decompress_struct *from = &rewrite->from;
    struct jpeg_compress_struct *to = &rewrite->to;
    jpeg_create_decompress(from);
    jpeg_create_compress(to);
    from->progress = &rewrite->progress;
    jpeg_save_markers(from, EXIF_MARKER, MARKER_BYTES_MAX);
    jvirt_barray_ptr *coefficients = read_all(rewrite, bytes, len_bytes);
    if (!coefficients || !is_complete(from) || !dc_fits(from, coefficients) ||
        (rewrite->to_planes && !jpeg_planes_fit(from)))
        return false;
    jpeg_copy_critical_parameters(from, to);
    to->optimize_coding = TRUE;
    to->restart_interval = wanted < mcus_across(from) ? wanted : mcus_across(from);
    jpeg_sink_begin(&rewrite->made, to);
    if (rewrite->to_planes)
        write_in_planes(rewrite, coefficients);
    else
        write_jpeg(rewrite, coefficients);
    return true;
}

/* Frees rewrite. Returns what it made, if that is good. The orientation is looked at because libjpeg finds segments
 * where others do not look: after the first scan, or after a marker that has no length. */
static uint8_t *finish(struct rewrite *rewrite, const uint8_t *bytes, size_t len_bytes, uint32_t wanted,
                       size_t *new_bytes)
{
    rewrite->from.err = rewrite->to.err = jpeg_std_error(&rewrite->errors);
    rewrite->from.client_data = rewrite->to.client_data = rewrite;
    rewrite->errors.error_exit = error_exit;
    rewrite->errors.emit_message = emit_message;
    rewrite->progress.progress_monitor = watch;
    bool good = setjmp(rewrite->back) == 0 && rewrite_body(rewrite, bytes, len_bytes, wanted);
    jpeg_destroy_compress(&rewrite->to);
    jpeg_destroy_decompress(&rewrite->from);
    uint8_t *made = rewrite->to_planes ? rewrite->in_planes.bytes : rewrite->made.bytes;
    size_t made_bytes = rewrite->to_planes ? rewrite->in_planes.len_bytes : rewrite->made.len_bytes;
    if (rewrite->to_planes)
        free(rewrite->made.bytes);
    free(rewrite);
    if (!good || exif_orientation(made, made_bytes) != exif_orientation(bytes, len_bytes)) {
        free(made);
        return NULL;
    }
    *new_bytes = made_bytes;
    return made;
}

static bool is_jpeg(const uint8_t *bytes, size_t len_bytes)
{
    static const uint8_t start[] = {0xff, 0xd8, 0xff};
    return len_bytes >= sizeof start && memcmp(bytes, start, sizeof start) == 0;
}

/* begin returns the state for a JPEG, which finish frees. NULL: it is none, or there is no memory. */
static struct rewrite *begin(const uint8_t *jpeg, size_t len_bytes)
{
    struct rewrite *rewrite = is_jpeg(jpeg, len_bytes) ? calloc(1, sizeof *rewrite) : NULL;
    if (rewrite)
        rewrite->leave = (struct jpeg_leave){.scans_max = SCANS_MAX, .pixels_max = PIXELS_MAX};
    return rewrite;
}

uint8_t *jpeg_rewrite(const uint8_t *bytes, size_t len_bytes, uint32_t wanted, size_t *new_bytes)
{
    struct planes_file planes = {0};
    bool from_planes = planes_file_open(&planes, bytes, len_bytes);
    const uint8_t *jpeg = from_planes ? planes.header : bytes;
    size_t jpeg_bytes = from_planes ? planes.header_bytes : len_bytes;
    struct rewrite *rewrite = begin(jpeg, jpeg_bytes);
    if (!rewrite)
        return NULL;
    rewrite->planes = planes;
    rewrite->from_planes = from_planes;
    return finish(rewrite, jpeg, jpeg_bytes, wanted, new_bytes);
}

uint8_t *jpeg_rewrite_at_leisure(const uint8_t *jpeg, size_t len_bytes, const struct jpeg_leave *leave,
                                 size_t *new_bytes)
{
    struct rewrite *rewrite = begin(jpeg, len_bytes);
    if (!rewrite)
        return NULL;
    if (leave)
        rewrite->leave = *leave;
    rewrite->to_planes = true;
    return finish(rewrite, jpeg, len_bytes, PLANES_INTERVAL_MAX, new_bytes);
}

uint8_t *jpeg_rewrite_in_planes(const uint8_t *jpeg, size_t len_bytes, size_t *new_bytes)
{
    return jpeg_rewrite_at_leisure(jpeg, len_bytes, NULL, new_bytes);
}
