/* test_prepare: encoded bytes in, pixels out. Set LARDER_TEST_IMAGES to a folder to run over its JPEGs too. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "common/check.h"
#include "images.h"
#include "preprocess/prepare.h"

static const struct prepare_limits limits = {.pixels_max = 4000000, .scans_max = 64};
static struct prepare_scratch *scratch;

struct made {
    int rc;
    enum bad_reason reason;
    struct error err;
    uint8_t *pixels;
    uint64_t bytes;
};

static struct pipeline *parse(const char *json)
{
    struct pipeline *pipeline = NULL;
    struct error err = {0};
    if (pipeline_parse(json, strlen(json), &pipeline, &err))
        fail_msg("%s: %s", json, err.text);
    return pipeline;
}

static struct made prepare(const struct encoded *encoded, const char *json, uint64_t instance)
{
    struct pipeline *pipeline = parse(json);
    struct made made = {.bytes = pipeline_shape(pipeline).bytes};
    made.pixels = xmalloc(made.bytes);
    struct prepare_output output = {.pipeline = pipeline, .key = {1, 2, instance}, .dst = made.pixels};
    made.rc = prepare_sample(scratch, encoded->data, encoded->len_bytes, &output, 1, &made.reason, &made.err);
    pipeline_unref(&pipeline);
    return made;
}

static const char *center_crop(uint32_t width, uint32_t height)
{
    static char json[96];
    snprintf(json, sizeof json, "[{\"center_crop\": {\"size\": [%u, %u]}}]", height, width);
    return json;
}

/* The whole image through prepare_sample equals `expected`, `bands` of which the first three (or one) count. */
static void check_whole(const char *what, struct encoded encoded, const uint8_t *expected, uint32_t width, uint32_t height, unsigned bands)
{
    struct made made = prepare(&encoded, center_crop(width, height), 0);
    if (made.rc)
        fail_msg("%s: %s", what, made.err.text);
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
    uint8_t *rgb = picture(w, h, 3, 1), *rgba = picture(w, h, 4, 2), *grey = picture(w, h, 1, 3), *grey_alpha = picture(w, h, 2, 4);
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

static void check_bytes(const char *what, const char *bytes, size_t len, const uint8_t *expected, uint32_t width, uint32_t height)
{
    struct encoded encoded = {memcpy(xmalloc(len), bytes, len), len};
    check_whole(what, encoded, expected, width, height, 3);
}

/* Proves: BMP and binary PNM, rows up or down, with palette or without, come out as their pixels; and every cut of one is
 * refused. */
static void test_plain_forms(void **state)
{
    (void)state;
    static const char pbm[] = "P4 3 2\n\x40\xa0", pgm[] = "P5\n#x\n2 1\n100\n\x32\x64", ppm[] = "P6 1 2 255\nabcdef";
    static const char wide[] = "P5 2 1 1000\n\x01\xf4\x03\xe8";
    /* Offset of the pixels, size of the header, width; then what varies; then resolution and colours. */
#define BMP_START(height, bits, colors)                                                                                               \
    "BM\0\0\0\0\0\0\0\0\x3e\0\0\0\x28\0\0\0\x02\0\0\0" height "\x01\0" bits "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0" colors "\0\0\0\0\0\0\0"
    static const char up[] = BMP_START("\x02\0\0\0", "\x18", "\0") "12345678abcdef\0\0ghijkl\0\0";
    static const char down[] = BMP_START("\xfe\xff\xff\xff", "\x18", "\0") "12345678abcdef\0\0ghijkl\0\0";
    static const char palette[] = BMP_START("\x01\0\0\0", "\x01", "\x02") "\1\2\3\0\4\5\6\0\x40\0\0\0";
    check_bytes("pbm", pbm, sizeof pbm - 1, (const uint8_t[]){255, 255, 255, 0, 0, 0, 255, 255, 255, 0, 0, 0, 255, 255, 255, 0, 0, 0}, 3, 2);
    check_bytes("pgm", pgm, sizeof pgm - 1, (const uint8_t[]){128, 128, 128, 255, 255, 255}, 2, 1);
    check_bytes("ppm", ppm, sizeof ppm - 1, (const uint8_t *)"abcdef", 1, 2);
    check_bytes("pgm 16", wide, sizeof wide - 1, (const uint8_t[]){128, 128, 128, 255, 255, 255}, 2, 1);
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

/* Proves: a palette PNG comes out as the palette's colours (which libvips' quantiser may have moved by a level or two). */
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
    struct encoded encoded = encode_jpeg(cmyk, w, h, &(struct jpeg_form){.components = 4, .h_samp = 1, .v_samp = 1, .quality = 95});
    struct made made = prepare(&encoded, center_crop(w, h), 0);
    assert_int_equal(made.rc, 0);
    for (uint32_t i = 0; i < w * h; i++) {
        for (int c = 0; c < 3; c++)
            assert_in_range(made.pixels[i * 3 + (uint32_t)c] + 12, cmyk[i * 4 + (uint32_t)c], cmyk[i * 4 + (uint32_t)c] + 24);
    }
    free(made.pixels);
    free(cmyk);
    encoded_free(&encoded);
}

/* What a regional decode and the fused geometry give equals what the same pipeline makes of the whole, decoded image. */
static void compare_regional(const struct encoded *image, const uint8_t *pixels, uint32_t width, uint32_t height, const char *name)
{
    static const char *const pipelines[] = {
        "[{\"random_resized_crop\": {\"size\": 64}}, \"random_horizontal_flip\"]",
        "[{\"random_resized_crop\": {\"size\": [33, 70], \"scale\": [0.01, 0.2], \"interpolation\": \"bicubic\"}}, \"random_vertical_flip\"]",
        "[{\"resize\": {\"size\": 80}}, {\"center_crop\": {\"size\": 64}}]",
        "[{\"center_crop\": {\"size\": [51, 37]}}, {\"random_horizontal_flip\": {\"p\": 1}}]",
        "[{\"center_crop\": {\"size\": [7, 1]}}]",
        "[{\"center_crop\": {\"size\": 2000}}, {\"resize\": {\"size\": 50}}]",
    };
    struct encoded png = encode_vips(pixels, width, height, 3, 8, ".png[compression=0]");
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        for (uint64_t instance = 0; instance < 12; instance++) {
            struct made a = prepare(image, pipelines[i], instance), b = prepare(&png, pipelines[i], instance);
            if (a.rc || b.rc)
                fail_msg("%s: %s %s", name, a.err.text, b.err.text);
            if (memcmp(a.pixels, b.pixels, a.bytes) != 0)
                fail_msg("%s: %s instance %d differs between regional and full decode", name, pipelines[i], (int)instance);
            free(a.pixels);
            free(b.pixels);
        }
    }
    encoded_free(&png);
}

