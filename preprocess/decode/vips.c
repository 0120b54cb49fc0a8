/* vips.c: every format but JPEG and still WebP, through libvips, pulled strip by strip in the calling thread.
 *
 * Only loaders that are named here and that libvips trusts are used. Pulling a region (and not a whole image) makes
 * libvips start no threads. */
#include <pthread.h>
#include <string.h>

#include <vips/vips.h>

#include "preprocess/decode/cmyk.h"
#include "preprocess/decode/decoder.h"
#include "preprocess/decode/form.h"

#define STRIP_ROWS 16
/* The most memory that libvips and the libraries below it take: some rows, or the whole image, once or several times,
 * if the format is not decoded row by row. */
#define OUTSIDE_BYTES ((uint64_t)1 << 20)
#define OUTSIDE_ROWS 512
#define OUTSIDE_TIMES_TIFF 2
#define OUTSIDE_PER_PIXEL 8         /* GIF, for a byte a channel; 3 to 6 were measured */
#define OUTSIDE_PER_PIXEL_MOVING 16 /* moving WebP: two frames, and the one that is decoded */
#define PNG_INTERLACE 28            /* the byte of a PNG that says whether it is interlaced */

/* libvips has one buffer of error texts for all threads. A cache of lines that gets no memory says so there, and then
 * leaves the pixels as they are and reports success (its vips_tile_cache_gen). So whoever takes the texts notes how
 * often memory was lacking, and an image during which it was lacking somewhere is not trusted. */
static pthread_mutex_t errors_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t shortages; /* guarded by errors_lock */

/* The texts so far, which the caller frees with g_free; they are gone from the buffer. *shortages_so_far includes this
 * thread's own. */
static char *take_errors(uint64_t *shortages_so_far)
{
    pthread_mutex_lock(&errors_lock);
    char *text = vips_error_buffer_copy();
    shortages += strstr(text, "vips_tracked") != NULL; /* libvips' own allocator for pixels */
    *shortages_so_far = shortages;
    pthread_mutex_unlock(&errors_lock);
    return text;
}

static uint64_t drop_errors(void)
{
    uint64_t so_far;
    g_free(take_errors(&so_far));
    return so_far;
}

/* The error text as one line. */
static int vips_fault(struct decode_fault *fault, enum bad_reason reason)
{
    uint64_t so_far;
    char *text = take_errors(&so_far);
    for (char *c = text; *c; c++) {
        if (*c == '\n')
            *c = c[1] ? ';' : '\0';
    }
    int rc = decode_fail(fault, reason, "libvips: %.300s", *text ? text : "no reason given");
    g_free(text);
    return rc;
}

