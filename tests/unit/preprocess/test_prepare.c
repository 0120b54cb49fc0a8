/* test_prepare.c: encoded bytes in, pixels out, whatever form the image has; and no thread is started. */
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "prepare_fixture.h"

/* prepare_size returns the image's size; and the whole image through prepare_sample equals `expected`, `bands` of which
 * the first three (or one) count. */
static void check_whole(const char *what, struct encoded encoded, const uint8_t *expected, uint32_t width,
                        uint32_t height, unsigned bands)
{
    struct made made = prepare(&encoded, center_crop(width, height), 0);
    struct image_size size;
    if (made.rc)
        fail_msg("%s: %s", what, made.err.text);
    if (prepare_size(scratch, encoded.data, encoded.len_bytes, &size, NULL) || size.width != width ||
        size.height != height)
        fail_msg("%s: another size", what);
    for (size_t i = 0; i < (size_t)width * height; i++) {
        for (unsigned c = 0; c < 3; c++) {
            unsigned want = expected[i * bands + (bands < 3 ? 0 : c)];
            if (made.pixels[i * 3 + c] != want)
                fail_msg("%s: pixel %zu channel %u is %u, not %u", what, i, c, made.pixels[i * 3 + c], want);
        }
    }
    free(made.pixels);
    encoded_free(&encoded);
}

/* Proves: every lossless form of an image, whatever its bands, depth and format, comes out as its 8-bit RGB pixels. */
static void test_lossless_forms(void **state)
{
    (void)state;
    const uint32_t w = 61, h = 47;
    uint8_t *rgb = picture(w, h, 3, 1), *rgba = picture(w, h, 4, 2), *grey = picture(w, h, 1, 3),
            *grey_alpha = picture(w, h, 2, 4);
    uint16_t *wide = xmalloc((size_t)w * h * 3 * 2);
    for (size_t i = 0; i < (size_t)w * h * 3; i++)
        wide[i] = (uint16_t)(rgb[i] << 8 | (i * 7919 & 255));
    check_whole("png", encode_vips(rgb, w, h, 3, 8, ".png"), rgb, w, h, 3);
    check_whole("png interlaced", encode_vips(rgb, w, h, 3, 8, ".png[interlace]"), rgb, w, h, 3);
    check_whole("png alpha", encode_vips(rgba, w, h, 4, 8, ".png"), rgba, w, h, 4);
    check_whole("png grey", encode_vips(grey, w, h, 1, 8, ".png"), grey, w, h, 1);
    check_whole("png grey alpha", encode_vips(grey_alpha, w, h, 2, 8, ".png"), grey_alpha, w, h, 2);
    check_whole("png 16", encode_vips(wide, w, h, 3, 16, ".png"), rgb, w, h, 3);
    check_whole("webp", encode_vips(rgb, w, h, 3, 8, ".webp[lossless]"), rgb, w, h, 3);
    check_whole("tiff", encode_vips(rgb, w, h, 3, 8, ".tif[compression=lzw]"), rgb, w, h, 3);
    check_whole("tiff tiled", encode_vips(rgb, w, h, 3, 8, ".tif[tile,tile-width=16,tile-height=16]"), rgb, w, h, 3);
    check_whole("tiff 16", encode_vips(wide, w, h, 3, 16, ".tif"), rgb, w, h, 3);
    free(rgb), free(rgba), free(grey), free(grey_alpha), free(wide);
}

static void check_bytes(const char *what, const char *bytes, size_t len, const uint8_t *expected, uint32_t width,
                        uint32_t height)
{
    struct encoded encoded = {memcpy(xmalloc(len), bytes, len), len};
    check_whole(what, encoded, expected, width, height, 3);
}

/* Proves: BMP and binary PNM, rows up or down, with palette or without, come out as their pixels;
 * and every cut of one is refused. */
static void test_plain_forms(void **state)
{
    (void)state;
    static const char pbm[] = "P4 3 2\n\x40\xa0", pgm[] = "P5\n#x\n2 1\n100\n\x32\x64", ppm[] = "P6 1 2 255\nabcdef";
    static const char wide[] = "P5 2 1 1000\n\x00\x03\x03\xe8";
    /* Offset of the pixels, size of the header, width; then what varies; then resolution and colours. */
#define BMP_START(height, bits, colors)                                     \
    "BM\0\0\0\0\0\0\0\0\x3e\0\0\0\x28\0\0\0\x02\0\0\0" height "\x01\0" bits \
    "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" colors "\0\0\0\0\0\0\0"
    static const char up[] = BMP_START("\x02\0\0\0", "\x18", "\0") "12345678abcdef\0\0ghijkl\0\0";
    static const char down[] = BMP_START("\xfe\xff\xff\xff", "\x18", "\0") "12345678abcdef\0\0ghijkl\0\0";
    static const char palette[] = BMP_START("\x01\0\0\0", "\x01", "\x02") "\1\2\3\0\4\5\6\0\x40\0\0\0";
    check_bytes("pbm", pbm, sizeof pbm - 1,
                (const uint8_t[]){255, 255, 255, 0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255, 0, 0, 0}, 3, 2);
    check_bytes("pgm", pgm, sizeof pgm - 1, (const uint8_t[]){128, 128, 128, 255, 255, 255}, 2, 1);
    check_bytes("ppm", ppm, sizeof ppm - 1, (const uint8_t *)"abcdef", 1, 2);
    /* Pillow makes it 197 of 65535, and of what is above 255 white. */
    check_bytes("pgm 16", wide, sizeof wide - 1, (const uint8_t[]){197, 197, 197, 255, 255, 255}, 2, 1);
    check_bytes("bmp up", up, sizeof up - 1, (const uint8_t *)"ihglkjcbafed", 2, 2);
    check_bytes("bmp down", down, sizeof down - 1, (const uint8_t *)"cbafedihglkj", 2, 2);
    check_bytes("bmp palette", palette, sizeof palette - 1, (const uint8_t[]){3, 2, 1, 6, 5, 4}, 2, 1);
    for (size_t len = 0; len < sizeof up - 1; len++) {
        struct encoded cut = {memcpy(xmalloc(len + 1), up, len), len};
        struct made made = prepare(&cut, center_crop(2, 2), 0);
        assert_int_equal(made.rc, LARDER_EFORMAT);
        free(made.pixels);
        encoded_free(&cut);
    }
}