static void check_regional(const struct encoded *jpeg, const char *name)
{
    uint32_t width, height;
    uint8_t *pixels = decode_plain(jpeg, &width, &height);
    compare_regional(jpeg, pixels, width, height, name);
    free(pixels);
}

/* Proves: decoding only what a crop needs changes no pixel, for every kind of chroma sampling, odd sizes included. */
static void test_regional(void **state)
{
    (void)state;
    static const struct jpeg_form forms[] = {
        {3, 1, 1, false, 90, 0, 0}, {3, 2, 1, false, 90, 0, 0}, {3, 2, 2, false, 80, 0, 0}, {3, 1, 2, false, 80, 0, 0},
        {3, 4, 1, false, 80, 0, 0}, {3, 2, 2, true, 75, 0, 0},  {3, 2, 1, true, 75, 0, 0},  {3, 2, 2, false, 80, 1, 0},
        {1, 1, 1, false, 90, 0, 0}, {3, 4, 2, false, 80, 0, 0}, {3, 1, 1, true, 75, 0, 0},
    };
    static const uint32_t sizes[][2] = {{160, 120}, {97, 131}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        for (size_t s = 0; s < 2; s++) {
            uint8_t *pixels = picture(sizes[s][0], sizes[s][1], (unsigned)forms[i].components, i);
            struct encoded jpeg = encode_jpeg(pixels, sizes[s][0], sizes[s][1], &forms[i]);
            char name[64];
            snprintf(name, sizeof name, "form %zu size %zu", i, s);
            check_regional(&jpeg, name);
            encoded_free(&jpeg);
            free(pixels);
        }
    }
}