static bool known_loader(const char *loader)
{
    static const char *const prefixes[] = {"VipsForeignLoadPng", "VipsForeignLoadWebp", "VipsForeignLoadTiff",
                                           "VipsForeignLoadNsgif"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        if (strncmp(loader, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return false;
}

/* Rows below those that are needed are not decoded, so a PNG that was cut there is told by its missing last chunk. */
static bool is_cut_png(const uint8_t *bytes, size_t len_bytes)
{
    static const uint8_t start[] = {0x89, 'P', 'N', 'G'}, end[] = {'I', 'E', 'N', 'D'};
    if (len_bytes < sizeof start || memcmp(bytes, start, sizeof start) != 0)
        return false;
    for (size_t at = len_bytes - sizeof end; at >= sizeof start; at--) {
        if (memcmp(bytes + at, end, sizeof end) == 0)
            return false;
    }
    return true;
}

/* Pixels as 8-bit or 16-bit unsigned; anything else (floating point TIFF) is clipped to 8 bits as Pillow does. */
static VipsImage *to_integers(VipsImage *image)
{
    VipsBandFormat format = vips_image_get_format(image);
    if (format == VIPS_FORMAT_UCHAR || format == VIPS_FORMAT_USHORT)
        return image;
    VipsImage *cast = NULL;
    if (vips_cast(image, &cast, VIPS_FORMAT_UCHAR, NULL))
        cast = NULL;
    g_object_unref(image);
    return cast;
}

static uint64_t outside_bytes_of(VipsImage *image, const char *loader, const uint8_t *bytes, size_t len_bytes)
{
    uint64_t width = (uint64_t)vips_image_get_width(image), height = (uint64_t)vips_image_get_height(image);
    uint64_t pixel = VIPS_IMAGE_SIZEOF_PEL(image), whole = width * height * pixel;
    if (g_str_has_prefix(loader, "VipsForeignLoadPng"))
        whole = len_bytes > PNG_INTERLACE && bytes[PNG_INTERLACE] ? whole : 0;
    else if (g_str_has_prefix(loader, "VipsForeignLoadTiff"))
        whole *= OUTSIDE_TIMES_TIFF;
    else
        whole = width * height * VIPS_IMAGE_SIZEOF_ELEMENT(image) *
                (g_str_has_prefix(loader, "VipsForeignLoadWebp") ? OUTSIDE_PER_PIXEL_MOVING : OUTSIDE_PER_PIXEL);
    return OUTSIDE_BYTES + width * pixel * OUTSIDE_ROWS + whole;
}

/* The image that is wanted, not yet limited in size. NULL: see fault. */
static VipsImage *open_image(const uint8_t *bytes, size_t len_bytes, const char *loader, struct decode_fault *fault)
{
    if (!loader || !known_loader(loader)) {
        drop_errors();
        decode_fail(fault, BAD_NOT_AN_IMAGE,
                    "not an image of a supported format (JPEG, PNG, WebP, TIFF, GIF, BMP, binary PNM)");
        return NULL;
    }
    VipsImage *image = vips_image_new_from_buffer(bytes, len_bytes, "", "access", VIPS_ACCESS_SEQUENTIAL, "fail_on",
                                                  VIPS_FAIL_ON_ERROR, NULL);
    if (!image)
        vips_fault(fault, BAD_CORRUPT);
    return image;
}

/* An open image: libvips's own, and facts about its pixels that libvips does not tell. */
struct vips_picture {
    VipsImage *image; /* NULL: none is open */
    struct form form;
};

static int picture_open(void *state, struct decoding *decoding, struct decode_fault *fault)
{
    struct vips_picture *picture = state;
    const uint8_t *bytes = decoding->bytes;
    size_t len_bytes = decoding->len_bytes;
    const char *loader = vips_foreign_find_load_buffer(bytes, len_bytes);
    VipsImage *image = open_image(bytes, len_bytes, loader, fault);
    if (!image)
        return fault->error.code;
    uint32_t width = (uint32_t)vips_image_get_width(image), height = (uint32_t)vips_image_get_height(image);
    struct form form;
    int rc = decode_limits(decoding->limits, width, height, fault);
    if (!rc)
        rc = form_read(bytes, len_bytes, &form, fault);
    if (!rc && is_cut_png(bytes, len_bytes))
        rc = decode_fail(fault, BAD_CORRUPT, "PNG: truncated, the last chunk is missing");
    if (rc) {
        g_object_unref(image);
        return rc;
    }
    decoding->outside_bytes = outside_bytes_of(image, loader, bytes, len_bytes);
    image = to_integers(image);
    if (!image)
        return vips_fault(fault, BAD_CORRUPT);
    bool sideways = form.orientation >= FORM_SIDEWAYS;
    decoding->whole = (struct rect){.width = sideways ? height : width, .height = sideways ? width : height};
    *picture = (struct vips_picture){image, form};
    return 0;
}

/* How pixels of libvips become RGB. */
struct pixel_form {
    int bands;
    bool wide; /* 16 bits */
    bool grey, cmyk;
    const struct form *more;
};

/* 16 bits as 8: the upper ones, or as Pillow clips grey. */
static void make_narrow(const uint16_t *from, size_t count, bool clips, uint8_t *narrow)
{
    for (size_t i = 0; i < count; i++)
        narrow[i] = (uint8_t)(!clips ? from[i] >> 8 : from[i] > 255 ? 255 : from[i]);
}

/* A row of grey without or with alpha, or of RGB with more bands. */
static void pick_bands(const struct pixel_form *form, const uint8_t *in, uint8_t *out, uint32_t width)
{
    size_t bands = (size_t)form->bands, g = form->grey ? 0 : 1, b = form->grey ? 0 : 2;
    for (uint32_t x = 0; x < width; x++, in += bands, out += IMAGE_CHANNELS) {
        out[0] = in[0];
        out[1] = in[g];
        out[2] = in[b];
        if (form->more->has_clear && bands % 2 == 0 && in[bands - 1] == 0)
            memcpy(out, form->more->clear, IMAGE_CHANNELS);
    }
}

static void convert_row(const struct pixel_form *form, const void *pixels, uint8_t *narrow, uint8_t *out,
                        uint32_t width)
{
    size_t bands = (size_t)form->bands;
    const uint8_t *in = pixels;
    if (form->wide) {
        make_narrow(pixels, width * bands, form->more->clips, narrow);
        in = narrow;
    }
    if (form->cmyk)
        decode_cmyk(in, bands, false, out, width);
    else if (bands == IMAGE_CHANNELS)
        memcpy(out, in, (size_t)width * IMAGE_CHANNELS);
    else
        pick_bands(form, in, out, width);
}

/* ── turned pictures ─────────────────────────────────────────────────────────────────────────────────────────────── */

/* How the picture to be seen is made of the one in the file: mirrored first, then rows become columns. */
struct turn {
    bool mirror_x, mirror_y, sideways;
    uint32_t width, height; /* size of the picture in the file */
};

static struct turn turn_of(const struct vips_picture *picture)
{
    uint32_t o = picture->form.orientation;
    return (struct turn){.mirror_x = o == 2 || o == 3 || o == 7 || o == 8,
                         .mirror_y = o == 3 || o == 4 || o == 6 || o == 7,
                         .sideways = o >= FORM_SIDEWAYS,
                         .width = (uint32_t)vips_image_get_width(picture->image),
                         .height = (uint32_t)vips_image_get_height(picture->image)};
}

/* The rectangle of the file's picture that becomes `rect`. */
static struct rect turned_back(const struct turn *turn, struct rect rect)
{
    if (turn->sideways)
        rect = (struct rect){rect.y, rect.x, rect.height, rect.width};
    if (turn->mirror_x)
        rect.x = turn->width - rect.x - rect.width;
    if (turn->mirror_y)
        rect.y = turn->height - rect.y - rect.height;
    return rect;
}

/* Puts row y of the file's rectangle, which has `width` × `height` pixels, where it is to be seen. */
static void put_row(const struct turn *turn, const uint8_t *row, uint32_t y, uint32_t width, uint32_t height,
                    const struct image *out)
{
    uint32_t to_y = turn->mirror_y ? height - 1 - y : y;
    for (uint32_t x = 0; x < width; x++, row += IMAGE_CHANNELS) {
        uint32_t to_x = turn->mirror_x ? width - 1 - x : x;
        uint8_t *to = turn->sideways ? image_row(out, to_x) + (size_t)to_y * IMAGE_CHANNELS
                                     : image_row(out, to_y) + (size_t)to_x * IMAGE_CHANNELS;
        memcpy(to, row, IMAGE_CHANNELS);
    }
}

/* skip has libvips decode what lies above the rectangle, strip by strip. Asked for the rectangle alone, it takes the
 * rows above it at once, and for a GIF whose frame is broken it keeps a tile of each: with many rows that takes
 * minutes. It stops at the first strip that fails. */
static int skip(VipsRegion *region, struct rect rect)
{
    const char *loader;
    if (vips_image_get_typeof(region->im, VIPS_META_LOADER) == 0 ||
        vips_image_get_string(region->im, VIPS_META_LOADER, &loader) || strncmp(loader, "gif", 3) != 0)
        return 0;
    for (uint32_t y = 0; y < rect.y; y += STRIP_ROWS) {
        VipsRect strip = {(int)rect.x, (int)y, 1, (int)(rect.y - y < STRIP_ROWS ? rect.y - y : STRIP_ROWS)};
        if (vips_region_prepare(region, &strip))
            return -1;
    }
    return 0;
}

/* A row of the file's picture, in two forms. */
struct rows {
    uint8_t *narrow, *rgb;
};

/* Makes the file's rectangle, and puts it into out as it is to be seen. */
static int pull(VipsRegion *region, const struct vips_picture *picture, struct rect rect, const struct rows *row,
                struct image *out)
{
    VipsImage *image = region->im;
    struct turn turn = turn_of(picture);
    bool upright = picture->form.orientation == FORM_UPRIGHT;
    struct pixel_form form = {
        .bands = vips_image_get_bands(image),
        .wide = vips_image_get_format(image) == VIPS_FORMAT_USHORT,
        .more = &picture->form,
    };
    form.grey = form.bands < IMAGE_CHANNELS;
    form.cmyk = form.bands >= 4 && vips_image_get_interpretation(image) == VIPS_INTERPRETATION_CMYK;
    for (uint32_t y = 0; y < rect.height; y += STRIP_ROWS) {
        uint32_t rows = rect.height - y < STRIP_ROWS ? rect.height - y : STRIP_ROWS;
        VipsRect strip = {(int)rect.x, (int)(rect.y + y), (int)rect.width, (int)rows};
        if (vips_region_prepare(region, &strip))
            return -1;
        for (uint32_t i = 0; i < rows; i++) {
            convert_row(&form, VIPS_REGION_ADDR(region, strip.left, strip.top + (int)i), row->narrow,
                        upright ? image_row(out, y + i) : row->rgb, rect.width);
            if (!upright)
                put_row(&turn, row->rgb, y + i, rect.width, rect.height, out);
        }
    }
    return 0;
}

static int picture_region(void *state, const struct decoding *decoding, struct rect rect, struct image *out,
                          struct decode_fault *fault)
{
    const struct vips_picture *picture = state;
    struct scratch *scratch = decoding->scratch;
    VipsImage *image = picture->image;
    struct turn turn = turn_of(picture);
    struct rect source = turned_back(&turn, rect);
    struct image made;
    size_t bands = (size_t)vips_image_get_bands(image);
    struct rows row = {scratch_take(scratch, source.width * bands + IMAGE_SLACK_BYTES),
                       scratch_take(scratch, (size_t)source.width * IMAGE_CHANNELS)};
    if (!row.narrow || !row.rgb || scratch_image(scratch, rect.width, rect.height, &made))
        return decode_fail(fault, BAD_NO_MEMORY, "decoding takes more memory than allowed");
    uint64_t shortages_before = drop_errors();
    VipsRegion *region = vips_region_new(image);
    int rc = region && skip(region, source) == 0 ? pull(region, picture, source, &row, &made) : -1;
    if (region)
        g_object_unref(region);
    if (rc)
        return vips_fault(fault, BAD_CORRUPT);
    if (drop_errors() != shortages_before)
        return decode_fail(fault, BAD_NO_MEMORY, "libvips: no memory for the rows of an image");
    *out = made;
    return 0;
}

static void picture_close(void *state)
{
    struct vips_picture *picture = state;
    if (picture->image)
        g_object_unref(picture->image);
    picture->image = NULL;
}

const struct decoder_kind decoder_vips = {.name = "libvips",
                                          .state_bytes = sizeof(struct vips_picture),
                                          .open = picture_open,
                                          .region = picture_region,
                                          .close = picture_close};
