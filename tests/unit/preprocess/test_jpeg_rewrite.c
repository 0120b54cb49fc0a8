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
#include "preprocess/decode/exif.h"
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

/* A copy with `len` bytes put in at `at`. */
static struct encoded insert(const struct encoded *jpeg, size_t at, const void *bytes, size_t len)
{
    struct encoded copy = {malloc(jpeg->len_bytes + len), jpeg->len_bytes + len};
    assert_non_null(copy.data);
    memcpy(copy.data, jpeg->data, at);
    memcpy(copy.data + at, bytes, len);
    memcpy(copy.data + at + len, jpeg->data + at, jpeg->len_bytes - at);
    return copy;
}

/* Proves: the orientation stays what it was for whoever reads it, also where libjpeg finds an Exif segment that others
 * do not: between two scans, and after a marker that no segment follows. */
static void test_orientation(void **state)
{
    (void)state;
    static const struct jpeg_form form = {3, 2, 2, true, 80, 0, 0};
    uint8_t *pixels = picture(64, 48, 3, 1), exif[2 + EXIF_BYTES + 4] = {0xff, 0x01, 0xff, 0xe1, 0, EXIF_BYTES + 2};
    exif_put(6, exif + 6);
    struct encoded jpeg = encode_jpeg(pixels, 64, 48, &form);
    struct encoded cases[] = {insert(&jpeg, last_scan(&jpeg), exif + 2, sizeof exif - 2),
                              insert(&jpeg, 2, exif, sizeof exif), insert(&jpeg, 2, exif + 2, sizeof exif - 2)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct encoded made = rewritten(&cases[i], 4);
        assert_int_equal(exif_orientation(cases[i].data, cases[i].len_bytes), i == 2 ? 6 : EXIF_UPRIGHT);
        assert_true(made.data || i < 2);
        if (made.data)
            assert_int_equal(exif_orientation(made.data, made.len_bytes),
                             exif_orientation(cases[i].data, cases[i].len_bytes));
        encoded_free(&made);
        encoded_free(&cases[i]);
    }
    encoded_free(&jpeg);
    free(pixels);
}

static size_t put(uint8_t *to, const void *bytes, size_t len)
{
    memcpy(to, bytes, len);
    return len;
}

/* Proves: what libjpeg reads and our own reader leaves to it is rewritten all the same: fill bytes before a marker, and
 * a segment behind the scan. */
static void test_odd_ends(void **state)
{
    (void)state;
    static const struct jpeg_form form = {3, 2, 2, false, 80, 0, 0};
    static const char *const ends[] = {"\xff\xff\xff\xd9", "\xff\xfe\0\4hi\xff\xd9"};
    static const size_t lengths[] = {4, 8};
    uint8_t *pixels = picture(97, 61, 3, 1);
    struct encoded jpeg = encode_jpeg(pixels, 97, 61, &form), expected = rewritten(&jpeg, 4);
    assert_non_null(expected.data);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct encoded odd = {malloc(jpeg.len_bytes + lengths[i]), jpeg.len_bytes - 2 + lengths[i]};
        assert_non_null(odd.data);
        memcpy(odd.data, jpeg.data, jpeg.len_bytes);
        memcpy(odd.data + jpeg.len_bytes - 2, ends[i], lengths[i]);
        struct encoded made = rewritten(&odd, 4);
        assert_non_null(made.data);
        assert_int_equal(made.len_bytes, expected.len_bytes);
        assert_memory_equal(made.data, expected.data, made.len_bytes);
        encoded_free(&made);
        encoded_free(&odd);
    }
    encoded_free(&expected);
    encoded_free(&jpeg);
    free(pixels);
}

/* Proves: where libjpeg gives up after much was written (Exif's segment, then a coefficient that no encoder takes), the
 * original is kept and memory is freed once. */
static void test_given_up(void **state)
{
    (void)state;
    static const uint8_t exif[] = "\xff\xd8\xff\xe1\xff\xff"
                                  "Exif",
                         quantisation[] = {0xff, 0xdb, 0, 67, 0, [5 ... 68] = 1},
                         frame[] = {0xff, 0xc0, 0, 11, 8, 0, 8, 0, 8, 1, 1, 0x11, 0},
                         dc[] = {0xff, 0xc4, 0, 20, 0x00, 1, [21] = 15}, ac[] = {0xff, 0xc4, 0, 20, 0x10, 1, [21] = 0},
                         scan[] = {0xff, 0xda, 0, 8, 1, 1, 0, 0, 63, 0, 0x40, 0x00, 0x7f, 0xff, 0xd9};
    size_t len = 4 + 0xffff;
    struct encoded jpeg = {calloc(1, len + 1000), 0};
    assert_non_null(jpeg.data);
    put(jpeg.data, exif, sizeof exif - 1);
    len += put(jpeg.data + len, quantisation, sizeof quantisation);
    len += put(jpeg.data + len, frame, sizeof frame);
    len += put(jpeg.data + len, dc, sizeof dc);
    len += put(jpeg.data + len, ac, sizeof ac);
    jpeg.len_bytes = len + put(jpeg.data + len, scan, sizeof scan);
    uint32_t width, height;
    free(decode_plain(&jpeg, &width, &height));
    assert_true(width == 8 && height == 8);
    assert_null(rewritten(&jpeg, 4).data);
    encoded_free(&jpeg);
}

struct bits {
    uint8_t *to;
    size_t len; /* bits */
};

