/* pipeline_list.c: makes a pipeline of a list of operators, and finds the shape of its samples. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/pipeline_priv.h"
#include "preprocess/sound/sound.h"

/* A group's alternatives begin with the same shape, and must end with the same. If the group may do nothing, they must
 * end with the shape before it. */
struct group_shape {
    uint32_t group;
    uint32_t alternative; /* the alternative being checked */
    struct op_shape before, after;
    bool ended; /* an alternative has ended, and `after` is its shape */
};

static bool same_shape(const struct op_shape *a, const struct op_shape *b)
{
    return a->width == b->width && a->height == b->height && a->channels == b->channels && a->dtype == b->dtype &&
           a->layout == b->layout;
}

static bool is_known(const struct op_shape *shape)
{
    return shape->width && shape->height;
}

static int end_alternative(struct group_shape *at, const struct op_shape *shape, struct error *err)
{
    if (at->ended && !same_shape(&at->after, shape))
        return error_set(err, LARDER_EINVAL,
                         "the alternatives of a random_choice or random_apply give samples of "
                         "different shapes: make them alike");
    uint64_t most = at->after.most;
    bool grows = !at->ended || (most && (!shape->most || shape->most > most));
    at->after = *shape;
    at->after.most = grows ? shape->most : most;
    at->ended = true;
    return 0;
}

/* follow_group goes on to `op`, or past the end where it is NULL: *shape becomes what the operator gets. */
static int follow_group(struct group_shape *at, const struct pipeline_op *op, struct op_shape *shape, struct error *err)
{
    uint32_t group = op ? op->group : 0;
    bool begins = group != at->group, turns = !begins && group && op->alternative != at->alternative;
    int rc = 0;
    if (at->group && (begins || turns))
        rc = end_alternative(at, shape, err);
    if (rc == 0 && turns)
        *shape = at->before;
    if (rc == 0 && begins && at->group)
        shape->most = at->after.most;
    if (rc == 0 && begins) {
        *at = (struct group_shape){.group = group, .before = *shape, .after = *shape};
        at->ended = group && op->may_skip;
    }
    if (group)
        at->alternative = op->alternative;
    return rc;
}

/* refuse_subject says why operator i cannot follow those before it. */
static int refuse_subject(const struct pipeline *pipeline, uint32_t i, struct error *err)
{
    const struct op_kind *kind = pipeline->ops[i].kind, *first = pipeline->ops[0].kind;
    if (pipeline->subject == OP_ARRAY)
        return error_set(err, LARDER_EINVAL, "pipeline[%u] %s: array stands alone, for arrays stay as they are", i,
                         kind->name);
    return error_set(err, LARDER_EINVAL, "pipeline[%u] %s: it works on %s, and %s before it does not", i, kind->name,
                     kind->flags & OP_SOUND   ? "sounds"
                     : kind->flags & OP_ARRAY ? "arrays"
                                              : "images",
                     first->name);
}

/* flow_shape makes *shape, which is the images', that of the samples. */
static int flow_shape(struct pipeline *pipeline, struct op_shape *shape, struct error *err)
{
    struct group_shape group = {0};
    for (uint32_t i = 0; i < pipeline->n_ops; i++) {
        const struct pipeline_op *op = &pipeline->ops[i];
        int followed = follow_group(&group, op, shape, err);
        if (followed)
            return error_prefix(err, followed, "pipeline[%u]", i - 1);
        if ((op->kind->flags & (OP_SOUND | OP_ARRAY)) != pipeline->subject || (op->kind->flags & OP_ARRAY && i))
            return refuse_subject(pipeline, i, err);
        if (shape->dtype != PIXEL_UINT8 && !(op->kind->flags & OP_FLOAT))
            return error_set(err, LARDER_EINVAL, "pipeline[%u] %s: it works on 8-bit pixels: put it before to_dtype", i,
                             op->kind->name);
        shape->place = i;
        int rc = op->kind->shape ? op->kind->shape(op->values, shape, err) : 0;
        if (rc)
            return error_prefix(err, rc, "pipeline[%u] %s", i, op->kind->name);
        if (is_known(shape))
            shape->most = (uint64_t)shape->width * shape->height;
        if (shape->dtype == PIXEL_UINT8)
            pipeline->n_pixel_ops = i + 1;
    }
    return follow_group(&group, NULL, shape, err);
}

