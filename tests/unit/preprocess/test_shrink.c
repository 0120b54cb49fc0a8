/* test_shrink.c: a shrunk image has the wanted size, the pixels of a Lanczos resize of what the daemon decodes, and
 * of Exif the orientation. Restart markers change no pixel. What is small enough, and what cannot be decoded, is told
 * apart and left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <cmocka.h>

#include "prepare_fixture.h"
#include "preprocess/decode/exif.h"
#include "preprocess/shrink.h"

static struct shrunk shrink_well(const struct encoded *image, struct shrinking how)
{
    struct shrunk out;
    struct error err;
    if (shrink(&limits, &how, image->data, image->len_bytes, &out, &err))
        fail_msg("%s", err.text);
    return out;
}

static struct jpeg_decompress_struct header_of(const uint8_t *bytes, size_t len_bytes)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, bytes, len_bytes);
    jpeg_read_header(&cinfo, TRUE);
    struct jpeg_decompress_struct header = cinfo;
    jpeg_destroy_decompress(&cinfo);
    return header;
}

/* Proves: the longer side is max_side, whichever it is, and the other one the nearest to the same shape. */
static void test_sizes(void **state)
{
    (void)state;
    static const struct jpeg_form form = {3, 2, 2, false, 80, 0, 0};
    static const struct {
        uint32_t width, height, max_side, to_width, to_height;
    } cases[] = {{500, 375, 256, 256, 192}, {375, 500, 256, 192, 256}, {301, 200, 100, 100, 66},
                 {299, 200, 100, 100, 67},  {400, 1, 100, 100, 1},     {33, 33, 32, 32, 32},
                 {64, 48, 1, 1, 1},         {999, 2, 10, 10, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t *pixels = picture(cases[i].width, cases[i].height, 3, i);
        struct encoded jpeg = encode_jpeg(pixels, cases[i].width, cases[i].height, &form);
        struct shrunk out = shrink_well(&jpeg, (struct shrinking){.max_side = cases[i].max_side, .quality = 90});
        assert_int_equal(out.outcome, SHRUNK_MADE);
        struct jpeg_decompress_struct header = header_of(out.bytes, out.len_bytes);
        assert_int_equal(header.image_width, cases[i].to_width);
        assert_int_equal(header.image_height, cases[i].to_height);
        free(out.bytes);
        encoded_free(&jpeg);
        free(pixels);
    }
}

static double mean_difference(const uint8_t *a, const uint8_t *b, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] > b[i] ? a[i] - b[i] : b[i] - a[i];
    return sum / (double)count;
}

/* Proves: colour, grey, CMYK and progressive JPEGs, PNG with alpha, 16 bits, WebP and TIFF become what the daemon's
 * own decode and a Lanczos resize make of them, but for what JPEG loses at quality 100. */
static void test_pixels(void **state)
{
    (void)state;
    static const struct {
        unsigned bands;
        int bits;
        const char *suffix; /* NULL: a JPEG of this form */
        struct jpeg_form form;
    } cases[] = {
        {3, 8, NULL, {3, 1, 1, false, 95, 0, 0}},
        {1, 8, NULL, {1, 1, 1, false, 95, 0, 0}},
        {4, 8, NULL, {4, 1, 1, false, 95, 0, 0}},
        {3, 8, NULL, {3, 2, 2, true, 95, 0, 6}},
        {4, 8, ".png", {0}},
        {1, 8, ".png", {0}},
        {3, 16, ".png", {0}},
        {3, 8, ".webp[lossless]", {0}},
        {3, 8, ".tif[compression=lzw]", {0}},
    };
    const char *pipeline = "[{\"resize\": {\"size\": [45, 60], \"interpolation\": \"lanczos\"}}]";
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t width, height;
        uint8_t *pixels = picture(160, 120, cases[i].bands * (cases[i].bits == 16 ? 2 : 1), 40 + i);
        struct encoded image = cases[i].suffix
                                   ? encode_vips(pixels, 160, 120, cases[i].bands, cases[i].bits, cases[i].suffix)
                                   : encode_jpeg(pixels, 160, 120, &cases[i].form);
        struct made expected = prepare(&image, pipeline, 0);
        assert_int_equal(expected.rc, 0);
        struct shrunk out = shrink_well(&image, (struct shrinking){.max_side = 60, .quality = 100});
        assert_int_equal(out.outcome, SHRUNK_MADE);
        struct encoded made = {out.bytes, out.len_bytes};
        struct jpeg_decompress_struct header = header_of(out.bytes, out.len_bytes);
        assert_int_equal(header.num_components, cases[i].bands == 1 ? 1 : 3);
        uint8_t *got = decode_plain(&made, &width, &height);
        assert_true(width == 60 && height == 45);
        /* of grey only rounding is lost; of colours also half of their resolution */
        assert_true(mean_difference(got, expected.pixels, 60 * 45 * 3) < (cases[i].bands == 1 ? 0.5 : 12));
        for (size_t p = 0; cases[i].bands == 1 && p < 60 * 45 * 3; p++)
            assert_in_range(got[p] + 2 - expected.pixels[p], 0, 4);
        free(got);
        free(out.bytes);
        free(expected.pixels);
        encoded_free(&image);
        free(pixels);
    }
}

