/* pipeline_parts.c: makes a pipeline of an object with parts. Each part becomes a pipeline of its own, of `steps`, and
 * the field of its name. All of them have the streams of one list, so what is drawn for the image is drawn for its
 * mask. The pipeline of a mask is that of an image with other arguments: it moves numbers as the image's moves pixels,
 * and mixes none. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/check.h"
#include "common/sample_parts.h"
#include "preprocess/pipeline_priv.h"

static const char *const mask_dtypes[] = {[PIXEL_UINT8] = "uint8", [PIXEL_INT32] = "int32", [PIXEL_INT64] = "int64"};
#define MASK_DTYPES (sizeof mask_dtypes / sizeof *mask_dtypes)

/* What an object says of a part. */
struct asked {
    bool mask;
    struct mask_form form;
};

/* ── what a part is ──────────────────────────────────────────────────────────────────────────────────────────────── */

static int read_dtype(const json_t *value, enum pixel_dtype *out, struct error *err)
{
    const char *text = json_string_value(value);
    for (size_t i = 0; text && i < MASK_DTYPES; i++) {
        if (mask_dtypes[i] && strcmp(mask_dtypes[i], text) == 0) {
            *out = (enum pixel_dtype)i;
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

/* A part whose name begins with mask is one, if nothing else is said. */
static int read_kind(const char *name, const json_t *kind, bool *mask, struct error *err)
{
    const char *text = json_string_value(kind);
    if (kind && !text)
        return error_set(err, LARDER_EINVAL, "kind must be \"image\" or \"mask\"");
    *mask = strncmp(text ? text : name, "mask", 4) == 0;
    if (text ? strcmp(text, "image") != 0 && strcmp(text, "mask") != 0 : !*mask && strncmp(name, "image", 5) != 0)
        return error_set(err, LARDER_EINVAL, "say which kind it is: \"image\" or \"mask\"");
    return 0;
}

static int read_part(const char *name, const json_t *item, struct asked *out, struct error *err)
{
    static const char *const of_image[] = {"kind", NULL}, *const of_mask[] = {"kind", "dtype", "fill", NULL};
    const json_t *dtype = json_object_get(item, "dtype"), *fill = json_object_get(item, "fill");
    *out = (struct asked){.form.dtype = PIXEL_UINT8};
    if (!sample_part_is_name(name))
        return error_set(err, LARDER_EINVAL,
                         "a name is a lower-case letter, then lower-case letters, digits and _, up "
                         "to %d in all",
                         SAMPLE_NAME_BYTES - 1);
    if (!json_is_object(item))
        return error_set(err, LARDER_EINVAL, "a part is an object, such as {\"kind\": \"mask\"}");
    int rc = read_kind(name, json_object_get(item, "kind"), &out->mask, err);
    if (rc == 0)
        rc = pipeline_refuse_members(item, out->mask ? of_mask : of_image, out->mask ? "a mask" : "an image", err);
    if (rc == 0 && dtype)
        rc = read_dtype(dtype, &out->form.dtype, err);
    if (rc == 0 && fill)
        rc = read_fill(fill, &out->form, err);
    return rc;
}

/* ── a mask's operators ──────────────────────────────────────────────────────────────────────────────────────────── */

/* What an operator puts where nothing is: the mask's own fill stands for itself, and another is its grey. */
static int set_fill(const struct mask_form *form, struct arg_color *color, struct error *err)
{
    bool grey = color->value[0] == color->value[1] && color->value[1] == color->value[2];
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

static int make_mask(const struct mask_form *form, struct pipeline *part, struct error *err)
{
    int rc = 0;
    for (uint32_t i = 0; i < part->n_pixel_ops && rc == 0; i++) {
        rc = make_mask_op(form, &part->ops[i], err);
        if (rc)
            return error_prefix(err, rc, "pipeline[%u] %s", i, part->ops[i].kind->name);
    }
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

/* ── the whole ───────────────────────────────────────────────────────────────────────────────────────────────────── */

static int add_part(struct pipeline *pipeline, const char *name, const json_t *item, const json_t *steps,
                    struct error *err)
{
    struct asked asked;
    struct pipeline *part = NULL;
    if (pipeline->n_views == SAMPLE_FIELDS_MAX)
        return error_set(err, LARDER_EINVAL, "a sample has at most %d parts", SAMPLE_FIELDS_MAX);
    int rc = read_part(name, item, &asked, err);
    if (rc == 0)
        rc = pipeline_list_parse(steps, &part, err);
    if (rc == 0 && part->n_ops == 0)
        rc = error_set(err, LARDER_EINVAL, "`steps` is empty: parts have one size, so give a crop or a resize");
    if (rc == 0 && part->subject)
        rc = error_set(err, LARDER_EINVAL,
                       "parts are images and masks, and `steps` are for %s: give them as a pipeline without parts",
                       part->subject == OP_SOUND ? "sounds" : "arrays");
    if (rc == 0 && asked.mask)
        rc = make_mask(&asked.form, part, err);
    if (rc) {
        pipeline_unref(&part);
        return rc;
    }
    strcpy(part->part, name);
    strcpy(pipeline->layout.fields[pipeline->n_views].name, name);
    pipeline->open = pipeline->open || part->open;
    pipeline->views[pipeline->n_views++] = part;
    return 0;
}

static void write_part(const struct pipeline *part, FILE *out)
{
    fprintf(out, "\"%s\":{", part->part); /* nothing in a name is escaped */
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
    int rc = pipeline->open ? 0 : pipeline_lay_out(pipeline, err);
    return rc ? rc : write_canonical(pipeline, err);
}

int pipeline_parts_parse(const json_t *program, struct pipeline **out, struct error *err)
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
    rc = build(pipeline, parts, steps, err);
    if (rc)
        pipeline_unref(&pipeline);
    else
        *out = pipeline;
    return rc;
}
