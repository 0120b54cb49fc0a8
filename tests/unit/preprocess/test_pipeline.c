/* test_pipeline: parsing, normal form and shapes of pipelines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "preprocess/pipeline_priv.h"

static struct pipeline *parse(const char *json)
{
    struct pipeline *pipeline = NULL;
    struct error err = {0};
    int rc = pipeline_parse(json, strlen(json), &pipeline, &err);
    if (rc)
        fail_msg("%s: %s", json, err.text);
    return pipeline;
}

/* Proves: pipelines that mean the same have the same normal form, and others do not. */
static void test_canonical(void **state)
{
    (void)state;
    static const char *const same[][2] = {
        {"[{\"random_resized_crop\": {\"size\": 224}}]",
         "[ {\"random_resized_crop\": {\"ratio\": [0.75, 1.3333333333333333], \"size\": [224, 224.0], \"scale\": "
         "[0.08, 1], \"antialias\": null}} ]"},
        {"[{\"center_crop\": {\"size\": 8}}, \"random_horizontal_flip\"]",
         "[{\"center_crop\": {\"size\": [8, 8]}}, {\"random_horizontal_flip\": {\"p\": 5e-1}}]"},
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct pipeline *a = parse(same[i][0]), *b = parse(same[i][1]);
        assert_string_equal(pipeline_canonical(a), pipeline_canonical(b));
        pipeline_unref(&a);
        pipeline_unref(&b);
        assert_null(a);
    }
    struct pipeline *a = parse("[{\"center_crop\": {\"size\": 8}}]"),
                    *b = parse("[{\"center_crop\": {\"size\": [8, 9]}}]");
    assert_string_not_equal(pipeline_canonical(a), pipeline_canonical(b));
    pipeline_unref(&a);
    pipeline_unref(&b);
}

/* A group that does nothing is not there: not in the normal form, and not in what groups behind it draw. */
static void test_empty_groups(void **state)
{
    (void)state;
    struct pipeline
        *a = parse("[{\"random_choice\": {\"transforms\": [\"autocontrast\", []]}}, {\"center_crop\": {\"size\": 8}}]"),
        *b = parse("[{\"random_apply\": {\"transforms\": []}}, {\"random_choice\": {\"transforms\": "
                   "[[], []]}}, {\"random_choice\": {\"transforms\": [\"autocontrast\", []]}}, {\"center_crop\": "
                   "{\"size\": 8}}]");
    assert_string_equal(pipeline_canonical(a), pipeline_canonical(b));
    assert_int_equal(a->n_ops, b->n_ops);
    assert_int_equal(a->ops[0].group, 1);
    assert_int_equal(b->ops[0].group, 1);
    assert_int_equal(a->n_groups, b->n_groups);
    pipeline_unref(&a);
    pipeline_unref(&b);
}

/* A list draws when one of its operators does, wherever it stands. */
static void test_random(void **state)
{
    (void)state;
    static const struct {
        const char *list;
        bool random;
    } lists[] = {
        {"[]", false},
        {"[{\"resize\": {\"size\": 64}}, {\"center_crop\": {\"size\": 56}}, {\"to_dtype\": {\"dtype\": \"float32\"}}]",
         false},
        {"[{\"center_crop\": {\"size\": 56}}, \"random_horizontal_flip\"]", true},
        {"[{\"random_resized_crop\": {\"size\": 56}}, {\"layout\": {\"layout\": \"CHW\"}}]", true}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct pipeline *pipeline = parse(lists[i].list);
        assert_int_equal(pipeline_is_random(pipeline), lists[i].random);
        pipeline_unref(&pipeline);
    }
}

/* Proves: a normal form parses to itself. */
static void test_canonical_is_stable(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "[{\"resize\": {\"size\": 256}}, {\"center_crop\": {\"size\": 224}}, \"random_vertical_flip\"]",
        "[{\"center_crop\": {\"size\": 9}}, {\"random_apply\": {\"transforms\": [\"color_jitter\", "
        "\"autocontrast\"]}}]",
        "[{\"random_choice\": {\"transforms\": [\"autocontrast\", [], \"random_equalize\"], \"p\": [1, 3, 7]}}, "
        "{\"random_apply\": {\"transforms\": []}}, {\"center_crop\": {\"size\": 9}}]",
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct pipeline *a = parse(lists[i]);
        struct pipeline *b = parse(pipeline_canonical(a));
        assert_string_equal(pipeline_canonical(a), pipeline_canonical(b));
        assert_int_equal(pipeline_is_random(a), true);
        pipeline_unref(&a);
        pipeline_unref(&b);
    }
}