/* Proves: the same bytes come again; a lower quality makes fewer; with restart markers every pixel is the same. */
static void test_markers(void **state)
{
    (void)state;
    static const struct jpeg_form form = {3, 2, 2, false, 90, 0, 0};
    uint8_t *pixels = picture(640, 480, 3, 3);
    struct encoded jpeg = encode_jpeg(pixels, 640, 480, &form);
    struct shrinking how = {.max_side = 300, .quality = 90};
    struct shrunk plain = shrink_well(&jpeg, how), again = shrink_well(&jpeg, how);
    assert_int_equal(plain.len_bytes, again.len_bytes);
    assert_memory_equal(plain.bytes, again.bytes, plain.len_bytes);
    assert_int_equal(header_of(plain.bytes, plain.len_bytes).restart_interval, 0);
    struct shrunk lower = shrink_well(&jpeg, (struct shrinking){.max_side = 300, .quality = 40});
    assert_true(lower.len_bytes < plain.len_bytes);
    uint32_t width, height;
    struct encoded made = {plain.bytes, plain.len_bytes};
    uint8_t *expected = decode_plain(&made, &width, &height);
    for (how.restart_mcus = 1; how.restart_mcus < 100; how.restart_mcus *= 4) {
        struct shrunk marked = shrink_well(&jpeg, how);
        made = (struct encoded){marked.bytes, marked.len_bytes};
        uint8_t *got = decode_plain(&made, &width, &height);
        assert_memory_equal(got, expected, (size_t)width * height * 3);
        uint32_t across = (300 + 15) / 16;
        assert_int_equal(header_of(marked.bytes, marked.len_bytes).restart_interval,
                         how.restart_mcus < across ? how.restart_mcus : across);
        free(got);
        free(marked.bytes);
    }
    free(expected);
    free(plain.bytes);
    free(again.bytes);
    free(lower.bytes);
    encoded_free(&jpeg);
    free(pixels);
}

/* Proves: an image with no side above max_side is left alone; so is what cannot be decoded, and then it says why. */
static void test_left_alone(void **state)
{
    (void)state;
    static const struct jpeg_form form = {3, 2, 2, false, 90, 0, 0};
    uint8_t *pixels = picture(100, 80, 3, 3);
    struct encoded jpeg = encode_jpeg(pixels, 100, 80, &form);
    struct shrinking how = {.max_side = 100, .quality = 90};
    struct shrunk out = shrink_well(&jpeg, how);
    assert_int_equal(out.outcome, SHRUNK_NOT);
    assert_null(out.bytes);
    how.max_side = 99;
    for (size_t cut = 1; cut < jpeg.len_bytes; cut += 97) {
        struct encoded part = {jpeg.data, jpeg.len_bytes - cut};
        out = shrink_well(&part, how);
        assert_int_equal(out.outcome, SHRUNK_UNDECODED);
        assert_null(out.bytes);
        assert_true(out.why.text[0]);
    }
    struct prepare_limits few = limits;
    few.pixels_max = 100;
    assert_int_equal(shrink(&few, &how, jpeg.data, jpeg.len_bytes, &out, NULL), 0);
    assert_int_equal(out.outcome, SHRUNK_UNDECODED);
    few = limits;
    few.memory_max = 1000;
    assert_int_equal(shrink(&few, &how, jpeg.data, jpeg.len_bytes, &out, NULL), LARDER_ENOMEM);
    encoded_free(&jpeg);
    free(pixels);
}

/* Proves: the orientation is read in both orders of bytes and written again; upright images get no Exif; and no bytes
 * make reading it leave them. */
static void test_orientation(void **state)
{
    (void)state;
    uint8_t *pixels = picture(64, 48, 3, 1);
    for (uint8_t orientation = 0; orientation <= 9; orientation++) {
        struct jpeg_form form = {3, 2, 2, false, 80, 0, orientation};
        struct encoded jpeg = encode_jpeg(pixels, 64, 48, &form);
        uint32_t expected = orientation >= 1 && orientation <= 8 ? orientation : EXIF_UPRIGHT;
        assert_int_equal(exif_orientation(jpeg.data, jpeg.len_bytes), expected);
        struct shrunk out = shrink_well(&jpeg, (struct shrinking){.max_side = 32, .quality = 80});
        assert_int_equal(exif_orientation(out.bytes, out.len_bytes), expected);
        assert_int_equal(memmem(out.bytes, out.len_bytes, "Exif", 4) != NULL, expected != EXIF_UPRIGHT);
        for (size_t len = 0; len < 100; len++) { /* at the end of its memory, so that a sanitizer sees a read past it */
            uint8_t *cut = malloc(len + 1);
            assert_non_null(cut);
            memcpy(cut + 1, jpeg.data, len);
            assert_in_range(exif_orientation(cut + 1, len), 1, 8);
            free(cut);
        }
        free(out.bytes);
        encoded_free(&jpeg);
    }
    free(pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),      cmocka_unit_test(test_pixels),      cmocka_unit_test(test_markers),
        cmocka_unit_test(test_left_alone), cmocka_unit_test(test_orientation),
    };
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
