/* test_views.c: what views of one image are, and how they are written down. */
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "prepare_fixture.h"
#include "preprocess/pipeline_priv.h"

#define LARGE(blur, more)                                                                                           \
    "[{\"random_resized_crop\": {\"size\": 48, \"scale\": [0.4, 1]}}, \"random_horizontal_flip\", "                 \
    "{\"random_apply\": {\"transforms\": [{\"color_jitter\": {\"brightness\": 0.4, \"hue\": 0.1}}], \"p\": 0.8}}, " \
    "{\"random_grayscale\": {\"p\": 0.2}}, {\"pil_gaussian_blur\": {\"p\": " blur "}}" more "]"
#define SOLARIZE ", {\"random_solarize\": {\"threshold\": 128, \"p\": 0.2}}"
#define SMALL "[{\"random_resized_crop\": {\"size\": 20, \"scale\": [0.05, 0.4]}}, \"random_horizontal_flip\"]"
#define FLOATS                                                                                                 \
    "[{\"center_crop\": {\"size\": 33}}, {\"to_dtype\": {\"dtype\": \"float32\"}}, {\"layout\": {\"layout\": " \
    "\"CHW\"}}]"

struct program {
    const char *text;
    const char *lists[PIPELINE_VIEWS_MAX]; /* of each view */
};

static const struct program programs[] = {
    {"{\"views\": [{\"steps\": " LARGE("1", "") "}, {\"steps\": " LARGE("0.1", SOLARIZE) "}]}", /* BYOL */
     {LARGE("1", ""), LARGE("0.1", SOLARIZE)}},
    {"{\"views\": [{\"count\": 2, \"steps\": " LARGE("0.5", "") "}]}", /* SimCLR */
     {LARGE("0.5", ""), LARGE("0.5", "")}},
    {"{\"views\": [{\"steps\": " LARGE("1", "") "}, {\"steps\": " LARGE("0.1", SOLARIZE) /* DINO */
     "}, {\"name\": \"small\", \"count\": 8, \"steps\": " SMALL "}]}",
     {LARGE("1", ""), LARGE("0.1", SOLARIZE), SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL}},
    {"{\"views\": [{\"steps\": " SMALL "}, {\"steps\": " FLOATS "}]}", {SMALL, FLOATS}},
};

enum { PROGRAMS = sizeof programs / sizeof *programs };

/* make_alone makes what view `number` is: its list alone, with the key and the view's streams. */
static uint8_t *make_alone(const struct encoded *jpeg, const char *list, uint32_t number, const uint64_t key[3])
{
    struct pipeline *pipeline = parse(list);
    pipeline->stream = number << 8;
    struct prepare_output output = {
        .pipeline = pipeline, .key = {key[0], key[1], key[2]}, .dst = xmalloc(pipeline_layout(pipeline)->bytes)};
    enum bad_reason reason;
    assert_int_equal(prepare_sample(scratch, jpeg->data, jpeg->len_bytes, &output, 1, &reason, NULL), 0);
    pipeline_unref(&pipeline);
    return output.dst;
}

/* check_views compares the views of a made output with their lists alone, and the views of one list with each other. */
static void check_views(const struct encoded *jpeg, const struct program *program, const struct prepare_output *output)
{
    const struct sample_layout *layout = pipeline_layout(output->pipeline);
    for (uint32_t i = 0; i < layout->n; i++) {
        const struct sample_field *field = &layout->fields[i];
        struct pipeline *list = parse(program->lists[i]);
        size_t bytes = pipeline_layout(list)->bytes;
        uint8_t *alone = make_alone(jpeg, program->lists[i], i, output->key),
                *view = (uint8_t *)output->dst + field->offset;
        assert_memory_equal(view, alone, bytes);
        if (i && strcmp(program->lists[i], program->lists[i - 1]) == 0)
            assert_memory_not_equal(view, (uint8_t *)output->dst + layout->fields[i - 1].offset, bytes);
        free(alone);
        pipeline_unref(&list);
    }
}

/* Proves: a view is, byte for byte, what its list makes alone with the same key and the view's streams; the first
 * view's are a list's. Views of one list differ. All of a sample take one decode, and so do several programs. */
