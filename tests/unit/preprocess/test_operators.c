/* test_operators: each operator on small images whose result can be told beforehand. Parity with torchvision, where it
 * is installed, is in tests/parity/preprocess. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/check.h"
#include "images.h"
#include "preprocess/pipeline.h"
#include "preprocess/prepare.h"

static const struct prepare_limits limits = {.pixels_max = 1000000, .scans_max = 64};
static struct prepare_scratch *scratch;
static enum bad_reason reason;
static struct error err;

static struct pipeline *parse(const char *json)
{
    struct pipeline *pipeline = NULL;
    if (pipeline_parse(json, strlen(json), &pipeline, &err))
        fail_msg("%s: %s", json, err.text);
    return pipeline;
}

/* Runs a pipeline on RGB pixels; the caller frees. NULL: refused. */
static void *make(const uint8_t *rgb, uint32_t width, uint32_t height, const char *json, uint64_t instance)
{
    struct encoded png = encode_vips(rgb, width, height, 3, 8, ".png");
    struct pipeline *pipeline = parse(json);
    void *dst = xmalloc(pipeline_layout(pipeline)->bytes);
    struct prepare_output output = {.pipeline = pipeline, .key = {5, 6, instance}, .dst = dst};
    if (prepare_sample(scratch, png.data, png.len_bytes, &output, 1, &reason, &err)) {
        free(dst);
        dst = NULL;
    }
    pipeline_unref(&pipeline);
    encoded_free(&png);
    return dst;
}

static void expect(const uint8_t *rgb, uint32_t width, uint32_t height, const char *json, const uint8_t *expected,
                   size_t bytes)
{
    uint8_t *got = make(rgb, width, height, json, 0);
    if (!got)
        fail_msg("%s: %s", json, err.text);
    for (size_t i = 0; i < bytes; i++) {
        if (got[i] != expected[i])
            fail_msg("%s: byte %zu is %u, not %u", json, i, got[i], expected[i]);
    }
    free(got);
}

/* Proves: colour operators do to known pixels what their definition says. */
static void test_colour(void **state)
{
    (void)state;
    static const uint8_t pixels[] = {255, 0, 0, 10, 200, 90, 128, 128, 128, 0, 0, 255};
#define ON_FOUR(step) "[{\"center_crop\": {\"size\": [1, 4]}}, " step "]"
    expect(pixels, 4, 1, ON_FOUR("{\"random_solarize\": {\"threshold\": 128, \"p\": 1}}"),
           (const uint8_t[]){0, 0, 0, 10, 55, 90, 127, 127, 127, 0, 0, 0}, 12);
    expect(pixels, 4, 1, ON_FOUR("{\"random_posterize\": {\"bits\": 1, \"p\": 1}}"),
           (const uint8_t[]){128, 0, 0, 0, 128, 0, 128, 128, 128, 0, 0, 128}, 12);
    expect(pixels, 4, 1, ON_FOUR("{\"random_posterize\": {\"bits\": 0, \"p\": 0}}"), pixels, 12);
    expect(pixels, 4, 1, ON_FOUR("{\"random_grayscale\": {\"p\": 1}}"),
           (const uint8_t[]){76, 76, 76, 131, 131, 131, 128, 128, 128, 29, 29, 29}, 12);
    expect(pixels, 4, 1, ON_FOUR("\"grayscale\""), (const uint8_t[]){76, 131, 128, 29}, 4);
    expect(pixels, 4, 1, ON_FOUR("{\"color_jitter\": {\"brightness\": [0.5, 0.5]}}"),
           (const uint8_t[]){127, 0, 0, 5, 100, 45, 64, 64, 64, 0, 0, 127}, 12);
    expect(pixels, 4, 1, ON_FOUR("{\"color_jitter\": {\"brightness\": [2, 2]}}"),
           (const uint8_t[]){255, 0, 0, 20, 255, 180, 255, 255, 255, 0, 0, 255}, 12);
    expect(pixels, 4, 1, ON_FOUR("{\"color_jitter\": {\"saturation\": [0, 0]}}"),
           (const uint8_t[]){76, 76, 76, 131, 131, 131, 128, 128, 128, 29, 29, 29}, 12);
    expect(pixels, 4, 1, ON_FOUR("{\"color_jitter\": {\"contrast\": [0, 0]}}"),
           (const uint8_t[]){91, 91, 91, 91, 91, 91, 91, 91, 91, 91, 91, 91}, 12);
    expect(pixels, 4, 1, ON_FOUR("\"color_jitter\""), pixels, 12);
    static const uint8_t few[] = {50, 0, 9, 101, 0, 9, 75, 0, 9, 50, 0, 9};
    expect(few, 4, 1, ON_FOUR("{\"autocontrast\": {\"p\": 1}}"),
           (const uint8_t[]){0, 0, 9, 255, 0, 9, 125, 0, 9, 0, 0, 9}, 12);
    expect(few, 4, 1, ON_FOUR("{\"random_equalize\": {\"p\": 1}}"), few, 12); /* too few pixels for a step */
}

