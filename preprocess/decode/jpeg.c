/* jpeg.c: libjpeg-turbo, asked for no more than a rectangle.
 *
 * Each thread has one decompressor and reuses it. libjpeg reports errors by calling error_exit, which jumps back to
 * guarded(). So functions that guarded calls own nothing. One image's settings must not reach the next, so tables that
 * libjpeg would keep are dropped when an image is opened.
 *
 * The pixels are those of a full decode. Upsampling of chroma looks one sample to each side, so the columns asked for
 * reach one chroma sample further than the rectangle; rows are libjpeg's own care (jpeg_skip_scanlines).
 *
 * jpeg_rows.c reads the coefficients of a baseline or progressive JPEG. It is faster than libjpeg, and with restart
 * markers in a baseline JPEG it skips coefficients that the rectangle does not need. Where there are none, it does so
 * when it reads the same bytes once more (jpeg_marks.h). libjpeg is in buffered-image mode,
 * believes that the whole file was read, and gets the coefficients from its memory manager. For a small JPEG it makes
 * only the planes of colours (jpeg_small.h). A JPEG that cannot be read that way is decoded the ordinary way, which
 * also finds out what is wrong with it. The coefficients of a JPEG in planes (jpeg_planes.h) come from jpeg_rows.c
 * alone. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "common/check.h"
#include "preprocess/decode/cmyk.h"
#include "preprocess/decode/decoder.h"
#include "preprocess/decode/jpeg_color.h"
#include "preprocess/decode/jpeg_form.h"
#include "preprocess/decode/jpeg_marks.h"
#include "preprocess/decode/jpeg_memory.h"
#include "preprocess/decode/jpeg_planes.h"
#include "preprocess/decode/jpeg_rows.h"
#include "preprocess/decode/jpeg_small.h"
#include "preprocess/decode/jpeg_strips.h"

#define ROWS_AT_ONCE 16
/* Memory, see reader_needs. */
#define WORKING_ROWS 48
#define WORKING_BYTES ((size_t)64 << 10)
#define CROP_ROUNDING 128 /* pixels to the sides of a rectangle, alignment included */
#define ROW_ROUNDING 64

struct jpeg_reader {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct jpeg_memory memory;
    struct prepare_limits limits;
    jmp_buf back;
    struct decode_fault *fault; /* the fault of the call in progress */
    const uint8_t *bytes;
    size_t len_bytes;
    struct rect rect;               /* asked for */
    const struct decode_sink *sink; /* who may take its rows; NULL: nobody */
    struct image image;             /* and what was made of it; data NULL: no memory was taken yet */
    struct decoded *form;           /* to be filled in; NULL: the rectangle is wanted */
    bool in_planes;                 /* it is no JPEG, but one in planes */
    bool by_rows;                   /* the coefficients come from rows */
    bool small;                     /* and the pixels from planes of colours */
    bool strips;                    /* or from strips of these */
    bool marked;                    /* and where MCUs begin is remembered under the key; `known` of these places were */
    uint32_t known;
    struct jpeg_marks_key key;
    struct planes_file planes;
    struct jpeg_rows rows;
};

static enum bad_reason reason_of(int code)
{
    switch (code) {
    case JERR_NO_SOI:
    case JERR_NO_IMAGE: return BAD_NOT_AN_IMAGE;
    case JERR_IMAGE_TOO_BIG: return BAD_TOO_LARGE;
    default: return BAD_CORRUPT;
    }
}

static _Noreturn void jump_back(struct jpeg_reader *reader)
{
    longjmp(reader->back, 1);
}

static void error_exit(j_common_ptr cinfo)
{
    struct jpeg_reader *reader = cinfo->client_data;
    char text[JMSG_LENGTH_MAX];
    cinfo->err->format_message(cinfo, text);
    if (reader->in_planes && cinfo->err->msg_code == JERR_BAD_VIRTUAL_ACCESS)
        decode_fail(reader->fault, BAD_CORRUPT, "JPEG in planes: its coefficients are damaged");
    else if (cinfo->err->msg_code == JERR_OUT_OF_MEMORY)
        decode_fail(reader->fault, BAD_NO_MEMORY, "JPEG: decoding takes more memory than is allowed for one image");
    else
        decode_fail(reader->fault, reason_of(cinfo->err->msg_code), "JPEG: %s", text);
    jump_back(reader);
}

/* Those warnings of libjpeg that mean wrong or missing pixels are errors here. */
static void emit_message(j_common_ptr cinfo, int level)
{
    if (level >= 0)
        return;
    switch (cinfo->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_JPEG_EOF:
    case JWRN_ARITH_BAD_CODE: error_exit(cinfo);
    default: return;
    }
}