/* Where the picture to be seen has its pixel (x, y) from, in a picture of w × h pixels, by EXIF's orientation. */
static uint32_t turned_from(uint32_t orientation, uint32_t x, uint32_t y, uint32_t w, uint32_t h)
{
    const uint32_t right = w - 1, low = h - 1;
    switch (orientation) {
    case 2: return y * w + right - x;
    case 3: return (low - y) * w + right - x;
    case 4: return (low - y) * w + x;
    case 5: return x * w + y;
    case 6: return (low - x) * w + y;
    case 7: return (low - x) * w + right - y;
    case 8: return x * w + right - y;
    default: return y * w + x;
    }
}

/* A TIFF that says an orientation; one of 0 has no such field. */
static struct encoded turned_tiff(const uint8_t *rgb, uint32_t w, uint32_t h, uint8_t orientation)
{
    static const uint8_t field[] = {0x12, 0x01, 3, 0, 1, 0, 0, 0, 1, 0, 0, 0};
    struct encoded tiff = encode_vips(rgb, w, h, 3, 8, ".tif[compression=lzw]");
    uint8_t *at = memmem(tiff.data, tiff.len_bytes, field, sizeof field);
    CHECK(at);
    if (orientation)
        at[8] = orientation;
    else
        at[0] = 0x13; /* a field of no meaning */
    return tiff;
}

/* Proves: a TIFF is turned as it says, the whole and any part of it, and others are not; every cut of one is
 * refused. */
static void test_turned(void **state)
{
    (void)state;
    const uint32_t w = 31, h = 19;
    uint8_t *rgb = picture(w, h, 3, 6);
    uint8_t *turned = xmalloc((size_t)w * h * 3);
    for (uint32_t orientation = 0; orientation <= 9; orientation++) {
        bool sideways = orientation >= 5 && orientation <= 8;
        uint32_t seen_w = sideways ? h : w, seen_h = sideways ? w : h;
        for (uint32_t i = 0; i < w * h; i++)
            memcpy(turned + (size_t)i * 3, rgb + (size_t)turned_from(orientation, i % seen_w, i / seen_w, w, h) * 3, 3);
        check_whole("tiff, turned", turned_tiff(rgb, w, h, (uint8_t)orientation), turned, seen_w, seen_h, 3);
        struct encoded tiff = turned_tiff(rgb, w, h, (uint8_t)orientation);
        struct made made = prepare(&tiff, center_crop(7, 5), 0); /* Python's round of what is left, halved */
        uint32_t left = (uint32_t)lrint((seen_w - 7) / 2.0), top = (uint32_t)lrint((seen_h - 5) / 2.0);
        assert_int_equal(made.rc, 0);
        for (uint32_t y = 0; y < 5; y++)
            assert_memory_equal(made.pixels + (size_t)y * 7 * 3, turned + ((size_t)(top + y) * seen_w + left) * 3, 21);
        free(made.pixels);
        encoded_free(&tiff);
    }
    struct encoded tiff = turned_tiff(rgb, w, h, 6);
    for (size_t len = 0; len < tiff.len_bytes; len++) {
        struct encoded cut = {memcpy(xmalloc(len + 1), tiff.data, len), len};
        struct made made = prepare(&cut, center_crop(h, w), 0);
        assert_int_equal(made.rc, LARDER_EFORMAT);
        free(made.pixels);
        encoded_free(&cut);
    }
    encoded_free(&tiff);
    free(turned), free(rgb);
}

/* Proves: a palette PNG comes out as the palette's colours (which libvips' quantiser may have moved
 * by a level or two). */
