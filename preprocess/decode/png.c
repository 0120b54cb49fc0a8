/* png.c: PNG. libpng reads all that stands before the pixels. Then there are two ways to them, with the same outcome:
 *
 *   - A sound image that fits the thread's own scratch memory is inflated by libdeflate, as far down as it is needed,
 *     in one go and twice as fast as zlib would. Its filters are taken back here, from the last row on that was stored
 *     without the one above.
 *   - libpng itself reads the rows of every other image: of large, interlaced and damaged ones. So what is made of
 *     damage is what libpng makes of it.
 *
 * All memory is scratch memory. Gamma, profiles, transparency and the like change no pixel, and are passed over. */
#include <string.h>

#include <libdeflate.h>
#include <png.h>

#include "preprocess/decode/decoder.h"
#include "preprocess/decode/look.h"
#include "preprocess/decode/png_filter.h"

#define SIGNATURE_BYTES 8
#define CHUNK_HEAD_BYTES 8 /* length and name; the checksum is behind the data */
#define CHUNK_BYTES 12
#define TEXT_BYTES 100
/* libpng's own limits on an image's side and a chunk that it keeps: what is above ours is refused after it. */
#define LIBPNG_SIDE_MAX 10000000
#define LIBPNG_CHUNK_BYTES_MAX ((size_t)50 << 20)
#define LIBPNG_BYTES ((size_t)128 << 10) /* libpng and zlib take less than this and three rows */
#define LIBPNG_ROWS 3
/* Where there is no room for more, libdeflate stops without the rest of a match or of a stored block. */
#define UNWRITTEN_BYTES ((size_t)65536 + 512)

struct picture {
    struct libdeflate_decompressor *inflater; /* for all images */
    png_structp png;                          /* NULL: no image is open */
    png_infop info;
    struct scratch *scratch;
    const uint8_t *bytes;
    size_t len_bytes, at; /* libpng has read the bytes before `at` */
    uint32_t width, height;
    uint8_t bits, color;
    bool values;              /* a mask's numbers are wanted */
    bool interlaced, starved; /* starved: libpng was refused memory */
    size_t row_bytes, pixel_bytes;
    char text[TEXT_BYTES]; /* what libpng said last */
};

/* ── libpng ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

static void on_error(png_structp png, png_const_charp text)
{
    struct picture *picture = png_get_error_ptr(png);
    size_t len_bytes = strnlen(text, TEXT_BYTES - 1);
    memcpy(picture->text, text, len_bytes);
    picture->text[len_bytes] = '\0';
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png, (void)text;
}

static void on_read(png_structp png, png_bytep to, size_t count)
{
    struct picture *picture = png_get_io_ptr(png);
    if (count > picture->len_bytes - picture->at)
        png_error(png, "truncated");
    memcpy(to, picture->bytes + picture->at, count);
    picture->at += count;
}

static png_voidp on_take(png_structp png, png_alloc_size_t count)
{
    struct picture *picture = png_get_mem_ptr(png);
    void *memory = scratch_take(picture->scratch, count);
    picture->starved |= memory == NULL;
    return memory;
}

static void on_give(png_structp png, png_voidp memory)
{
    (void)png, (void)memory; /* scratch memory is given back when the image is done */
}

static int no_memory(struct decode_fault *fault)
{
    return decode_fail(fault, BAD_NO_MEMORY, "PNG: decoding takes more memory than is allowed for one image");
}

static int failed(const struct picture *picture, struct decode_fault *fault)
{
    return picture->starved ? no_memory(fault) : decode_fail(fault, BAD_CORRUPT, "PNG: %s", picture->text);
}

static int start_libpng(struct picture *picture, struct decode_fault *fault)
{
    picture->png = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, picture, on_error, on_warning, picture, on_take,
                                            on_give);
    picture->info = picture->png ? png_create_info_struct(picture->png) : NULL;
    if (!picture->info)
        return failed(picture, fault);
    if (setjmp(png_jmpbuf(picture->png)))
        return failed(picture, fault);
    png_set_read_fn(picture->png, picture, on_read);
    png_set_option(picture->png, PNG_IGNORE_ADLER32, PNG_OPTION_ON);
    png_set_user_limits(picture->png, LIBPNG_SIDE_MAX, LIBPNG_SIDE_MAX);
    png_set_chunk_malloc_max(picture->png, LIBPNG_CHUNK_BYTES_MAX);
    png_set_keep_unknown_chunks(picture->png, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_read_info(picture->png, picture->info);
    return 0;
}