/* Proves: the shape is that of what the last operator makes, and 0 for encoded bytes. */
static void test_shape(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint32_t height, width;
    } cases[] = {
        {"[]", 0, 0},
        {"[{\"random_resized_crop\": {\"size\": [100, 200]}}]", 100, 200},
        {"[{\"resize\": {\"size\": 256}}, {\"center_crop\": {\"size\": 224}}]", 224, 224},
        {"[{\"resize\": {\"size\": [30, 60]}}, {\"resize\": {\"size\": 15}}]", 15, 30},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pipeline *pipeline = parse(cases[i].json);
        struct image_shape shape = {0};
        const struct sample_layout *layout = pipeline_layout(pipeline);
        assert_int_equal(sample_layout_check(layout, NULL), 0);
        assert_int_equal(sample_layout_image(layout, &shape), cases[i].height != 0);
        assert_int_equal(shape.height, cases[i].height);
        assert_int_equal(shape.width, cases[i].width);
        assert_int_equal(layout->bytes, (uint64_t)cases[i].height * cases[i].width * 3);
        assert_int_equal(shape.dtype, PIXEL_UINT8);
        assert_int_equal(shape.layout, LAYOUT_HWC);
        struct pipeline *other = pipeline_ref(pipeline);
        pipeline_unref(&pipeline);
        assert_non_null(pipeline_canonical(other));
        pipeline_unref(&other);
    }
}

/* Proves: what is wrong is refused with its position and what to do, and leaves the out-pointer alone. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *text;
    } cases[] = {
        {"", "pipeline: none was given"},
        {"[{\"resize\": {\"size\": 5}}", "pipeline: not JSON"},
        {"{}", "pipeline: an object has"},
        {"3", "pipeline: must be a list"},
        {"[7]", "pipeline[0]: an operator is a name"},
        {"[{}]", "pipeline[0]: an operator is a name"},
        {"[{\"a\": {}, \"b\": {}}]", "pipeline[0]: an operator is a name"},
        {"[\"sharpen_me\"]", "pipeline[0]: 'sharpen_me' is no operator: use one of"},
        {"[\"resize\"]", "pipeline[0] resize: size is missing"},
        {"[{\"resize\": 224}]", "pipeline[0] resize: its arguments must be an object"},
        {"[{\"resize\": {\"size\": 224}}]", "different sizes: end it with a crop"},
        {"[{\"resize\": {\"size\": 0}}]", "size must be an integer or [height, width] from 1 to 8192, not 0"},
        {"[{\"resize\": {\"size\": 2.5}}]", "size must be"},
        {"[{\"resize\": {\"size\": [1,2,3]}}]", "size must be"},
        {"[{\"resize\": {\"size\": \"big\"}}]", "not \"big\""},
        {"[{\"resize\": {\"size\": 99999}}]", "from 1 to 8192"},
        {"[{\"resize\": {\"size\": 5, \"interpolation\": \"cubic\"}}]", "\"bicubic\""},
        {"[{\"resize\": {\"size\": 5, \"antialias\": 1}}]", "antialias must be true or false, not 1"},
        {"[{\"resize\": {\"size\": 5, \"max_size\": 4}}]", "max_size must be above size"},
        {"[{\"resize\": {\"size\": [5, 5], \"max_size\": 4}}]", "max_size goes with a single size"},
        {"[{\"resize\": {\"size\": 5, \"fast\": 4}}]", "no argument 'fast'; its arguments are: size, interpolation"},
        {"[{\"resize\": {\"size\": 5, \"size\": 4}}]", "not JSON"},
        {"[{\"center_crop\": {\"size\": 5}}, {\"random_horizontal_flip\": {\"p\": 1.5}}]",
         "pipeline[1] random_horizontal_flip: p must be a number from 0 to 1, not 1.5"},
        {"[{\"random_resized_crop\": {\"size\": 5, \"scale\": [1, 0.5]}}]", "low ≤ high"},
        {"[{\"random_resized_crop\": {\"size\": 5, \"scale\": 0.5}}]", "scale must be [low, high]"},
        {"[{\"random_resized_crop\": {\"size\": 5, \"ratio\": [0, 1]}}]", "ratio must be"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pipeline *pipeline = NULL;
        struct error err = {0};
        assert_int_equal(pipeline_parse(cases[i].json, strlen(cases[i].json), &pipeline, &err), LARDER_EINVAL);
        assert_null(pipeline);
        if (!strstr(err.text, cases[i].text))
            fail_msg("%s: '%s' lacks '%s'", cases[i].json, err.text, cases[i].text);
    }
}

/* Proves: more operators than allowed, and nesting without end, are refused and not followed. */
static void test_bounded(void **state)
{
    (void)state;
    static char text[1 << 16];
    struct pipeline *pipeline = NULL;
    struct error err;
    size_t len = (size_t)snprintf(text, sizeof text, "[\"random_horizontal_flip\"");
    for (int i = 0; i < PIPELINE_OPS_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, ",\"random_horizontal_flip\"");
    len += (size_t)snprintf(text + len, sizeof text - len, "]");
    assert_int_equal(pipeline_parse(text, len, &pipeline, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "at most 64 operators"));
    memset(text, '[', sizeof text);
    assert_int_equal(pipeline_parse(text, sizeof text, &pipeline, &err), LARDER_EINVAL);
}

