/* view_fixture.h: the dataset that the tests of views select from. */
#ifndef LARDER_TESTS_UNIT_SAMPLER_VIEW_FIXTURE_H
#define LARDER_TESTS_UNIT_SAMPLER_VIEW_FIXTURE_H

#include "sampler/view.h"
#include "sampler/view_priv.h"
#include "tests/unit/sampler/helpers.h"

#define SAMPLES 1000
#define PER_CLASS 100

static const char *const class_names[] = {"n01440764", "n01491361", "n01500000", "n01530575", "n01622779",
                                          "n02000000", "n02100000", "cat",       "dog",       "[odd]*"};

/* A dataset of ten classes with a hundred samples each; ids go down as indices go up, in pairs. */
static inline sample_id id_of(const void *dataset, uint32_t index)
{
    (void)dataset;
    return 5000 + (index ^ 1);
}

static inline int32_t label_of(const void *dataset, uint32_t index)
{
    (void)dataset;
    return (int32_t)(index / PER_CLASS);
}

static inline const char *key_of(const void *dataset, uint32_t index)
{
    static char key[64];
    (void)dataset;
    snprintf(key, sizeof key, "%s/img %u.jpg", class_names[index / PER_CLASS], index % PER_CLASS);
    return key;
}

static inline const char *class_of(const void *dataset, uint32_t label)
{
    (void)dataset;
    return class_names[label];
}

static const struct view_source source = {.path = "/data/set",
                                          .given_path = "/home/me/link/",
                                          .count = SAMPLES,
                                          .n_classes = 10,
                                          .id = id_of,
                                          .label = label_of,
                                          .key = key_of,
                                          .class_name = class_of};

static inline struct view *parse(const char *json)
{
    struct view *view;
    struct error err;
    if (view_parse(json, strlen(json), &view, &err))
        fail_msg("%s: %s", json, err.text);
    return view;
}

static inline void select_flags(const char *json, bool flags[SAMPLES])
{
    struct view *view = json ? parse(json) : NULL;
    struct view_result result;
    struct error err;
    if (view_eval(view, &source, &result, &err))
        fail_msg("%s: %s", json, err.text);
    memset(flags, 0, SAMPLES);
    assert_int_equal(idset_count(result.ids), result.count);
    for (uint32_t i = 0; i < result.count; i++) {
        assert_true(i == 0 || result.indices[i - 1] < result.indices[i]);
        assert_int_equal(result.order[i], id_of(NULL, result.indices[i]));
        assert_true(idset_contains(result.ids, result.order[i]));
        flags[result.indices[i]] = true;
    }
    view_result_clear(&result);
    view_result_clear(&result);
    view_destroy(view);
}

static inline uint32_t count_selected(const char *json)
{
    bool flags[SAMPLES];
    uint32_t count = 0;
    select_flags(json, flags);
    for (unsigned i = 0; i < SAMPLES; i++)
        count += flags[i];
    return count;
}

static inline void expect_eval_error(const char *json, int code, const char *says)
{
    struct view *view = parse(json);
    struct view_result result;
    struct error err = {0};
    assert_int_equal(view_eval(view, &source, &result, &err), code);
    if (strstr(err.text, says) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", json, err.text, says);
    view_destroy(view);
}

#endif
