/* test_jpeg_rewrite.c: a JPEG that was written again has the pixels of the original, and a crop of it can be decoded
 * from a part. What cannot be rewritten without loss is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <cmocka.h>

#include "images.h"
#include "preprocess/decode/jpeg_rewrite.h"

static struct encoded rewritten(const struct encoded *jpeg, uint32_t wanted)
{
    struct encoded made = {0};
    made.data = jpeg_rewrite(jpeg->data, jpeg->len_bytes, wanted, &made.len_bytes);
    return made;
}

/* The restart interval that the header says. */
static uint32_t interval_of(const struct encoded *jpeg)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, jpeg->data, jpeg->len_bytes);
    jpeg_read_header(&cinfo, TRUE);
    uint32_t interval = cinfo.restart_interval;
    jpeg_destroy_decompress(&cinfo);
    return interval;
}

/* Proves: every pixel is the original's, for each chroma sampling, grey, odd sizes and progressive sources, and the
 * segments are as long as was asked for. */
static void test_equal(void **state)
{
    (void)state;
    static const struct jpeg_form forms[] = {
        {3, 1, 1, false, 90, 0, 0}, {3, 2, 1, false, 90, 2, 0}, {3, 2, 2, false, 80, -3, 6}, {3, 1, 2, true, 80, 0, 0},
        {3, 4, 1, false, 80, 0, 0}, {1, 1, 1, true, 90, 0, 0},  {1, 2, 2, false, 90, 0, 0},  {3, 2, 2, true, 80, 0, 0},
    };
    static const uint32_t sizes[][2] = {{320, 240}, {257, 131}, {1, 1}, {17, 200}};
    static const uint32_t wanted[] = {1, 4, 8, 1000};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            uint8_t *pixels = picture(sizes[s][0], sizes[s][1], (unsigned)forms[i].components, i);
            struct encoded jpeg = encode_jpeg(pixels, sizes[s][0], sizes[s][1], &forms[i]);
            uint32_t width, height, other_width, other_height;
            uint8_t *expected = decode_plain(&jpeg, &width, &height);
            for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
                struct encoded made = rewritten(&jpeg, wanted[w]);
                assert_non_null(made.data);
                uint8_t *got = decode_plain(&made, &other_width, &other_height);
                assert_true(width == other_width && height == other_height);
                assert_memory_equal(got, expected, (size_t)width * height * 3);
                uint32_t mcu = 8 * (uint32_t)(forms[i].components > 1 ? forms[i].h_samp : 1);
                uint32_t across = (sizes[s][0] + mcu - 1) / mcu;
                assert_int_equal(interval_of(&made), wanted[w] < across ? wanted[w] : across);
                free(got);
                encoded_free(&made);
            }
            free(expected);
            encoded_free(&jpeg);
            free(pixels);
        }
    }
}

/* Proves: Exif's segment, which tells the orientation, is kept. */
static void test_exif(void **state)
{
    (void)state;
    static const struct jpeg_form form = {3, 2, 2, false, 80, 0, 6};
    uint8_t *pixels = picture(64, 48, 3, 1);
    struct encoded jpeg = encode_jpeg(pixels, 64, 48, &form), made = rewritten(&jpeg, 4);
    assert_non_null(memmem(made.data, made.len_bytes, "Exif\0\0MM", 8));
    encoded_free(&made);
    encoded_free(&jpeg);
    free(pixels);
}

static struct encoded encode_arithmetic(const uint8_t *pixels, uint32_t width, uint32_t height)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    unsigned char *memory = NULL;
    unsigned long len = 0;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &memory, &len);
    cinfo.image_width = width;
    cinfo.image_height = height;
    cinfo.input_components = 3;
    cinfo.in_color_space = JCS_RGB;
    jpeg_set_defaults(&cinfo);
    cinfo.arith_code = TRUE;
    jpeg_start_compress(&cinfo, TRUE);
    for (uint32_t y = 0; y < height; y++) {
        JSAMPROW row = (JSAMPROW)(pixels + (size_t)y * width * 3);
        jpeg_write_scanlines(&cinfo, &row, 1);
    }
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    return (struct encoded){memory, len};
}

static size_t last_scan(const struct encoded *jpeg)
{
    size_t at = 0;
    for (size_t i = 2; i + 1 < jpeg->len_bytes; i++) {
        if (jpeg->data[i] == 0xff && jpeg->data[i + 1] == 0xda)
            at = i;
    }
    return at;
}

/* Proves: CMYK, arithmetic coding, a progressive JPEG that lacks a scan, one that is cut short, one with a wrong bit
 * code and what is no JPEG are kept. */
static void test_kept(void **state)
{
    (void)state;
    static const struct jpeg_form cmyk = {4, 1, 1, false, 80, 0, 0}, plain = {3, 2, 2, false, 80, 0, 0},
                                  progressive = {3, 2, 2, true, 80, 0, 0};
    uint8_t *pixels = picture(120, 90, 4, 2);
    struct encoded cases[6] = {encode_jpeg(pixels, 120, 90, &cmyk),        encode_arithmetic(pixels, 120, 90),
                               encode_jpeg(pixels, 120, 90, &progressive), encode_jpeg(pixels, 120, 90, &plain),
                               encode_jpeg(pixels, 120, 90, &plain),       encode_jpeg(pixels, 120, 90, &plain)};
    size_t scan = last_scan(&cases[2]);
    memcpy(cases[2].data + scan, "\xff\xd9", 2);
    cases[2].len_bytes = scan + 2;
    cases[3].len_bytes -= 200;
    memcpy(cases[4].data + cases[4].len_bytes / 2, "\xff\xd9", 2);
    cases[5].data[1] = 'x';
    for (size_t i = 0; i < 6; i++) {
        struct encoded made = rewritten(&cases[i], 4);
        if (made.data)
            fail_msg("case %zu was rewritten", i);
        encoded_free(&cases[i]);
    }
    free(pixels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_exif),
        cmocka_unit_test(test_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
