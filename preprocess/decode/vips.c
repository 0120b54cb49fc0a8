/* vips.c: every format but JPEG and still WebP, through libvips, pulled strip by strip in the calling thread.
 *
 * Only loaders that are named here and that libvips trusts are used. Pulling a region (and not a whole image) makes
 * libvips start no threads. */
#include <pthread.h>
#include <string.h>

#include <vips/vips.h>

#include "preprocess/decode/decode_priv.h"

#define STRIP_ROWS 16
/* What libvips and the libraries below it take, at most: some rows, and where a format is not decoded row by row the
 * whole image, once or several times. */
#define OUTSIDE_BYTES ((uint64_t)1 << 20)
#define OUTSIDE_ROWS 512
#define OUTSIDE_TIMES_TIFF 2
#define OUTSIDE_PER_PIXEL 8         /* of GIF and HEIF, for a byte a channel; 3 to 6 were measured */
#define OUTSIDE_PER_PIXEL_MOVING 16 /* of moving WebP: two frames, and the one that is decoded */
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
                                           "VipsForeignLoadNsgif", "VipsForeignLoadHeif"};
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

int vips_reader_open(const struct prepare_limits *limits, const void *bytes, size_t len_bytes, void **handle,
                     struct rect *whole, uint64_t *outside_bytes, struct decode_fault *fault)
{
    const char *loader = vips_foreign_find_load_buffer(bytes, len_bytes);
    if (!loader || !known_loader(loader)) {
        drop_errors();
        return decode_fail(fault, BAD_NOT_AN_IMAGE,
                           "not an image of a supported format (JPEG, PNG, WebP, TIFF, GIF, HEIF, BMP, binary PNM)");
    }
    VipsImage *image = vips_image_new_from_buffer(bytes, len_bytes, "", "access", VIPS_ACCESS_SEQUENTIAL, "fail_on",
                                                  VIPS_FAIL_ON_ERROR, NULL);
    if (!image)
        return vips_fault(fault, BAD_CORRUPT);
    int rc = decode_limits(limits, (uint64_t)vips_image_get_width(image), (uint64_t)vips_image_get_height(image),
                           fault);
    if (rc) {
        g_object_unref(image);
        return rc;
    }
    *outside_bytes = outside_bytes_of(image, loader, bytes, len_bytes);
    image = to_integers(image);
    if (!image)
        return vips_fault(fault, BAD_CORRUPT);
    if (is_cut_png(bytes, len_bytes)) {
        g_object_unref(image);
        return decode_fail(fault, BAD_CORRUPT, "PNG: truncated, the last chunk is missing");
    }
    *whole = (struct rect){.width = (uint32_t)vips_image_get_width(image),
                           .height = (uint32_t)vips_image_get_height(image)};
    *handle = image;
    return 0;
}

/* How pixels of libvips become RGB. */
struct pixel_form {
    int bands;
    bool wide; /* 16 bits */
    bool grey, cmyk;
};

static void convert_row(const struct pixel_form *form, const void *pixels, uint8_t *narrow, uint8_t *out,
                        uint32_t width)
{
    size_t bands = (size_t)form->bands;
    const uint8_t *in = pixels;
    if (form->wide) {
        const uint16_t *from = pixels;
        for (size_t i = 0; i < width * bands; i++)
            narrow[i] = (uint8_t)(from[i] >> 8);
        in = narrow;
    }
    if (form->cmyk) {
        decode_cmyk(in, bands, false, out, width);
    } else if (bands == IMAGE_CHANNELS) {
        memcpy(out, in, (size_t)width * IMAGE_CHANNELS);
    } else {
        size_t g = form->grey ? 0 : 1, b = form->grey ? 0 : 2;
        for (uint32_t x = 0; x < width; x++, in += bands, out += IMAGE_CHANNELS) {
            out[0] = in[0];
            out[1] = in[g];
            out[2] = in[b];
        }
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

static int pull(VipsRegion *region, struct rect rect, uint8_t *narrow, struct image *out)
{
    VipsImage *image = region->im;
    struct pixel_form form = {
        .bands = vips_image_get_bands(image),
        .wide = vips_image_get_format(image) == VIPS_FORMAT_USHORT,
    };
    form.grey = form.bands < IMAGE_CHANNELS;
    form.cmyk = form.bands >= 4 && vips_image_get_interpretation(image) == VIPS_INTERPRETATION_CMYK;
    for (uint32_t y = 0; y < rect.height; y += STRIP_ROWS) {
        uint32_t rows = rect.height - y < STRIP_ROWS ? rect.height - y : STRIP_ROWS;
        VipsRect strip = {(int)rect.x, (int)(rect.y + y), (int)rect.width, (int)rows};
        if (vips_region_prepare(region, &strip))
            return -1;
        for (uint32_t i = 0; i < rows; i++)
            convert_row(&form, VIPS_REGION_ADDR(region, strip.left, strip.top + (int)i), narrow, image_row(out, y + i),
                        rect.width);
    }
    return 0;
}

int vips_reader_region(void *handle, struct rect rect, struct scratch *scratch, struct image *out,
                       struct decode_fault *fault)
{
    VipsImage *image = handle;
    struct image made;
    uint8_t *narrow = scratch_take(scratch,
                                   (size_t)rect.width * (size_t)vips_image_get_bands(image) + IMAGE_SLACK_BYTES);
    if (!narrow || scratch_image(scratch, rect.width, rect.height, &made))
        return decode_fail(fault, BAD_NO_MEMORY, "decoding takes more memory than allowed");
    uint64_t shortages_before = drop_errors();
    VipsRegion *region = vips_region_new(image);
    int rc = region && skip(region, rect) == 0 ? pull(region, rect, narrow, &made) : -1;
    if (region)
        g_object_unref(region);
    if (rc)
        return vips_fault(fault, BAD_CORRUPT);
    if (drop_errors() != shortages_before)
        return decode_fail(fault, BAD_NO_MEMORY, "libvips: no memory for the rows of an image");
    *out = made;
    return 0;
}

void vips_reader_close(void **handle)
{
    if (*handle)
        g_object_unref(*handle);
    *handle = NULL;
}