static void output_message(j_common_ptr cinfo)
{
    (void)cinfo;
}

static void watch_scans(j_common_ptr cinfo)
{
    struct jpeg_reader *reader = cinfo->client_data;
    if (cinfo->is_decompressor && ((j_decompress_ptr)cinfo)->input_scan_number > (int)reader->limits.scans_max) {
        decode_fail(reader->fault, BAD_TOO_LARGE,
                    "JPEG: it has more progressive scans than the %u that the daemon takes: raise limits.scans, or "
                    "leave the file out",
                    reader->limits.scans_max);
        jump_back(reader);
    }
}

/* guarded runs body. It returns false when libjpeg, or one of the hooks above, jumped out of it. */
static bool guarded(struct jpeg_reader *reader, struct decode_fault *fault, void (*body)(struct jpeg_reader *))
{
    reader->fault = fault;
    if (setjmp(reader->back))
        return false;
    body(reader);
    return true;
}

/* The data source is libjpeg's own, made once, while memory still comes from malloc. */
static void create_body(struct jpeg_reader *reader)
{
    static const uint8_t nothing[1];
    jpeg_create_decompress(&reader->cinfo);
    jpeg_mem_src(&reader->cinfo, nothing, sizeof nothing);
}

/* The state is a pointer to what libjpeg and the project's own readers work with. */
static struct jpeg_reader *reader_of(void *state)
{
    return *(struct jpeg_reader **)state;
}

static int reader_create(void *state, const struct prepare_limits *limits)
{
    struct jpeg_reader *reader = aligned_alloc(SCRATCH_ALIGN, sizeof *reader);
    struct decode_fault fault;
    if (!reader)
        return LARDER_ENOMEM;
    memset(reader, 0, sizeof *reader);
    reader->limits = *limits;
    reader->cinfo.err = jpeg_std_error(&reader->errors);
    reader->errors.error_exit = error_exit;
    reader->errors.emit_message = emit_message;
    reader->errors.output_message = output_message;
    reader->progress.progress_monitor = watch_scans;
    reader->cinfo.client_data = reader;
    if (!guarded(reader, &fault, create_body)) {
        jpeg_destroy_decompress(&reader->cinfo);
        free(reader);
        return LARDER_ENOMEM;
    }
    jpeg_memory_install(&reader->memory, &reader->cinfo);
    reader->cinfo.progress = &reader->progress;
    *(struct jpeg_reader **)state = reader;
    return 0;
}

static void reader_destroy(void *state)
{
    struct jpeg_reader *reader = reader_of(state);
    jpeg_memory_remove(&reader->memory, &reader->cinfo);
    jpeg_destroy_decompress(&reader->cinfo);
    free(reader);
}

static void open_body(struct jpeg_reader *reader)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    jpeg_mem_src(cinfo, reader->bytes, reader->len_bytes);
    jpeg_read_header(cinfo, TRUE);
}

/* Opens the same image once more, to be decoded at the same scale. */
static void open_again(struct jpeg_reader *reader)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    unsigned numerator = cinfo->scale_num, denominator = cinfo->scale_denom;
    jpeg_abort_decompress(cinfo);
    jpeg_memory_begin(&reader->memory, cinfo, reader->memory.scratch);
    open_body(reader);
    cinfo->scale_num = numerator;
    cinfo->scale_denom = denominator;
}

/* A file that was cut short lacks its end marker. Looking for it costs nothing and, other than decoding, does not
 * depend on which part of the image is wanted. Bytes after the marker are common and harmless. */
static bool has_end(const uint8_t *from, size_t len_bytes)
{
    for (size_t i = len_bytes; i >= 2; i--) {
        if (from[i - 2] == 0xff && from[i - 1] == JPEG_EOI)
            return true;
    }
    return false;
}

static bool is_jpeg(const uint8_t *bytes, size_t len_bytes)
{
    static const uint8_t start[] = {0xff, 0xd8, 0xff};
    return (len_bytes >= sizeof start && memcmp(bytes, start, sizeof start) == 0) || jpeg_planes_is(bytes, len_bytes);
}

