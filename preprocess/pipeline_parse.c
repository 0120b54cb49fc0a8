/* pipeline_parse.c: makes a pipeline of its text, and closes an open one. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/pipeline_priv.h"

#define JSON_FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY)

/* refuse_boxes refuses operators for boxes in a pipeline that has no parts. */
static int refuse_boxes(struct pipeline **place, struct error *err)
{
    const struct pipeline *pipeline = *place;
    int rc = 0;
    for (uint32_t i = 0; i < (pipeline->n_views ? pipeline->n_views : 1) && rc == 0; i++) {
        const struct pipeline *one = pipeline->n_views ? pipeline->views[i] : pipeline;
        for (uint32_t j = 0; j < one->n_ops && rc == 0; j++) {
            if (one->ops[j].kind->flags & OP_BOXES)
                rc = error_set(err, LARDER_EINVAL, "pipeline[%u] %s: it is about boxes: give parts, of which one is", j,
                               one->ops[j].kind->name);
        }
    }
    if (rc)
        pipeline_unref(place);
    return rc;
}

int pipeline_parse_open(const char *json, size_t len_bytes, struct pipeline **out, struct error *err)
{
    json_error_t where;
    errno = 0; /* when memory runs out the library may report a wrong token, but malloc sets errno */
    json_t *list = json_loadb(json, len_bytes, JSON_FLAGS, &where);
    int rc;
    if (len_bytes == 0)
        rc = error_set(
            err, LARDER_EINVAL,
            "pipeline: none was given, and none is configured for this dataset: give a list of operators, or "
            "[] for the files as they are");
    else if (!list && errno == ENOMEM)
        rc = error_set(err, LARDER_ENOMEM, "pipeline: no memory to read it");
    else if (!list)
        rc = error_set(err, LARDER_EINVAL, "pipeline: not JSON, at line %d, column %d: %s", where.line, where.column,
                       where.text);
    else if (json_object_get(list, "ragged"))
        rc = pipeline_ragged_parse(list, out, err);
    else if (json_object_get(list, "parts"))
        rc = pipeline_parts_parse(list, false, out, err);
    else if (json_is_object(list))
        rc = pipeline_views_parse(list, false, out, err);
    else if (!json_is_array(list))
        rc = error_set(
            err, LARDER_EINVAL,
            "pipeline: must be a list of operators, such as [{\"random_resized_crop\": {\"size\": 224}}], or "
            "an object with views");
    else
        rc = pipeline_list_parse(list, false, out, err);
    if (rc == 0 && !json_object_get(list, "parts"))
        rc = refuse_boxes(out, err);
    json_decref(list);
    return rc;
}

int pipeline_parse(const char *json, size_t len_bytes, struct pipeline **out, struct error *err)
{
    struct pipeline *pipeline = NULL;
    int rc = pipeline_parse_open(json, len_bytes, &pipeline, err);
    if (rc == 0 && pipeline->open) {
        rc = pipeline->unbounded ? error_set(err, LARDER_EINVAL,
                                             "nothing says how many boxes, points or labels a sample has: give each "
                                             "part of them the most that one has, \"most\": 100")
             : pipeline->ragged
                 ? error_set(err, LARDER_EINVAL,
                             "nothing says how large the images are that the pipeline makes: give the most pixels that "
                             "one has, \"ragged\": 1000000, or a resize with max_size")
                 : pipeline_refuse_sizes(err);
        pipeline_unref(&pipeline);
    }
    if (rc == 0)
        *out = pipeline;
    return rc;
}

int pipeline_close(struct pipeline **place, struct image_size size, struct error *err)
{
    struct pipeline *open = *place, *closed = NULL;
    CHECK_MAGIC(open, PIPELINE_MAGIC);
    CHECK(open->open);
    if (open->ragged)
        return error_set(err, LARDER_EINVAL, "its samples differ in size: leave `ragged` out here");
    char *json = NULL;
    static const char steps[] = "{\"steps\":[";
    bool parts = open->n_views && open->views[0]->part[0]; /* the normal form begins with the steps */
    const char *begin = open->n_views ? steps : "[", *end = open->n_views && !parts ? "]" : "";
    int len = asprintf(&json, "%s{\"exact_size\":{\"size\":[%u,%u]}}%s,%s", begin, size.height, size.width, end,
                       open->canonical + (parts ? sizeof steps - 1 : 1));
    if (len < 0)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    int rc = pipeline_parse(json, (size_t)len, &closed, err);
    free(json);
    if (rc)
        return error_prefix(err, rc, "with exact_size in front, for images of %u × %u pixels", size.width, size.height);
    pipeline_unref(place);
    *place = closed;
    return 0;
}
