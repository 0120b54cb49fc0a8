/* pipeline_parts.c: makes a pipeline of an object with parts. Each part becomes a pipeline of its own, of `steps`, and
 * the field of its name. All of them have the streams of one list, so what is drawn for the image is drawn for its
 * mask. The pipeline of a mask is that of an image with other arguments: it moves numbers as the image's moves pixels,
 * and mixes none. The pipeline of boxes, points or labels has the image's operators, which move them (rows_parts.h). */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/sample_parts.h"
#include "common/sample_rows.h"
#include "preprocess/pipeline_priv.h"
#include "preprocess/pixels.h"

static const char *const mask_dtypes[] = {[PIXEL_UINT8] = "uint8", [PIXEL_INT32] = "int32", [PIXEL_INT64] = "int64"};
#define MASK_DTYPES (sizeof mask_dtypes / sizeof *mask_dtypes)

/* What a part is. A name that begins with one of these words says so too. */
enum part_kind { PART_IMAGE, PART_MASK, PART_BOXES, PART_POINTS, PART_LABELS, PART_INSTANCES, PART_KINDS };
static const char *const kind_names[PART_KINDS] = {"image", "mask", "boxes", "points", "labels", "instances"};
static const enum rows_kind rows_kinds[PART_KINDS] = {
    [PART_BOXES] = ROWS_BOXES, [PART_POINTS] = ROWS_POINTS, [PART_LABELS] = ROWS_LABELS, [PART_INSTANCES] = ROWS_MASKS};
static const char *const format_names[] = {[BOX_XYXY] = "XYXY", [BOX_XYWH] = "XYWH", [BOX_CXCYWH] = "CXCYWH"};

/* What an object says of a part. */
struct asked {
    enum part_kind kind;
    struct mask_form form;
    struct rows_form rows;
};

/* ── what a part is ──────────────────────────────────────────────────────────────────────────────────────────────── */

static int read_dtype(const json_t *value, struct asked *asked, struct error *err)
{
    const char *text = json_string_value(value);
    if (asked->kind == PART_LABELS) {
        asked->rows.dtype = text && strcmp(text, "float32") == 0 ? PIXEL_FLOAT32 : PIXEL_INT64;
        return text && (strcmp(text, "float32") == 0 || strcmp(text, "int64") == 0)
                   ? 0
                   : error_set(err, LARDER_EINVAL, "dtype must be \"int64\" or \"float32\"");
    }
    for (size_t i = 0; text && i < MASK_DTYPES; i++) {
        if (mask_dtypes[i] && strcmp(mask_dtypes[i], text) == 0) {
            asked->form.dtype = (enum pixel_dtype)i;
            return 0;
        }
    }
    return error_set(err, LARDER_EINVAL, "dtype must be \"uint8\", \"int32\" or \"int64\"");
}

static int read_fill(const json_t *value, struct mask_form *form, struct error *err)
{
    json_int_t least = form->dtype == PIXEL_UINT8 ? 0 : INT32_MIN, most = form->dtype == PIXEL_UINT8 ? 255 : INT32_MAX;
    if (!json_is_integer(value) || json_integer_value(value) < least || json_integer_value(value) > most)
        return error_set(err, LARDER_EINVAL, "fill must be a whole number that dtype can say, %lld to %lld",
                         (long long)least, (long long)most);
    form->has_fill = true;
    form->fill = (int32_t)json_integer_value(value);
    return 0;
}

static int read_format(const json_t *value, enum box_format *out, struct error *err)
{
    const char *text = json_string_value(value);
    for (enum box_format format = BOX_XYXY; text && format <= BOX_CXCYWH; format++) {
        if (strcmp(text, format_names[format]) == 0) {
            *out = format;
            return 0;
        }
    }
    return error_set(err, LARDER_EINVAL, "format must be \"XYXY\", \"XYWH\" or \"CXCYWH\"");
}

static int read_count(const json_t *item, const char *name, uint32_t most, uint32_t *out, struct error *err)
{
    const json_t *value = json_object_get(item, name);
    json_int_t number = json_integer_value(value);
    if (!value)
        return 0;
    if (!json_is_integer(value) || number < 1 || number > most)
        return error_set(err, LARDER_EINVAL, "%s must be a whole number from 1 to %u", name, most);
    *out = (uint32_t)number;
    return 0;
}