/* Proves: a border is np.pad's, in all four modes, and a crop may reach into it. */
static void test_borders(void **state)
{
    (void)state;
    enum { A = 10, B = 20, C = 30 };
    static const uint8_t row[] = {A, A, A, B, B, B, C, C, C};
    static const struct {
        const char *mode;
        uint8_t expected[7];
    } cases[] = {
        {"constant", {7, 7, A, B, C, 7, 7}},
        {"edge", {A, A, A, B, C, C, C}},
        {"reflect", {C, B, A, B, C, B, A}},
        {"symmetric", {B, A, A, B, C, C, B}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[200];
        uint8_t expected[21];
        snprintf(json, sizeof json,
                 "[{\"center_crop\": {\"size\": [1, 3]}}, {\"pad\": {\"padding\": [2, 0], \"fill\": 7, "
                 "\"padding_mode\": \"%s\"}}]",
                 cases[i].mode);
        for (size_t at = 0; at < 21; at++)
            expected[at] = cases[i].expected[at / 3];
        expect(row, 3, 1, json, expected, sizeof expected);
        snprintf(json, sizeof json,
                 "[{\"random_crop\": {\"size\": [1, 7], \"padding\": [2, 0], \"fill\": 7, \"padding_mode\": \"%s\"}}]",
                 cases[i].mode);
        expect(row, 3, 1, json, expected, sizeof expected);
    }
    static const uint8_t padded[24] = {A, A, A, B, B, B, C, C, C, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7};
    expect(row, 3, 1, "[{\"center_crop\": {\"size\": [1, 3]}}, {\"pad_if_smaller\": {\"size\": [2, 4], \"fill\": 7}}]",
           padded, 24);
    expect(row, 3, 1, "[{\"center_crop\": {\"size\": [1, 3]}}, {\"pad_if_smaller\": {\"size\": [1, 2]}}]", row, 9);
}

/* Proves: a right angle moves pixels and changes none; a turn with expand has room for all. */
static void test_rotation(void **state)
{
    (void)state;
    static const uint8_t two[] = {1, 2, 3, 4, 5, 6}, upright[] = {4, 5, 6, 1, 2, 3}, reversed[] = {4, 5, 6, 1, 2, 3};
    expect(two, 2, 1,
           "[{\"random_rotation\": {\"degrees\": [90, 90], \"expand\": true}}, {\"center_crop\": {\"size\": [2, 1]}}]",
           upright, 6);
    expect(
        two, 2, 1,
        "[{\"random_rotation\": {\"degrees\": [-270, -270], \"expand\": true}}, {\"center_crop\": {\"size\": [2, 1]}}]",
        upright, 6);
    expect(two, 2, 1, "[{\"center_crop\": {\"size\": [1, 2]}}, {\"random_rotation\": {\"degrees\": [180, 180]}}]",
           reversed, 6);
    expect(two, 2, 1, "[{\"center_crop\": {\"size\": [1, 2]}}, {\"random_rotation\": {\"degrees\": [0, 0]}}]", two, 6);
    uint8_t *white = xmalloc(30 * 30 * 3);
    memset(white, 255, 30 * 30 * 3);
    uint8_t *turned = make(
        white, 30, 30,
        "[{\"center_crop\": {\"size\": 30}}, {\"random_rotation\": {\"degrees\": [45, 45], \"fill\": [1, 2, 3]}}]", 0);
    assert_non_null(turned);
    assert_memory_equal(turned, ((const uint8_t[]){1, 2, 3}), 3);
    assert_int_equal(turned[(15 * 30 + 15) * 3], 255);
    free(turned);
    free(white);
}

/* Proves: blurring leaves an even image as it is and spreads a point symmetrically without losing light. */
static void test_blur(void **state)
{
    (void)state;
    uint8_t point[9 * 9 * 3] = {0};
    memset(point + (4 * 9 + 4) * 3, 255, 3);
    uint8_t *blurred = make(
        point, 9, 9, "[{\"center_crop\": {\"size\": 9}}, {\"gaussian_blur\": {\"kernel_size\": 5, \"sigma\": 1.0}}]",
        0);
    assert_non_null(blurred);
    unsigned sum = 0;
    for (int y = 0; y < 9; y++) {
        for (int x = 0; x < 9; x++) {
            sum += blurred[(y * 9 + x) * 3];
            assert_int_equal(blurred[(y * 9 + x) * 3], blurred[((8 - y) * 9 + x) * 3 + 1]);
            assert_int_equal(blurred[(y * 9 + x) * 3], blurred[(x * 9 + y) * 3 + 2]);
        }
    }
    assert_in_range(sum, 245, 265);
    free(blurred);
    memset(point, 77, sizeof point);
    expect(point, 9, 9, "[{\"center_crop\": {\"size\": 9}}, {\"gaussian_blur\": {\"kernel_size\": [3, 7]}}]", point,
           sizeof point);
}

/* Proves: floating point output is what the definition gives, in either layout and precision. */
static void test_floats(void **state)
{
    (void)state;
    static const uint8_t pixels[] = {0, 51, 255, 102, 153, 204};
#define AS_FLOAT(rest) \
    "[{\"center_crop\": {\"size\": [1, 2]}}, {\"to_dtype\": {\"dtype\": \"float32\", \"scale\": true}}" rest "]"
    float *hwc = make(pixels, 2, 1, AS_FLOAT(""), 0);
    float *chw = make(
        pixels, 2, 1,
        AS_FLOAT(
            ", {\"normalize\": {\"mean\": [0.5, 0.25, 0], \"std\": [0.5, 2, 1]}}, {\"layout\": {\"layout\": \"CHW\"}}"),
        0);
    uint16_t *halves = make(pixels, 2, 1,
                            "[{\"layout\": {\"layout\": \"chw\"}}, {\"center_crop\": {\"size\": [1, 2]}}, "
                            "{\"to_dtype\": {\"dtype\": \"half\"}}]",
                            0);
    float *grey = make(
        pixels, 2, 1,
        "[{\"center_crop\": {\"size\": [1, 2]}}, \"grayscale\", {\"to_dtype\": {\"dtype\": \"float32\"}}]", 0);
    assert_true(hwc && chw && halves && grey);
    for (int i = 0; i < 6; i++)
        assert_true(hwc[i] == (float)pixels[i] / 255.0f);
    const float mean[] = {0.5f, 0.25f, 0}, std[] = {0.5f, 2, 1};
    const uint16_t as_half[] = {0x0000, 0x5660, 0x5260, 0x58c8, 0x5bf8, 0x5a60};
    for (int c = 0; c < 3; c++) {
        for (int x = 0; x < 2; x++) {
            assert_true(chw[c * 2 + x] == ((float)pixels[x * 3 + c] / 255.0f - mean[c]) / std[c]);
            assert_int_equal(halves[c * 2 + x], as_half[c * 2 + x]);
        }
    }
    assert_true(grey[0] == 59.0f && grey[1] == 144.0f);
    free(hwc), free(chw), free(halves), free(grey);
}

/* Proves: rounding to half precision is to nearest, ties to even, into subnormal numbers and up to infinity. */
static void test_half(void **state)
{
    (void)state;
    static const struct {
        double scale; /* 255 becomes 255 / std */
        uint16_t expected;
    } cases[] = {{255, 0x3c00},
                 {255 / 2049.0, 0x6800},
                 {255 / 2051.0, 0x6802},
                 {255 / 65504.0, 0x7bff},
                 {255 / 65520.0, 0x7c00}};
    static const uint8_t pixel[] = {255, 255, 255};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[220];
        snprintf(json, sizeof json,
                 "[{\"center_crop\": {\"size\": 1}}, {\"to_dtype\": {\"dtype\": \"float16\"}}, {\"normalize\": "
                 "{\"mean\": 0, \"std\": %.17g}}]",
                 cases[i].scale);
        uint16_t *half = make(pixel, 1, 1, json, 0);
        assert_non_null(half);
        if (half[0] != cases[i].expected)
            fail_msg("255 / %g is %04x, not %04x", cases[i].scale, half[0], cases[i].expected);
        free(half);
    }
    static const struct {
        double second; /* 255 / 255000 / second */
        uint16_t expected;
    } small[] = {{16777.216, 0x0001}, {34000, 0x0000}, {16.384, 0x0400}, {20.0, 0x0347}, {22369.0, 0x0001}};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        char json[260];
        snprintf(json, sizeof json,
                 "[{\"center_crop\": {\"size\": 1}}, {\"to_dtype\": {\"dtype\": \"float16\"}}, {\"normalize\": "
                 "{\"mean\": 0, \"std\": 255000}}, {\"normalize\": {\"mean\": 0, \"std\": %.17g}}]",
                 small[i].second);
        uint16_t *half = make(pixel, 1, 1, json, 0);
        assert_non_null(half);
        if (half[0] != small[i].expected)
            fail_msg("0.001 / %g is %04x, not %04x", small[i].second, half[0], small[i].expected);
        free(half);
    }
}