/* Proves: the same for WebP, lossy (whose chroma is halved too) and lossless. */
static void test_regional_webp(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{160, 120}, {97, 131}, {1, 1}, {2, 37}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint8_t *pixels = picture(sizes[s][0], sizes[s][1], 3, s);
        for (int lossless = 0; lossless < 2; lossless++) {
            struct encoded webp = encode_vips(pixels, sizes[s][0], sizes[s][1], 3, 8, lossless ? ".webp[lossless]" : ".webp[Q=70]");
            struct made whole = prepare(&webp, center_crop(sizes[s][0], sizes[s][1]), 0);
            assert_int_equal(whole.rc, 0);
            compare_regional(&webp, whole.pixels, sizes[s][0], sizes[s][1], "webp");
            free(whole.pixels);
            encoded_free(&webp);
        }
        free(pixels);
    }
}

/* Proves: images of one pixel in some direction are no special case. */
static void test_tiny(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1}, {1, 400}, {400, 1}, {2, 3}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint8_t *pixels = picture(sizes[s][0], sizes[s][1], 3, s);
        struct encoded jpeg = encode_jpeg(pixels, sizes[s][0], sizes[s][1], &(struct jpeg_form){3, 2, 2, false, 90, 0, 0});
        check_regional(&jpeg, "tiny");
        encoded_free(&jpeg);
        free(pixels);
    }
}

/* Proves: the result depends on bytes, pipeline and key alone: not on what was made before, or beside it. */
static void test_outputs_are_independent(void **state)
{
    (void)state;
    static const char *const json[] = {
        "[{\"random_resized_crop\": {\"size\": 64}}, \"random_horizontal_flip\"]",
        "[{\"resize\": {\"size\": 80}}, {\"center_crop\": {\"size\": 64}}]",
        "[{\"resize\": {\"size\": 80}}, {\"center_crop\": {\"size\": 48}}]",
        "[{\"resize\": {\"size\": 80}}, {\"center_crop\": {\"size\": 64}}, \"random_horizontal_flip\"]",
        "[{\"random_resized_crop\": {\"size\": 64}}, \"random_horizontal_flip\"]",
        "[]",
        "[{\"resize\": {\"size\": 80}}, {\"center_crop\": {\"size\": 64}}]",
    };
    enum { N = sizeof json / sizeof *json };
    uint8_t *pixels = picture(200, 150, 3, 9);
    struct encoded jpeg = encode_jpeg(pixels, 200, 150, &(struct jpeg_form){3, 2, 2, false, 85, 0, 0});
    struct prepare_output outputs[N];
    struct pipeline *pipelines[N];
    for (size_t i = 0; i < N; i++) {
        pipelines[i] = parse(json[i]);
        uint64_t bytes = pipeline_shape(pipelines[i]).bytes;
        outputs[i] = (struct prepare_output){
            .pipeline = pipelines[i], .key = {1, 2, i}, .dst = xmalloc(bytes ? bytes : jpeg.len_bytes)};
    }
    enum bad_reason reason;
    struct error err;
    assert_int_equal(prepare_sample(scratch, jpeg.data, jpeg.len_bytes, outputs, N, &reason, &err), 0);
    for (size_t i = 0; i < N; i++) {
        if (pipeline_shape(pipelines[i]).bytes) {
            struct made alone = prepare(&jpeg, json[i], i);
            assert_int_equal(alone.rc, 0);
            assert_memory_equal(alone.pixels, outputs[i].dst, alone.bytes);
            free(alone.pixels);
        } else {
            assert_memory_equal(outputs[i].dst, jpeg.data, jpeg.len_bytes);
        }
    }
    assert_memory_not_equal(outputs[0].dst, outputs[4].dst, pipeline_shape(pipelines[0]).bytes); /* two instances */
    for (size_t i = 0; i < N; i++) {
        free(outputs[i].dst);
        pipeline_unref(&pipelines[i]);
    }
    encoded_free(&jpeg);
    free(pixels);
}