static int read_rows(const json_t *item, struct asked *out, struct error *err)
{
    struct rows_form *rows = &out->rows;
    const json_t *format = json_object_get(item, "format");
    rows->kind = rows_kinds[out->kind];
    rows->width = out->kind == PART_BOXES ? 4 : 0;
    int rc = read_count(item, "most", SAMPLE_ROWS_MAX, &rows->most, err);
    if (rc == 0)
        rc = read_count(item, "width", SAMPLE_ROW_NUMBERS_MAX, &rows->width, err);
    if (rc == 0 && out->kind == PART_POINTS && rows->width % 2)
        rc = error_set(err, LARDER_EINVAL, "width must be even: a point has x and y");
    if (out->kind == PART_INSTANCES)
        rows->dtype = PIXEL_UINT8;
    else if (rc == 0 && rows->most && !rows->width)
        rows->width = out->kind == PART_POINTS ? 2 : 1;
    return rc == 0 && format ? read_format(format, &rows->format, err) : rc;
}

static int read_kind(const char *name, const json_t *kind, enum part_kind *out, struct error *err)
{
    const char *text = json_string_value(kind);
    for (enum part_kind i = PART_IMAGE; i < PART_KINDS; i++) {
        if (text ? strcmp(text, kind_names[i]) == 0
                 : !kind && strncmp(name, kind_names[i], strlen(kind_names[i])) == 0) {
            *out = i;
            return 0;
        }
    }
    return error_set(err, LARDER_EINVAL,
                     "say which kind it is: \"image\", \"mask\", \"boxes\", \"points\", \"labels\" or \"instances\"");
}

static int read_part(const char *name, const json_t *item, struct asked *out, struct error *err)
{
    static const char *const known[PART_KINDS][6] = {{"kind"},
                                                     {"kind", "dtype", "fill"},
                                                     {"kind", "format", "most"},
                                                     {"kind", "most", "width"},
                                                     {"kind", "dtype", "most", "width"},
                                                     {"kind", "most"}};
    static const char *const named[PART_KINDS] = {"an image",         "a mask",           "a part of boxes",
                                                  "a part of points", "a part of labels", "a part of instances' masks"};
    const json_t *dtype = json_object_get(item, "dtype"), *fill = json_object_get(item, "fill");
    if (!sample_part_is_name(name))
        return error_set(err, LARDER_EINVAL,
                         "a name is a lower-case letter, then lower-case letters, digits and _, up "
                         "to %d in all",
                         SAMPLE_NAME_BYTES - 1);
    if (!json_is_object(item))
        return error_set(err, LARDER_EINVAL, "a part is an object, such as {\"kind\": \"mask\"}");
    *out = (struct asked){.form.dtype = PIXEL_UINT8, .rows.dtype = PIXEL_FLOAT32};
    int rc = read_kind(name, json_object_get(item, "kind"), &out->kind, err);
    if (rc == 0)
        rc = pipeline_refuse_members(item, known[out->kind], named[out->kind], err);
    if (rc == 0 && out->kind == PART_LABELS)
        out->rows.dtype = PIXEL_INT64;
    if (rc == 0 && dtype)
        rc = read_dtype(dtype, out, err);
    if (rc == 0 && fill)
        rc = read_fill(fill, &out->form, err);
    return rc == 0 && rows_kinds[out->kind] ? read_rows(item, out, err) : rc;
}

/* ── a mask's operators ──────────────────────────────────────────────────────────────────────────────────────────── */

/* What an operator puts where nothing is: the mask's own fill stands for itself, and another is its grey. */
static int set_fill(const struct mask_form *form, struct arg_color *color, struct error *err)
{
    bool grey = color->value[0] == color->value[1] && color->value[1] == color->value[2];
    if (form->instances) {
        memset(color->value, 0, sizeof color->value);
        return 0;
    }
    if (!form->has_fill && !grey)
        return error_set(err, LARDER_EINVAL, "its fill is a color, and a mask has numbers: give the mask a fill");
    for (int c = 0; c < IMAGE_CHANNELS; c++)
        color->value[c] = form->has_fill ? MASK_FILLED : c == 0 ? color->value[0] : 0;
    return 0;
}

