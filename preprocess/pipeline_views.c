/* pipeline_views.c: makes a pipeline of an object with views. Each view becomes a pipeline of its own, of `steps` and
 * the view's list. They share one key, and differ in their streams. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "preprocess/pipeline_priv.h"

#define FIELD_ALIGN UINT64_C(64)

/* An object that is being read. */
struct reading {
    struct pipeline *pipeline;
    const json_t *steps; /* NULL: none */
    const char *names[PIPELINE_VIEWS_MAX];
    uint32_t counts[PIPELINE_VIEWS_MAX]; /* of the first of several views with one list: how many; of others 0 */
};

int pipeline_refuse_members(const json_t *object, const char *const *known, const char *what, struct error *err)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value) {
        const char *const *name = known;
        while (*name && strcmp(*name, key) != 0)
            name++;
        if (!*name)
            return error_set(err, LARDER_EINVAL, "%s has no member '%.40s'", what, key);
    }
    return 0;
}

/* The field of a sample without views is called image, sound or array, by which clients tell it from a view. */
static bool is_name(const char *name)
{
    size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return name[0] >= 'a' && name[0] <= 'z' && name[len] == 0 && len < SAMPLE_NAME_BYTES &&
           strcmp(name, "image") != 0 && strcmp(name, "sound") != 0 && strcmp(name, "array") != 0;
}

/* name_view names the field of the next view, the i-th of `count` with one list. */
static int name_view(struct pipeline *pipeline, const char *name, uint32_t i, uint32_t count, struct error *err)
{
    char whole[64] = {0};
    if (!name)
        snprintf(whole, sizeof whole, "view_%u", pipeline->n_views);
    else if (count == 1)
        snprintf(whole, sizeof whole, "%.48s", name);
    else
        snprintf(whole, sizeof whole, "%.48s_%u", name, i);
    if (!is_name(whole))
        return error_set(err, LARDER_EINVAL,
                         "view '%s': a name is a lower-case letter, then lower-case letters, digits and _, up to %d in "
                         "all, and not image, sound or array",
                         whole, SAMPLE_NAME_BYTES - 1);
    for (uint32_t other = 0; other < pipeline->n_views; other++) {
        if (strcmp(pipeline->layout.fields[other].name, whole) == 0)
            return error_set(err, LARDER_EINVAL, "view %s: two views have this name", whole);
    }
    memcpy(pipeline->layout.fields[pipeline->n_views].name, whole, SAMPLE_NAME_BYTES);
    return 0;
}

/* whole_list returns `steps` and the view's own steps in one list, which the caller drops. */
static json_t *whole_list(const json_t *steps, const json_t *own)
{
    json_t *list = json_array();
    if (list && ((steps && json_array_extend(list, (json_t *)steps)) || json_array_extend(list, (json_t *)own))) {
        json_decref(list);
        list = NULL;
    }
    return list;
}

/* add_view adds a view that does all of `list`; its field has a name. */
static int add_view(struct pipeline *pipeline, const json_t *list, struct error *err)
{
    uint32_t number = pipeline->n_views;
    const char *name = pipeline->layout.fields[number].name;
    struct pipeline *view = NULL;
    int rc = pipeline_list_parse(list, pipeline->ragged, &view, err);
    if (rc == 0 && view->n_ops == 0)
        rc = error_set(err, LARDER_EINVAL, "it has no operators: a view is an image, so give it a crop or a resize");
    if (rc) {
        pipeline_unref(&view);
        return error_prefix(err, rc, "view %s", name);
    }
    if (number && view->subject != pipeline->subject) {
        pipeline_unref(&view);
        return error_set(err, LARDER_EINVAL,
                         "view %s: it is not made of what the views before it are made of: images, "
                         "sounds or arrays",
                         name);
    }
    pipeline->subject = view->subject;
    view->stream = number * PIPELINE_STREAMS;
    pipeline->open = pipeline->open || view->open;
    pipeline->views[pipeline->n_views++] = view;
    return 0;
}

static int read_count(const json_t *item, uint32_t *out, struct error *err)
{
    const json_t *count = json_object_get(item, "count");
    json_int_t value = count ? json_integer_value(count) : 1;
    if (value < 1 || value > PIPELINE_VIEWS_MAX)
        return error_set(err, LARDER_EINVAL, "count must be 1 to %d", PIPELINE_VIEWS_MAX);
    *out = (uint32_t)value;
    return 0;
}

/* add_views adds the views that an item of the list stands for. */
static int add_views(struct reading *reading, size_t index, const json_t *item, struct error *err)
{
    static const char *const known[] = {"name", "count", "steps", NULL};
    struct pipeline *pipeline = reading->pipeline;
    const json_t *own = json_object_get(item, "steps"), *name = json_object_get(item, "name");
    uint32_t count = 0, first = pipeline->n_views;
    if (!json_is_array(own) || (name && !json_is_string(name)))
        return error_set(err, LARDER_EINVAL,
                         "views[%zu]: a view is {\"name\": text, \"count\": number, \"steps\": [operators]}", index);
    int rc = pipeline_refuse_members(item, known, "a view", err);
    if (rc == 0)
        rc = read_count(item, &count, err);
    if (rc)
        return error_prefix(err, rc, "views[%zu]", index);
    if (count > PIPELINE_VIEWS_MAX - first)
        return error_set(err, LARDER_EINVAL, "a sample has at most %d views", PIPELINE_VIEWS_MAX);
    json_t *list = whole_list(reading->steps, own);
    if (!list)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    for (uint32_t i = 0; rc == 0 && i < count; i++) {
        rc = name_view(pipeline, json_string_value(name), i, count, err);
        if (rc == 0)
            rc = add_view(pipeline, list, err);
    }
    json_decref(list);
    reading->names[first] = json_string_value(name);
    reading->counts[first] = count;
    return rc;
}