/* What becomes of each pipeline's output when all are made together is what becomes of it alone: the same pixels, or
 * the same reason in the same words. Gives a bit for each that was made. */
static unsigned check_apart(struct prepare_scratch *with, const struct encoded *encoded, const char *const *json,
                            size_t n)
{
    struct prepare_output outputs[8], alone;
    struct pipeline *pipelines[8];
    struct prepare_counts before = prepare_scratch_counts(with);
    enum bad_reason reason = BAD_NONE, first = BAD_NONE;
    struct error err;
    unsigned made = 0;
    CHECK(n <= 8);
    for (size_t i = 0; i < n; i++) {
        pipelines[i] = parse(json[i]);
        uint64_t bytes = pipeline_shape(pipelines[i]).bytes;
        outputs[i] = (struct prepare_output){
            .pipeline = pipelines[i], .key = {1, 2, i}, .dst = xmalloc(bytes ? bytes : encoded->len_bytes)};
    }
    int rc = prepare_sample(with, encoded->data, encoded->len_bytes, outputs, n, &reason, &err);
    for (size_t i = n; i-- > 0;) {
        made |= (unsigned)(outputs[i].reason == BAD_NONE) << i;
        first = outputs[i].reason ? outputs[i].reason : first;
    }
    assert_int_equal(reason, first);
    assert_int_equal(rc == 0, first == BAD_NONE);
    assert_int_equal(prepare_scratch_counts(with).outputs - before.outputs, __builtin_popcount(made));
    for (size_t i = 0; i < n; i++) {
        uint64_t bytes = pipeline_shape(pipelines[i]).bytes;
        bytes = bytes ? bytes : encoded->len_bytes;
        alone = outputs[i];
        alone.dst = xmalloc(bytes);
        prepare_sample(with, encoded->data, encoded->len_bytes, &alone, 1, &reason, &err);
        assert_int_equal(alone.reason, outputs[i].reason);
        if (alone.reason)
            assert_string_equal(alone.err.text, outputs[i].err.text);
        else
            assert_memory_equal(alone.dst, outputs[i].dst, bytes);
        free(alone.dst);
        free(outputs[i].dst);
        pipeline_unref(&pipelines[i]);
    }
    return made;
}

/* Proves: an output that cannot be made costs no other output anything: be it too large a crop, a part of the image
 * that is damaged, or memory that all together take. Only what is no image at all fails for all, but those that want its
 * bytes as they are. */