static void put_bits(struct bits *bits, uint32_t value, uint32_t count)
{
    for (; count; count--, bits->len++)
        bits->to[bits->len / 8] |= (uint8_t)((value >> (count - 1) & 1) << (7 - bits->len % 8));
}

/* Puts what stands for a difference of DC coefficients, whose code has 10 bits as 0 and 11 bits as 10. */
static void put_dc(struct bits *bits, int difference)
{
    uint32_t size = abs(difference) < 1024 ? 10 : 11;
    put_bits(bits, size == 10 ? 0 : 2, size - 9);
    put_bits(bits, (uint32_t)(difference < 0 ? difference + (1 << size) - 1 : difference), size);
}

/* Puts whole bytes, with a 0 behind each 0xff. */
static size_t put_stuffed(uint8_t *to, const struct bits *bits)
{
    size_t len = 0;
    for (size_t i = 0; i < (bits->len + 7) / 8; i++) {
        to[len++] = bits->to[i];
        len += bits->to[i] == 0xff;
    }
    return len;
}

/* A grey JPEG, `count` blocks wide, of DC coefficients with these differences. */
static struct encoded write_dc(const int *differences, uint32_t count, bool progressive)
{
    static const uint8_t start[] = {0xff, 0xd8}, quantisation[] = {0xff, 0xdb, 0, 67, 0, [5 ... 68] = 9},
                         dc[] = {0xff, 0xc4, 0, 21, 0x00, 1, 1, [21] = 10, 11},
                         ac[] = {0xff, 0xc4, 0, 20, 0x10, 1, [21] = 0};
    const uint8_t frame[] = {0xff, progressive ? 0xc2 : 0xc0, 0, 11, 8, 0, 8, 0, (uint8_t)(8 * count), 1, 1, 0x11, 0},
                  scan[] = {0xff, 0xda, 0, 8, 1, 1, 0, 0, progressive ? 0 : 63, 0},
                  ac_scan[] = {0xff, 0xda, 0, 8, 1, 1, 0, 1, 63, 0};
    struct encoded jpeg = {calloc(1, 1000), 0};
    assert_non_null(jpeg.data);
    jpeg.len_bytes = put(jpeg.data, start, sizeof start);
    jpeg.len_bytes += put(jpeg.data + jpeg.len_bytes, quantisation, sizeof quantisation);
    jpeg.len_bytes += put(jpeg.data + jpeg.len_bytes, frame, sizeof frame);
    jpeg.len_bytes += put(jpeg.data + jpeg.len_bytes, dc, sizeof dc);
    jpeg.len_bytes += put(jpeg.data + jpeg.len_bytes, ac, sizeof ac);
    jpeg.len_bytes += put(jpeg.data + jpeg.len_bytes, scan, sizeof scan);
    uint8_t room[100] = {0};
    struct bits bits = {room, 0};
    for (uint32_t i = 0; i < count; i++) {
        put_dc(&bits, differences[i]);
        put_bits(&bits, 0, !progressive); /* the block ends */
    }
    jpeg.len_bytes += put_stuffed(jpeg.data + jpeg.len_bytes, &bits);
    if (progressive) {
        jpeg.len_bytes += put(jpeg.data + jpeg.len_bytes, ac_scan, sizeof ac_scan);
        jpeg.len_bytes += (count + 7) / 8; /* each block ends at once */
    }
    jpeg.len_bytes += put(jpeg.data + jpeg.len_bytes, "\xff\xd9", 2);
    return jpeg;
}

/* Proves: whether a JPEG whose DC coefficients leave their range is rewritten does not depend on where segments begin:
 * it never is, progressive or not, in planes or not. One whose coefficients are at the range's ends is. */
static void test_dc_range(void **state)
{
    (void)state;
    static const struct {
        int differences[4];
        uint32_t count;
        bool fits;
    } cases[] = {{{1023, -2047, 2047, -2047}, 4, true}, {{-1024, 2047, -1023}, 3, true}, {{1500, 600}, 2, false},
                 {{600, 600, 600, 600}, 4, false},      {{1024, -1024}, 2, false},       {{-513, -512}, 2, false}};
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct encoded jpeg = write_dc(cases[i / 2].differences, cases[i / 2].count, i % 2);
        struct encoded planes = {0}, rows[] = {rewritten(&jpeg, 1), rewritten(&jpeg, 2), rewritten(&jpeg, 8)};
        uint32_t width, height;
        uint8_t *expected = decode_plain(&jpeg, &width, &height);
        planes.data = jpeg_rewrite_in_planes(jpeg.data, jpeg.len_bytes, &planes.len_bytes);
        assert_int_equal(planes.data != NULL, cases[i / 2].fits);
        for (size_t r = 0; r < 3; r++) {
            assert_int_equal(rows[r].data != NULL, cases[i / 2].fits);
            uint8_t *got = cases[i / 2].fits ? decode_plain(&rows[r], &width, &height) : NULL;
            if (got)
                assert_memory_equal(got, expected, (size_t)width * height * 3);
            free(got);
            encoded_free(&rows[r]);
        }
        free(expected);
        encoded_free(&planes);
        encoded_free(&jpeg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal),       cmocka_unit_test(test_exif),     cmocka_unit_test(test_kept),
        cmocka_unit_test(test_orientation), cmocka_unit_test(test_odd_ends), cmocka_unit_test(test_given_up),
        cmocka_unit_test(test_dc_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