static int make_mask_op(const struct mask_form *form, struct pipeline_op *op, struct error *err)
{
    const struct op_kind *kind = op->kind;
    int rc = 0;
    op->idle = kind->flags & OP_COLORS;
    if (op->idle || (!kind->join && !kind->apply))
        return 0;
    if (kind->apply && !(kind->flags & OP_MASKS))
        return error_set(err, LARDER_EINVAL,
                         "a mask cannot follow it: use random_resized_crop, random_horizontal_flip and the like, which "
                         "move image and mask alike, color_jitter and blur, which leave the mask as it is, or do "
                         "it in the script, with transform=, on both");
    for (const struct arg *arg = kind->args; rc == 0 && arg->name; arg++) {
        void *value = (char *)op->values + arg->offset;
        if (arg->type == ARG_COLOR)
            rc = set_fill(form, value, err);
        else if (arg->type == ARG_CHOICE && strcmp(arg->name, "interpolation") == 0)
            *(int32_t *)value = FILTER_MASK;
    }
    return rc;
}

static int make_mask_ops(const struct mask_form *form, struct pipeline *part, struct error *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < part->n_pixel_ops && rc == 0; i++) {
        rc = make_mask_op(form, &part->ops[i], err);
        if (rc)
            error_prefix(err, rc, "pipeline[%u] %s", i, part->ops[i].kind->name);
    }
    return rc;
}

static int make_mask(const struct mask_form *form, struct pipeline *part, struct error *err)
{
    int rc = make_mask_ops(form, part, err);
    if (rc)
        return rc;
    part->is_mask = true;
    part->plain = false;
    part->mask = *form;
    part->shape.channels = 1;
    part->shape.dtype = form->dtype;
    part->layout.fields[0] = (struct sample_field){
        .kind = FIELD_MASK, .dtype = form->dtype, .rank = 2, .dims = {part->shape.height, part->shape.width}};
    part->layout.bytes = (uint64_t)part->shape.height * part->shape.width * pixel_dtype_bytes(form->dtype);
    return 0;
}

/* ── rows of numbers ─────────────────────────────────────────────────────────────────────────────────────────────── */

static int check_rows_op(const struct pipeline_op *op, struct error *err)
{
    const struct op_kind *kind = op->kind;
    for (const struct arg *arg = kind->args; kind->rows && arg->name; arg++) {
        if (arg->type == ARG_CHOICE && strcmp(arg->name, "padding_mode") == 0 &&
            *(const int32_t *)((const char *)op->values + arg->offset) != PAD_CONSTANT)
            return error_set(err, LARDER_EINVAL, "padding_mode must be \"constant\" beside boxes and points");
    }
    if (kind->rows || kind->flags & OP_COLORS || (!kind->join && !kind->apply))
        return 0;
    return error_set(err, LARDER_EINVAL, "it does nothing that boxes and points could follow: leave it out, or them");
}

/* The operators of labels do nothing to them but what they do to their boxes. */
static int make_rows(const struct rows_form *form, bool ragged, struct pipeline *part, struct error *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < part->n_ops && rc == 0; i++) {
        rc = check_rows_op(&part->ops[i], err);
        if (rc)
            return error_prefix(err, rc, "pipeline[%u] %s", i, part->ops[i].kind->name);
    }
    struct sample_field field = {
        .kind = FIELD_ARRAY, .dtype = form->dtype, .rank = 1, .dims = {ragged ? 0 : form->most}};
    if (form->kind == ROWS_POINTS && form->width > 2) {
        field.rank = 3;
        field.dims[1] = form->width / 2;
        field.dims[2] = 2;
    } else if (form->width > 1) {
        field.rank = 2;
        field.dims[1] = form->width;
    }
    part->rows = *form;
    part->plain = false;
    part->layout.fields[0] = field;
    part->layout.bytes = (uint64_t)form->most * form->width * pixel_dtype_bytes(form->dtype);
    return 0;
}