static void test_outputs_fail_apart(void **state)
{
    (void)state;
    static const char *const crops[] = {"[{\"random_crop\": {\"size\": 32}}]",
                                        "[{\"resize\": {\"size\": [8, 8]}}]", "[]",
                                        "[{\"random_crop\": {\"size\": 16}}, \"random_horizontal_flip\"]",
                                        "[{\"random_crop\": {\"size\": 40}}]"};
    static const char *const parts[] = {"[{\"resize\": {\"size\": [8, 8]}}]", "[]",
                                        "[{\"center_crop\": {\"size\": [8, 96]}}]",
                                        "[{\"center_crop\": {\"size\": [8, 90]}}, \"random_horizontal_flip\"]"};
    static const char *const sizes[] = {"[{\"center_crop\": {\"size\": 700}}]", "[{\"center_crop\": {\"size\": 64}}]",
                                        "[{\"center_crop\": {\"size\": 300}}, {\"resize\": {\"size\": 290}}]"};
    const struct jpeg_form plain = {3, 1, 1, false, 80, 0, 0};
    uint8_t *pixels = picture(700, 700, 3, 9);
    struct encoded small = encode_jpeg(pixels, 16, 16, &plain), half = encode_jpeg(pixels, 96, 96, &plain);
    struct encoded large = encode_jpeg(pixels, 700, 700, &plain);
    assert_int_equal(check_apart(scratch, &small, crops, 5), 1u << 1 | 1u << 2 | 1u << 3);

    memset(half.data + half.len_bytes * 3 / 4, 0xff, 64); /* a marker where none may be: the lower rows are lost */
    assert_int_equal(check_apart(scratch, &half, parts, 4), 1u << 1 | 1u << 2 | 1u << 3);
    half.data[0] = 0;
    assert_int_equal(check_apart(scratch, &half, parts, 4), 1u << 1);

    struct prepare_limits tight = limits;
    struct prepare_scratch *little;
    tight.memory_max = 700000; /* no decoded image of 700 x 700 has room there, nor have all others together */
    CHECK(prepare_scratch_create(&tight, &little) == 0);
    assert_int_equal(check_apart(little, &large, sizes, 3), 1u << 1 | 1u << 2);
    prepare_scratch_destroy(little);
    encoded_free(&small), encoded_free(&half), encoded_free(&large);
    free(pixels);
}

static double mean_difference(const struct made *a, const struct made *b)
{
    double sum = 0;
    for (uint64_t i = 0; i < a->bytes; i++)
        sum += abs(a->pixels[i] - b->pixels[i]);
    return sum / (double)a->bytes;
}

/* Proves: decoding a JPEG at a fraction, where asked for, gives nearly the same picture in the same place; and the same
 * where there is too little to shrink, or no JPEG. */
static void test_dct_scaling(void **state)
{
    (void)state;
    uint8_t *pixels = picture(640, 480, 3, 3);
    struct encoded jpeg = encode_jpeg(pixels, 640, 480, &(struct jpeg_form){3, 2, 2, false, 90, 0, 0}), png = encode_vips(pixels, 640, 480, 3, 8, ".png");
#define SCALED(size, yes) "[{\"random_resized_crop\": {\"size\": " size ", \"scale\": [0.5, 1], \"dct_scaling\": " yes "}}, \"random_horizontal_flip\"]"
    for (uint64_t instance = 0; instance < 20; instance++) {
        struct made small = prepare(&jpeg, SCALED("40", "false"), instance), scaled = prepare(&jpeg, SCALED("40", "true"), instance);
        struct made elsewhere = prepare(&jpeg, SCALED("40", "false"), instance + 100);
        struct made large = prepare(&jpeg, SCALED("250", "false"), instance), same = prepare(&jpeg, SCALED("250", "true"), instance);
        struct made other = prepare(&png, SCALED("40", "true"), instance), plain = prepare(&png, SCALED("40", "false"), instance);
        assert_true(small.rc == 0 && scaled.rc == 0 && large.rc == 0 && same.rc == 0 && other.rc == 0 && plain.rc == 0);
        double moved = mean_difference(&small, &elsewhere);
        assert_true(mean_difference(&small, &scaled) > 0 && mean_difference(&small, &scaled) < 2 && moved > 10);
        assert_true(mean_difference(&large, &same) == 0 && mean_difference(&other, &plain) == 0);
        free(small.pixels), free(scaled.pixels), free(elsewhere.pixels), free(large.pixels), free(same.pixels), free(other.pixels), free(plain.pixels);
    }
    encoded_free(&jpeg);
    encoded_free(&png);
    free(pixels);
}