/* Proves: erasing fills one rectangle within the image and nothing else, on bytes and on numbers alike. */
static void test_erasing(void **state)
{
    (void)state;
    uint8_t white[20 * 30 * 3];
    memset(white, 255, sizeof white);
    for (uint64_t instance = 0; instance < 40; instance++) {
        uint8_t *bytes = make(
            white, 30, 20,
            "[{\"center_crop\": {\"size\": [20, 30]}}, {\"random_erasing\": {\"p\": 1, \"value\": [1, 2, 3]}}]",
            instance);
        float *numbers = make(white, 30, 20,
                              "[{\"center_crop\": {\"size\": [20, 30]}}, {\"random_erasing\": {\"p\": 1, \"value\": "
                              "[1, 2, 3]}}, {\"to_dtype\": {\"dtype\": \"float32\"}}]",
                              instance);
        unsigned erased = 0;
        uint32_t left = 30, right = 0, top = 20, bottom = 0;
        for (uint32_t i = 0; i < 20 * 30; i++) {
            assert_true(numbers[i * 3] == bytes[i * 3]);
            if (bytes[i * 3] != 1)
                continue;
            assert_memory_equal(bytes + i * 3, ((const uint8_t[]){1, 2, 3}), 3);
            uint32_t x = i % 30, y = i / 30;
            left = x < left ? x : left, right = x > right ? x : right;
            top = y < top ? y : top, bottom = y > bottom ? y : bottom;
            erased++;
        }
        assert_int_equal(erased, (right - left + 1) * (bottom - top + 1));
        assert_in_range(erased, 1, 20 * 30 * 0.4);
        free(bytes);
        free(numbers);
    }
}