/* Rows below those that are needed are not read, so a file that was cut there is told by its missing last chunk. */
static bool is_cut(const struct picture *picture)
{
    static const uint8_t end[] = {'I', 'E', 'N', 'D'};
    for (size_t at = picture->len_bytes - sizeof end; at >= sizeof end; at--) {
        if (memcmp(picture->bytes + at, end, sizeof end) == 0)
            return false;
    }
    return true;
}

static bool is_png(const uint8_t *bytes, size_t len_bytes)
{
    static const uint8_t signature[SIGNATURE_BYTES] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    return len_bytes >= SIGNATURE_BYTES && memcmp(bytes, signature, SIGNATURE_BYTES) == 0;
}

static int png_open(void *state, struct decoding *image, struct decode_fault *fault)
{
    struct picture *picture = state;
    *picture = (struct picture){.inflater = picture->inflater,
                                .scratch = image->scratch,
                                .bytes = image->bytes,
                                .len_bytes = image->len_bytes,
                                .values = image->values};
    int rc = start_libpng(picture, fault);
    if (rc)
        return rc;
    picture->width = png_get_image_width(picture->png, picture->info);
    picture->height = png_get_image_height(picture->png, picture->info);
    rc = decode_limits(image->limits, picture->width, picture->height, fault);
    if (rc)
        return rc;
    if (is_cut(picture))
        return decode_fail(fault, BAD_CORRUPT, "PNG: truncated, the last chunk is missing");
    picture->bits = png_get_bit_depth(picture->png, picture->info);
    picture->color = png_get_color_type(picture->png, picture->info);
    if (picture->values && picture->color != PNG_COLOR_TYPE_PALETTE && picture->color != PNG_COLOR_TYPE_GRAY)
        return decode_fail(fault, BAD_NOT_AN_IMAGE,
                           "PNG: its pixels are colors, or have alpha, and a mask has one number a pixel: save it as "
                           "grey or with a palette");
    image->value_bits = picture->bits;
    picture->interlaced = png_get_interlace_type(picture->png, picture->info) != PNG_INTERLACE_NONE;
    picture->row_bytes = png_get_rowbytes(picture->png, picture->info);
    size_t pixel_bits = (size_t)picture->bits * png_get_channels(picture->png, picture->info);
    picture->pixel_bytes = (pixel_bits + 7) / 8;
    image->whole = (struct rect){.width = picture->width, .height = picture->height};
    return 0;
}

static void png_close(void *state)
{
    struct picture *picture = state;
    if (picture->png)
        png_destroy_read_struct(&picture->png, &picture->info, NULL);
    picture->png = NULL;
}

/* ── rows ────────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A color that the palette does not have is black. */
static void make_palette(const struct picture *picture, struct look *look)
{
    png_colorp palette;
    int count = 0;
    memset(look->colors, 0, sizeof look->colors);
    if (!png_get_PLTE(picture->png, picture->info, &palette, &count))
        return;
    for (int i = 0; i < count && i < LOOK_COLORS; i++) {
        const uint8_t color[IMAGE_CHANNELS] = {palette[i].red, palette[i].green, palette[i].blue};
        memcpy(look->colors[i], color, IMAGE_CHANNELS);
    }
}

/* Each number is its own color. */
static void look_values(const struct picture *picture, struct look *look)
{
    look->kind = picture->bits == 16 ? LOOK_BYTES : LOOK_NUMBERS;
    memset(look->colors, 0, sizeof look->colors);
    for (int i = 0; i < LOOK_COLORS; i++)
        look->colors[i][0] = (uint8_t)i;
}

static void make_look(const struct picture *picture, struct look *look)
{
    size_t wide = picture->bits == 16 ? 2 : 1;
    bool colored = picture->color & PNG_COLOR_MASK_COLOR;
    look->kind = picture->color == PNG_COLOR_TYPE_PALETTE || picture->bits < 8 ? LOOK_NUMBERS : LOOK_BYTES;
    look->bits = picture->bits;
    look->step = picture->pixel_bytes;
    look->red = 0; /* the upper byte is the first one */
    look->green = colored ? wide : 0;
    look->blue = colored ? 2 * wide : 0;
    if (picture->values)
        look_values(picture, look);
    else if (picture->color == PNG_COLOR_TYPE_PALETTE)
        make_palette(picture, look);
    else if (look->kind == LOOK_NUMBERS)
        look_greys(look, false);
}

/* Makes `width` pixels of a row, from x on. Grey of 16 bits without alpha is cut. */
static void make_rgb(const struct picture *picture, const struct look *look, const uint8_t *row, size_t x,
                     uint32_t width, uint8_t *out)
{
    if (picture->color != PNG_COLOR_TYPE_GRAY || picture->bits != 16) {
        look_row(look, row, x, width, out);
        return;
    }
    for (const uint8_t *in = row + 2 * x, *end = in + 2 * (size_t)width; in < end; in += 2, out += IMAGE_CHANNELS) {
        memset(out, in[0] ? 255 : in[1], IMAGE_CHANNELS);
        if (picture->values) {
            out[0] = in[1];
            out[1] = in[0];
            out[2] = 0;
        }
    }
}