static void test_views_are_their_lists(void **state)
{
    (void)state;
    uint8_t *pixels = picture(160, 120, 3, 9);
    struct encoded jpeg = encode_jpeg(pixels, 160, 120, &(struct jpeg_form){3, 2, 2, false, 85, 0, 0});
    for (uint64_t instance = 0; instance < 6; instance++) {
        struct prepare_output outputs[PROGRAMS];
        enum bad_reason reason;
        for (size_t i = 0; i < PROGRAMS; i++) {
            struct pipeline *pipeline = parse(programs[i].text);
            outputs[i] = (struct prepare_output){
                .pipeline = pipeline, .key = {1, 2, instance}, .dst = xmalloc(pipeline_layout(pipeline)->bytes)};
        }
        uint64_t before = prepare_scratch_counts(scratch).decodes;
        assert_int_equal(prepare_sample(scratch, jpeg.data, jpeg.len_bytes, outputs, PROGRAMS, &reason, NULL), 0);
        assert_int_equal(prepare_scratch_counts(scratch).decodes - before, 1);
        for (size_t i = 0; i < PROGRAMS; i++) {
            check_views(&jpeg, &programs[i], &outputs[i]);
            free(outputs[i].dst);
            pipeline_unref((struct pipeline **)&outputs[i].pipeline);
        }
    }
    encoded_free(&jpeg);
    free(pixels);
}

/* Proves: outputs whose views are more than a set holds are all made, with a decode for each set. */
static void test_many(void **state)
{
    (void)state;
    static const struct program sixteen = {"{\"views\": [{\"count\": 16, \"steps\": " SMALL "}]}",
                                           {SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL, SMALL,
                                            SMALL, SMALL, SMALL, SMALL, SMALL}};
    enum { N = 9 };
    uint8_t *pixels = picture(90, 70, 3, 9);
    struct encoded jpeg = encode_jpeg(pixels, 90, 70, &(struct jpeg_form){3, 2, 2, false, 85, 0, 0});
    struct pipeline *pipeline = parse(sixteen.text);
    struct prepare_output outputs[N];
    enum bad_reason reason;
    for (size_t i = 0; i < N; i++)
        outputs[i] = (struct prepare_output){
            .pipeline = pipeline, .key = {1, 2, i}, .dst = xmalloc(pipeline_layout(pipeline)->bytes)};
    uint64_t before = prepare_scratch_counts(scratch).decodes;
    assert_int_equal(prepare_sample(scratch, jpeg.data, jpeg.len_bytes, outputs, N, &reason, NULL), 0);
    assert_int_equal(prepare_scratch_counts(scratch).decodes - before, 3);
    for (size_t i = 0; i < N; i++) {
        check_views(&jpeg, &sixteen, &outputs[i]);
        free(outputs[i].dst);
    }
    pipeline_unref(&pipeline);
    encoded_free(&jpeg);
    free(pixels);
}

/* Proves: a view that an image is too small for makes the sample bad, with the view's name, and no other output. */
static void test_bad_view(void **state)
{
    (void)state;
    uint8_t *pixels = picture(40, 30, 3, 9);
    struct encoded jpeg = encode_jpeg(pixels, 40, 30, &(struct jpeg_form){3, 2, 2, false, 85, 0, 0});
    struct pipeline *bad = parse("{\"views\": [{\"steps\": " SMALL "}, {\"name\": \"corner\", \"steps\": "
                                 "[{\"corner_crop\": {\"size\": 35}}]}]}"),
                    *good = parse(SMALL);
    struct prepare_output outputs[] = {{.pipeline = bad, .dst = xmalloc(pipeline_layout(bad)->bytes)},
                                       {.pipeline = good, .dst = xmalloc(pipeline_layout(good)->bytes)}};
    enum bad_reason reason;
    struct error err;
    assert_int_not_equal(prepare_sample(scratch, jpeg.data, jpeg.len_bytes, outputs, 2, &reason, &err), 0);
    assert_int_equal(reason, BAD_TOO_SMALL);
    assert_int_equal(outputs[1].reason, BAD_NONE);
    assert_non_null(strstr(err.text, "view corner: pipeline[0] corner_crop: "));
    for (int i = 0; i < 2; i++)
        free(outputs[i].dst);
    pipeline_unref(&bad);
    pipeline_unref(&good);
    encoded_free(&jpeg);
    free(pixels);
}

#define CROP_AND_FLIP "[{\"center_crop\": {\"size\": 8}}, \"random_horizontal_flip\"]"
#define ONCE_MORE "{\"count\": 1, \"steps\": [{\"random_horizontal_flip\": {\"p\": 0.5}}]}"