/* Proves: long and thin images, up to the longest that JPEG holds, are prepared as others are. */
static void test_long(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{65000, 3}, {3, 65000}, {1, 10000}, {65500, 1}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint8_t *pixels = picture(sizes[s][0], sizes[s][1], 3, s);
        struct encoded jpeg = encode_jpeg(pixels, sizes[s][0], sizes[s][1], &(struct jpeg_form){3, 2, 2, false, 60, 0, 0});
        uint32_t width, height;
        uint8_t *decoded = decode_plain(&jpeg, &width, &height);
        struct encoded png = encode_vips(decoded, width, height, 3, 8, ".png");
        for (uint64_t instance = 0; instance < 6; instance++) {
            const char *json = instance % 2 ? "[{\"random_resized_crop\": {\"size\": 40}}]"
                                            : "[{\"random_crop\": {\"size\": [60, 70], \"pad_if_needed\": true}}, {\"resize\": {\"size\": [9, 200]}}]";
            struct made a = prepare(&jpeg, json, instance), b = prepare(&png, json, instance);
            if (a.rc || b.rc)
                fail_msg("%u x %u: %s%s", width, height, a.err.text, b.err.text);
            assert_memory_equal(a.pixels, b.pixels, a.bytes);
            free(a.pixels);
            free(b.pixels);
        }
        encoded_free(&jpeg);
        encoded_free(&png);
        free(decoded);
        free(pixels);
    }
}

static void check_bad(const char *what, const void *data, size_t len, enum bad_reason want, int code)
{
    struct encoded encoded = {(uint8_t *)data, len};
    struct made made = prepare(&encoded, "[{\"random_resized_crop\": {\"size\": 32, \"scale\": [0.9, 1]}}]", 3);
    if (made.rc != code || made.reason != want)
        fail_msg("%s: rc %d reason %s (%s), not %s", what, made.rc, bad_reason_name(made.reason), made.err.text, bad_reason_name(want));
    assert_true(made.err.text[0] != '\0');
    free(made.pixels);
}

/* A cut file is bad whatever part of it is needed: also where a pixel of the first rows is all that is. */
static void check_cut(const char *what, struct encoded encoded)
{
    for (size_t cut = 1; cut <= 8; cut++) {
        size_t len = cut < 8 ? encoded.len_bytes * cut / 8 : encoded.len_bytes - 13;
        struct encoded part = {encoded.data, len};
        check_bad(what, encoded.data, len, BAD_CORRUPT, LARDER_EFORMAT);
        for (uint64_t instance = 0; instance < 8; instance++) {
            struct made small = prepare(&part, "[{\"random_crop\": {\"size\": 1}}]", instance);
            assert_int_equal(small.reason, BAD_CORRUPT);
            free(small.pixels);
        }
    }
    encoded_free(&encoded);
}

