#include "tests/fuzz/preprocess/by_vips.h"

#include <stdlib.h>
#include <string.h>

#include <vips/vips.h>

#include "common/check.h"
#include "preprocess/decode/cmyk.h"
#include "preprocess/decode/form_tiff.h"
#include "preprocess/decode/turn.h"

#define PIXELS_MAX (1 << 20)
#define PNG_BITS 24  /* offset of a PNG's bit depth; the color type follows */
#define GIF_TABLE 10 /* offset of what a GIF says of its table of colours, which is behind its head */
#define GIF_HEAD_BYTES 13

/* An open image, pulled row by row. */
struct source {
    VipsImage *image;
    uint32_t orientation;
    bool clips; /* grey of 16 bits, of which Pillow makes values above 255 white */
    uint8_t *copy;
};

static void silence(const char *domain, GLogLevelFlags level, const char *text, void *data)
{
    (void)domain, (void)level, (void)text, (void)data;
}

static void start(void)
{
    static bool started;
    if (started)
        return;
    CHECK(VIPS_INIT("fuzz") == 0);
    vips_cache_set_max(0);
    vips_concurrency_set(1);
    g_log_set_handler("VIPS", G_LOG_LEVEL_MASK, silence, NULL);
    started = true;
}

/* What is behind a GIF's transparent pixels libvips does not tell, so it is told that there are none: in each control
 * before the first image. The same bytes elsewhere, as in the table of colours, are something else. */
static void make_opaque(uint8_t *bytes, size_t len_bytes)
{
    if (len_bytes < GIF_HEAD_BYTES || memcmp(bytes, "GIF8", 4) != 0)
        return;
    uint8_t table = bytes[GIF_TABLE];
    size_t at = GIF_HEAD_BYTES + (table & 0x80 ? (size_t)3 * (2u << (table & 7)) : 0);
    while (at + 3 < len_bytes && bytes[at] == '!') {
        if (bytes[at + 1] == 0xf9 && bytes[at + 2] == 4)
            bytes[at + 3] &= 0xfe;
        for (at += 2; at < len_bytes && bytes[at]; at += bytes[at] + (size_t)1)
            ;
        at++;
    }
}

static bool known(const char *loader)
{
    return loader &&
           (strncmp(loader, "VipsForeignLoadPng", 18) == 0 || strncmp(loader, "VipsForeignLoadTiff", 19) == 0 ||
            strncmp(loader, "VipsForeignLoadNsgif", 20) == 0);
}

static bool open_source(const uint8_t *bytes, size_t len_bytes, struct source *out)
{
    struct decode_fault fault;
    *out = (struct source){.orientation = FORM_UPRIGHT, .copy = xmalloc(len_bytes)};
    memcpy(out->copy, bytes, len_bytes);
    make_opaque(out->copy, len_bytes);
    bool tiff = form_is_tiff(bytes, len_bytes);
    if (!known(vips_foreign_find_load_buffer(out->copy, len_bytes)) ||
        (tiff && form_read_tiff(bytes, len_bytes, &out->orientation, &fault)))
        return false;
    out->image = vips_image_new_from_buffer(out->copy, len_bytes, "", "access", VIPS_ACCESS_SEQUENTIAL, "fail_on",
                                            VIPS_FAIL_ON_ERROR, NULL);
    if (!out->image ||
        (uint64_t)vips_image_get_width(out->image) * (uint64_t)vips_image_get_height(out->image) > PIXELS_MAX)
        return false;
    int bands = vips_image_get_bands(out->image);
    out->clips = tiff ? bands == 1 : bands < IMAGE_CHANNELS && bytes[PNG_BITS + 1] == 0;
    VipsBandFormat format = vips_image_get_format(out->image);
    if (format == VIPS_FORMAT_UCHAR || format == VIPS_FORMAT_USHORT)
        return true;
    VipsImage *cast = NULL;
    bool made = vips_cast(out->image, &cast, VIPS_FORMAT_UCHAR, NULL) == 0;
    g_object_unref(out->image);
    out->image = made ? cast : NULL;
    return made;
}

static void make_row(const struct source *source, const void *pixels, uint8_t *narrow, uint8_t *out, uint32_t width)
{
    size_t bands = (size_t)vips_image_get_bands(source->image);
    const uint8_t *in = pixels;
    const uint16_t *wide = pixels;
    if (vips_image_get_format(source->image) == VIPS_FORMAT_USHORT) {
        for (size_t i = 0; i < width * bands; i++)
            narrow[i] = (uint8_t)(!source->clips ? wide[i] >> 8 : wide[i] > 255 ? 255 : wide[i]);
        in = narrow;
    }
    if (bands >= 4 && vips_image_get_interpretation(source->image) == VIPS_INTERPRETATION_CMYK) {
        decode_cmyk(in, bands, false, out, width);
        return;
    }
    for (uint32_t x = 0; x < width; x++, in += bands, out += IMAGE_CHANNELS) {
        out[0] = in[0];
        out[1] = in[bands < IMAGE_CHANNELS ? 0 : 1];
        out[2] = in[bands < IMAGE_CHANNELS ? 0 : 2];
    }
}

static bool pull(const struct source *source, struct scratch *scratch, struct rect rect, struct image *out)
{
    struct turn turn = turn_of(source->orientation, (uint32_t)vips_image_get_width(source->image),
                               (uint32_t)vips_image_get_height(source->image));
    struct rect lying = turn_back(&turn, rect);
    size_t bands = (size_t)vips_image_get_bands(source->image);
    uint8_t *narrow = xmalloc(lying.width * bands), *rgb = xmalloc((size_t)lying.width * IMAGE_CHANNELS);
    VipsRegion *region = vips_region_new(source->image);
    bool made = scratch_image(scratch, rect.width, rect.height, out) == 0;
    for (uint32_t y = 0; made && y < lying.height; y++) {
        VipsRect row = {(int)lying.x, (int)(lying.y + y), (int)lying.width, 1};
        made = vips_region_prepare(region, &row) == 0;
        if (made) {
            make_row(source, VIPS_REGION_ADDR(region, row.left, row.top), narrow, rgb, lying.width);
            turn_row(&turn, rgb, y, lying.width, lying.height, out);
        }
    }
    g_object_unref(region);
    free(narrow);
    free(rgb);
    return made;
}

bool by_vips(const uint8_t *bytes, size_t len_bytes, struct scratch *scratch, struct rect *rect, struct image *out)
{
    struct source source;
    start();
    bool made = open_source(bytes, len_bytes, &source);
    if (made && !rect->width) {
        bool sideways = source.orientation >= FORM_SIDEWAYS;
        uint32_t width = (uint32_t)vips_image_get_width(source.image);
        uint32_t height = (uint32_t)vips_image_get_height(source.image);
        *rect = (struct rect){.width = sideways ? height : width, .height = sideways ? width : height};
    }
    made = made && pull(&source, scratch, *rect, out);
    if (source.image)
        g_object_unref(source.image);
    free(source.copy);
    vips_error_clear();
    return made;
}