/* Proves: the automatic augmentations give every change in turn, keep the size, and repeat with the key. */
static void test_augment(void **state)
{
    (void)state;
    uint8_t *rgb = picture(40, 30, 3, 8);
    unsigned different = 0;
    for (uint64_t instance = 0; instance < 60; instance++) {
        const char *json = instance % 2 ? "[{\"center_crop\": {\"size\": [30, 40]}}, \"rand_augment\"]"
                                        : "[{\"center_crop\": {\"size\": [30, 40]}}, \"trivial_augment_wide\"]";
        uint8_t *first = make(rgb, 40, 30, json, instance), *again = make(rgb, 40, 30, json, instance);
        assert_true(first && again);
        assert_memory_equal(first, again, 40 * 30 * 3);
        different += memcmp(first, rgb, 40 * 30 * 3) != 0;
        free(first);
        free(again);
    }
    assert_in_range(different, 40, 60);
    free(rgb);
}

/* Proves: an image too small for a pipeline is a bad sample that says so. */
static void test_too_small(void **state)
{
    (void)state;
    static const uint8_t pixels[12];
    assert_null(make(pixels, 2, 2, "[{\"random_crop\": {\"size\": 3}}]", 0));
    assert_int_equal(reason, BAD_TOO_SMALL);
    assert_non_null(strstr(err.text, "pad_if_needed"));
    assert_null(make(pixels, 2, 2, "[{\"gaussian_blur\": {\"kernel_size\": 5}}, {\"center_crop\": {\"size\": 3}}]", 0));
    assert_int_equal(reason, BAD_TOO_SMALL);
}

