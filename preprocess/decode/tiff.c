/* tiff.c: TIFF, by libtiff on the bytes in memory. form_tiff.c says which forms are read. Of the strips or tiles that
 * the rectangle touches, rows below it are not decoded. */
#include <stdio.h>
#include <string.h>

#include "preprocess/decode/decoder.h"
#include "preprocess/decode/form_tiff.h"
#include "preprocess/decode/libtiff.h"
#include "preprocess/decode/look.h"
#include "preprocess/decode/turn.h"

#define TEXT_BYTES 160
/* The most memory that libtiff and the libraries below it take: for their state and the file's lists, for the
 * coefficients of a progressive JPEG, and for the dictionary of LZMA. */
#define OUTSIDE_BYTES ((uint64_t)1 << 20)
#define OUTSIDE_TIMES_JPEG 6
#define OUTSIDE_LZMA ((uint64_t)64 << 20)

/* Strips or tiles. */
struct pieces {
    uint32_t width, height;
    size_t row_bytes;
};

struct picture {
    TIFF *tiff; /* NULL: no image is open */
    const uint8_t *bytes;
    size_t len_bytes, at;
    uint32_t orientation;   /* 1 to 8, as in EXIF */
    uint32_t width, height; /* as they lie in the file */
    bool tiled, planes;     /* planes: each band has pieces of its own */
    struct pieces pieces;
    struct look look;
    bool damaged;          /* some JPEG or fax is */
    char text[TEXT_BYTES]; /* what libtiff said last */
};

/* ── libtiff ─────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* Of JPEG and fax that cannot be read libtiff makes something, and says so. */
static void note_damage(struct picture *picture, const char *module)
{
    picture->damaged |= module && (strcmp(module, "JPEGLib") == 0 || strncmp(module, "Fax", 3) == 0);
}

static int on_error(TIFF *tiff, void *data, const char *module, const char *format, va_list args)
{
    struct picture *picture = data;
    (void)tiff;
    note_damage(picture, module);
    vsnprintf(picture->text, sizeof picture->text, format, args);
    return 1; /* nobody else is told */
}

static int on_warning(TIFF *tiff, void *data, const char *module, const char *format, va_list args)
{
    (void)tiff, (void)format, (void)args;
    note_damage(data, module);
    return 1;
}

static tmsize_t on_read(thandle_t handle, void *to, tmsize_t count)
{
    struct picture *picture = handle;
    size_t left = picture->at < picture->len_bytes ? picture->len_bytes - picture->at : 0;
    size_t given = (size_t)count < left ? (size_t)count : left;
    memcpy(to, picture->bytes + (left ? picture->at : 0), given);
    picture->at += given;
    return (tmsize_t)given;
}

static tmsize_t on_write(thandle_t handle, void *from, tmsize_t count)
{
    (void)handle, (void)from, (void)count;
    return 0;
}

static toff_t on_seek(thandle_t handle, toff_t to, int whence)
{
    struct picture *picture = handle;
    picture->at = (whence == SEEK_CUR ? picture->at : whence == SEEK_END ? picture->len_bytes : 0) + (size_t)to;
    return picture->at;
}

