#include "preprocess/pipeline.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/pipeline_priv.h"

#define OP(name) extern const struct op_kind op_##name;
#include "preprocess/ops/ops_table.h"
#undef OP

static const struct op_kind *const kinds[] = {
#define OP(name) &op_##name,
#include "preprocess/ops/ops_table.h"
#undef OP
};

#define KINDS (sizeof kinds / sizeof *kinds)
#define JSON_FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY)

static const struct op_kind *find_kind(const char *name, struct error *err)
{
    for (size_t i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    }
    char list[ERROR_TEXT_MAX - 80] = "";
    for (size_t i = 0; i < KINDS; i++) {
        size_t len = strlen(list);
        snprintf(list + len, sizeof list - len, "%s%s", i ? ", " : "", kinds[i]->name);
    }
    error_set(err, LARDER_EINVAL, "'%.40s' is no operator: use one of %s", name, list);
    return NULL;
}

/* An operator is a name, or an object with one member: the name with an object of arguments (or null). */
static int parse_op(const json_t *item, size_t index, struct pipeline_op *op, struct error *err)
{
    const char *name = json_string_value(item);
    json_t *given = NULL;
    if (json_is_object(item) && json_object_size(item) == 1) {
        void *iter = json_object_iter((json_t *)item);
        name = json_object_iter_key(iter);
        given = json_object_iter_value(iter);
    }
    if (!name)
        return error_set(err, LARDER_EINVAL, "pipeline[%zu]: an operator is a name, or {\"name\": {arguments}}", index);
    const struct op_kind *kind = find_kind(name, err);
    if (!kind)
        return error_prefix(err, LARDER_EINVAL, "pipeline[%zu]", index);
    op->kind = kind;
    op->values = xcalloc(1, kind->values_bytes);
    int rc = args_read(kind->args, json_is_null(given) ? NULL : given, op->values, err);
    if (rc == 0 && kind->check)
        rc = kind->check(op->values, err);
    if (rc)
        return error_prefix(err, rc, "pipeline[%zu] %s", index, kind->name);
    json_t *normal = json_pack("{s: o}", kind->name, args_write(kind->args, op->values));
    op->canonical = normal ? json_dumps(normal, JSON_COMPACT) : NULL;
    json_decref(normal);
    return op->canonical ? 0 : error_set(err, LARDER_ENOMEM, "out of memory");
}

static int flow_shape(struct pipeline *pipeline, struct error *err)
{
    struct op_shape shape = {.channels = IMAGE_CHANNELS};
    for (uint32_t i = 0; i < pipeline->n_ops; i++) {
        const struct pipeline_op *op = &pipeline->ops[i];
        if (shape.dtype != PIXEL_UINT8 && !(op->kind->flags & OP_FLOAT))
            return error_set(err, LARDER_EINVAL, "pipeline[%u] %s: it works on 8-bit pixels: put it before to_dtype", i,
                             op->kind->name);
        int rc = op->kind->shape ? op->kind->shape(op->values, &shape, err) : 0;
        if (rc)
            return error_prefix(err, rc, "pipeline[%u] %s", i, op->kind->name);
        if (shape.dtype == PIXEL_UINT8)
            pipeline->n_pixel_ops = i + 1;
    }
    if (pipeline->n_ops == 0)
        return 0; /* encoded bytes as they are */
    if (shape.width == 0 || shape.height == 0)
        return error_set(err, LARDER_EINVAL,
                         "the pipeline makes samples of different sizes: end it with a crop, such as {\"center_crop\": "
                         "{\"size\": 224}}, or resize to [height, width]");
    static const unsigned dtype_bytes[] = {[PIXEL_UINT8] = 1, [PIXEL_FLOAT16] = 2, [PIXEL_FLOAT32] = 4};
    pipeline->shape = (struct sample_shape){
        .height = shape.height,
        .width = shape.width,
        .channels = shape.channels,
        .dtype = shape.dtype,
        .layout = shape.layout,
        .bytes = (uint64_t)shape.height * shape.width * shape.channels * dtype_bytes[shape.dtype],
    };
    pipeline->plain = shape.dtype == PIXEL_UINT8 && shape.layout == LAYOUT_HWC && shape.channels == IMAGE_CHANNELS;
    if (pipeline->shape.bytes > UINT32_MAX)
        return error_set(err, LARDER_EINVAL, "a sample of %u × %u × %u takes over 4 GiB: make it smaller", shape.height,
                         shape.width, shape.channels);
    return 0;
}

static int write_canonical(struct pipeline *pipeline)
{
    size_t bytes = 3;
    for (uint32_t i = 0; i < pipeline->n_ops; i++)
        bytes += strlen(pipeline->ops[i].canonical) + 1;
    char *end = pipeline->canonical = malloc(bytes);
    if (!end)
        return LARDER_ENOMEM;
    *end++ = '[';
    for (uint32_t i = 0; i < pipeline->n_ops; i++) {
        if (i)
            *end++ = ',';
        end = stpcpy(end, pipeline->ops[i].canonical);
    }
    memcpy(end, "]", 2);
    return 0;
}

static int build(const json_t *list, struct pipeline **out, struct error *err)
{
    size_t count = json_array_size(list);
    if (count > PIPELINE_OPS_MAX)
        return error_set(err, LARDER_EINVAL, "a pipeline has at most %d operators, not %zu", PIPELINE_OPS_MAX, count);
    struct pipeline *pipeline = xcalloc(1, sizeof *pipeline + count * sizeof *pipeline->ops);
    pipeline->magic = PIPELINE_MAGIC;
    atomic_init(&pipeline->refs, 1);
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        pipeline->n_ops++;
        rc = parse_op(json_array_get(list, i), i, &pipeline->ops[i], err);
    }
    if (rc == 0)
        rc = flow_shape(pipeline, err);
    if (rc == 0 && write_canonical(pipeline))
        rc = error_set(err, LARDER_ENOMEM, "out of memory");
    if (rc)
        pipeline_unref(&pipeline);
    else
        *out = pipeline;
    return rc;
}

int pipeline_parse(const char *json, size_t len_bytes, struct pipeline **out, struct error *err)
{
    json_error_t where;
    errno = 0; /* where memory runs out the library may tell of a wrong token, and malloc sets errno */
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
        rc = error_set(err, LARDER_EINVAL, "pipeline: not JSON, at byte %d: %s", where.position, where.text);
    else if (!json_is_array(list))
        rc = error_set(err, LARDER_EINVAL,
                       "pipeline: must be a list of operators, such as [{\"random_resized_crop\": {\"size\": 224}}]");
    else
        rc = build(list, out, err);
    json_decref(list);
    return rc;
}

struct pipeline *pipeline_ref(struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    atomic_fetch_add_explicit(&pipeline->refs, 1, memory_order_relaxed);
    return pipeline;
}

void pipeline_unref(struct pipeline **place)
{
    struct pipeline *pipeline = *place;
    *place = NULL;
    if (!pipeline)
        return;
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    if (atomic_fetch_sub_explicit(&pipeline->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < pipeline->n_ops; i++) {
        free(pipeline->ops[i].values);
        free(pipeline->ops[i].canonical);
    }
    free(pipeline->canonical);
    pipeline->magic = 0;
    free(pipeline);
}

struct sample_shape pipeline_shape(const struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    return pipeline->shape;
}

const char *pipeline_canonical(const struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    return pipeline->canonical;
}

bool pipeline_is_random(const struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    bool random = false;
    for (uint32_t i = 0; i < pipeline->n_ops; i++)
        random = random || pipeline->ops[i].kind->flags & OP_RANDOM;
    return random;
}