/* Proves: exact_size leaves the pixels of an image of its size alone, whatever stands behind it, and makes any other
 * image a bad sample that says both sizes. */
static void test_exact_size(void **state)
{
    (void)state;
    static const uint8_t pixels[] = {1, 2, 3, 4, 5, 6}, mirrored[] = {4, 5, 6, 1, 2, 3};
    expect(pixels, 2, 1, "[{\"exact_size\": {\"size\": [1, 2]}}]", pixels, 6);
    expect(pixels, 2, 1, "[{\"exact_size\": {\"size\": [1, 2]}}, {\"random_horizontal_flip\": {\"p\": 1}}]", mirrored,
           6);
    float *numbers = make(pixels, 2, 1,
                          "[{\"exact_size\": {\"size\": [1, 2]}}, {\"to_dtype\": {\"dtype\": \"float32\"}}]", 0);
    for (int i = 0; i < 6; i++)
        assert_true(numbers[i] == (float)pixels[i]);
    free(numbers);
    expect(pixels, 2, 1, "[{\"center_crop\": {\"size\": 1}}, {\"exact_size\": {\"size\": 1}}]", pixels, 3);
    assert_null(make(pixels, 2, 1, "[{\"exact_size\": {\"size\": [2, 1]}}]", 0));
    assert_int_equal(reason, BAD_OTHER_SIZE);
    assert_string_equal(bad_reason_name(reason), "other_size");
    assert_int_equal(err.code, LARDER_EFORMAT);
    assert_non_null(strstr(err.text, "exact_size: it has 2 × 1 pixels where all images must have 1 × 2"));
}

