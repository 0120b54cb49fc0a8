/* pipeline_ragged.c: makes a pipeline whose samples differ in size, of an object with `ragged`. It is what the object
 * makes without `ragged`, but for the layout: fields lie where the head of each slot says, and the layout has the most
 * that a slot takes. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/pipeline_priv.h"

enum { TRIED_DRAWS = 8 };

bool pipeline_is_ragged(const struct pipeline *pipeline)
{
    CHECK_MAGIC(pipeline, PIPELINE_MAGIC);
    return pipeline->ragged;
}

/* one_of returns the i-th of what makes the fields: the pipeline itself where it has no views. */
static const struct pipeline *one_of(const struct pipeline *pipeline, uint32_t i)
{
    return pipeline->n_views ? pipeline->views[i] : pipeline;
}

static uint32_t fields_of(const struct pipeline *pipeline)
{
    return pipeline->n_views ? pipeline->n_views : 1;
}

/* field_most returns the most bytes of the slot that a field takes, of a sample that has so many rows in it, or fewer
 * if a sample has at most fewer. */
static uint64_t field_most(const struct pipeline *one, uint64_t most_pixels, uint32_t rows)
{
    uint64_t pixels = one->shape.width ? (uint64_t)one->shape.width * one->shape.height : most_pixels, bytes;
    rows = rows < one->rows.most ? rows : one->rows.most;
    if (one->rows.kind == ROWS_MASKS)
        bytes = rows * pixels;
    else if (one->rows.kind)
        bytes = (uint64_t)rows * one->rows.width * pixel_dtype_bytes(one->rows.dtype);
    else
        bytes = pixels * one->shape.channels * pixel_dtype_bytes(one->shape.dtype);
    return (bytes + FIELD_PLACE_ALIGN - 1) / FIELD_PLACE_ALIGN * FIELD_PLACE_ALIGN;
}

uint64_t pipeline_sample_bytes(const struct pipeline *pipeline, pipeline_count *count, const void *context)
{
    CHECK(pipeline->ragged && !pipeline->open);
    uint64_t bytes = sample_head_bytes(pipeline->layout.n);
    for (uint32_t i = 0; i < fields_of(pipeline); i++) {
        const struct pipeline *one = one_of(pipeline, i);
        bytes += field_most(one, pipeline->most_pixels, one->rows.kind ? count(context, one->part) : 0);
    }
    return bytes;
}

/* lay_out makes the layout of a pipeline that is not open. */
static int lay_out(struct pipeline *pipeline, struct error *err)
{
    struct sample_layout *layout = &pipeline->layout;
    layout->n = fields_of(pipeline);
    uint64_t bytes = sample_head_bytes(layout->n);
    for (uint32_t i = 0; i < layout->n; i++) {
        struct sample_field field = one_of(pipeline, i)->layout.fields[0];
        memcpy(field.name, layout->fields[i].name, sizeof field.name);
        layout->fields[i] = field;
        bytes += field_most(one_of(pipeline, i), pipeline->most_pixels, UINT32_MAX);
        if (bytes > UINT32_MAX)
            return error_set(err, LARDER_EINVAL, "a sample may take over 4 GiB: make it smaller, or lower `ragged`");
    }
    layout->bytes = bytes;
    CHECK(sample_layout_check(layout, NULL) == 0);
    return 0;
}

/* find_most takes the most pixels of all images, as the operators say, unless they were given. The pipeline is open if
 * they are not known. */
static void find_most(struct pipeline *pipeline, uint64_t given)
{
    uint64_t most = given;
    for (uint32_t i = 0; i < fields_of(pipeline) && !given; i++) {
        const struct pipeline *one = one_of(pipeline, i);
        if (one->rows.kind)
            continue;
        if (!one->most_pixels) {
            most = 0;
            break;
        }
        most = one->most_pixels > most ? one->most_pixels : most;
    }
    pipeline->most_pixels = most;
    pipeline->open = pipeline->open || !most;
}

/* differs says whether samples differ in size at all. */
static bool differs(const struct pipeline *pipeline)
{
    bool differs = pipeline->n_rows > 0;
    for (uint32_t i = 0; i < fields_of(pipeline); i++)
        differs = differs || !one_of(pipeline, i)->shape.width;
    return differs;
}