/* ── by libpng ───────────────────────────────────────────────────────────────────────────────────────────────────── */

/* libpng's transformations are off: it gives the bytes of the file's pixels. */
static int read_rows(struct picture *picture, const struct look *look, struct rect rect, struct image *out,
                     struct decode_fault *fault)
{
    size_t stride = picture->row_bytes;
    uint8_t *rows = scratch_take(picture->scratch, picture->interlaced ? stride * picture->height : stride);
    if (!rows)
        return no_memory(fault);
    if (setjmp(png_jmpbuf(picture->png)))
        return failed(picture, fault);
    int passes = png_set_interlace_handling(picture->png);
    png_read_update_info(picture->png, picture->info);
    if (picture->interlaced)
        memset(rows, 0, stride * picture->height);
    for (int pass = 1; pass < passes; pass++) {
        for (uint32_t y = 0; y < picture->height; y++)
            png_read_row(picture->png, rows + stride * y, NULL);
    }
    for (uint32_t y = 0; y < rect.y + rect.height; y++) {
        uint8_t *row = picture->interlaced ? rows + stride * y : rows;
        png_read_row(picture->png, row, NULL);
        if (y >= rect.y)
            make_rgb(picture, look, row, rect.x, rect.width, image_row(out, y - rect.y));
    }
    return 0;
}

/* ── by libdeflate ───────────────────────────────────────────────────────────────────────────────────────────────── */

/* The rows down to those that are needed, each with a byte before it that names its filter. */
struct inflated {
    uint8_t *rows;
    size_t stride, len_bytes; /* len_bytes: room, with what may remain unwritten below the rows */
};

static size_t room_for(const struct picture *picture, struct rect rect)
{
    size_t stride = picture->row_bytes + 1, whole = stride * picture->height;
    size_t needed = stride * (rect.y + rect.height) + UNWRITTEN_BYTES;
    return needed < whole ? needed : whole;
}

static size_t pixels_bytes(struct rect rect)
{
    return ((size_t)rect.width * IMAGE_CHANNELS + SCRATCH_ALIGN) * ((size_t)rect.height + IMAGE_SLACK_ROWS + 1);
}

static bool fits(const struct picture *picture, struct rect rect, size_t *bytes)
{
    const struct scratch *scratch = picture->scratch;
    size_t keep = scratch->budget ? scratch_budget_keep(scratch->budget) : SCRATCH_KEEP_BYTES;
    *bytes = LIBPNG_BYTES + room_for(picture, rect) + picture->row_bytes + picture->len_bytes + pixels_bytes(rect);
    return !picture->interlaced && *bytes <= keep && *bytes <= scratch->max_bytes;
}

static size_t png_needs(void *state, struct rect rect)
{
    const struct picture *picture = state;
    size_t bytes;
    if (fits(picture, rect, &bytes))
        return bytes;
    size_t rows = picture->interlaced ? picture->height : 1;
    return LIBPNG_BYTES + picture->row_bytes * (rows + LIBPNG_ROWS) + pixels_bytes(rect);
}

static uint32_t be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Passes a chunk of pixels whose checksum is right. False: there is none. */
static bool next_chunk(const struct picture *picture, size_t *at, const uint8_t **data, size_t *len_bytes)
{
    const uint8_t *chunk = picture->bytes + *at;
    size_t left = picture->len_bytes - *at;
    if (left < CHUNK_BYTES || memcmp(chunk + 4, "IDAT", 4) != 0 || be32(chunk) > left - CHUNK_BYTES)
        return false;
    *len_bytes = be32(chunk);
    *data = chunk + CHUNK_HEAD_BYTES;
    *at += CHUNK_BYTES + *len_bytes;
    return libdeflate_crc32(0, chunk + 4, *len_bytes + 4) == be32(*data + *len_bytes);
}

/* The deflated bytes in one piece; that of the file where the pixels are in one chunk. False: a chunk is damaged, or
 * there is no memory. */
