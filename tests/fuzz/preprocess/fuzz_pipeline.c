/* fuzz_pipeline.c: proves that no text makes pipeline_parse_open read outside it, and that what it takes, closed where
 * it is open, has a normal form that parses to itself and to the same shape. */
#include <string.h>

#include "common/check.h"
#include "preprocess/pipeline.h"
#include "tests/fuzz/fuzz.h"

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    static const char *const seeds[] = {
        "[]",
        "[{\"random_resized_crop\": {\"size\": 224, \"scale\": [0.08, 1.0]}}, \"random_horizontal_flip\"]",
        "[{\"resize\": {\"size\": 256, \"max_size\": 300, \"interpolation\": \"bicubic\"}}, {\"center_crop\": "
        "{\"size\": [224, 200]}}]",
        "[{\"random_crop\": {\"size\": 32, \"padding\": [4, 4], \"fill\": [1, 2, 3], \"padding_mode\": \"reflect\"}}, "
        "{\"trivial_augment_wide\": {}}]",
        "[{\"center_crop\": {\"size\": 8}}, {\"color_jitter\": {\"brightness\": 0.4, \"hue\": [-0.1, 0.1]}}, {\"pad\": "
        "{\"padding\": 3}}]",
        "[{\"center_crop\": {\"size\": 8}}, {\"to_dtype\": {\"dtype\": \"float16\", \"scale\": true}}, {\"normalize\": "
        "{\"mean\": [0.4, 0.4, 0.4], \"std\": 0.2}}, {\"random_erasing\": {\"value\": \"random\"}}, {\"layout\": "
        "{\"layout\": \"CHW\"}}]",
        "[{\"exact_size\": {\"size\": [48, 64]}}, {\"resize\": {\"size\": 20}}]",
        "[{\"resize\": {\"size\": 20}}, {\"random_apply\": {\"transforms\": [\"autocontrast\"]}}]",
        "[{\"center_crop\": {\"size\": 8}}, {\"random_rotation\": {\"degrees\": 30, \"center\": [1, 2.5]}}, "
        "{\"gaussian_blur\": {\"kernel_size\": [3, 5]}}, \"grayscale\"]",
        "[{\"center_crop\": {\"size\": 8}}, {\"rand_augment\": {\"num_ops\": 3}}, {\"random_solarize\": "
        "{\"threshold\": 1e2}}, \"autocontrast\"]",
        "[{\"scale_jitter\": {\"target_size\": 9}}, {\"center_crop_or_pad\": {\"size\": 8}}, {\"random_affine\": "
        "{\"degrees\": 9, \"translate\": 0.1, \"shear\": [1, 2, 3, 4]}}, {\"timm_rand_augment\": {\"mstd\": 0.5}}]",
        "{\"steps\": [{\"center_crop\": {\"size\": 8}}], \"views\": [{\"name\": \"large\", \"count\": 2, "
        "\"steps\": [\"random_horizontal_flip\"]}, {\"steps\": []}, {\"count\": 1, \"steps\": []}]}",
        "{\"views\": [{\"steps\": [\"random_horizontal_flip\"]}, {\"count\": 9, \"steps\": [{\"corner_crop\": "
        "{\"size\": "
        "8, \"corner\": \"bottom_left\"}}, {\"random_apply\": {\"transforms\": [\"autocontrast\"]}}]}]}",
        "{\"parts\": {\"image\": {}, \"mask\": {\"dtype\": \"int64\", \"fill\": 255}}, \"steps\": "
        "[{\"random_resized_crop\": {\"size\": 8}}, \"random_horizontal_flip\", {\"color_jitter\": {\"hue\": 0.1}}]}",
        "{\"parts\": {\"mask_a\": {}, \"b\": {\"kind\": \"image\"}}, \"steps\": [{\"pad\": {\"padding\": 3, \"fill\": "
        "[1, 1, 1]}}, {\"center_crop\": {\"size\": 8}}]}",
        "{\"parts\": {\"image\": {}, \"boxes\": {\"format\": \"XYWH\"}, \"labels\": {\"dtype\": \"float32\"}}, "
        "\"steps\": [\"random_photometric_distort\", \"random_zoom_out\", \"random_iou_crop\", {\"resize\": {\"size\": "
        "[8, 8]}}, {\"sanitize_bounding_boxes\": {\"min_size\": 2}}, \"clamp_bounding_boxes\"]}",
        "{\"parts\": {\"mask\": {}, \"labels\": {\"most\": 9, \"width\": 4}, \"points\": {\"most\": 2}, \"b\": "
        "{\"kind\": "
        "\"boxes\", \"most\": 65536}}, \"steps\": [\"random_vertical_flip\"]}",
        "[{\"random_segment\": {\"seconds\": 0.5}}, \"to_mono\", {\"resample\": {\"rate\": 16000}}, \"to_int16\"]",
        "{\"views\": [{\"count\": 2, \"steps\": [{\"segment\": {\"frames\": 9}}, \"to_stereo\", {\"random_gain\": "
        "{\"min\": -6, \"max\": 6}}]}]}",
        "{\"parts\": {\"mask\": {}}, \"steps\": [{\"random_segment\": {\"frames\": 9}}, \"to_mono\"]}",
        "[{\"array\": {\"dtype\": \"uint16\", \"shape\": [4, 8]}}]",
        "{\"steps\": [], \"ragged\": true}",
        "{\"steps\": [{\"random_choice\": {\"transforms\": [{\"random_shortest_size\": {\"min_size\": 8, \"max_size\": "
        "9}}, "
        "{\"resize\": {\"size\": 5, \"max_size\": 6}}]}}, \"random_zoom_out\"], \"ragged\": 4000}",
        "{\"parts\": {\"image\": {}, \"mask\": {}, \"boxes\": {}, \"labels\": {\"most\": 3}}, \"steps\": "
        "[{\"scale_jitter\": {\"target_size\": 9}}, \"random_iou_crop\"], \"ragged\": true}",
        "{\"views\": [{\"count\": 2, \"steps\": [{\"random_resize\": {\"min_size\": 4, \"max_size\": 8}}]}], "
        "\"ragged\": 9}",
    };
    if (index >= sizeof seeds / sizeof *seeds)
        return 0;
    size_t len = strlen(seeds[index]);
    CHECK(len <= cap);
    memcpy(buf, seeds[index], len);
    return len;
}