/* Proves: a pipeline without a size of its own is taken as open, and closed it is the one with exact_size in front. */
static void test_open(void **state)
{
    (void)state;
    static const struct {
        const char *json, *closed;
        uint32_t height, width;
    } cases[] = {
        {"[\"random_horizontal_flip\"]", "[{\"exact_size\": {\"size\": [30, 40]}}, \"random_horizontal_flip\"]", 30,
         40},
        {"[{\"resize\": {\"size\": 15}}]", "[{\"exact_size\": {\"size\": [30, 40]}}, {\"resize\": {\"size\": 15}}]", 15,
         20},
        {"[{\"pad\": {\"padding\": 1}}, {\"random_apply\": {\"transforms\": [\"autocontrast\"]}}]",
         "[{\"exact_size\": {\"size\": [30, 40]}}, {\"pad\": {\"padding\": 1}}, "
         "{\"random_apply\": {\"transforms\": [\"autocontrast\"]}}]",
         32, 42},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pipeline *pipeline = NULL, *expected = parse(cases[i].closed);
        assert_int_equal(pipeline_parse(cases[i].json, strlen(cases[i].json), &pipeline, NULL), LARDER_EINVAL);
        assert_int_equal(pipeline_parse_open(cases[i].json, strlen(cases[i].json), &pipeline, NULL), 0);
        assert_true(pipeline_is_open(pipeline));
        assert_int_equal(pipeline_close(&pipeline, (struct image_size){.width = 40, .height = 30}, NULL), 0);
        assert_false(pipeline_is_open(pipeline));
        assert_string_equal(pipeline_canonical(pipeline), pipeline_canonical(expected));
        assert_int_equal(pipeline_layout(pipeline)->fields[0].dims[0], cases[i].height);
        assert_int_equal(pipeline_layout(pipeline)->fields[0].dims[1], cases[i].width);
        pipeline_unref(&pipeline);
        pipeline_unref(&expected);
    }
}

static uint32_t count_of(const void *context, const char *part)
{
    assert_true(strcmp(part, "boxes") == 0 || strcmp(part, "masks") == 0);
    return *(const uint32_t *)context;
}

/* Proves: a ragged sample takes what its own rows and masks of instances take, with 16 and 100 bytes each, in fields
 * of whole 64 bytes; where they are not counted, or are said to be more than the most, what the most take. */