int pipeline_lay_out(struct pipeline *pipeline, struct error *err)
{
    struct sample_layout *layout = &pipeline->layout;
    uint64_t end = 0;
    layout->n = pipeline->n_views;
    for (uint32_t i = 0; i < layout->n; i++) {
        struct sample_field field = pipeline->views[i]->layout.fields[0];
        end = (end + FIELD_ALIGN - 1) & ~(FIELD_ALIGN - 1);
        field.offset = (uint32_t)end;
        memcpy(field.name, layout->fields[i].name, sizeof field.name);
        layout->fields[i] = field;
        end += pipeline->views[i]->layout.bytes;
        if (end > UINT32_MAX)
            return error_set(err, LARDER_EINVAL, "the fields of a sample take over 4 GiB: make them smaller");
    }
    if (pipeline->n_rows) {
        end = (end + FIELD_ALIGN - 1) & ~(FIELD_ALIGN - 1);
        layout->fields[layout->n++] = (struct sample_field){.name = COUNTS_FIELD,
                                                            .kind = FIELD_ARRAY,
                                                            .dtype = PIXEL_INT64,
                                                            .rank = 1,
                                                            .dims = {pipeline->n_rows},
                                                            .offset = (uint32_t)end};
        end += pipeline->n_rows * sizeof(int64_t);
    }
    layout->bytes = end;
    CHECK(sample_layout_check(layout, NULL) == 0);
    return 0;
}

/* ── the normal form ─────────────────────────────────────────────────────────────────────────────────────────────── */

/* join_unnamed makes one of neighbours that have one list and no name: `count` would have meant the same. */
static void join_unnamed(struct reading *reading)
{
    const struct pipeline *pipeline = reading->pipeline;
    for (uint32_t first = 0, next; first < pipeline->n_views; first = next) {
        next = first + reading->counts[first];
        while (next < pipeline->n_views && !reading->names[first] && !reading->names[next] &&
               strcmp(pipeline->views[first]->canonical, pipeline->views[next]->canonical) == 0) {
            uint32_t more = reading->counts[next];
            reading->counts[first] += more;
            reading->counts[next] = 0;
            next += more;
        }
    }
}

static int write_canonical(struct reading *reading, struct error *err)
{
    struct pipeline *pipeline = reading->pipeline;
    size_t bytes = 0;
    FILE *out = open_memstream(&pipeline->canonical, &bytes);
    if (!out)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < pipeline->n_views; i += reading->counts[i]) {
        fprintf(out, "%s{\"count\":%u,", i ? "," : "{\"views\":[", reading->counts[i]);
        if (reading->names[i])
            fprintf(out, "\"name\":\"%s\",", reading->names[i]); /* nothing in a name is escaped */
        fprintf(out, "\"steps\":%s}", pipeline->views[i]->canonical);
    }
    fputs("]}", out);
    if (fclose(out))
        return error_set(err, LARDER_ENOMEM, "out of memory");
    if (bytes > PIPELINE_TEXT_MAX)
        return error_set(err, LARDER_EINVAL,
                         "the views' lists, written out, take %zu bytes and may take %d: have fewer "
                         "views, or shorter lists",
                         bytes, PIPELINE_TEXT_MAX);
    return 0;
}

static int build(struct reading *reading, const json_t *views, struct error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < json_array_size(views); i++)
        rc = add_views(reading, i, json_array_get(views, i), err);
    if (rc)
        return rc;
    if (!reading->pipeline->open && !reading->pipeline->ragged)
        rc = pipeline_lay_out(reading->pipeline, err);
    join_unnamed(reading);
    return rc ? rc : write_canonical(reading, err);
}

int pipeline_views_parse(const json_t *program, bool ragged, struct pipeline **out, struct error *err)
{
    static const char *const known[] = {"steps", "views", NULL};
    const json_t *steps = json_object_get(program, "steps"), *views = json_object_get(program, "views");
    int rc = pipeline_refuse_members(program, known, "pipeline: an object with views", err);
    if (rc)
        return rc;
    if (json_array_size(views) == 0 || (steps && !json_is_array(steps)))
        return error_set(
            err, LARDER_EINVAL,
            "pipeline: an object has `views`, a list of {\"steps\": [operators]}, and perhaps `steps`, a list "
            "of operators that all views begin with");
    struct reading reading = {.pipeline = pipeline_make(0), .steps = steps};
    reading.pipeline->ragged = ragged;
    rc = build(&reading, views, err);
    if (rc)
        pipeline_unref(&reading.pipeline);
    else
        *out = reading.pipeline;
    return rc;
}