static int reader_open(void *state, struct decoding *image, struct decode_fault *fault)
{
    struct jpeg_reader *reader = reader_of(state);
    const uint8_t *bytes = image->bytes;
    size_t len_bytes = image->len_bytes;
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    jpeg_memory_begin(&reader->memory, cinfo, image->scratch);
    reader->in_planes = jpeg_planes_is(bytes, len_bytes);
    if (reader->in_planes && !planes_file_open(&reader->planes, bytes, len_bytes))
        return decode_fail(fault, BAD_CORRUPT, "JPEG in planes: cut short or damaged");
    reader->bytes = reader->in_planes ? reader->planes.header : bytes;
    reader->len_bytes = reader->in_planes ? reader->planes.header_bytes : len_bytes;
    if (!guarded(reader, fault, open_body))
        return fault->error.code;
    int rc = decode_limits(&reader->limits, cinfo->image_width, cinfo->image_height, fault);
    if (rc)
        return rc;
    if (cinfo->num_components != 1 && cinfo->num_components != 3 && cinfo->num_components != 4)
        return decode_fail(fault, BAD_CORRUPT, "JPEG: %d components", cinfo->num_components);
    if (!reader->in_planes && !has_end(cinfo->src->next_input_byte, cinfo->src->bytes_in_buffer))
        return decode_fail(fault, BAD_CORRUPT, "JPEG: truncated, the end-of-image marker is missing");
    image->whole = (struct rect){.width = cinfo->image_width, .height = cinfo->image_height};
    return 0;
}

static void reader_scale(void *state, uint32_t divisor)
{
    struct jpeg_reader *reader = reader_of(state);
    reader->cinfo.scale_num = 1;
    reader->cinfo.scale_denom = divisor;
}

/* How far, in pixels, upsampling of chroma looks to the side. */
static uint32_t margin(const struct jpeg_decompress_struct *cinfo)
{
    for (int i = 0; i < cinfo->num_components; i++) {
        if (cinfo->comp_info[i].h_samp_factor != cinfo->max_h_samp_factor)
            return (uint32_t)cinfo->max_h_samp_factor;
    }
    return 0;
}

/* Reads the rows of the rectangle, each output_width pixels of `channels`, to where row_of says. */
static void read_rows(struct jpeg_reader *reader, uint8_t *data, size_t stride)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    for (uint32_t y = 0; y < reader->rect.height;) {
        JSAMPROW rows[ROWS_AT_ONCE];
        uint32_t count = reader->rect.height - y < ROWS_AT_ONCE ? reader->rect.height - y : ROWS_AT_ONCE;
        for (uint32_t i = 0; i < count; i++)
            rows[i] = data + (y + i) * stride;
        y += jpeg_read_scanlines(cinfo, rows, count);
    }
}

static void read_cmyk_rows(struct jpeg_reader *reader, uint32_t skip)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    uint8_t *row = cinfo->mem->alloc_large((j_common_ptr)cinfo, JPOOL_IMAGE,
                                           (size_t)cinfo->output_width * 4 + IMAGE_SLACK_BYTES);
    for (uint32_t y = 0; y < reader->rect.height; y++) {
        jpeg_read_scanlines(cinfo, &row, 1);
        /* Full ink is 0, as Adobe writes it: Pillow takes every JPEG to be so. */
        decode_cmyk(row + (size_t)skip * 4, 4, true, image_row(&reader->image, y), reader->rect.width);
    }
}

/* libjpeg makes tables of its own from each code, which takes long for a small image. When it reads nothing itself, it
 * gets codes without symbols. */
static void spare_codes(struct jpeg_decompress_struct *cinfo)
{
    static JHUFF_TBL nothing;
    for (int i = 0; i < NUM_HUFF_TBLS; i++)
        cinfo->dc_huff_tbl_ptrs[i] = cinfo->ac_huff_tbl_ptrs[i] = &nothing;
}

static void start(struct jpeg_reader *reader)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    cinfo->out_color_space = cinfo->num_components == 4 ? JCS_CMYK : JCS_RGB;
    cinfo->dct_method = JDCT_ISLOW;
    cinfo->buffered_image = reader->by_rows;
    cinfo->raw_data_out = reader->small || reader->strips || reader->form;
    cinfo->do_block_smoothing = !reader->by_rows; /* it is for coefficients that are not complete */
    if (!reader->by_rows) {
        jpeg_start_decompress(cinfo);
        return;
    }
    jpeg_memory_rows(&reader->memory, &reader->rows);
    spare_codes(cinfo);
    jpeg_start_decompress(cinfo);
    cinfo->input_iMCU_row = cinfo->total_iMCU_rows; /* so that libjpeg reads nothing itself */
    jpeg_start_output(cinfo, cinfo->input_scan_number);
}

/* As jpeg_crop_scanline, with the widths of components that are scaled less than others: libjpeg-turbo sets them as if
 * all were scaled alike, and leaves samples of the upsampled rows unset. */