/* Masks of instances are rows, and their operators those of a mask, which all of them are made with at once. */
static int make_instances(const struct asked *asked, bool ragged, struct pipeline *part, struct error *err)
{
    const struct mask_form form = {.dtype = PIXEL_UINT8, .instances = true};
    int rc = make_mask_ops(&form, part, err);
    if (rc == 0)
        rc = make_rows(&asked->rows, ragged, part, err);
    if (rc)
        return rc;
    part->mask = form;
    part->plain = true;
    part->layout.fields[0].rank = 3;
    part->layout.fields[0].dims[1] = part->shape.height;
    part->layout.fields[0].dims[2] = part->shape.width;
    part->layout.bytes = (uint64_t)asked->rows.most * part->shape.height * part->shape.width;
    return 0;
}

/* ── the whole ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static int add_part(struct pipeline *pipeline, const char *name, const json_t *item, const json_t *steps,
                    struct error *err)
{
    struct asked asked = {0};
    struct pipeline *part = NULL;
    if (pipeline->n_views == SAMPLE_FIELDS_MAX)
        return error_set(err, LARDER_EINVAL, "a sample has at most %d parts", SAMPLE_FIELDS_MAX);
    int rc = read_part(name, item, &asked, err);
    if (rc == 0)
        rc = pipeline_list_parse(steps, pipeline->ragged, &part, err);
    if (rc == 0 && part->n_ops == 0 && !pipeline->ragged)
        rc = error_set(err, LARDER_EINVAL, "`steps` is empty: parts have one size, so give a crop or a resize");
    if (rc == 0 && part->subject)
        rc = error_set(err, LARDER_EINVAL,
                       "parts are images and masks, and `steps` are for %s: give them as a pipeline without parts",
                       part->subject == OP_SOUND ? "sounds" : "arrays");
    if (rc == 0 && asked.kind == PART_MASK)
        rc = make_mask(&asked.form, part, err);
    if (rc == 0 && asked.kind == PART_INSTANCES)
        rc = make_instances(&asked, pipeline->ragged, part, err);
    else if (rc == 0 && asked.rows.kind)
        rc = make_rows(&asked.rows, pipeline->ragged, part, err);
    if (rc) {
        pipeline_unref(&part);
        return rc;
    }
    strcpy(part->part, name);
    strcpy(pipeline->layout.fields[pipeline->n_views].name, name);
    part->unbounded = asked.rows.kind && !asked.rows.most;
    part->open = part->open || part->unbounded;
    pipeline->unbounded = pipeline->unbounded || part->unbounded;
    pipeline->open = pipeline->open || part->open;
    pipeline->n_rows += asked.rows.kind != ROWS_NONE;
    pipeline->views[pipeline->n_views++] = part;
    return 0;
}

/* check_rows refuses rows of numbers that have no image to be moved with, or more than one part of boxes or points, and
 * operators for boxes without any. */
static int check_rows(const struct pipeline *pipeline, struct error *err)
{
    uint32_t counts[ROWS_MASKS + 1] = {0};
    const struct pipeline *steps = pipeline->views[0];
    for (uint32_t i = 0; i < pipeline->n_views; i++) {
        counts[pipeline->views[i]->rows.kind]++;
        if (pipeline->n_rows && strcmp(pipeline->views[i]->part, COUNTS_FIELD) == 0)
            return error_set(err, LARDER_EINVAL, "part %s: the numbers of rows are called that: call it otherwise",
                             COUNTS_FIELD);
    }
    if (!counts[ROWS_NONE])
        return error_set(err, LARDER_EINVAL, "a sample has an image or a mask beside its boxes, points and labels");
    if (counts[ROWS_BOXES] > 1 || counts[ROWS_POINTS] > 1)
        return error_set(err, LARDER_EINVAL, "a sample has one part of boxes, and one of points, at most");
    for (uint32_t i = 0; i < steps->n_ops && !counts[ROWS_BOXES]; i++) {
        if (steps->ops[i].kind->flags & OP_BOXES)
            return error_set(err, LARDER_EINVAL, "pipeline[%u] %s: it is about boxes, and no part is boxes", i,
                             steps->ops[i].kind->name);
    }
    if (pipeline->n_rows && pipeline->n_views == SAMPLE_FIELDS_MAX)
        return error_set(err, LARDER_EINVAL, "a sample with boxes, points or labels has at most %d parts",
                         SAMPLE_FIELDS_MAX - 1);
    return 0;
}

