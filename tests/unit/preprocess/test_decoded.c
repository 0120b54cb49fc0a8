/* test_decoded.c: decoded forms: which are made, which are not, and what they take. That they give the same pixels is
 * tested with the pixels themselves (check_decoded, and the parity suites). */
#include <stdlib.h>
#include <string.h>

#include "common/blocks.h"
#include "common/check.h"
#include "prepare_fixture.h"

#define WIDTH 200
#define HEIGHT 150

static struct encoded make_jpeg(int components, int sampling)
{
    uint8_t *pixels = picture(WIDTH, HEIGHT, (unsigned)components, 1);
    struct encoded jpeg = encode_jpeg(pixels, WIDTH, HEIGHT,
                                      &(struct jpeg_form){components, sampling, sampling, false, 90, 0, 0});
    free(pixels);
    return jpeg;
}

/* Makes 16 × 16 pixels, and a form of at most most_bytes on the way. */
static int prepare_keeping(const struct encoded *image, size_t most_bytes, struct prepare_keep *keep)
{
    static uint8_t pixels[16 * 16 * 3];
    struct pipeline *pipeline = parse(center_crop(16, 16));
    struct prepare_output output = {.pipeline = pipeline, .dst = pixels};
    *keep = (struct prepare_keep){.most_bytes = most_bytes};
    struct prepare_source source = {.bytes = image->data, .len_bytes = image->len_bytes, .keep = keep};
    enum bad_reason reason;
    int rc = prepare_image(scratch, &source, &output, 1, &reason, NULL);
    pipeline_unref(&pipeline);
    return rc;
}

/* Proves: a form is made only if it takes no more than it may, and what it takes is told either way. The usual JPEG
 * takes half of its pixels, a grey one a third. */
static void test_bytes(void **state)
{
    (void)state;
    static const struct {
        int components, sampling;
        double per_pixel;
    } forms[] = {{3, 2, 1.5}, {3, 1, 3}, {1, 1, 1}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct encoded jpeg = make_jpeg(forms[i].components, forms[i].sampling);
        struct prepare_keep keep;
        assert_int_equal(prepare_keeping(&jpeg, SIZE_MAX, &keep), 0);
        size_t bytes = keep.bytes;
        double pixels = WIDTH * HEIGHT;
        assert_true(keep.form && (double)bytes >= forms[i].per_pixel * pixels &&
                    (double)bytes < forms[i].per_pixel * pixels * 1.2);
        blocks_give(keep.form);
        assert_int_equal(prepare_keeping(&jpeg, bytes - 1, &keep), 0);
        assert_true(!keep.form && keep.bytes == bytes);
        assert_int_equal(prepare_keeping(&jpeg, bytes, &keep), 0);
        assert_non_null(keep.form);
        blocks_give(keep.form);
        encoded_free(&jpeg);
    }
}

/* Proves: if the whole image cannot be decoded, but the part that is wanted can, the output is made and no form is. */
static void test_damaged_below(void **state)
{
    (void)state;
    uint8_t *pixels = picture(WIDTH, HEIGHT, 3, 1);
    struct encoded jpeg = encode_jpeg(pixels, WIDTH, HEIGHT, &(struct jpeg_form){3, 2, 2, false, 90, 1, 0});
    struct prepare_keep keep;
    size_t last = 0;
    for (size_t i = 0; i + 1 < jpeg.len_bytes; i++) {
        if (jpeg.data[i] == 0xff && (jpeg.data[i + 1] & 0xf8) == 0xd0)
            last = i;
    }
    assert_true(last > 0);
    jpeg.data[last + 1] ^= 1; /* the last row of MCUs begins with the wrong marker */
    assert_int_equal(prepare_keeping(&jpeg, SIZE_MAX, &keep), 0);
    assert_true(!keep.form && keep.bytes > 0);
    encoded_free(&jpeg);
    free(pixels);
}

/* Proves: what is no image has no form, and says why as it does without. */
static void test_no_image(void **state)
{
    (void)state;
    struct encoded text = {.data = (uint8_t *)"no image", .len_bytes = 8};
    struct prepare_keep keep;
    assert_int_equal(prepare_keeping(&text, SIZE_MAX, &keep), LARDER_EFORMAT);
    assert_true(!keep.form && keep.bytes == 0);
}

/* Proves: pipelines whose samples are encoded bytes, or that scale while decoding, in a view too, need these bytes. */
static void test_needs_encoded(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool needs;
    } cases[] = {
        {"[]", true},
        {"[{\"resize\": {\"size\": [8, 8]}}]", false},
        {"[{\"resize\": {\"size\": [8, 8], \"dct_scaling\": true}}]", true},
        {"[{\"random_resized_crop\": {\"size\": 8, \"dct_scaling\": true}}]", true},
        {"[{\"random_resized_crop\": {\"size\": 8}}, \"random_horizontal_flip\"]", false},
        {"{\"views\": [{\"steps\": [{\"center_crop\": {\"size\": 8}}]}, {\"steps\": [{\"resize\": {\"size\": [8, 8], "
         "\"dct_scaling\": true}}]}]}",
         true},
        {"{\"views\": [{\"count\": 2, \"steps\": [{\"center_crop\": {\"size\": 8}}]}]}", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pipeline *pipeline = parse(cases[i].json);
        assert_int_equal(pipeline_needs_encoded(pipeline), cases[i].needs);
        pipeline_unref(&pipeline);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bytes), cmocka_unit_test(test_damaged_below),
                                       cmocka_unit_test(test_no_image), cmocka_unit_test(test_needs_encoded)};
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