/* Proves: operators refuse what they cannot do when the pipeline is parsed, with the place in the list. */
static void test_refused(void **state)
{
    (void)state;
#define CROP "{\"center_crop\": {\"size\": 8}}"
#define FLOAT "{\"to_dtype\": {\"dtype\": \"float32\"}}"
    static const char *const cases[][2] = {
        {"[" CROP ", {\"random_crop\": {\"size\": 9}}]",
         "pipeline[1] random_crop: an image of 8 × 8 pixels is smaller"},
        {"[" CROP ", {\"random_rotation\": {\"degrees\": 10, \"expand\": true}}]", "different sizes"},
        {"[{\"pad\": {\"padding\": 5}}]", "different sizes"},
        {"[" CROP ", {\"exact_size\": {\"size\": 9}}]",
         "pipeline[1] exact_size: all images have 8 × 8 pixels here, and not 9 × 9"},
        {"[{\"exact_size\": {\"size\": 8193}}]", "size must be"},
        {"[" CROP ", {\"pad\": {\"padding\": -5}}]", "padding must be"},
        {"[" CROP ", {\"color_jitter\": {\"hue\": 0.6}}]", "hue must be"},
        {"[" CROP ", {\"color_jitter\": {\"brightness\": -1}}]", "brightness must be"},
        {"[" CROP ", {\"grayscale\": {\"num_output_channels\": 2}}]", "must be 1 or 3"},
        {"[" CROP ", {\"gaussian_blur\": {\"kernel_size\": 4}}]", "kernel_size must be an odd integer"},
        {"[" CROP ", {\"random_posterize\": {\"bits\": 9}}]", "bits must be an integer from 0 to 8"},
        {"[" CROP ", \"random_solarize\"]", "threshold is missing"},
        {"[" CROP ", {\"random_rotation\": {\"degrees\": 10, \"interpolation\": \"lanczos\"}}]",
         "interpolation must be one of \"nearest\""},
        {"[" CROP ", {\"rand_augment\": {\"magnitude\": 31}}]", "magnitude must be below num_magnitude_bins"},
        {"[" CROP ", {\"normalize\": {\"mean\": 0, \"std\": 1}}]", "pipeline[1] normalize: it needs floating point"},
        {"[" CROP ", " FLOAT ", {\"normalize\": {\"mean\": 0, \"std\": 0}}]", "std must be"},
        {"[" CROP ", \"grayscale\", " FLOAT ", {\"normalize\": {\"mean\": [1, 2, 3], \"std\": 1}}]",
         "one channel only"},
        {"[" CROP ", " FLOAT ", \"random_horizontal_flip\"]",
         "pipeline[2] random_horizontal_flip: it works on 8-bit pixels: put it before to_dtype"},
        {"[" CROP ", " FLOAT ", {\"to_dtype\": {\"dtype\": \"uint8\"}}]", "floating point already"},
        {"[" CROP ", {\"random_erasing\": {\"value\": \"random\"}}]", "put it after to_dtype"},
        {"[" CROP ", {\"random_erasing\": {\"value\": -1}}]", "from 0 to 255"},
        {"[" CROP ", {\"layout\": {\"layout\": \"NCHW\"}}]", "layout must be one of \"HWC\", \"CHW\""},
        {"[" CROP ", {\"pad\": {\"padding\": 8192}}, {\"to_dtype\": {\"dtype\": \"float32\"}}, {\"layout\": "
         "{\"layout\": \"a=b\"}}]",
         "layout must be"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pipeline *pipeline = NULL;
        assert_int_equal(pipeline_parse(cases[i][0], strlen(cases[i][0]), &pipeline, &err), LARDER_EINVAL);
        if (!strstr(err.text, cases[i][1]))
            fail_msg("%s: '%s' lacks '%s'", cases[i][0], err.text, cases[i][1]);
    }
}

/* Proves: arguments that mean nothing here, and other words for the same, do not make another pipeline. */
static void test_same_meaning(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"[" CROP ", {\"color_jitter\": {\"brightness\": 0.5, \"hue\": 0.25}}]",
         "[" CROP ", {\"color_jitter\": {\"brightness\": [0.5, 1.5], \"hue\": [-0.25, 0.25]}}]"},
        {"[" CROP ", {\"random_erasing\": {\"inplace\": true}}]", "[" CROP ", \"random_erasing\"]"},
        {"[" CROP ", {\"random_rotation\": {\"degrees\": 5, \"interpolation\": \"nearest-exact\"}}]",
         "[" CROP ", {\"random_rotation\": {\"degrees\": [-5, 5], \"fill\": null}}]"},
        {"[" CROP ", {\"to_dtype\": {\"dtype\": \"float\"}}]", "[" CROP ", " FLOAT "]"},
        {"[" CROP ", {\"pad\": {\"padding\": [1, 2]}}]", "[" CROP ", {\"pad\": {\"padding\": [1, 2, 1, 2]}}]"},
        {"[" CROP ", {\"gaussian_blur\": {\"kernel_size\": 3, \"sigma\": 2}}]",
         "[" CROP ", {\"gaussian_blur\": {\"kernel_size\": [3, 3], \"sigma\": [2, 2.0]}}]"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct pipeline *a = parse(same[i][0]), *b = parse(same[i][1]), *c = parse(pipeline_canonical(a));
        assert_string_equal(pipeline_canonical(a), pipeline_canonical(b));
        assert_string_equal(pipeline_canonical(a), pipeline_canonical(c));
        pipeline_unref(&a), pipeline_unref(&b), pipeline_unref(&c);
    }
}