static void crop_columns(j_decompress_ptr cinfo, JDIMENSION *left, JDIMENSION *width)
{
    jpeg_crop_scanline(cinfo, left, width);
    uint32_t whole = (uint32_t)cinfo->max_h_samp_factor * (uint32_t)cinfo->min_DCT_scaled_size;
    for (int i = 0; i < cinfo->num_components; i++) {
        jpeg_component_info *component = &cinfo->comp_info[i];
        uint32_t part = (uint32_t)component->h_samp_factor * (uint32_t)component->DCT_scaled_size;
        component->downsampled_width = (cinfo->output_width * part + whole - 1) / whole;
    }
}

/* Columns of the output, from left on, as the columns of MCUs that hold them. */
static void want_columns(struct jpeg_reader *reader, JDIMENSION left, JDIMENSION width)
{
    const struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    uint32_t mcu = (uint32_t)cinfo->max_h_samp_factor * (uint32_t)cinfo->min_DCT_scaled_size;
    uint32_t first = left / mcu, end = (left + width + mcu - 1) / mcu;
    jpeg_rows_want(&reader->rows, first, end - first);
}

/* Takes memory for the pixels, or reuses that of a first try that failed. */
static void take_image(struct jpeg_reader *reader, uint32_t width, uint32_t height)
{
    struct image *image = &reader->image;
    if (image->data && image->width >= width && image->height >= height)
        return;
    if (scratch_image(reader->memory.scratch, width, height, image))
        ERREXIT1(&reader->cinfo, JERR_OUT_OF_MEMORY, 0);
}

/* The rectangle of a small JPEG; the other columns of its rows are made too. */
static void read_small(struct jpeg_reader *reader)
{
    struct rect rect = reader->rect;
    take_image(reader, jpeg_small_columns(&reader->cinfo), rect.height);
    jpeg_small_read(&reader->cinfo, rect.y, &reader->image);
    reader->image.data += (size_t)rect.x * IMAGE_CHANNELS;
    reader->image.width = rect.width;
}

/* The rectangle of a larger one of the same kind. */
static void read_strips(struct jpeg_reader *reader)
{
    struct rect rect = reader->rect;
    uint32_t left = jpeg_color_left(rect.x);
    take_image(reader, jpeg_strips_columns(rect), reader->sink ? JPEG_STRIPS_ROWS : rect.height);
    jpeg_strips_read(&reader->memory, &reader->cinfo, rect, &reader->image, reader->sink);
    reader->image.data = reader->sink ? NULL : reader->image.data + (size_t)(rect.x - left) * IMAGE_CHANNELS;
    reader->image.width = rect.width;
}

/* The rectangle of any other JPEG. */
static void read_region(struct jpeg_reader *reader)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    struct rect rect = reader->rect;
    uint32_t side = margin(cinfo);
    JDIMENSION left = rect.x > side ? rect.x - side : 0;
    JDIMENSION right = cinfo->output_width - rect.x - rect.width > side ? rect.x + rect.width + side
                                                                        : cinfo->output_width;
    JDIMENSION width = right - left;
    if (width < cinfo->output_width)
        crop_columns(cinfo, &left, &width);
    if (reader->by_rows)
        want_columns(reader, left, width);
    if (rect.y > 0)
        jpeg_skip_scanlines(cinfo, rect.y);

    uint32_t skip = rect.x - left;
    bool cmyk = cinfo->out_color_space == JCS_CMYK;
    take_image(reader, cmyk ? rect.width : cinfo->output_width, rect.height);
    if (cmyk) {
        read_cmyk_rows(reader, skip);
        return;
    }
    read_rows(reader, reader->image.data, reader->image.stride);
    reader->image.data += (size_t)skip * IMAGE_CHANNELS;
    reader->image.width = rect.width;
}

/* Puts in the marks that were remembered. */
static void recall_marks(struct jpeg_reader *reader)
{
    const struct scratch_budget *budget = reader->limits.budget;
    uint32_t room = budget && reader->by_rows ? jpeg_rows_mark(&reader->rows, &reader->cinfo) : 0;
    reader->marked = room > 0;
    if (!reader->marked)
        return;
    reader->key = jpeg_marks_key(scratch_budget_marks(budget), reader->bytes, reader->len_bytes);
    reader->known = jpeg_marks_find(scratch_budget_marks(budget), reader->key, reader->rows.marks, room);
    if (reader->known)
        reader->rows.n_marks = reader->known;
}

/* Remembers those that were found since. */
static void keep_marks(const struct jpeg_reader *reader)
{
    const struct jpeg_rows *rows = &reader->rows;
    if (reader->by_rows && reader->marked && rows->n_marks > reader->known)
        jpeg_marks_keep(scratch_budget_marks(reader->limits.budget), reader->key, rows->marks, rows->n_marks,
                        rows->n_segments);
}

