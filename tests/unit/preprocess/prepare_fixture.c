#include "prepare_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/blocks.h"
#include "common/check.h"

/* How many instances of a pipeline are compared. With chance all draw their regions from the same distribution, and the
 * sanitizer makes each several times as dear. Without chance all are the same. */
#ifdef __SANITIZE_ADDRESS__
enum { INSTANCES = 4 };
#else
enum { INSTANCES = 12 };
#endif

const struct prepare_limits limits = {.pixels_max = 4000000, .scans_max = 64};
struct prepare_scratch *scratch;

int prepare_begin(void **state)
{
    (void)state;
    prepare_init();
    CHECK(prepare_scratch_create(&limits, &scratch) == 0);
    return 0;
}

int prepare_end(void **state)
{
    (void)state;
    prepare_scratch_destroy(scratch);
    return 0;
}

struct pipeline *parse(const char *json)
{
    struct pipeline *pipeline = NULL;
    struct error err = {0};
    if (pipeline_parse(json, strlen(json), &pipeline, &err))
        fail_msg("%s: %s", json, err.text);
    return pipeline;
}

struct made prepare(const struct encoded *encoded, const char *json, uint64_t instance)
{
    struct pipeline *pipeline = parse(json);
    struct made made = {.bytes = pipeline_layout(pipeline)->bytes};
    made.pixels = xmalloc(made.bytes);
    struct prepare_output output = {.pipeline = pipeline, .key = {1, 2, instance}, .dst = made.pixels};
    made.rc = prepare_sample(scratch, encoded->data, encoded->len_bytes, &output, 1, &made.reason, &made.err);
    pipeline_unref(&pipeline);
    return made;
}

void check_decoded(const struct encoded *encoded, const char *json, uint64_t instance, const struct made *made)
{
    struct pipeline *pipeline = parse(json);
    struct prepare_keep keep = {.most_bytes = SIZE_MAX};
    struct prepare_source source = {.bytes = encoded->data, .len_bytes = encoded->len_bytes, .keep = &keep};
    uint8_t *pixels = xmalloc(made->bytes);
    struct prepare_output output = {.pipeline = pipeline, .key = {1, 2, instance}, .dst = pixels};
    void *form = NULL;
    for (int round = 0; round < 2; round++) {
        enum bad_reason reason;
        struct error err;
        memset(pixels, 0xa5, made->bytes);
        if (prepare_image(scratch, &source, &output, 1, &reason, &err))
            fail_msg("%s, round %d: %s", json, round, err.text);
        if (memcmp(pixels, made->pixels, made->bytes) != 0)
            fail_msg("%s instance %d, round %d: the decoded form gives other pixels", json, (int)instance, round);
        form = form ? form : keep.form;
        assert_non_null(form);
        source = (struct prepare_source){.bytes = form, .decoded = true};
    }
    blocks_give(form);
    free(pixels);
    pipeline_unref(&pipeline);
}

const char *center_crop(uint32_t width, uint32_t height)
{
    static char json[96];
    snprintf(json, sizeof json, "[{\"center_crop\": {\"size\": [%u, %u]}}]", height, width);
    return json;
}

void compare_regional(const struct encoded *image, const uint8_t *pixels, uint32_t width, uint32_t height,
                      const char *name)
{
    static const struct {
        const char *json;
        uint64_t instances;
    } pipelines[] = {
        {"[{\"random_resized_crop\": {\"size\": 64}}, \"random_horizontal_flip\"]", INSTANCES},
        {"[{\"random_resized_crop\": {\"size\": [33, 70], \"scale\": [0.01, 0.2], \"interpolation\": \"bicubic\"}}, "
         "\"random_vertical_flip\"]",
         INSTANCES},
        {"[{\"resize\": {\"size\": 80}}, {\"center_crop\": {\"size\": 64}}]", 1},
        {"[{\"center_crop\": {\"size\": [51, 37]}}, {\"random_horizontal_flip\": {\"p\": 1}}]", 1},
        {"[{\"center_crop\": {\"size\": [7, 1]}}]", 1},
        {"[{\"center_crop\": {\"size\": 2000}}, {\"resize\": {\"size\": 50}}]", 1},
    };
    struct encoded png = encode_vips(pixels, width, height, 3, 8, ".png[compression=0]");
    for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
        for (uint64_t instance = 0; instance < pipelines[i].instances; instance++) {
            struct made a = prepare(image, pipelines[i].json, instance), b = prepare(&png, pipelines[i].json, instance);
            if (a.rc || b.rc)
                fail_msg("%s: %s %s", name, a.err.text, b.err.text);
            if (memcmp(a.pixels, b.pixels, a.bytes) != 0)
                fail_msg("%s: %s instance %d differs between regional and full decode", name, pipelines[i].json,
                         (int)instance);
            if (instance < 2)
                check_decoded(image, pipelines[i].json, instance, &a);
            free(a.pixels);
            free(b.pixels);
        }
    }
    encoded_free(&png);
}

void check_regional(const struct encoded *jpeg, const char *name)
{
    uint32_t width, height;
    uint8_t *pixels = decode_plain(jpeg, &width, &height);
    compare_regional(jpeg, pixels, width, height, name);
    free(pixels);
}