static int write_canonical(struct pipeline *pipeline, uint64_t given, struct error *err)
{
    char *text = NULL, *plain = pipeline->canonical, most[24] = "true";
    if (given)
        snprintf(most, sizeof most, "%llu", (unsigned long long)given);
    int len = pipeline->n_views
                  ? asprintf(&text, "%.*s,\"ragged\":%s}", (int)strlen(plain) - 1, plain, most) /* it ends with a } */
                  : asprintf(&text, "{\"steps\":%s,\"ragged\":%s}", plain, most);
    if (len < 0)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    free(plain);
    pipeline->canonical = text;
    return 0;
}

/* parse_rest parses what the object has beside `ragged`. */
static int parse_rest(const json_t *rest, struct pipeline **out, struct error *err)
{
    static const char *const known[] = {"steps", NULL};
    const json_t *steps = json_object_get(rest, "steps");
    if (json_object_get(rest, "parts"))
        return pipeline_parts_parse(rest, true, out, err);
    if (json_object_get(rest, "views"))
        return pipeline_views_parse(rest, true, out, err);
    int rc = pipeline_refuse_members(rest, known, "pipeline: an object with ragged", err);
    if (rc == 0 && !json_is_array(steps))
        rc = error_set(err, LARDER_EINVAL, "pipeline: beside `ragged` stands `steps`, a list of operators");
    return rc ? rc : pipeline_list_parse(steps, true, out, err);
}

static int make_ragged(struct pipeline *pipeline, uint64_t given, struct error *err)
{
    if (pipeline->subject)
        return error_set(err, LARDER_EINVAL, "pipeline: only images can be ragged: sounds and arrays have one size");
    pipeline->ragged = differs(pipeline);
    if (!pipeline->ragged)
        return pipeline->n_views && !pipeline->open ? pipeline_lay_out(pipeline, err) : 0;
    find_most(pipeline, given);
    int rc = pipeline->open ? 0 : lay_out(pipeline, err);
    return rc ? rc : write_canonical(pipeline, given, err);
}

int pipeline_ragged_parse(const json_t *program, struct pipeline **out, struct error *err)
{
    const json_t *ragged = json_object_get(program, "ragged");
    struct pipeline *pipeline = NULL;
    json_int_t given = json_integer_value(ragged);
    if (!json_is_true(ragged) && (!json_is_integer(ragged) || given < 1 || given > UINT32_MAX))
        return error_set(err, LARDER_EINVAL,
                         "pipeline: `ragged` is true, or the most pixels that an image has, a whole number from 1 on");
    json_t *rest = json_copy((json_t *)program);
    if (!rest || json_object_del(rest, "ragged")) {
        json_decref(rest);
        return error_set(err, LARDER_ENOMEM, "out of memory");
    }
    int rc = parse_rest(rest, &pipeline, err);
    json_decref(rest);
    if (rc == 0)
        rc = make_ragged(pipeline, (uint64_t)given, err);
    if (rc)
        pipeline_unref(&pipeline);
    else
        *out = pipeline;
    return rc;
}

/* try_one returns the pixels that an image of a size has in the end, by one draw; 0: the operators refuse the size. */
static uint64_t try_one(const struct pipeline *one, uint64_t draw, struct image_size size)
{
    const uint64_t key[3] = {draw, 0, 0};
    struct op_plan *plans = xcalloc(one->n_ops + 1, sizeof *plans);
    uint64_t pixels = 0;
    struct error unfit;
    if (pipeline_plan(one, key, size.width, size.height, plans, NULL, &unfit) == 0) {
        size = pipeline_size(one, plans, size);
        pixels = (uint64_t)size.width * size.height;
    }
    free(plans);
    return pixels;
}

uint64_t pipeline_try(const struct pipeline *pipeline, struct image_size size)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < fields_of(pipeline); i++) {
        for (uint64_t draw = 0; draw < TRIED_DRAWS && !one_of(pipeline, i)->rows.kind; draw++) {
            uint64_t pixels = try_one(one_of(pipeline, i), draw, size);
            most = pixels > most ? pixels : most;
        }
    }
    return most;
}

int pipeline_close_ragged(struct pipeline **place, uint64_t most_pixels, struct error *err)
{
    struct pipeline *closed = NULL;
    json_t *program = json_loads((*place)->canonical, 0, NULL);
    int rc = program && json_object_set_new(program, "ragged", json_integer((json_int_t)most_pixels)) == 0
                 ? pipeline_ragged_parse(program, &closed, err)
                 : error_set(err, LARDER_ENOMEM, "out of memory");
    json_decref(program);
    if (rc)
        return rc;
    pipeline_unref(place);
    *place = closed;
    return 0;
}