/* Proves: programs that mean the same have one normal form, whose normal form it is; names and order make others. */
static void test_normal_form(void **state)
{
    (void)state;
    static const char *const same[] = {
        "{\"views\": [{\"count\": 2, \"steps\": " CROP_AND_FLIP "}]}",
        "{\"steps\": [{\"center_crop\": {\"size\": [8, 8]}}], \"views\": [{\"steps\": "
        "[\"random_horizontal_flip\"]}, " ONCE_MORE "]}",
    };
    static const char *const others[] = {
        "{\"views\": [{\"name\": \"a\", \"count\": 2, \"steps\": " CROP_AND_FLIP "}]}",
        "{\"views\": [{\"count\": 3, \"steps\": " CROP_AND_FLIP "}]}",
        CROP_AND_FLIP,
    };
    struct pipeline *first = parse(same[0]), *second = parse(same[1]), *again = parse(pipeline_canonical(first));
    assert_string_equal(pipeline_canonical(first), pipeline_canonical(second));
    assert_string_equal(pipeline_canonical(first), pipeline_canonical(again));
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct pipeline *other = parse(others[i]);
        assert_string_not_equal(pipeline_canonical(first), pipeline_canonical(other));
        pipeline_unref(&other);
    }
    pipeline_unref(&first);
    pipeline_unref(&second);
    pipeline_unref(&again);
}

/* Proves: fields have the views' names and shapes, each at a multiple of 64 bytes. */
static void test_layout(void **state)
{
    (void)state;
    struct pipeline *pipeline = parse("{\"views\": [{\"name\": \"large\", \"count\": 2, \"steps\": [{\"center_crop\": "
                                      "{\"size\": 5}}]}, {\"steps\": " FLOATS "}]}");
    const struct sample_layout *layout = pipeline_layout(pipeline);
    static const char *const names[] = {"large_0", "large_1", "view_2"};
    static const uint32_t offsets[] = {0, 128, 256};
    assert_int_equal(layout->n, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(layout->fields[i].name, names[i]);
        assert_int_equal(layout->fields[i].offset, offsets[i]);
    }
    assert_int_equal(layout->fields[2].dtype, PIXEL_FLOAT32);
    assert_int_equal(layout->fields[2].kind, FIELD_IMAGE_CHW);
    assert_int_equal(layout->bytes, 256 + 33 * 33 * 3 * 4);
    pipeline_unref(&pipeline);
}

/* Proves: views that keep the image's size are open, and closed for one size; the others get that size too. */
static void test_open(void **state)
{
    (void)state;
    static const char text[] =
        "{\"views\": [{\"steps\": [\"random_horizontal_flip\"]}, {\"steps\": [{\"resize\": {\"size\": "
        "[4, 6]}}]}]}";
    struct pipeline *pipeline = NULL;
    assert_int_equal(pipeline_parse(text, strlen(text), &pipeline, NULL), LARDER_EINVAL);
    assert_int_equal(pipeline_parse_open(text, strlen(text), &pipeline, NULL), 0);
    assert_true(pipeline_is_open(pipeline));
    assert_int_equal(pipeline_close(&pipeline, (struct image_size){.width = 20, .height = 10}, NULL), 0);
    assert_int_equal(pipeline_layout(pipeline)->fields[0].dims[0], 10);
    assert_int_equal(pipeline_layout(pipeline)->fields[1].dims[1], 6);
    pipeline_unref(&pipeline);
}

/* Proves: operators that may draw but never do are not random, so that such views for evaluation come again. */
static void test_fixed(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool random;
    } cases[] = {
        {"{\"steps\": [{\"center_crop\": {\"size\": 8}}], \"views\": [{\"steps\": []}, {\"steps\": "
         "[{\"random_horizontal_flip\": {\"p\": 1}}]}, {\"steps\": [{\"random_rotation\": {\"degrees\": [90, 90]}}]}]}",
         false},
        {"[{\"center_crop\": {\"size\": 8}}, {\"random_vertical_flip\": {\"p\": 0}}]", false},
        {"{\"views\": [{\"steps\": [{\"center_crop\": {\"size\": 8}}]}, {\"steps\": [{\"random_crop\": {\"size\": "
         "8}}]}]}",
         true},
        {"[{\"center_crop\": {\"size\": 8}}, \"random_vertical_flip\"]", true},
        {"[{\"center_crop\": {\"size\": 8}}, {\"random_rotation\": {\"degrees\": [89, 90]}}]", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pipeline *pipeline = parse(cases[i].text);
        assert_int_equal(pipeline_is_random(pipeline), cases[i].random);
        pipeline_unref(&pipeline);
    }
}

#define VIEW(rest) "{\"views\": [{\"steps\": [{\"center_crop\": {\"size\": 8}}]" rest "}]}"