static bool known_rows(const void *context, const char *part, struct part_rows *out)
{
    (void)context;
    *out = (struct part_rows){.most = 5, .width = part[0] == 'l' ? 1 : 4, .whole = part[1] != 'o'};
    return part[0] != 'x';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pipeline *pipeline = NULL, *again = NULL;
    struct error err = {0};
    if (pipeline_parse_open((const char *)data, size, &pipeline, &err)) {
        CHECK(err.code == LARDER_EINVAL && err.text[0] != '\0' && !pipeline);
        return 0;
    }
    if (pipeline_bound(&pipeline, known_rows, NULL, &err)) {
        CHECK(err.code == LARDER_EINVAL && err.text[0] != '\0');
        pipeline_unref(&pipeline);
        return 0;
    }
    const struct image_size image = {.width = 64, .height = 48};
    bool open = pipeline_is_open(pipeline);
    if (open &&
        (pipeline_is_ragged(pipeline) ? pipeline_close_ragged(&pipeline, pipeline_try(pipeline, image) + 1, &err)
                                      : pipeline_close(&pipeline, image, &err))) {
        CHECK(err.code == LARDER_EINVAL && err.text[0] != '\0' && pipeline_is_open(pipeline));
        pipeline_unref(&pipeline);
        return 0;
    }
    const char *canonical = pipeline_canonical(pipeline);
    CHECK(pipeline_parse(canonical, strlen(canonical), &again, &err) == 0);
    CHECK(strcmp(canonical, pipeline_canonical(again)) == 0);
    CHECK(sample_layout_check(pipeline_layout(pipeline), NULL) == 0);
    CHECK(sample_layout_same(pipeline_layout(pipeline), pipeline_layout(again)));
    pipeline_unref(&pipeline);
    pipeline_unref(&again);
    return 0;
}
