/* fuzz_view.c: proves that no text makes view_parse or view_eval crash, and that what is accepted selects samples of
 * the dataset, each once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "sampler/view_priv.h"
#include "tests/fuzz/fuzz.h"

static const char *const seeds[] = {
    "{\"classes\": [\"n015*\", \"cat\"]}",
    "{\"range\": [3, 40]}",
    "{\"fraction\": 0.1, \"seed\": 3}",
    "{\"list\": \"/nowhere/list.txt\"}",
    "{\"union\": [{\"range\": [0, 1]}, {\"intersection\": [{\"classes\": [\"[a-d]*\"]}, {\"fraction\": 0.5}]}]}",
    "{\"difference\": [{\"range\": [0, 64]}, {\"classes\": [\"?og\", \"b\\\\*\"]}, {\"fraction\": 1e-2, \"seed\": 9}]}",
};

static const char *const classes[] = {"ant", "b*", "cat", "dog", "n01500", "n01501"};

size_t fuzz_seed(size_t index, uint8_t *buf, size_t cap)
{
    if (index >= sizeof seeds / sizeof *seeds)
        return 0;
    size_t len = strlen(seeds[index]);
    CHECK(len <= cap);
    memcpy(buf, seeds[index], len);
    return len;
}

static sample_id id_of(const void *dataset, uint32_t index)
{
    (void)dataset;
    return index ^ 1;
}

static int32_t label_of(const void *dataset, uint32_t index)
{
    (void)dataset;
    return (int32_t)(index / 11);
}

static const char *key_of(const void *dataset, uint32_t index)
{
    (void)dataset;
    return index % 2 ? "cat/1.jpg" : "dog/2.jpg";
}

static const char *class_of(const void *dataset, uint32_t label)
{
    (void)dataset;
    return classes[label];
}

/* A list file would be the host's. */
static bool names_list(const struct view_node *node)
{
    bool names = node->op == VIEW_LIST;
    for (size_t i = 0; i < node->n_parts && !names; i++)
        names = names_list(node->parts[i]);
    return names;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct view_source source = {.path = "/data",
                                              .count = 66,
                                              .n_classes = 6,
                                              .id = id_of,
                                              .label = label_of,
                                              .key = key_of,
                                              .class_name = class_of};
    struct view *view;
    struct error err = {0};
    if (view_parse((const char *)data, size, &view, &err)) {
        CHECK(err.code == LARDER_EINVAL && err.text[0]);
        return 0;
    }
    struct view_result result = {0};
    if (!names_list(view->root) && view_eval(view, &source, &result, &err) == 0) {
        CHECK(result.count > 0 && idset_count(result.ids) == result.count);
        for (uint32_t i = 0; i < result.count; i++)
            CHECK(result.indices[i] < source.count && (i == 0 || result.indices[i - 1] < result.indices[i]) &&
                  idset_contains(result.ids, result.order[i]));
    }
    view_result_clear(&result);
    view_destroy(view);
    return 0;
}