static int set_shape(struct pipeline *pipeline, const struct op_shape *shape, struct error *err)
{
    const struct image_shape image = {.height = shape->height,
                                      .width = shape->width,
                                      .channels = shape->channels,
                                      .dtype = shape->dtype,
                                      .layout = shape->layout};
    pipeline->shape = *shape;
    pipeline->most_pixels = shape->most;
    pipeline->layout = sample_layout_of_image(&image);
    pipeline->plain = shape->dtype == PIXEL_UINT8 && shape->layout == LAYOUT_HWC && shape->channels == IMAGE_CHANNELS;
    if (pipeline->layout.bytes > UINT32_MAX)
        return error_set(err, LARDER_EINVAL, "a sample of %u × %u × %u takes over 4 GiB: make it smaller",
                         shape->height, shape->width, shape->channels);
    return 0;
}

/* set_array is set_shape for a pipeline whose samples are no images. */
static int set_array(struct pipeline *pipeline, struct op_shape *shape, struct error *err)
{
    int rc = 0;
    if (pipeline->subject == OP_SOUND)
        rc = sound_check(err);
    if (rc == 0 && pipeline->subject == OP_SOUND)
        rc = sound_recipe_settle(&shape->sound, &shape->array, err);
    if (rc)
        return rc;
    pipeline->sound = shape->sound;
    pipeline->layout = shape->array;
    return 0;
}

int pipeline_refuse_sizes(struct error *err)
{
    return error_set(err, LARDER_EINVAL,
                     "the pipeline makes samples of different sizes: end it with a crop, such as {\"center_crop\": "
                     "{\"size\": 224}}, or resize to [height, width], or take lists of them, with ragged=True");
}

/* find_shape finds the shape of the samples. If it depends on the images', the pipeline is open. It is refused when
 * images of one size do not make samples of one either; that is tried with some size. A ragged one may have any. */
static int find_shape(struct pipeline *pipeline, bool ragged, struct error *err)
{
    struct op_shape shape = {.channels = IMAGE_CHANNELS};
    struct op_shape closed = {.width = OP_SIZE_MAX, .height = OP_SIZE_MAX, .channels = IMAGE_CHANNELS};
    pipeline->subject = pipeline->n_ops ? pipeline->ops[0].kind->flags & (OP_SOUND | OP_ARRAY) : 0;
    int rc = flow_shape(pipeline, &shape, err);
    if (rc == 0 && pipeline->subject)
        return set_array(pipeline, &shape, err);
    if (rc || (pipeline->n_ops == 0 && !ragged)) /* none: encoded bytes as they are */
        return rc;
    if (is_known(&shape) || ragged)
        return set_shape(pipeline, &shape, err);
    if (flow_shape(pipeline, &closed, NULL) == 0 && !is_known(&closed))
        return pipeline_refuse_sizes(err);
    pipeline->open = true;
    return 0;
}

/* The text of a group's first operator is that of the whole group. */
static const char *written(const struct pipeline_op *op)
{
    if (!op->group)
        return op->canonical;
    return op->group_canonical ? op->group_canonical : "";
}

static int write_canonical(struct pipeline *pipeline)
{
    size_t bytes = 3;
    for (uint32_t i = 0; i < pipeline->n_ops; i++)
        bytes += strlen(written(&pipeline->ops[i])) + 1;
    char *end = pipeline->canonical = malloc(bytes);
    if (!end)
        return LARDER_ENOMEM;
    *end++ = '[';
    for (uint32_t i = 0; i < pipeline->n_ops; i++) {
        const char *text = written(&pipeline->ops[i]);
        if (i && *text)
            *end++ = ',';
        end = stpcpy(end, text);
    }
    memcpy(end, "]", 2);
    return 0;
}

int pipeline_list_parse(const json_t *list, bool ragged, struct pipeline **out, struct error *err)
{
    size_t count = json_array_size(list);
    struct pipeline *pipeline = pipeline_make(PIPELINE_OPS_MAX);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = pipeline_group_parse(json_array_get(list, i), i, pipeline, err);
    if (rc == 0 && count && !pipeline->n_ops)
        rc = error_set(err, LARDER_EINVAL,
                       "the pipeline's groups are empty: give operators, or [] for the files as "
                       "they are");
    if (rc == 0)
        rc = find_shape(pipeline, ragged, err);
    if (rc == 0 && write_canonical(pipeline))
        rc = error_set(err, LARDER_ENOMEM, "out of memory");
    if (rc)
        pipeline_unref(&pipeline);
    else
        *out = pipeline;
    return rc;
}
