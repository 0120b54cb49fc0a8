/* test_prepare_outputs.c: outputs that are made together are what each is alone, and what is bad is told apart. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/clock.h"
#include "prepare_fixture.h"

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
        uint64_t bytes = pipeline_layout(pipelines[i])->bytes;
        outputs[i] = (struct prepare_output){
            .pipeline = pipelines[i], .key = {1, 2, i}, .dst = xmalloc(bytes ? bytes : jpeg.len_bytes)};
    }
    enum bad_reason reason;
    struct error err;
    assert_int_equal(prepare_sample(scratch, jpeg.data, jpeg.len_bytes, outputs, N, &reason, &err), 0);
    for (size_t i = 0; i < N; i++) {
        if (pipeline_layout(pipelines[i])->bytes) {
            struct made alone = prepare(&jpeg, json[i], i);
            assert_int_equal(alone.rc, 0);
            assert_memory_equal(alone.pixels, outputs[i].dst, alone.bytes);
            free(alone.pixels);
        } else {
            assert_memory_equal(outputs[i].dst, jpeg.data, jpeg.len_bytes);
        }
    }
    assert_memory_not_equal(outputs[0].dst, outputs[4].dst, pipeline_layout(pipelines[0])->bytes); /* two instances */
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
        uint64_t bytes = pipeline_layout(pipelines[i])->bytes;
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
        uint64_t bytes = pipeline_layout(pipelines[i])->bytes;
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
 * that is damaged, or memory that all together take. Only what is no image at all fails for all, but those that want
 * its bytes as they are. */
static void test_outputs_fail_apart(void **state)
{
    (void)state;
    static const char *const crops[] = {"[{\"random_crop\": {\"size\": 32}}]", "[{\"resize\": {\"size\": [8, 8]}}]",
                                        "[]", "[{\"random_crop\": {\"size\": 16}}, \"random_horizontal_flip\"]",
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

static void check_bad(const char *what, const void *data, size_t len, enum bad_reason want, int code)
{
    struct encoded encoded = {(uint8_t *)data, len};
    struct made made = prepare(&encoded, "[{\"random_resized_crop\": {\"size\": 32, \"scale\": [0.9, 1]}}]", 3);
    if (made.rc != code || made.reason != want)
        fail_msg("%s: rc %d reason %s (%s), not %s", what, made.rc, bad_reason_name(made.reason), made.err.text,
                 bad_reason_name(want));
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

/* Proves: a GIF of a few bytes that says it has 65,535 rows, and has none, is refused in the time of a few images,
 * wherever in it the crop lies. */
static void test_rows_that_are_not_there(void **state)
{
    (void)state;
    static const uint8_t gif[] = "GIF89a=\0\xff\xff\x80\0\0\1\2\3\4\5\6!\xf9\4\x84\0\0\0\0,\0\0\0\0=\0\xff\xff\0"
                                 "\2\5\xff\xff\xff\xff\xff\0;";
    struct encoded tall = {(uint8_t *)(uintptr_t)gif, sizeof gif - 1};
    uint8_t *rgb = picture(512, 512, 3, 5);
    struct encoded png = encode_vips(rgb, 512, 512, 3, 8, ".png");
    uint64_t took_ns[2];
    for (int bad = 0; bad < 2; bad++) {
        uint64_t began_ns = clock_thread_ns();
        for (uint64_t instance = 0; instance < 4; instance++) {
            struct made made = prepare(bad ? &tall : &png, "[{\"random_crop\": {\"size\": [16, 2]}}]", instance);
            assert_int_equal(made.reason, bad ? BAD_CORRUPT : BAD_NONE);
            free(made.pixels);
        }
        took_ns[bad] = clock_thread_ns() - began_ns;
    }
    print_message("four crops: %.2f ms of a PNG, %.2f ms of the GIF\n", (double)took_ns[0] / 1e6,
                  (double)took_ns[1] / 1e6);
    assert_true(took_ns[1] < 30 * took_ns[0]);
    encoded_free(&png);
    free(rgb);
}

/* Proves: bytes that are no image, or a damaged or cut one, are told apart and refused; and the
 * next image is unharmed. */
static void test_bad(void **state)
{
    (void)state;
    const uint32_t w = 160, h = 120;
    uint8_t *rgb = picture(w, h, 3, 5);
    check_bad("empty", "", 0, BAD_NOT_AN_IMAGE, LARDER_EFORMAT);
    check_bad("text", "hello, this is text and no image at all", 39, BAD_NOT_AN_IMAGE, LARDER_EFORMAT);
    check_bad("svg", "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"></svg>", 68, BAD_NOT_AN_IMAGE,
              LARDER_EFORMAT);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs_are_independent),
        cmocka_unit_test(test_outputs_fail_apart),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_rows_that_are_not_there),
        cmocka_unit_test(test_too_large),
    };
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