static void begin_rows(struct jpeg_reader *reader)
{
    struct jpeg_decompress_struct *cinfo = &reader->cinfo;
    jpeg_calc_output_dimensions(cinfo);
    reader->by_rows = jpeg_rows_fit(cinfo) &&
                      (reader->in_planes ? jpeg_rows_begin_planes(&reader->rows, cinfo, &reader->planes)
                                         : jpeg_rows_begin(&reader->rows, cinfo));
    reader->by_rows = reader->by_rows && jpeg_rows_scans(&reader->rows) <= reader->limits.scans_max;
    reader->small = reader->by_rows && jpeg_small_fits(cinfo);
    reader->strips = reader->by_rows && !reader->small && jpeg_strips_fit(cinfo);
    recall_marks(reader);
}

static void region_body(struct jpeg_reader *reader)
{
    start(reader);
    if (reader->form)
        jpeg_form_read(&reader->cinfo, reader->form);
    else if (reader->small)
        read_small(reader);
    else if (reader->strips)
        read_strips(reader);
    else
        read_region(reader);
    if (reader->by_rows && !jpeg_rows_finish(&reader->rows))
        ERREXIT(&reader->cinfo, JERR_BAD_VIRTUAL_ACCESS);
    keep_marks(reader);
}

/* The coefficients of a JPEG in several scans, whole, if libjpeg reads them; the rectangle; and the rows that libjpeg
 * works on. */
static size_t reader_needs(void *state, struct rect rect)
{
    struct jpeg_decompress_struct *cinfo = &reader_of(state)->cinfo;
    size_t bytes = (size_t)cinfo->image_width * (size_t)cinfo->num_components * WORKING_ROWS + WORKING_BYTES;
    bytes += ((size_t)rect.width + CROP_ROUNDING) * IMAGE_CHANNELS * rect.height;
    bool by_rows = jpeg_rows_fit(cinfo), whole = jpeg_has_multiple_scans(cinfo) && !by_rows;
    if (by_rows)
        bytes += jpeg_rows_bytes(cinfo);
    for (int i = 0; whole && i < cinfo->num_components; i++) {
        const jpeg_component_info *component = &cinfo->comp_info[i];
        size_t across = component->width_in_blocks + (size_t)component->h_samp_factor;
        size_t down = component->height_in_blocks + (size_t)component->v_samp_factor;
        bytes += across * down * sizeof(JBLOCK) + down * (sizeof(JBLOCKROW) + ROW_ROUNDING);
    }
    return bytes;
}

/* Decodes what is wanted. It returns 0, or fault's code. */
static int read_wanted(struct jpeg_reader *reader, struct decode_fault *fault)
{
    if (!guarded(reader, fault, begin_rows))
        return fault->error.code;
    if (reader->in_planes && !reader->by_rows)
        return decode_fail(fault, BAD_CORRUPT, "JPEG in planes: its parts do not fit together");
    bool made = guarded(reader, fault, region_body);
    if (!made && reader->by_rows && !reader->in_planes && fault->reason != BAD_NO_MEMORY) {
        reader->by_rows = reader->small = reader->strips = false;
        made = guarded(reader, fault, open_again) && guarded(reader, fault, region_body);
    }
    return made ? 0 : fault->error.code;
}

static int reader_region(void *state, const struct decoding *image, struct rect rect, struct image *out,
                         struct decode_fault *fault)
{
    struct jpeg_reader *reader = reader_of(state);
    reader->rect = rect;
    reader->sink = image->sink;
    reader->image.data = NULL;
    reader->form = NULL;
    int rc = read_wanted(reader, fault);
    if (!rc)
        *out = reader->image;
    return rc;
}

static enum decoded_kind reader_form(void *state)
{
    return jpeg_form_kind(&reader_of(state)->cinfo);
}

static int reader_planes(void *state, struct decoded *form, struct decode_fault *fault)
{
    struct jpeg_reader *reader = reader_of(state);
    reader->sink = NULL;
    reader->form = form;
    return read_wanted(reader, fault);
}

static void reader_close(void *state)
{
    jpeg_abort_decompress(&reader_of(state)->cinfo);
}

const struct decoder_kind decoder_jpeg = {.name = "JPEG",
                                          .is = is_jpeg,
                                          .state_bytes = sizeof(struct jpeg_reader *),
                                          .create = reader_create,
                                          .destroy = reader_destroy,
                                          .open = reader_open,
                                          .scale = reader_scale,
                                          .needs = reader_needs,
                                          .region = reader_region,
                                          .form = reader_form,
                                          .planes = reader_planes,
                                          .close = reader_close};