/* Proves: several pipelines on one sample cost one decode, and each gets what it gets alone. */
static void test_one_decode(void **state)
{
    (void)state;
    static const char *const json[] = {
        "[{\"resize\": {\"size\": 40}}, {\"center_crop\": {\"size\": 32}}, \"trivial_augment_wide\"]",
        ("[{\"resize\": {\"size\": 40}}, {\"center_crop\": {\"size\": 32}}, {\"color_jitter\": {\"hue\": 0.5}}, "
         "\"random_horizontal_flip\"]"),
        "[{\"resize\": {\"size\": 40}}, {\"random_crop\": {\"size\": 24}}, {\"to_dtype\": {\"dtype\": \"float32\"}}]",
        "[{\"resize\": {\"size\": 40}}, {\"center_crop\": {\"size\": 32}}]",
        "[{\"resize\": {\"size\": 40}}, {\"center_crop\": {\"size\": 32}}]",
        "[{\"random_resized_crop\": {\"size\": 50}}, \"grayscale\", {\"layout\": {\"layout\": \"CHW\"}}]",
    };
    enum { N = sizeof json / sizeof *json };
    uint8_t *rgb = picture(90, 70, 3, 8);
    struct encoded jpeg = encode_jpeg(rgb, 90, 70, &(struct jpeg_form){3, 2, 2, false, 90, 0, 0});
    struct prepare_output outputs[N];
    struct pipeline *pipelines[N];
    for (size_t i = 0; i < N; i++) {
        pipelines[i] = parse(json[i]);
        outputs[i] = (struct prepare_output){
            .pipeline = pipelines[i], .key = {7, 8, 9}, .dst = xmalloc(pipeline_layout(pipelines[i])->bytes)};
    }
    struct prepare_counts before = prepare_scratch_counts(scratch);
    assert_int_equal(prepare_sample(scratch, jpeg.data, jpeg.len_bytes, outputs, N, &reason, &err), 0);
    struct prepare_counts after = prepare_scratch_counts(scratch);
    assert_int_equal(after.decodes - before.decodes, 1);
    assert_int_equal(after.outputs - before.outputs, N);
    for (size_t i = 0; i < N; i++) {
        size_t bytes = pipeline_layout(pipelines[i])->bytes;
        struct prepare_output alone = {.pipeline = pipelines[i], .key = {7, 8, 9}, .dst = xmalloc(bytes)};
        assert_int_equal(prepare_sample(scratch, jpeg.data, jpeg.len_bytes, &alone, 1, &reason, &err), 0);
        assert_memory_equal(alone.dst, outputs[i].dst, bytes);
        free(alone.dst);
        free(outputs[i].dst);
        pipeline_unref(&pipelines[i]);
    }
    encoded_free(&jpeg);
    free(rgb);
}

/* Proves: operators that draw do the same again with the same key, on images of all shapes, down to one pixel; what is
 * too small is refused as too small. With a sanitizer: none of them looks past an image. */