static int on_close(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t on_size(thandle_t handle)
{
    return ((struct picture *)handle)->len_bytes;
}

/* libtiff reads where the bytes are, and writes to none of them. */
static int on_map(thandle_t handle, void **base, toff_t *size)
{
    struct picture *picture = handle;
    *base = (void *)(uintptr_t)picture->bytes;
    *size = picture->len_bytes;
    return 1;
}

static void on_unmap(thandle_t handle, void *base, toff_t size)
{
    (void)handle, (void)base, (void)size;
}

static int no_memory(struct decode_fault *fault)
{
    return decode_fail(fault, BAD_NO_MEMORY, "TIFF: decoding takes more memory than is allowed for one image");
}

static int failed(const struct picture *picture, struct decode_fault *fault)
{
    if (strcasestr(picture->text, "memory"))
        return decode_fail(fault, BAD_NO_MEMORY, "TIFF: %s", picture->text);
    if (picture->damaged || !picture->text[0])
        return decode_fail(fault, BAD_CORRUPT, "TIFF: its pixels are damaged");
    return decode_fail(fault, BAD_CORRUPT, "TIFF: %s", picture->text);
}

static int start_libtiff(struct picture *picture, size_t memory_max, struct decode_fault *fault)
{
    struct error err;
    if (libtiff_load(&err))
        return decode_fail(fault, BAD_UNREADABLE, "%s", err.text);
    TIFFOpenOptions *options = libtiff.OpenOptionsAlloc();
    if (!options)
        return no_memory(fault);
    libtiff.OpenOptionsSetMaxSingleMemAlloc(options, (tmsize_t)memory_max);
    libtiff.OpenOptionsSetErrorHandlerExtR(options, on_error, picture);
    libtiff.OpenOptionsSetWarningHandlerExtR(options, on_warning, picture);
    picture->tiff = libtiff.ClientOpenExt("TIFF", "r", picture, on_read, on_write, on_seek, on_close, on_size, on_map,
                                          on_unmap, options);
    libtiff.OpenOptionsFree(options);
    return picture->tiff ? 0 : failed(picture, fault);
}

/* ── what the file says ──────────────────────────────────────────────────────────────────────────────────────────── */

static uint32_t field(const struct picture *picture, uint32_t tag)
{
    uint16_t value = 0;
    return libtiff.GetFieldDefaulted(picture->tiff, tag, &value) ? value : UINT32_MAX;
}

static bool make_palette(const struct picture *picture, struct look *look)
{
    uint16_t *red, *green, *blue;
    if (!libtiff.GetField(picture->tiff, TIFFTAG_COLORMAP, &red, &green, &blue))
        return false;
    for (unsigned i = 0; i < 1u << look->bits; i++) {
        const uint8_t color[IMAGE_CHANNELS] = {(uint8_t)(red[i] >> 8), (uint8_t)(green[i] >> 8),
                                               (uint8_t)(blue[i] >> 8)};
        memcpy(look->colors[i], color, IMAGE_CHANNELS);
    }
    return true;
}

/* Pillow takes 32 bits without a sign for numbers with one. */
static enum look_number number_of(uint32_t bits, uint32_t format)
{
    if (format == SAMPLEFORMAT_IEEEFP)
        return LOOK_FLOAT;
    if (bits == 16)
        return format == SAMPLEFORMAT_INT ? LOOK_S16 : LOOK_U16;
    return LOOK_S32;
}

/* False: libtiff sees another form than form_tiff.c did. */
static bool make_look(struct picture *picture, uint32_t bits, uint32_t bands)
{
    static const uint16_t one = 1;
    uint32_t photometric = field(picture, TIFFTAG_PHOTOMETRIC), format = field(picture, TIFFTAG_SAMPLEFORMAT);
    struct look *look = &picture->look;
    size_t wide = bits / 8;
    bool grey = photometric == PHOTOMETRIC_MINISBLACK || photometric == PHOTOMETRIC_MINISWHITE;
    bool colored = photometric == PHOTOMETRIC_RGB || photometric == PHOTOMETRIC_YCBCR;
    *look = (struct look){.kind = LOOK_BYTES, .bits = bits, .step = wide * bands, .wide = wide};
    look->red = wide == 2 && *(const uint8_t *)&one ? 1 : 0; /* libtiff gives numbers in the machine's order */
    look->green = look->red + (colored ? wide : 0);
    look->blue = look->red + (colored ? 2 * wide : 0);
    if ((photometric == PHOTOMETRIC_PALETTE || grey) && bits <= 8 && bands == 1) {
        look->kind = LOOK_NUMBERS;
        if (!grey)
            return make_palette(picture, look);
        look_greys(look, photometric == PHOTOMETRIC_MINISWHITE);
        return true;
    }
    if (photometric == PHOTOMETRIC_MINISBLACK && bands == 1 && (bits == 16 || bits == 32)) {
        look->kind = LOOK_CUT;
        look->number = number_of(bits, format);
        return true;
    }
    if (photometric == PHOTOMETRIC_SEPARATED)
        look->kind = LOOK_INKS;
    return (bits == 8 || bits == 16) &&
           bands >= (look->kind == LOOK_INKS ? 4u
                     : colored               ? 3u
                                             : 2u) &&
           (colored || look->kind == LOOK_INKS || photometric == PHOTOMETRIC_MINISBLACK);
}

/* Reads what the directory says of sizes, and checks that libtiff's rows are as long as ours. */
static bool make_pieces(struct picture *picture, uint32_t bits, uint32_t bands)
{
    struct pieces *pieces = &picture->pieces;
    uint32_t rows = 0;
    *pieces = (struct pieces){.width = picture->width};
    picture->tiled = libtiff.IsTiled(picture->tiff);
    picture->planes = field(picture, TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE && bands > 1;
    if (picture->tiled) {
        libtiff.GetField(picture->tiff, TIFFTAG_TILEWIDTH, &pieces->width);
        libtiff.GetField(picture->tiff, TIFFTAG_TILELENGTH, &rows);
    } else {
        libtiff.GetFieldDefaulted(picture->tiff, TIFFTAG_ROWSPERSTRIP, &rows);
        rows = rows < picture->height ? rows : picture->height;
    }
    uint64_t row_bits = (uint64_t)pieces->width * bits * (picture->planes ? 1 : bands);
    uint64_t row_bytes = picture->tiled ? libtiff.TileRowSize64(picture->tiff) : libtiff.ScanlineSize64(picture->tiff);
    pieces->height = rows;
    pieces->row_bytes = (size_t)(row_bits + 7) / 8;
    return pieces->width && pieces->height && row_bytes == pieces->row_bytes &&
           (!picture->planes || (picture->look.kind == LOOK_BYTES && bits == 8 && bands == IMAGE_CHANNELS));
}

static int tiff_open(void *state, struct decoding *image, struct decode_fault *fault)
{
    struct picture *picture = state;
    memset(picture, 0, sizeof *picture);
    picture->bytes = image->bytes;
    picture->len_bytes = image->len_bytes;
    int rc = form_read_tiff(image->bytes, image->len_bytes, &picture->orientation, fault);
    if (!rc)
        rc = start_libtiff(picture, image->scratch->max_bytes, fault);
    if (rc)
        return rc;
    libtiff.GetField(picture->tiff, TIFFTAG_IMAGEWIDTH, &picture->width);
    libtiff.GetField(picture->tiff, TIFFTAG_IMAGELENGTH, &picture->height);
    rc = decode_limits(image->limits, picture->width, picture->height, fault);
    if (rc)
        return rc;
    uint32_t bits = field(picture, TIFFTAG_BITSPERSAMPLE), bands = field(picture, TIFFTAG_SAMPLESPERPIXEL);
    uint32_t compression = field(picture, TIFFTAG_COMPRESSION);
    if (compression == COMPRESSION_JPEG)
        libtiff.SetField(picture->tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    if (!make_look(picture, bits, bands) || !make_pieces(picture, bits, bands))
        return failed(picture, fault);
    bool sideways = picture->orientation >= FORM_SIDEWAYS;
    image->whole = (struct rect){.width = sideways ? picture->height : picture->width,
                                 .height = sideways ? picture->width : picture->height};
    uint64_t piece = (uint64_t)picture->pieces.row_bytes * picture->pieces.height;
    picture->text[0] = '\0'; /* errors in what we do not look at */
    image->outside_bytes = OUTSIDE_BYTES + image->len_bytes +
                           (compression == COMPRESSION_JPEG ? piece * OUTSIDE_TIMES_JPEG : piece) +
                           (compression == COMPRESSION_LZMA ? OUTSIDE_LZMA : 0);
    return 0;
}

static void tiff_close(void *state)
{
    struct picture *picture = state;
    if (picture->tiff)
        libtiff.Close(picture->tiff);
    picture->tiff = NULL;
}

/* ── pixels ──────────────────────────────────────────────────────────────────────────────────────────────────────── */

/* A piece, or one of its planes, as far down as it is needed. */
struct piece {
    uint32_t x, y, rows, plane;
    uint8_t *bytes;
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* False: it is damaged, even if libtiff says so and reports success. */
static bool read_piece(const struct picture *picture, const struct piece *piece)
{
    tmsize_t wanted = (tmsize_t)(picture->pieces.row_bytes * piece->rows), made;
    memset(piece->bytes, 0, (size_t)wanted); /* what libtiff leaves out is the same each time */
    if (picture->tiled) {
        uint32_t tile = libtiff.ComputeTile(picture->tiff, piece->x, piece->y, 0, (uint16_t)piece->plane);
        made = libtiff.ReadEncodedTile(picture->tiff, tile, piece->bytes, wanted);
    } else {
        uint32_t strip = libtiff.ComputeStrip(picture->tiff, piece->y, (uint16_t)piece->plane);
        made = libtiff.ReadEncodedStrip(picture->tiff, strip, piece->bytes, wanted);
    }
    return made == wanted && !picture->damaged;
}

/* Puts what a piece has of the rectangle into the image. */
static void place(const struct picture *picture, const struct piece *piece, struct rect rect, const struct image *out)
{
    uint32_t left = most(piece->x, rect.x), right = least(piece->x + picture->pieces.width, rect.x + rect.width);
    uint32_t top = most(piece->y, rect.y);
    for (uint32_t y = top; y < piece->y + piece->rows; y++) {
        const uint8_t *row = piece->bytes + picture->pieces.row_bytes * (y - piece->y);
        uint8_t *to = image_row(out, y - rect.y) + (size_t)(left - rect.x) * IMAGE_CHANNELS;
        if (!picture->planes) {
            look_row(&picture->look, row, left - piece->x, right - left, to);
            continue;
        }
        for (uint32_t x = left - piece->x; x < right - piece->x; x++, to += IMAGE_CHANNELS)
            to[piece->plane] = row[x];
    }
}

/* Makes a rectangle of the picture as it lies in the file. */
static int read_rect(const struct picture *picture, uint8_t *bytes, struct rect rect, const struct image *out,
                     struct decode_fault *fault)
{
    const struct pieces *pieces = &picture->pieces;
    uint32_t bottom = rect.y + rect.height, right = rect.x + rect.width;
    for (uint32_t y = rect.y - rect.y % pieces->height; y < bottom; y += pieces->height) {
        uint32_t rows = least(pieces->height, bottom - y);
        for (uint32_t x = rect.x - rect.x % pieces->width; x < right; x += pieces->width) {
            for (uint32_t plane = 0; plane < (picture->planes ? IMAGE_CHANNELS : 1); plane++) {
                struct piece piece = {x, y, rows, plane, bytes};
                if (!read_piece(picture, &piece))
                    return failed(picture, fault);
                place(picture, &piece, rect, out);
            }
        }
    }
    return 0;
}

static size_t pixels_bytes(struct rect rect)
{
    return ((size_t)rect.width * IMAGE_CHANNELS + SCRATCH_ALIGN) * ((size_t)rect.height + IMAGE_SLACK_ROWS + 1);
}

/* The bytes of the rows of a piece that are needed at most. */
static size_t piece_bytes(const struct picture *picture, struct rect source)
{
    return picture->pieces.row_bytes * least(picture->pieces.height, source.y + source.height);
}

static size_t tiff_needs(void *state, struct rect rect)
{
    const struct picture *picture = state;
    struct turn turn = turn_of(picture->orientation, picture->width, picture->height);
    struct rect source = turn_back(&turn, rect);
    bool upright = picture->orientation == FORM_UPRIGHT;
    return pixels_bytes(rect) + (upright ? 0 : pixels_bytes(source)) + piece_bytes(picture, source) + SCRATCH_ALIGN;
}

static int tiff_region(void *state, const struct decoding *decoding, struct rect rect, struct image *out,
                       struct decode_fault *fault)
{
    const struct picture *picture = state;
    struct turn turn = turn_of(picture->orientation, picture->width, picture->height);
    struct rect source = turn_back(&turn, rect);
    struct image lying;
    uint8_t *bytes = scratch_take(decoding->scratch, piece_bytes(picture, source));
    if (!bytes || scratch_image(decoding->scratch, source.width, source.height, &lying))
        return no_memory(fault);
    int rc = read_rect(picture, bytes, source, &lying, fault);
    if (rc || picture->orientation == FORM_UPRIGHT) {
        *out = lying;
        return rc;
    }
    if (scratch_image(decoding->scratch, rect.width, rect.height, out))
        return no_memory(fault);
    for (uint32_t y = 0; y < source.height; y++)
        turn_row(&turn, image_row(&lying, y), y, source.width, source.height, out);
    return 0;
}

const struct decoder_kind decoder_tiff = {.name = "TIFF",
                                          .is = form_is_tiff,
                                          .state_bytes = sizeof(struct picture),
                                          .open = tiff_open,
                                          .needs = tiff_needs,
                                          .region = tiff_region,
                                          .close = tiff_close};