static bool gather(const struct picture *picture, const uint8_t **out, size_t *len_bytes)
{
    size_t at = picture->at - CHUNK_HEAD_BYTES, after, count, total = 0;
    const uint8_t *data;
    if (!next_chunk(picture, &at, out, len_bytes))
        return false;
    after = at;
    if (!next_chunk(picture, &after, &data, &count))
        return picture->len_bytes - at < CHUNK_BYTES || memcmp(picture->bytes + at + 4, "IDAT", 4) != 0;
    uint8_t *whole = scratch_take(picture->scratch, picture->len_bytes - picture->at);
    if (!whole)
        return false;
    for (at = picture->at - CHUNK_HEAD_BYTES; next_chunk(picture, &at, &data, &count); total += count)
        memcpy(whole + total, data, count);
    *out = whole;
    *len_bytes = total;
    return picture->len_bytes - at < CHUNK_BYTES || memcmp(picture->bytes + at + 4, "IDAT", 4) != 0;
}

/* Whether zlib would take the stream's head as we do, who do not look at the size of the window that it names. */
static bool head_is_plain(const uint8_t *zipped, size_t len_bytes, size_t whole)
{
    unsigned window = zipped[0] >> 4;
    return len_bytes > 6 && (zipped[0] & 15) == 8 && window <= 7 && !(zipped[1] & 0x20) &&
           (zipped[0] << 8 | zipped[1]) % 31 == 0 && (window == 7 || (size_t)256 << window >= whole);
}

/* Inflates the rows down to the rectangle's last. False: they are not sound, or there is no memory. */
static bool inflate_rows(struct picture *picture, struct rect rect, struct inflated *out)
{
    const uint8_t *zipped;
    size_t len_bytes, read = 0, made = 0, stride = picture->row_bytes + 1, whole = stride * picture->height;
    *out = (struct inflated){.stride = stride, .len_bytes = room_for(picture, rect)};
    if (!gather(picture, &zipped, &len_bytes) || !head_is_plain(zipped, len_bytes, whole))
        return false;
    out->rows = scratch_take(picture->scratch, out->len_bytes + PNG_FILTER_SLACK);
    if (!out->rows)
        return false;
    enum libdeflate_result result = libdeflate_deflate_decompress_ex(picture->inflater, zipped + 2, len_bytes - 2,
                                                                     out->rows, out->len_bytes, &read, &made);
    if (result == LIBDEFLATE_INSUFFICIENT_SPACE ? out->len_bytes == whole
                                                : result || made != whole || len_bytes - 2 - read < 4)
        return false;
    for (uint32_t y = 0; y < rect.y + rect.height; y++) {
        if (out->rows[stride * y] >= PNG_FILTERS)
            return false;
    }
    return true;
}

/* Takes the filters back, as far down and to the right as needed, and makes the pixels. */
static int finish_rows(const struct picture *picture, const struct look *look, const struct inflated *inflated,
                       struct rect rect, struct image *out, struct decode_fault *fault)
{
    size_t bytes = look->kind == LOOK_NUMBERS ? picture->row_bytes
                                              : (rect.x + (size_t)rect.width) * picture->pixel_bytes;
    uint8_t *above = scratch_take(picture->scratch, bytes + PNG_FILTER_SLACK);
    uint32_t y = rect.y;
    if (!above)
        return no_memory(fault);
    memset(above, 0, bytes);
    while (y > 0 && !png_filter_begins(inflated->rows[inflated->stride * y]))
        y--;
    for (; y < rect.y + rect.height; y++) {
        uint8_t *row = inflated->rows + inflated->stride * y + 1;
        png_unfilter(row[-1], above, row, bytes, picture->pixel_bytes);
        if (y >= rect.y)
            make_rgb(picture, look, row, rect.x, rect.width, image_row(out, y - rect.y));
        above = row;
    }
    return 0;
}

static int png_region(void *state, const struct decoding *image, struct rect rect, struct image *out,
                      struct decode_fault *fault)
{
    struct picture *picture = state;
    struct inflated inflated;
    struct look look;
    size_t bytes;
    if (scratch_image(image->scratch, rect.width, rect.height, out))
        return no_memory(fault);
    make_look(picture, &look);
    if (fits(picture, rect, &bytes) && inflate_rows(picture, rect, &inflated))
        return finish_rows(picture, &look, &inflated, rect, out, fault);
    return read_rows(picture, &look, rect, out, fault);
}

static int png_create(void *state, const struct prepare_limits *limits)
{
    struct picture *picture = state;
    (void)limits;
    picture->inflater = libdeflate_alloc_decompressor();
    return picture->inflater ? 0 : LARDER_ENOMEM;
}

static void png_destroy(void *state)
{
    libdeflate_free_decompressor(((struct picture *)state)->inflater);
}

const struct decoder_kind decoder_png = {.name = "PNG",
                                         .is = is_png,
                                         .values = true,
                                         .state_bytes = sizeof(struct picture),
                                         .create = png_create,
                                         .destroy = png_destroy,
                                         .open = png_open,
                                         .needs = png_needs,
                                         .region = png_region,
                                         .close = png_close};