/* Proves: bytes that are no image, or a damaged or cut one, are told apart and refused; and the next image is unharmed. */
static void test_bad(void **state)
{
    (void)state;
    const uint32_t w = 160, h = 120;
    uint8_t *rgb = picture(w, h, 3, 5);
    check_bad("empty", "", 0, BAD_NOT_AN_IMAGE, LARDER_EFORMAT);
    check_bad("text", "hello, this is text and no image at all", 39, BAD_NOT_AN_IMAGE, LARDER_EFORMAT);
    check_bad("svg", "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"></svg>", 68, BAD_NOT_AN_IMAGE, LARDER_EFORMAT);
    check_bad("jpeg start", "\xff\xd8\xff", 3, BAD_CORRUPT, LARDER_EFORMAT);
    check_cut("jpeg", encode_jpeg(rgb, w, h, &(struct jpeg_form){3, 2, 2, false, 85, 0, 0}));
    check_cut("progressive", encode_jpeg(rgb, w, h, &(struct jpeg_form){3, 2, 2, true, 85, 0, 0}));
    check_cut("png", encode_vips(rgb, w, h, 3, 8, ".png"));
    check_cut("webp", encode_vips(rgb, w, h, 3, 8, ".webp"));

    struct encoded jpeg = encode_jpeg(rgb, w, h, &(struct jpeg_form){3, 1, 1, false, 85, 0, 0});
    memset(jpeg.data + jpeg.len_bytes / 2, 0xff, 64); /* a marker where none may be */
    check_bad("overwritten", jpeg.data, jpeg.len_bytes, BAD_CORRUPT, LARDER_EFORMAT);
    encoded_free(&jpeg);

    jpeg = encode_jpeg(rgb, w, h, &(struct jpeg_form){3, 1, 1, false, 85, 0, 0});
    check_regional(&jpeg, "after bad ones");
    encoded_free(&jpeg);
    free(rgb);
}

/* Proves: an image above the pixel limit is refused by its header, before its pixels cost anything. */
static void test_too_large(void **state)
{
    (void)state;
    const uint32_t w = 2100, h = 2000;
    uint8_t *grey = xcalloc(w, h);
    struct encoded jpeg = encode_jpeg(grey, w, h, &(struct jpeg_form){1, 1, 1, false, 50, 0, 0});
    struct encoded png = encode_vips(grey, w, h, 1, 8, ".png"), webp = encode_vips(grey, w, h, 1, 8, ".webp");
    check_bad("jpeg", jpeg.data, jpeg.len_bytes, BAD_TOO_LARGE, LARDER_ELIMIT);
    check_bad("png", png.data, png.len_bytes, BAD_TOO_LARGE, LARDER_ELIMIT);
    check_bad("webp", webp.data, webp.len_bytes, BAD_TOO_LARGE, LARDER_ELIMIT);
    check_bad("jpeg, cut behind its header", jpeg.data, jpeg.len_bytes / 2, BAD_TOO_LARGE, LARDER_ELIMIT);
    encoded_free(&jpeg), encoded_free(&png), encoded_free(&webp);
    free(grey);
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

/* Proves: decoding starts no threads, whatever the format. Runs first, before anything in this process writes an image. */
static void test_no_threads(void **state)
{
    (void)state;
    static const char *const suffixes[] = {".png", ".png[interlace]", ".webp", ".webp[lossless]", ".tif", ".tif[tile]", ".gif"};
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

static struct encoded read_file(const char *path)
{
    struct encoded encoded = {0};
    FILE *file = fopen(path, "rb");
    CHECK(file);
    struct stat st;
    CHECK(fstat(fileno(file), &st) == 0);
    encoded = (struct encoded){xmalloc((size_t)st.st_size), (size_t)st.st_size};
    CHECK(fread(encoded.data, 1, encoded.len_bytes, file) == encoded.len_bytes);
    fclose(file);
    return encoded;
}

/* Proves: real photographs decode by regions to the pixels of their full decode. */
static void test_real_images(void **state)
{
    (void)state;
    const char *folder = getenv("LARDER_TEST_IMAGES");
    if (!folder) {
        print_message("LARDER_TEST_IMAGES is not set: real images are not tested\n");
        skip();
    }
    char command[4200];
    snprintf(command, sizeof command, "find -L '%s' -iname '*.jp*g' | sort | awk 'NR %% 10 == 1'", folder);
    FILE *list = popen(command, "r");
    CHECK(list);
    char path[4096];
    unsigned count = 0;
    while (fgets(path, sizeof path, list)) {
        path[strcspn(path, "\n")] = '\0';
        struct encoded encoded = read_file(path);
        check_regional(&encoded, path);
        encoded_free(&encoded);
        count++;
    }
    pclose(list);
    print_message("%u real images\n", count);
    assert_true(count > 0);
}

int main(void)
{
    struct error err;
    CHECK(prepare_init(&err) == 0);
    CHECK(prepare_scratch_create(&limits, &scratch) == 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_threads),
        cmocka_unit_test(test_lossless_forms), cmocka_unit_test(test_plain_forms),
        cmocka_unit_test(test_palette),
        cmocka_unit_test(test_jpeg_forms),     cmocka_unit_test(test_cmyk),
        cmocka_unit_test(test_regional),       cmocka_unit_test(test_regional_webp),
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_dct_scaling),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_outputs_are_independent),
        cmocka_unit_test(test_outputs_fail_apart),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_real_images),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    prepare_scratch_destroy(scratch);
    prepare_shutdown();
    return failed;
}