static void test_draws(void **state)
{
    (void)state;
    static const char *const steps[] = {
        "{\"random_affine\": {\"degrees\": 180, \"translate\": 1, \"scale\": [0.01, 9], \"shear\": [-80, 80, -80, 80], "
        "\"interpolation\": \"bicubic\"}}",
        "{\"random_perspective\": {\"distortion_scale\": 1, \"p\": 1, \"interpolation\": \"bicubic\"}}",
        "{\"random_perspective\": {\"distortion_scale\": 1, \"p\": 1, \"interpolation\": \"nearest\"}}",
        "{\"elastic_transform\": {\"alpha\": 900, \"sigma\": 1}}",
        "{\"elastic_transform\": {\"sigma\": [0, 0], \"interpolation\": \"nearest\"}}",
        "{\"random_adjust_sharpness\": {\"sharpness_factor\": 3}}",
        "\"random_photometric_distort\"",
        "\"random_channel_permutation\"",
        "{\"auto_augment\": {\"policy\": \"cifar10\"}}",
        "{\"aug_mix\": {\"severity\": 10, \"mixture_width\": 8, \"chain_depth\": 4, \"alpha\": 0.001}}",
        "{\"timm_aug_mix\": {\"magnitude\": 100, \"mmax\": 100, \"width\": 8, \"mstd\": 50}}",
        "{\"timm_rand_augment\": {\"num_ops\": 32, \"magnitude\": 100, \"mmax\": 100, \"prob\": 1}}",
        "{\"timm_rand_augment\": {\"num_ops\": 14, \"transforms\": \"3aw\", \"mmax\": 100, \"prob\": 1}}",
        "{\"timm_auto_augment\": {\"policy\": \"v0\", \"mstd\": 99, \"mmax\": 100}}",
        "{\"pil_gaussian_blur\": {\"radius\": [0, 1000]}}",
        "{\"timm_random_erasing\": {\"max_count\": 8, \"scale\": [0, 1]}}",
        "{\"random_zoom_out\": {\"side_range\": [1, 5]}}",
        "{\"scale_jitter\": {\"target_size\": 40}}",
        "{\"random_resize\": {\"min_size\": 1, \"max_size\": 40}}",
        "{\"resize_keep_ratio\": {\"size\": 9, \"random_scale_prob\": 1, \"random_aspect_prob\": 1}}",
        "{\"random_crop_or_pad\": {\"size\": [7, 90], \"padding_mode\": \"reflect\"}}",
    };
    static const uint32_t sizes[][2] = {{1, 1}, {1, 9}, {40, 2}, {33, 21}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint32_t width = sizes[s][0], height = sizes[s][1];
        uint8_t *rgb = picture(width, height, 3, 3);
        for (size_t i = 0; i < sizeof steps / sizeof *steps * 4; i++) {
            char json[512];
            snprintf(json, sizeof json, "[%s, {\"center_crop\": {\"size\": [12, 10]}}]",
                     steps[i % (sizeof steps / sizeof *steps)]);
            uint8_t *once = make(rgb, width, height, json, i), *again = make(rgb, width, height, json, i);
            assert_int_equal(once == NULL, again == NULL);
            if (once)
                assert_memory_equal(once, again, 12 * 10 * 3);
            else
                assert_int_equal(reason, BAD_TOO_SMALL);
            free(once);
            free(again);
        }
        free(rgb);
    }
}

/* Proves: timm's crop pads with its colour, and half a pixel goes to the right and below. */
static void test_crop_or_pad(void **state)
{
    (void)state;
    static const uint8_t pixels[] = {10, 20, 30, 40, 50, 60};
    expect(pixels, 2, 1, "[{\"center_crop_or_pad\": {\"size\": [1, 5], \"fill\": [1, 2, 3]}}]",
           (const uint8_t[]){1, 2, 3, 10, 20, 30, 40, 50, 60, 1, 2, 3, 1, 2, 3}, 15);
    expect(pixels, 2, 1, "[{\"center_crop_or_pad\": {\"size\": 1}}]", pixels, 3);
    expect(pixels, 2, 1, "[{\"exact_size\": {\"size\": [1, 2]}}, {\"random_invert\": {\"p\": 1}}]",
           (const uint8_t[]){245, 235, 225, 215, 205, 195}, 6);
}

int main(void)
{
    prepare_init();
    CHECK(prepare_scratch_create(&limits, &scratch) == 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colour),     cmocka_unit_test(test_borders),      cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_blur),       cmocka_unit_test(test_floats),       cmocka_unit_test(test_half),
        cmocka_unit_test(test_erasing),    cmocka_unit_test(test_augment),      cmocka_unit_test(test_too_small),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_same_meaning), cmocka_unit_test(test_one_decode),
        cmocka_unit_test(test_exact_size), cmocka_unit_test(test_draws),        cmocka_unit_test(test_crop_or_pad),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    prepare_scratch_destroy(scratch);
    return failed;
}