static void test_sample_bytes(void **state)
{
    (void)state;
    struct pipeline *pipeline = parse("{\"parts\":{\"image\":{\"kind\":\"image\"},"
                                      "\"boxes\":{\"kind\":\"boxes\",\"format\":\"XYXY\",\"most\":10},"
                                      "\"masks\":{\"kind\":\"instances\",\"most\":10}},\"steps\":[],\"ragged\":100}");
    const uint64_t most = pipeline_layout(pipeline)->bytes;
    const struct {
        uint32_t count;
        uint64_t bytes;
    } cases[] = {
        {UINT32_MAX, most}, {11, most}, {10, most}, {1, most - (192 - 64) - (1024 - 128)}, {0, most - 192 - 1024}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(pipeline_sample_bytes(pipeline, count_of, &cases[i].count), cases[i].bytes);
    pipeline_unref(&pipeline);
}

/* Proves: the most that a ragged sample takes follows from its operators where they say it, and else from what is
 * given; where nothing differs it is the same pipeline without `ragged`. */
static void test_ragged(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        uint64_t most; /* pixels; 0: it is open */
    } cases[] = {
        {"{\"steps\":[],\"ragged\":true}", 0},
        {"{\"steps\":[],\"ragged\":700}", 700},
        {"{\"steps\":[{\"random_shortest_size\":{\"min_size\":80,\"max_size\":133}}],\"ragged\":true}", 80 * 133},
        {"{\"steps\":[{\"random_shortest_size\":{\"min_size\":80}}],\"ragged\":true}", 0},
        {"{\"steps\":[{\"resize\":{\"size\":80,\"max_size\":100}},{\"random_zoom_out\":{\"side_range\":[1,2]}}],"
         "\"ragged\":true}",
         4 * 80 * 100},
        {"{\"steps\":[{\"random_choice\":{\"transforms\":[{\"resize\":{\"size\":80,\"max_size\":100}},"
         "{\"resize\":{\"size\":9,\"max_size\":10}}]}}],\"ragged\":true}",
         80 * 100},
        {"{\"steps\":[{\"random_apply\":{\"transforms\":[{\"resize\":{\"size\":80,\"max_size\":100}}]}}],"
         "\"ragged\":true}",
         0},
        {"{\"steps\":[{\"resize\":{\"size\":80,\"max_size\":100}},{\"pad\":{\"padding\":1}}],\"ragged\":true}", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pipeline *pipeline = NULL;
        struct error err;
        if (pipeline_parse_open(cases[i].json, strlen(cases[i].json), &pipeline, &err))
            fail_msg("%s: %s", cases[i].json, err.text);
        assert_true(pipeline_is_ragged(pipeline));
        assert_int_equal(pipeline_is_open(pipeline), cases[i].most == 0);
        if (!cases[i].most)
            assert_int_equal(pipeline_close_ragged(&pipeline, 700, NULL), 0);
        uint64_t bytes = (cases[i].most ? cases[i].most : 700) * 3;
        assert_int_equal(pipeline_layout(pipeline)->bytes, 64 + (bytes + 63) / 64 * 64);
        pipeline_unref(&pipeline);
    }
    struct pipeline *plain = parse("[{\"center_crop\":{\"size\":8}}]"),
                    *same = parse("{\"steps\":[{\"center_crop\":{\"size\":8}}],\"ragged\":true}");
    assert_string_equal(pipeline_canonical(plain), pipeline_canonical(same));
    assert_false(pipeline_is_ragged(same));
    pipeline_unref(&plain);
    pipeline_unref(&same);
}

/* Proves: only what some size of the images could close is open; and a size that cannot close a pipeline is refused,
 * with the operator that it does not suit, and leaves it as it was. */
static void test_not_closed(void **state)
{
    (void)state;
    static const char crop[] = "[{\"resize\": {\"size\": 5}}]", turn[] = "[{\"random_rotation\": {\"degrees\": 9, "
                                                                         "\"expand\": true}}]";
    static const char choice[] =
        "[{\"random_choice\": {\"transforms\": [{\"pad\": {\"padding\": 1}}, \"autocontrast\"]}}]";
    struct pipeline *pipeline = NULL;
    struct error err;
    assert_int_equal(pipeline_parse_open(turn, sizeof turn - 1, &pipeline, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "different sizes: end it with a crop"));
    assert_null(pipeline);
    assert_int_equal(pipeline_parse_open(crop, sizeof crop - 1, &pipeline, &err), 0);
    struct pipeline *before = pipeline;
    assert_int_equal(pipeline_close(&pipeline, (struct image_size){.width = 9000, .height = 5}, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "for images of 9000 × 5 pixels: pipeline[0] exact_size: size must be"));
    assert_ptr_equal(pipeline, before);
    pipeline_unref(&pipeline);
    assert_int_equal(pipeline_parse_open(choice, sizeof choice - 1, &pipeline, &err), 0);
    assert_int_equal(pipeline_close(&pipeline, (struct image_size){.width = 9, .height = 5}, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "different shapes"));
    pipeline_unref(&pipeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_ragged),
        cmocka_unit_test(test_sample_bytes),
        cmocka_unit_test(test_not_closed),
        cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_canonical_is_stable),
        cmocka_unit_test(test_shape),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_bounded),
        cmocka_unit_test(test_empty_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