static void test_palette(void **state)
{
    (void)state;
    const uint32_t w = 40, h = 30;
    static const uint8_t colors[4][3] = {{255, 0, 0}, {0, 200, 10}, {3, 2, 240}, {90, 90, 90}};
    uint8_t *rgb = xmalloc((size_t)w * h * 3);
    for (uint32_t i = 0; i < w * h; i++)
        memcpy(rgb + (size_t)i * 3, colors[(i / 10 + i / w) % 4], 3);
    struct encoded encoded = encode_vips(rgb, w, h, 3, 8, ".png[palette,dither=0,effort=1]");
    assert_int_equal(encoded.data[25], 3); /* the header's colour type: palette */
    struct made made = prepare(&encoded, center_crop(w, h), 0);
    assert_int_equal(made.rc, 0);
    for (size_t i = 0; i < (size_t)w * h * 3; i++)
        assert_in_range(made.pixels[i] + 2, rgb[i], rgb[i] + 4);
    free(made.pixels);
    encoded_free(&encoded);
    free(rgb);
}

/* Proves: JPEGs of every kind come out as libjpeg's own full decode, EXIF orientation not applied. */
static void test_jpeg_forms(void **state)
{
    (void)state;
    static const struct jpeg_form forms[] = {
        {3, 1, 1, false, 90, 0, 0}, {3, 2, 1, false, 90, 0, 0}, {3, 2, 2, false, 80, 0, 6}, {3, 1, 2, false, 80, 1, 0},
        {3, 4, 1, false, 80, 0, 0}, {3, 2, 2, true, 75, 0, 3},  {1, 1, 1, false, 90, 0, 0}, {1, 1, 1, true, 90, 0, 8},
    };
    const uint32_t w = 101, h = 67;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        uint8_t *pixels = picture(w, h, (unsigned)forms[i].components, i);
        struct encoded encoded = encode_jpeg(pixels, w, h, &forms[i]);
        uint32_t width, height;
        uint8_t *expected = decode_plain(&encoded, &width, &height);
        check_whole("jpeg", encoded, expected, width, height, 3);
        free(expected);
        free(pixels);
    }
}

/* Proves: what is no image has no size, with the reason, and does not keep the next one from having one. */
static void test_no_size(void **state)
{
    (void)state;
    struct image_size size = {.width = 7};
    struct error err;
    assert_int_equal(prepare_size(scratch, "no image at all", 15, &size, &err), LARDER_EFORMAT);
    assert_true(err.text[0]);
    assert_int_equal(prepare_size(scratch, "", 0, &size, &err), LARDER_EFORMAT);
    assert_int_equal(size.width, 7);
    assert_int_equal(prepare_size(scratch, "P5 3 2 255 abcdef", 17, &size, &err), 0);
    assert_int_equal(size.width, 3);
    assert_int_equal(size.height, 2);
}

/* Proves: a CMYK JPEG, as Adobe writes it, comes out near the RGB it was made from. */
static void test_cmyk(void **state)
{
    (void)state;
    const uint32_t w = 64, h = 48;
    uint8_t *cmyk = xmalloc((size_t)w * h * 4);
    for (uint32_t y = 0; y < h; y++) {
        for (uint32_t x = 0; x < w; x++) { /* inverted: 255 is no ink */
            uint8_t pixel[4] = {(uint8_t)(x * 4), (uint8_t)(y * 5), 200, 255};
            memcpy(cmyk + ((size_t)y * w + x) * 4, pixel, 4);
        }
    }
    struct encoded encoded = encode_jpeg(cmyk, w, h,
                                         &(struct jpeg_form){.components = 4, .h_samp = 1, .v_samp = 1, .quality = 95});
    struct made made = prepare(&encoded, center_crop(w, h), 0);
    assert_int_equal(made.rc, 0);
    for (uint32_t i = 0; i < w * h; i++) {
        for (int c = 0; c < 3; c++)
            assert_in_range(made.pixels[i * 3 + (uint32_t)c] + 12, cmyk[i * 4 + (uint32_t)c],
                            cmyk[i * 4 + (uint32_t)c] + 24);
    }
    free(made.pixels);
    free(cmyk);
    encoded_free(&encoded);
}

static unsigned threads(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* Proves: decoding starts no threads, whatever the format. Runs first, before anything in this
 * process writes an image. */
static void test_no_threads(void **state)
{
    (void)state;
    static const char *const suffixes[] = {".png", ".png[interlace]", ".webp", ".webp[lossless]",
                                           ".tif", ".tif[tile]",      ".gif"};
    uint8_t *rgb = picture(320, 240, 3, 5);
    unsigned before = threads();
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        struct encoded encoded = encode_vips_apart(rgb, 320, 240, 3, 8, suffixes[i]);
        struct made made = prepare(&encoded, "[{\"random_resized_crop\": {\"size\": 224}}]", 1);
        assert_int_equal(made.rc, 0);
        assert_int_equal(threads(), before);
        free(made.pixels);
        encoded_free(&encoded);
    }
    free(rgb);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_threads), cmocka_unit_test(test_lossless_forms), cmocka_unit_test(test_plain_forms),
        cmocka_unit_test(test_turned),     cmocka_unit_test(test_palette),        cmocka_unit_test(test_jpeg_forms),
        cmocka_unit_test(test_cmyk),       cmocka_unit_test(test_no_size),
    };
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