static void write_rows(const struct rows_form *rows, FILE *out)
{
    if (rows->kind == ROWS_LABELS)
        fprintf(out, "\"dtype\":\"%s\",", rows->dtype == PIXEL_INT64 ? "int64" : "float32");
    if (rows->kind == ROWS_BOXES)
        fprintf(out, "\"format\":\"%s\",", format_names[rows->format]);
    fprintf(out, "\"kind\":\"%s\"", kind_names[PART_BOXES + (rows->kind - ROWS_BOXES)]);
    if (rows->most)
        fprintf(out, ",\"most\":%u", rows->most);
    if (rows->width && rows->kind != ROWS_BOXES && rows->kind != ROWS_MASKS)
        fprintf(out, ",\"width\":%u", rows->width);
    fputs("}", out);
}

static void write_part(const struct pipeline *part, FILE *out)
{
    fprintf(out, "\"%s\":{", part->part); /* nothing in a name is escaped */
    if (part->rows.kind) {
        write_rows(&part->rows, out);
        return;
    }
    if (!part->is_mask) {
        fputs("\"kind\":\"image\"}", out);
        return;
    }
    fprintf(out, "\"dtype\":\"%s\",", mask_dtypes[part->mask.dtype]);
    if (part->mask.has_fill)
        fprintf(out, "\"fill\":%d,", part->mask.fill);
    fputs("\"kind\":\"mask\"}", out);
}

/* The steps come first: pipeline_close puts an operator in front of them. */
static int write_canonical(struct pipeline *pipeline, struct error *err)
{
    size_t bytes = 0;
    FILE *out = open_memstream(&pipeline->canonical, &bytes);
    if (!out)
        return error_set(err, LARDER_ENOMEM, "out of memory");
    fprintf(out, "{\"steps\":%s,\"parts\":{", pipeline->views[0]->canonical);
    for (uint32_t i = 0; i < pipeline->n_views; i++) {
        fputs(i ? "," : "", out);
        write_part(pipeline->views[i], out);
    }
    fputs("}}", out);
    return fclose(out) ? error_set(err, LARDER_ENOMEM, "out of memory") : 0;
}

static int build(struct pipeline *pipeline, const json_t *parts, const json_t *steps, struct error *err)
{
    const char *name;
    json_t *item;
    json_object_foreach((json_t *)parts, name, item) {
        int rc = add_part(pipeline, name, item, steps, err);
        if (rc)
            return error_prefix(err, rc, "part %.40s", name);
    }
    int rc = check_rows(pipeline, err);
    if (rc == 0 && !pipeline->open && !pipeline->ragged)
        rc = pipeline_lay_out(pipeline, err);
    return rc ? rc : write_canonical(pipeline, err);
}

int pipeline_parts_parse(const json_t *program, bool ragged, struct pipeline **out, struct error *err)
{
    static const char *const known[] = {"parts", "steps", NULL};
    const json_t *parts = json_object_get(program, "parts"), *steps = json_object_get(program, "steps");
    int rc = pipeline_refuse_members(program, known, "pipeline: an object with parts", err);
    if (rc)
        return rc;
    if (!json_is_object(parts) || json_object_size(parts) == 0 || !json_is_array(steps))
        return error_set(err, LARDER_EINVAL,
                         "pipeline: an object with parts has `parts`, an object such as {\"image\": {}, \"mask\": {}}, "
                         "and `steps`, a list of operators");
    struct pipeline *pipeline = pipeline_make(0);
    pipeline->ragged = ragged;
    rc = build(pipeline, parts, steps, err);
    if (rc)
        pipeline_unref(&pipeline);
    else
        *out = pipeline;
    return rc;
}