/* Proves: what is no program is refused, with the place or the view's name. */
static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"{\"views\":\n  [{]}", "not JSON, at line 2, column "},
        {"{}", "an object has `views`"},
        {"{\"views\": []}", "an object has `views`"},
        {"{\"views\": {}}", "an object has `views`"},
        {"{\"steps\": 1, \"views\": [{\"steps\": []}]}", "an object has `views`"},
        {"{\"parts\": {}, \"views\": [{\"steps\": []}]}", "an object with parts has no member 'views'"},
        {"{\"views\": [1]}", "views[0]: a view is"},
        {"{\"views\": [{\"name\": \"a\"}]}", "views[0]: a view is"},
        {VIEW(", \"name\": 1"), "views[0]: a view is"},
        {VIEW(", \"times\": 2"), "views[0]: a view has no member 'times'"},
        {VIEW(", \"count\": 0"), "views[0]: count must be 1 to 16"},
        {VIEW(", \"count\": 17"), "views[0]: count must be 1 to 16"},
        {VIEW(", \"count\": \"2\""), "views[0]: count must be 1 to 16"},
        {VIEW(", \"name\": \"Large\""), "view 'Large': a name is"},
        {VIEW(", \"name\": \"image\""), "view 'image': a name is"},
        {VIEW(", \"name\": \"\""), "view '': a name is"},
        {VIEW(", \"name\": \"a\\\"\""), "a name is"},
        {VIEW(", \"name\": \"abcdefghijklmnopqrstuvwx\""), "a name is"},
        {VIEW(", \"name\": \"abcdefghijklmnopqrstuv\", \"count\": 2"), "a name is"},
        {"{\"views\": [{\"name\": \"a\", \"steps\": [{\"center_crop\": {\"size\": 8}}]}, {\"name\": \"a\", \"steps\": "
         "[{\"center_crop\": {\"size\": 8}}]}]}",
         "view a: two views have this name"},
        {"{\"views\": [{\"steps\": []}]}", "view view_0: it has no operators"},
        {"{\"views\": [{\"name\": \"small\", \"steps\": [{\"center_crop\": {\"size\": 8}}, \"blur\"]}]}",
         "view small: pipeline[1]: 'blur' is no operator"},
        {"{\"views\": [{\"count\": 9, \"steps\": [{\"center_crop\": {\"size\": 8}}]}, {\"count\": 8, \"steps\": "
         "[{\"center_crop\": {\"size\": 8}}]}]}",
         "at most 16 views"},
        {"{\"views\": [{\"count\": 16, \"steps\": [{\"center_crop\": {\"size\": 8192}}, {\"to_dtype\": {\"dtype\": "
         "\"float32\"}}]}]}",
         "over 4 GiB"},
        {"7", "must be a list of operators"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pipeline *pipeline = NULL;
        struct error err;
        assert_int_equal(pipeline_parse(cases[i].text, strlen(cases[i].text), &pipeline, &err), LARDER_EINVAL);
        if (!strstr(err.text, cases[i].says))
            fail_msg("%s: %s", cases[i].text, err.text);
    }
}

/* Proves: a program has a longest normal form, and lists of views their most operators. */
static void test_limits(void **state)
{
    (void)state;
    char text[16384];
    struct pipeline *pipeline = NULL;
    struct error err;
    for (int ops = 63; ops <= 64; ops++) { /* with the one in front of them */
        size_t len = (size_t)snprintf(text, sizeof text,
                                      "{\"steps\": [{\"center_crop\": {\"size\": 8}}], \"views\": [");
        for (int i = 0; i < ops; i++)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s\"random_horizontal_flip\"",
                                    i ? "," : "{\"steps\": [");
        snprintf(text + len, sizeof text - len, "]}]}");
        assert_int_equal(pipeline_parse(text, strlen(text), &pipeline, &err), ops == 63 ? 0 : LARDER_EINVAL);
        pipeline_unref(&pipeline);
    }
    assert_non_null(strstr(err.text, "view view_0: a pipeline has at most 64 operators"));
    size_t len = (size_t)snprintf(text, sizeof text, "{\"steps\": [{\"center_crop\": {\"size\": 8}}");
    for (int i = 0; i < 60; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, ",\"rand_augment\"");
    for (int i = 0; i < 16; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s{\"steps\": [{\"pad\": {\"padding\": %d}}]}",
                                i ? "," : "], \"views\": [", i);
    snprintf(text + len, sizeof text - len, "]}");
    assert_int_equal(pipeline_parse(text, strlen(text), &pipeline, &err), LARDER_EINVAL);
    assert_non_null(strstr(err.text, "may take 24576"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_views_are_their_lists),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_bad_view),
        cmocka_unit_test(test_normal_form),
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_open),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, prepare_begin, prepare_end);
}
